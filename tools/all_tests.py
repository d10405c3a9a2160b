"""`make test`: every test, those that compute beside those that wait for a control plane.

What is on a control plane is shown as it runs; what is not runs beside it with less of a claim to the processors, and
is shown when both have ended. A test on the control plane that fails is shown, and run once more with nothing beside
it: what fails again fails the run. Whatever else ends a run fails it at once.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import IO

FAILED_TESTS = 1  # what pytest ends with if all ran and some failed

_PYTEST = (sys.executable, "-m", "pytest", "--dist", "worksteal")
_COMPUTING = ("nice", *_PYTEST, "-n", "2", "tests", "--ignore=tests/cluster")
# Both write down what failed, each in a place of its own.
_CACHE = ("-o", "cache_dir=.pytest_cache/cluster")
_WAITING = (*_PYTEST, "-n", "4", *_CACHE, "tests/cluster")
_AGAIN = (*_PYTEST, "-n", "0", *_CACHE, "--last-failed", "--last-failed-no-failures", "none", "--maxfail", "3")


def run(beside: Sequence[str], shown: Sequence[str], again: Sequence[str]) -> int:
    """Run two commands at once, and a third if tests of the one that is shown failed; what to end with."""
    with tempfile.TemporaryFile() as output:
        first, second = _at_once(beside, shown, output)
        output.seek(0)
        sys.stdout.buffer.write(output.read())
        sys.stdout.flush()
    if second == FAILED_TESTS:
        print("\nWhat failed on the control plane is run once more, with nothing beside it.\n", flush=True)
        second = subprocess.run(again, check=False).returncode
    return first or second


def _at_once(beside: Sequence[str], shown: Sequence[str], output: IO[bytes]) -> tuple[int, int]:
    """Ctrl-C reaches both by themselves: they are waited for, and clean up behind them."""
    running = [subprocess.Popen(beside, stdout=output, stderr=subprocess.STDOUT), subprocess.Popen(shown)]
    try:
        second = running[1].wait()
        return running[0].wait(), second
    except KeyboardInterrupt:
        for each in running:
            each.wait()
        raise


if __name__ == "__main__":
    print("Tests without a control plane run beside those on one; what they print comes last.", flush=True)
    try:
        sys.exit(run(_COMPUTING, _WAITING, (*_AGAIN, "tests/cluster")))
    except KeyboardInterrupt:
        sys.exit(130)
