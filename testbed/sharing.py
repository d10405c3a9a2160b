"""Shares one control plane among the processes of a test run.

The first that asks starts a keeper (`testbed.keeper`), a process of its own that runs the control plane
until the whole run has ended. So it does not matter which worker of pytest-xdist began, nor how any of
them ends.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from testbed.cluster import STATE, Cluster, State
from testbed.errors import ProgramDied
from testbed.programs.cache import hold_lock
from testbed.scratch import root
from testbed.waiting import until

REPOSITORY = Path(__file__).resolve().parents[1]

# From a warm cache it takes 4 s on an idle machine with two cores.
PATIENCE_SECONDS = 300.0


def shared_cluster(run: str, leader: int) -> Cluster:
    """The control plane of this run, which ends with the process `leader`. Started if it does not run yet."""
    directory = root() / f"run-{run}"
    state = directory / STATE
    with hold_lock(root() / f"run-{run}.lock"):
        if not state.exists():
            _start_keeper(directory, leader)
    return Cluster(directory, msgspec.json.decode(state.read_bytes(), type=State).url)


def _start_keeper(directory: Path, leader: int) -> None:
    log = root() / f"{directory.name}.log"
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    # A session of its own: Ctrl-C reaches the tests, and the keeper sees them end.
    keeper = os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "testbed.keeper", directory.name, str(leader)],
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )

    def up() -> bool:
        if os.waitpid(keeper, os.WNOHANG) != (0, 0):
            words = log.read_text(errors="replace").strip()[-4000:]
            log.unlink()
            raise ProgramDied(f"the control plane did not start:\n{words}")
        return (directory / STATE).exists()

    until("the control plane to start", up, PATIENCE_SECONDS)
