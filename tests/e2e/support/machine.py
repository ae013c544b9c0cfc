"""Load of the machine by other programs: browsers drop frames when they wait for a processor."""

import os
from pathlib import Path

PROC = Path("/proc")


class OtherPrograms:
    """Measures the processor time of programs that are not part of the check."""

    def __init__(self):
        self.busy, self.all, self.own = *machine(), own()

    def share(self):
        """Returns their share of the machine since the start of the measurement."""
        busy, everything = machine()
        taken = (busy - self.busy) - (own() - self.own)
        return max(0, taken) / max(1, everything - self.all)


def machine():
    """Returns the used ticks of all processors, and all ticks."""
    ticks = [int(value) for value in (PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    return sum(ticks) - idle, sum(ticks)


def own():
    """Returns the ticks used by this process and its descendants."""
    parents, used = {}, {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                # The process has ended.
                continue
            parents[int(entry.name)], used[int(entry.name)] = int(fields[1]), sum(int(value) for value in fields[11:15])
    return sum(ticks for process, ticks in used.items() if is_own(process, parents))


def is_own(process, parents):
    while process and process != os.getpid():
        process = parents.get(process)
    return process == os.getpid()
