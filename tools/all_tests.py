"""`make test`: every test, those that compute beside those that wait for a control plane.

What is on a control plane is shown as it runs; what is not runs beside it with less of a claim to the processors, and
is shown when both have ended. A machine that busy is late at times: a test that fails is shown, and run once more with
nothing beside it. What fails again fails the run. Whatever else ends a run fails it at once.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import IO, NamedTuple

FAILED_TESTS = 1  # what pytest ends with if all ran and some failed


class Suite(NamedTuple):
    """How to run its tests, and how those that failed."""

    command: Sequence[str]
    rerun: Sequence[str]


def run(background: Suite, foreground: Suite) -> int:
    """Run both at once, and once more what failed; what to end with."""
    with tempfile.TemporaryFile() as output:
        statuses = _run_both(background.command, foreground.command, output)
        output.seek(0)
        sys.stdout.buffer.write(output.read())
        sys.stdout.flush()
    ends = [_rerun_failed(suite, status) for suite, status in zip((background, foreground), statuses, strict=True)]
    return next(filter(None, ends), 0)


def _run_both(background: Sequence[str], foreground: Sequence[str], output: IO[bytes]) -> tuple[int, int]:
    """Ctrl-C reaches both by themselves: they are waited for, and clean up behind them."""
    running = [subprocess.Popen(background, stdout=output, stderr=subprocess.STDOUT), subprocess.Popen(foreground)]
    try:
        second = running[1].wait()
        return running[0].wait(), second
    except KeyboardInterrupt:
        for each in running:
            each.wait()
        raise


def _rerun_failed(suite: Suite, status: int) -> int:
    if status != FAILED_TESTS:
        return status
    print("\nWhat failed is run once more, with nothing beside it.\n", flush=True)
    return subprocess.run(suite.rerun, check=False).returncode


def _build_suite(first: Sequence[str], workers: int, cache: str, *tests: str) -> Suite:
    """Each writes down in a place of its own what failed."""
    pytest = (sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *tests)
    failed = ("--last-failed", "--last-failed-no-failures", "none", "--maxfail", "3")
    return Suite((*first, *pytest, "-n", str(workers), "--dist", "worksteal"), (*pytest, *failed))


if __name__ == "__main__":
    computing = _build_suite(["nice"], 2, ".pytest_cache", "tests", "--ignore=tests/cluster")
    waiting = _build_suite([], 4, ".pytest_cache/cluster", "tests/cluster")
    print("Tests without a control plane run beside those on one; what they print comes last.", flush=True)
    try:
        sys.exit(run(computing, waiting))
    except KeyboardInterrupt:
        sys.exit(130)
