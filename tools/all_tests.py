"""`make test`: tests that compute run while tests on the control plane wait.

Tests on the control plane are in the foreground, and their output is shown as it comes. The others run in the
background at a lower priority, and their output follows. A loaded machine makes some tests late: a failed test is
reported, and run once more alone. A second failure fails the run, and so does any other error.

The demo in full is left to `make demo-test`: it computes for two minutes, and checks figures of the README.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import IO, NamedTuple

FAILED_TESTS = 1  # what pytest ends with if all ran and some failed


class Suite(NamedTuple):
    """The command that runs its tests, and the one that runs those that failed once more."""

    command: Sequence[str]
    rerun: Sequence[str]


def run(background: Suite, foreground: Suite) -> int:
    """Run both at once, and once more what failed; returns the exit status."""
    with tempfile.TemporaryFile() as output:
        statuses = _run_both(background.command, foreground.command, output)
        output.seek(0)
        sys.stdout.buffer.write(output.read())
        sys.stdout.flush()
    ends = [_rerun_failed(suite, status) for suite, status in zip((background, foreground), statuses, strict=True)]
    return next(filter(None, ends), 0)


def _run_both(background: Sequence[str], foreground: Sequence[str], output: IO[bytes]) -> tuple[int, int]:
    """Run both. Ctrl-C reaches each of them, and both are awaited, because they clean up."""
    processes = [subprocess.Popen(background, stdout=output, stderr=subprocess.STDOUT), subprocess.Popen(foreground)]
    try:
        foreground_status = processes[1].wait()
        return processes[0].wait(), foreground_status
    except KeyboardInterrupt:
        for process in processes:
            process.wait()
        raise


def _rerun_failed(suite: Suite, status: int) -> int:
    if status != FAILED_TESTS:
        return status
    print("\nFailed tests are run once more, alone.\n", flush=True)
    return subprocess.run(suite.rerun, check=False).returncode


def _build_suite(first: Sequence[str], workers: int, cache: str, *tests: str) -> Suite:
    """A suite with a cache of its own, in which pytest notes what failed."""
    pytest = (sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *tests)
    failed = ("--last-failed", "--last-failed-no-failures", "none", "--maxfail", "3")
    return Suite((*first, *pytest, "-n", str(workers), "--dist", "worksteal"), (*pytest, *failed))


if __name__ == "__main__":
    ignored = (f"--ignore={path}" for path in ("tests/cluster", "tests/docs/test_demo_in_full.py"))
    computing = _build_suite(["nice"], 2, ".pytest_cache", "tests", *ignored)
    waiting = _build_suite([], 5, ".pytest_cache/cluster", "tests/cluster")
    print("Tests without a control plane run in the background; their output comes last.", flush=True)
    try:
        sys.exit(run(computing, waiting))
    except KeyboardInterrupt:
        sys.exit(130)
