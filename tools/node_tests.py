"""`make node-test`: tests on a real node, in a sandbox of their own; skipped with the reason where none can run.

Tests that remove the node follow in a second sandbox, and tests that install the chart in a third, whose cluster is
empty.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from testbed.errors import HarnessError
from testbed.node import running, sandbox
from testbed.node.images import components, java
from testbed.programs import building
from testbed.programs.modules import find_upstream_vpa
from testbed.programs.versions import HELM_4, KUBECTL, UPSTREAM_VPA

TESTS = "tests/node"
# Tests after which there is no node: they run one after the other on a node of their own.
REMOVING_TESTS = "tests/node/removal"
# Tests that install the chart for the whole cluster, on an empty one.
INSTALLING_TESTS = "tests/node/installation"

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
    building.ensure_programs((HELM_4, KUBECTL, *UPSTREAM_VPA))
    find_upstream_vpa()
    apart = (REMOVING_TESTS, INSTALLING_TESTS)
    ignored = [f"--ignore={path}" for path in apart]
    shared = [TESTS, *ignored, "-n", str(WORKERS), "--dist", "worksteal", *arguments]
    return combine(_run(tests) for tests in (shared, *([path, *arguments, "-n", "0"] for path in apart)))


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
    empty = [running.EMPTY] if arguments[0] == INSTALLING_TESTS else []
    return sandbox.run([sys.executable, "-m", running.__name__, *empty, *pytest])


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except HarnessError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
