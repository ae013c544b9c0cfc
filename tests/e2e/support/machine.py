"""How busy the machine is with other programs: browsers drop frames where they have to wait for a processor."""

import os
from pathlib import Path

PROC = Path("/proc")


class OtherPrograms:
    """Measures the processor time of programs that are not part of the check."""

    def __init__(self):
        self.busy, self.all, self.own = *machine(), own()

    def share(self):
        """The share of the machine that they have taken since the start of the measurement."""
        busy, everything = machine()
        taken = (busy - self.busy) - (own() - self.own)
        return max(0, taken) / max(1, everything - self.all)


def machine():
    """The ticks of all processors that were used, and all."""
    ticks = [int(value) for value in (PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    return sum(ticks) - idle, sum(ticks)


def own():
    """The ticks that this process and its descendants have used."""
    parents, used = {}, {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                # It has ended.
                continue
            parents[int(entry.name)], used[int(entry.name)] = int(fields[1]), sum(int(value) for value in fields[11:15])
    return sum(ticks for process, ticks in used.items() if is_own(process, parents))


def is_own(process, parents):
    while process and process != os.getpid():
        process = parents.get(process)
    return process == os.getpid()
