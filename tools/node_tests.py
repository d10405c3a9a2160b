"""`make node-test`: tests on a real node, in a sandbox of their own; skipped with the reason where none can run.

Tests that remove the node follow in a second sandbox.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from testbed.errors import HarnessError
from testbed.node import running, sandbox
from testbed.node.images import components, java

TESTS = "tests/node"
# Tests after which there is no node: they run one after the other on a node of their own.
REMOVING_TESTS = "tests/node/removal"

# Pods mostly wait; more workers would make CPU-bound ones late on two cores.
WORKERS = 3

# What pytest ends with: all ran and some failed; all were deselected.
FAILED_TESTS = 1
NO_TESTS = 5


def main(arguments: Sequence[str]) -> int:
    """Run the tests with these arguments of pytest; the exit status."""
    problem = sandbox.find_problem()
    if problem:
        print(f"node tests are skipped: {problem}")
        return 0
    problem = java.fetch_packages()
    if problem:
        print(f"the test of a JVM is skipped: {problem}")
    sandbox.fetch_programs()
    components.ensure_archive()
    shared = [TESTS, f"--ignore={REMOVING_TESTS}", "-n", str(WORKERS), "--dist", "worksteal", *arguments]
    return combine(_run(tests) for tests in (shared, [REMOVING_TESTS, *arguments, "-n", "0"]))


def combine(statuses: Iterable[int]) -> int:
    """The status of runs of pytest, of which those after a run that was interrupted are not begun."""
    begun = []
    for status in statuses:
        begun.append(status)
        if status not in {0, FAILED_TESTS, NO_TESTS}:
            return status
    ran = [status for status in begun if status != NO_TESTS]
    return max(ran, default=NO_TESTS)


def _run(tests: Sequence[str]) -> int:
    """Run tests, and those that fail once more alone: a loaded machine makes some late."""
    status = _run_pytest(tests)
    if status != FAILED_TESTS:
        return status
    print("\nFailed tests are run once more, alone.\n", flush=True)
    return _run_pytest([*tests, "--last-failed", "--last-failed-no-failures", "none", "-n", "0"])


def _run_pytest(arguments: Sequence[str]) -> int:
    pytest = [sys.executable, "-m", "pytest", "-o", "cache_dir=.pytest_cache/node", *arguments]
    return sandbox.run([sys.executable, "-m", running.__name__, *pytest])


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except HarnessError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
