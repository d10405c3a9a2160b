"""`make node-test`: tests on a real node, in a sandbox of their own; skipped with the reason where none can run."""

from __future__ import annotations

import sys

from testbed.errors import HarnessError
from testbed.node import running, sandbox

# Pods mostly wait; more workers would make CPU-bound ones late on two cores.
WORKERS = 3

if __name__ == "__main__":
    problem = sandbox.find_problem()
    if problem:
        print(f"node tests are skipped: {problem}")
        sys.exit(0)
    pytest = [sys.executable, "-m", "pytest", "tests/node", "-o", "cache_dir=.pytest_cache/node"]
    workers = ["-n", str(WORKERS), "--dist", "worksteal"]
    try:
        sandbox.fetch_programs()
        sys.exit(sandbox.run([sys.executable, "-m", running.__name__, *pytest, *workers, *sys.argv[1:]]))
    except HarnessError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
