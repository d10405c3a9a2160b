"""`make sample`: some of the heavy suites, others with each commit, so that CI stays short and all of them run in turn.

    python tools/suite_sample.py            # those of this commit
    python tools/suite_sample.py --list     # print them, and run nothing

Every commit has a number, how many commits lead to it, and takes the suites that begin there. A checkout without
history takes the first ones.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Final

# Targets of the Makefile. Neighbours run together: what is slow to set up is not beside its like.
SUITES: Final = ("node-test", "demo-test", "install-test", "machines-test", "image-test")
SAMPLE_SIZE: Final = 2


def choose_suites(number: int) -> tuple[str, ...]:
    """The suites of a commit by its number."""
    return tuple(SUITES[(number * SAMPLE_SIZE + at) % len(SUITES)] for at in range(SAMPLE_SIZE))


def count_commits() -> int:
    """How many commits lead to the one that is checked out; 0 without git or history."""
    try:
        result = subprocess.run(["git", "rev-list", "--count", "HEAD"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(result.stdout)


def main(arguments: Sequence[str]) -> int:
    """Say which suites run, and run them; the first exit status that is not 0."""
    chosen = choose_suites(count_commits())
    left = [suite for suite in SUITES if suite not in chosen]
    print(f"Heavy suites of this commit: {', '.join(chosen)}. Left to other commits: {', '.join(left)}.", flush=True)
    if "--list" in arguments:
        return 0
    statuses = [subprocess.run(["make", suite], check=False).returncode for suite in chosen]
    return next(filter(None, statuses), 0)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
