"""The process that keeps a shared control plane running until its leader ends.

Run as `python -m testbed.keeper <name> <process>`: until that process has ended, or SIGTERM. The kernel
tells it (pidfd), so that it also notices a kill -9.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from pathlib import Path

from testbed.control_plane import ControlPlane, find_audit_directory
from testbed.errors import HarnessError
from testbed.scratch import root, scratch

DEFINITIONS = Path(__file__).resolve().parents[1] / "deploy" / "crds"


def run_until_ended(name: str, leader: int) -> None:
    """Run a control plane with our definitions for as long as `leader` lives."""
    try:
        watched = os.pidfd_open(leader)
    except ProcessLookupError:
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        definitions, audit = list_definitions(), find_audit_directory()
        with scratch(name) as directory, ControlPlane(directory, definitions=definitions, audit=audit):
            select.select([watched], [], [])
    finally:
        os.close(watched)
        (root() / f"{name}.lock").unlink(missing_ok=True)
    (root() / f"{name}.log").unlink(missing_ok=True)  # after a failure, the process that started us reads it


def list_definitions() -> list[Path]:
    """Our CRDs."""
    return sorted(DEFINITIONS.glob("*.yaml"))


if __name__ == "__main__":
    try:
        run_until_ended(sys.argv[1], int(sys.argv[2]))
    except HarnessError as error:
        sys.exit(str(error))
