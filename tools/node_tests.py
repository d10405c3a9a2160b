"""`make node-test`: tests on a real node, in a sandbox of their own; skipped with the reason where none can run."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from testbed.errors import HarnessError
from testbed.node import running, sandbox
from testbed.node.images import components, java

# Pods mostly wait; more workers would make CPU-bound ones late on two cores.
WORKERS = 3


def main(arguments: Sequence[str]) -> int:
    """Run the tests with these arguments of pytest; the exit status."""
    problem = sandbox.find_problem()
    if problem:
        print(f"node tests are skipped: {problem}")
        return 0
    problem = java.fetch_packages()
    if problem:
        print(f"the test of a JVM is skipped: {problem}")
    pytest = [sys.executable, "-m", "pytest", "tests/node", "-o", "cache_dir=.pytest_cache/node"]
    workers = ["-n", str(WORKERS), "--dist", "worksteal"]
    sandbox.fetch_programs()
    components.ensure_archive()
    return sandbox.run([sys.executable, "-m", running.__name__, *pytest, *workers, *arguments])


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except HarnessError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
