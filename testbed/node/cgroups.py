"""The cgroups of a real node: a subtree of their own, and the files of pods and containers as the kernel has them.

Version 1 has a hierarchy for each controller, version 2 a single one. What runs below the subtree belongs to the node.

On version 2 the subtree lies below the root, or below the cgroup of this process where that was delegated to it, as
`systemd-run --property=Delegate=yes` does. A cgroup other than the root may either have processes or give controllers
to those below it: processes of such a parent are moved into one beside the subtree, and back at the end.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from testbed.errors import HarnessError

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

# Version 2: those that kubelet and runc use. kubelet also insists on `hugetlb` where the machine has it.
_CONTROLLERS: Final = ("cpu", "cpuset", "io", "memory", "pids")
_CONTROLLERS_IF_AVAILABLE: Final = ("hugetlb",)

# systemd marks a cgroup that it leaves to others by these, newer versions by the second as well.
_DELEGATED: Final = ("trusted.delegate", "user.delegate")

# On the parent of a subtree: the controllers that were given to it for our sake.
_ENABLED: Final = "user.trellis-node"

# The weight of a node beside what else the machine runs. Each process outside of any group weighs as much as a group of
# the default 1024 on version 1 and 100 on version 2: on a busy machine pods would not even come up to their limits.
_CPU_SHARES: Final = 8192
_CPU_WEIGHT: Final = 800

PREFIX: Final = "trellis-node-"
_OTHERS: Final = "trellis-others"
_PATIENCE_SECONDS: Final = 10.0


def is_version_2() -> bool:
    """Whether the machine has the single hierarchy of version 2, with controllers."""
    return (ROOT / "cgroup.controllers").exists()


def find_problem() -> str:
    """Why no subtree can be made; empty if one can."""
    if is_version_2():
        parent = ROOT / _find_parent()
        available = _read_words(parent / "cgroup.controllers")
        missing = [name for name in _CONTROLLERS if name not in available]
    else:
        parent = ROOT / "memory"
        missing = [name for name in _NEEDED if not (ROOT / name).is_dir()]
    if missing:
        return f"cgroup controllers are missing: {', '.join(missing)}"
    return "" if os.access(parent, os.W_OK) else f"{ROOT} is read-only"


def locate(name: str) -> str:
    """Where the subtree of this name is to be, relative to the root of each hierarchy."""
    return str(_find_parent() / name) if is_version_2() else name


def create(path: str, memory_bytes: int) -> None:
    """Make the subtree of a node, which may use so much memory."""
    if is_version_2():
        _create_version_2(ROOT / path, memory_bytes)
        return
    for directory in _directories(path):
        directory.mkdir(exist_ok=True)
    for file in ("cpuset.cpus", "cpuset.mems"):
        (ROOT / "cpuset" / path / file).write_text((ROOT / "cpuset" / file).read_text())
    (ROOT / "cpu" / path / "cpu.shares").write_text(str(_CPU_SHARES))
    (ROOT / "memory" / path / "memory.limit_in_bytes").write_text(str(memory_bytes))


def remove(path: str) -> None:
    """End what still runs in the subtree, and remove it. Safe to call twice."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    for directory in _directories(path):
        while directory.exists():
            _remove_tree(directory)
            if time.monotonic() > deadline:
                return
            time.sleep(0.05)
    if is_version_2():
        _restore((ROOT / path).parent)


def list_subtrees() -> list[str]:
    """The subtrees of all nodes of this machine, relative to the root of each hierarchy."""
    if is_version_2():
        found = [Path(path, name) for path, names, _ in os.walk(ROOT) for name in names if name.startswith(PREFIX)]
        return [str(directory.relative_to(ROOT)) for directory in found]
    return sorted({found.name for hierarchy in _HIERARCHIES for found in (ROOT / hierarchy).glob(f"{PREFIX}*")})


def _find_parent() -> Path:
    """The nearest cgroup of this process that was delegated, or the root."""
    own = Path(_read_own_cgroup())
    for path in (own, *own.parents):
        if path != Path() and _is_delegated(ROOT / path):
            return path
    return Path()


def _read_own_cgroup() -> str:
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    return next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")


def _is_delegated(directory: Path) -> bool:
    for name in _DELEGATED:
        with suppress(OSError):
            if os.getxattr(directory, name) == b"1":
                return True
    return False


def _create_version_2(directory: Path, memory_bytes: int) -> None:
    available = _read_words(directory.parent / "cgroup.controllers")
    wanted = [*_CONTROLLERS, *(name for name in _CONTROLLERS_IF_AVAILABLE if name in available)]
    with hold(directory.parent):
        directory.mkdir(exist_ok=True)
        _give_controllers(directory.parent, wanted)
    _write_control(directory, "+", wanted)
    for controller, file, value in (("memory", "memory.max", memory_bytes), ("cpu", "cpu.weight", _CPU_WEIGHT)):
        if controller in wanted:
            (directory / file).write_text(str(value))


def _give_controllers(parent: Path, wanted: list[str]) -> None:
    """To all below it; noted is what it did not give them before."""
    missing = [name for name in wanted if name not in _read_words(parent / "cgroup.subtree_control")]
    if not missing:
        return
    noted = _read_note(parent)
    with suppress(OSError):  # a kernel before 5.7: they stay
        os.setxattr(parent, _ENABLED, " ".join([*noted, *missing]).encode())
    if (parent / "cgroup.type").exists():  # which the root has not
        _move_processes(parent, parent / _OTHERS)
    _write_control(parent, "+", missing)


def _restore(parent: Path) -> None:
    """Take back controllers and let processes return, unless another node is below it."""
    with suppress(OSError), hold(parent):
        if any(parent.glob(f"{PREFIX}*")):
            return
        _write_control(parent, "-", _read_note(parent))
        with suppress(OSError):
            os.removexattr(parent, _ENABLED)
        if (parent / _OTHERS).exists():
            _move_processes(parent / _OTHERS, parent)
            (parent / _OTHERS).rmdir()


def _read_note(parent: Path) -> list[str]:
    try:
        return os.getxattr(parent, _ENABLED).decode().split()
    except OSError:
        return []


def _move_processes(source: Path, target: Path) -> None:
    """All of them, and those that they start meanwhile."""
    target.mkdir(exist_ok=True)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while pids := _read_pids(source):
        for pid in pids:
            with suppress(ProcessLookupError):
                (target / "cgroup.procs").write_text(str(pid))
        if time.monotonic() > deadline:
            raise HarnessError(f"processes stay in the cgroup {source}, so none below it can have controllers")


def _write_control(directory: Path, sign: str, controllers: list[str]) -> None:
    if controllers:
        (directory / "cgroup.subtree_control").write_text(" ".join(f"{sign}{name}" for name in controllers))


@contextmanager
def hold(directory: Path) -> Iterator[None]:
    """One process at a time changes what a parent gives to those below it."""
    held = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _remove_tree(directory: Path) -> None:
    for path, _, _ in os.walk(directory, topdown=False):
        for pid in _read_pids(Path(path)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            Path(path).rmdir()
        except OSError:  # a process in it has not ended yet
            return


def _read_pids(directory: Path) -> list[int]:
    """Without those of other process namespaces, which are shown as 0."""
    return [int(word) for word in _read_words(directory / "cgroup.procs") if word != "0"]


def _read_words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []


def _directories(path: str) -> Iterator[Path]:
    if is_version_2():
        yield ROOT / path
        return
    yield from (ROOT / hierarchy / path for hierarchy in _HIERARCHIES if (ROOT / hierarchy).is_dir())
