"""The table of the suites' results: Conclave beside the control."""

import fnmatch
from collections import Counter
from dataclasses import dataclass, field

from .suites import FAILED, PASSED, SKIPPED


@dataclass
class Cell:
    """Outcomes of a test against a server, of all rounds."""

    outcomes: list = field(default_factory=list)
    notes: list = field(default_factory=list)

    def add(self, result):
        self.outcomes.append(result.outcome)
        if result.note and result.note not in self.notes:
            self.notes.append(result.note)

    @property
    def is_skipped(self):
        return all(outcome == SKIPPED for outcome in self.outcomes)

    @property
    def always_passes(self):
        return not self.is_skipped and FAILED not in self.outcomes

    @property
    def share(self):
        """Returns the share of passed rounds."""
        return self.outcomes.count(PASSED) / len(self.outcomes)

    def __str__(self):
        if not self.outcomes:
            return "-"
        if len(self.outcomes) == 1:
            return self.outcomes[0]
        counted = [outcome for outcome in self.outcomes if outcome != SKIPPED]
        return f"{counted.count(PASSED)}/{len(counted)}" if counted else SKIPPED


class Table:
    def __init__(self, differences, left_out):
        self.differences, self.left_out, self.rows, self.skipped = differences, left_out, {}, {}

    def add(self, suite, kind, result):
        self.rows.setdefault((suite, result.row), {}).setdefault(kind, Cell()).add(result)

    def skip(self, suite, reason):
        self.skipped[suite] = reason

    def reason(self, suite, row):
        """Returns the reason for a row's known difference, or `None`."""
        known = (one["reason"] for one in self.differences if one["suite"] == suite and fnmatch.fnmatchcase(row, one["row"]))
        return next(known, None)

    def verdicts(self):
        """Yields each row with its cells, its verdict, and the reason for a known difference."""
        for (suite, row), cells in self.rows.items():
            ours, control = cells.get("conclave"), cells.get("livekit-server")
            reason = self.reason(suite, row)
            if ours is None or ours.is_skipped or ours.always_passes:
                verdict = "listed, but passes" if reason and ours and ours.always_passes else ""
            elif reason:
                verdict = "known"
            elif control is not None and control.share <= ours.share:
                verdict = "no better there"
            else:
                verdict = "DIFFERS"
            yield suite, row, ours, control, verdict, reason

    def differs(self):
        return [f"{suite}: {row}" for suite, row, _, _, verdict, _ in self.verdicts() if verdict == "DIFFERS"]

    def print(self):
        has_control = any("livekit-server" in cells for cells in self.rows.values())
        width = max((len(row) for _, row in self.rows), default=0)
        last = None
        for suite, row, ours, control, verdict, reason in self.verdicts():
            if suite != last:
                print(f"\n{suite}: {self.summary(suite)}")
                for one in (one for one in self.left_out if one["suite"] == suite):
                    print(f"  {one['row']:{width}}  left out: {one['reason']}")
                last = suite
            beside = f"  {control or '-'!s:8}" if has_control else ""
            note = (ours and ours.notes) or (control and control.notes) or [""]
            explained = f"{verdict}: {reason}" if reason and verdict == "known" else verdict
            print(f"  {row:{width}}  {ours or '-'!s:8}{beside}  {' | '.join(filter(None, (explained, note[0])))}".rstrip())
        for suite, reason in self.skipped.items():
            print(f"\n{suite}: skipped, {reason}")

    def summary(self, suite):
        parts = []
        for kind in ("conclave", "livekit-server"):
            cells = [cells[kind] for (of, _), cells in self.rows.items() if of == suite and kind in cells]
            if cells:
                counted = Counter("skipped" if cell.is_skipped else cell.always_passes for cell in cells)
                parts.append(f"{kind} {counted[True]} of {counted[True] + counted[False]}")
        return ", ".join(parts)

    def json(self):
        def cell(one):
            return one and {"outcomes": one.outcomes, "notes": one.notes}

        rows = [
            {"suite": suite, "row": row, "conclave": cell(ours), "livekit-server": cell(control), "verdict": verdict, "reason": reason}
            for suite, row, ours, control, verdict, reason in self.verdicts()
        ]
        return {"rows": rows, "left_out": self.left_out, "skipped": self.skipped, "differs": self.differs()}
