"""Runs scenarios one after the other, prints their results, and counts the failures."""

import time

from .machine import OtherPrograms

# Largest number of attempts of a failing scenario, if other programs took this share of the machine.
ATTEMPTS, BUSY = 3, 0.25


def wait_for(what, check, seconds=20):
    """Waits until a check returns a true value, and returns that value."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if result := check():
            return result
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s: {what}")


class Telling:
    def __init__(self):
        self.told, self.failed = 0, 0

    def tell(self, title, story, *arguments):
        """Runs a scenario, which returns its observation."""
        self.told += 1
        for attempt in range(ATTEMPTS):
            begun, others = time.monotonic(), OtherPrograms()
            try:
                print(f"ok      {title}: {story(*arguments)} ({time.monotonic() - begun:.0f} s)", flush=True)
                return
            except Exception as error:
                share, failure = others.share(), str(error) or repr(error)
            if share < BUSY or attempt == ATTEMPTS - 1:
                break
            print(f"busy    {title}: {failure}, while other programs took {share:.0%} of the machine", flush=True)
        self.failed += 1
        print(f"FAILED  {title}: {failure}", flush=True)

    def end(self):
        """Prints the sum, and returns the status of the check."""
        print(f"{self.told - self.failed} of {self.told} scenarios held", flush=True)
        return 1 if self.failed or not self.told else 0
