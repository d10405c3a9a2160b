"""`make test`: tests that compute run while tests on the control plane wait.

Tests on the control plane are in the foreground, and their output is shown as it comes. The others run in the
background at a lower priority, and their output follows. A loaded machine makes some tests late: a failed test is
reported, and run once more alone. A second failure fails the run, and so does any other error.

Then the rights that the components used are compared with those that their accounts have (`permissions.audit`).

The demo in full is left to `make demo-test`: it computes for two minutes, and checks figures of the README. Helm and
its control planes are left to `make install-test`, Cluster API and Karpenter to `make machines-test`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

from permissions import audit

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
    ends = [rerun_failed(suite, status) for suite, status in zip((background, foreground), statuses, strict=True)]
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


def rerun_failed(suite: Suite, status: int) -> int:
    if status != FAILED_TESTS:
        return status
    print("\nFailed tests are run once more, alone.\n", flush=True)
    return subprocess.run(suite.rerun, check=False).returncode


def build_suite(first: Sequence[str], workers: int, cache: str, *tests: str, distribution: str = "worksteal") -> Suite:
    """A suite with a cache of its own, in which pytest notes what failed."""
    pytest = (sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *tests)
    failed = ("--last-failed", "--last-failed-no-failures", "none", "--maxfail", "3")
    return Suite((*first, *pytest, "-n", str(workers), "--dist", distribution), (*pytest, *failed))


def run_with_audit(background: Suite, foreground: Suite) -> int:
    """Run both, with the requests of the components logged, and compare what they used with their rights."""
    with tempfile.TemporaryDirectory() as name:
        audit.prepare(Path(name))
        os.environ["TESTBED_AUDIT"] = name
        try:
            status = run(background, foreground)
        finally:
            del os.environ["TESTBED_AUDIT"]
        problems = audit.find_problems(Path(name), whole_suite=not status)
    if problems:
        print("\nRights of components (tools/permissions/audit.py):", *problems, sep="\n  ", flush=True)
    return status or bool(problems)


if __name__ == "__main__":
    ignored = (f"--ignore={path}" for path in ("tests/cluster", "tests/docs/test_demo_in_full.py"))
    computing = build_suite(["nice"], 2, ".pytest_cache", "tests", *ignored)
    heavy = (f"--ignore=tests/cluster/{folder}" for folder in ("install", "machines"))
    waiting = build_suite([], 5, ".pytest_cache/cluster", "tests/cluster", *heavy)
    print("Tests without a control plane run in the background; their output comes last.", flush=True)
    try:
        sys.exit(run_with_audit(computing, waiting))
    except KeyboardInterrupt:
        sys.exit(130)
