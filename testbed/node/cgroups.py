"""The cgroups of a real node: a subtree of their own, and the files of pods and containers as the kernel has them.

Version 1 has a hierarchy for each controller, version 2 a single one. What runs below the subtree belongs to the node.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path("/sys/fs/cgroup")

# Version 1: those that kubelet and runc use. runc makes a twin of each cgroup in `unified`, which has no controllers.
_HIERARCHIES: Final = (
    "cpu",
    "cpuacct",
    "cpuset",
    "memory",
    "devices",
    "freezer",
    "blkio",
    "pids",
    "systemd",
    "unified",
)
_NEEDED: Final = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "pids", "systemd")

# Version 2: those that kubelet insists on.
_CONTROLLERS: Final = ("cpu", "cpuset", "io", "memory", "pids")

# The weight of a node beside what else the machine runs. Each process outside of any group weighs as much as a group of
# the default 1024 on version 1 and 100 on version 2: on a busy machine pods would not even come up to their limits.
_CPU_SHARES: Final = 8192
_CPU_WEIGHT: Final = 800

PREFIX: Final = "trellis-node-"
_PATIENCE_SECONDS: Final = 10.0


def is_version_2() -> bool:
    """Whether the machine has the single hierarchy of version 2, with controllers."""
    return (ROOT / "cgroup.controllers").exists()


def find_problem() -> str:
    """Why no subtree can be made; empty if one can."""
    if is_version_2():
        available = (ROOT / "cgroup.controllers").read_text().split()
        missing = [name for name in _CONTROLLERS if name not in available]
    else:
        missing = [name for name in _NEEDED if not (ROOT / name).is_dir()]
    if missing:
        return f"cgroup controllers are missing: {', '.join(missing)}"
    return "" if os.access(ROOT / ("" if is_version_2() else "memory"), os.W_OK) else f"{ROOT} is read-only"


def create(name: str, memory_bytes: int) -> None:
    """Make the subtree of a node, which may use so much memory."""
    for directory in _directories(name):
        directory.mkdir(exist_ok=True)
    if is_version_2():
        enabled = " ".join(f"+{controller}" for controller in _CONTROLLERS)
        (ROOT / "cgroup.subtree_control").write_text(enabled)
        (ROOT / name / "cgroup.subtree_control").write_text(enabled)
        (ROOT / name / "memory.max").write_text(str(memory_bytes))
        (ROOT / name / "cpu.weight").write_text(str(_CPU_WEIGHT))
        return
    for file in ("cpuset.cpus", "cpuset.mems"):
        (ROOT / "cpuset" / name / file).write_text((ROOT / "cpuset" / file).read_text())
    (ROOT / "cpu" / name / "cpu.shares").write_text(str(_CPU_SHARES))
    (ROOT / "memory" / name / "memory.limit_in_bytes").write_text(str(memory_bytes))


def remove(name: str) -> None:
    """End what still runs in the subtree, and remove it. Safe to call twice."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    for directory in _directories(name):
        while directory.exists():
            _remove_tree(directory)
            if time.monotonic() > deadline:
                return
            time.sleep(0.05)


def list_subtrees() -> list[str]:
    """The subtrees of all nodes of this machine."""
    directory = ROOT if is_version_2() else ROOT / "memory"
    return [found.name for found in directory.glob(f"{PREFIX}*")]


def _remove_tree(directory: Path) -> None:
    for path, _, _ in os.walk(directory, topdown=False):
        for pid in _read_pids(Path(path)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            Path(path).rmdir()
        except OSError:  # a process in it has not ended yet
            return


def _read_pids(directory: Path) -> list[int]:
    try:
        return [int(line) for line in (directory / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def _directories(name: str) -> Iterator[Path]:
    if is_version_2():
        yield ROOT / name
        return
    yield from (ROOT / hierarchy / name for hierarchy in _HIERARCHIES if (ROOT / hierarchy).is_dir())
