"""Runs a command in namespaces of its own, and removes what it leaves behind, also after kill -9.

`unshare` makes the namespaces and `init` is process 1 in them: when it ends, the kernel ends every process inside, and
mounts and network go with the last one. Cgroups do not. They are removed by `cleanup`, a process that waits for the end
of this one, and if that was killed as well, by the next sandbox.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from testbed import tether
from testbed.errors import HarnessError
from testbed.node import cgroups, cleanup, init, packages, signals
from testbed.programs import building
from testbed.programs.versions import NEEDED, NODE_PROGRAMS
from testbed.scratch import is_alive, root, scratch

# Where processes inside find the directory of the sandbox; it is also how they know that they are inside.
DIRECTORY_VARIABLE: Final = "TRELLIS_NODE_SANDBOX"
CGROUP_VARIABLE: Final = "TRELLIS_NODE_CGROUP"

# What the containers of the node may use of the machine, and what is left for the control plane and the tests.
MEMORY_BYTES: Final = 6 * 2**30
_LEAST_MEMORY_BYTES: Final = 8 * 2**30

_NAMESPACES: Final = ("--mount", "--net", "--pid", "--mount-proc", "--propagation", "private")
_UNSHARE: Final = ("unshare", *_NAMESPACES, "--fork", "--kill-child", "--")
_PROGRAMS: Final = ("unshare", "ip", "mount")
_PACKAGES: Final = "node"


def find_problem() -> str:
    """Why no real node can run on this machine, in a sentence; empty if one can."""
    if sys.platform != "linux":
        return "a real node needs Linux"
    if os.geteuid() != 0:
        return "a real node needs root"
    missing = next((program for program in _PROGRAMS if shutil.which(program) is None), "")
    if not (missing or packages.find_unpacked(_PACKAGES)):
        missing = packages.find_missing_tool()
    if missing:
        return f"a real node needs the program {missing}"
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if total < _LEAST_MEMORY_BYTES:
        return f"a real node needs {_LEAST_MEMORY_BYTES // 2**30} GiB of memory"
    return cgroups.find_problem() or _find_namespace_problem()


def get_directory() -> Path:
    """The directory of the sandbox that this process runs in."""
    directory = os.environ.get(DIRECTORY_VARIABLE)
    if not directory:
        raise HarnessError("this is not a sandbox of a node: run it by `python -m testbed.node COMMAND ...`")
    return Path(directory)


def get_cgroup() -> str:
    """The cgroup subtree of the sandbox that this process runs in, relative to the root of each hierarchy."""
    get_directory()
    return os.environ[CGROUP_VARIABLE]


def fetch_programs() -> None:
    """Compile and download what a control plane and a node need and is missing: there is no network inside."""
    building.ensure_programs((*NEEDED, *NODE_PROGRAMS))
    packages.unpack(_PACKAGES, *packages.NODE_PACKAGES)


def run(command: Sequence[str]) -> int:
    """Run a command in a sandbox; its exit status."""
    with start(command) as sandbox:
        return sandbox.wait()


@contextmanager
def start(command: Sequence[str]) -> Iterator[Sandbox]:
    """A sandbox in which a command runs; both have ended and are removed at the end of the block.

    Signals are blocked within: `Sandbox.wait` passes them on.
    """
    problem = find_problem()
    if problem:
        raise HarnessError(problem)
    _remove_remains()
    name = f"{cgroups.PREFIX}{os.getpid()}"
    cgroup = cgroups.locate(name)
    signals.block()
    try:
        with scratch(name) as directory, cleanup.at_the_end(cgroup, directory):
            cgroups.create(cgroup, MEMORY_BYTES)
            here = {DIRECTORY_VARIABLE: str(directory), CGROUP_VARIABLE: cgroup}
            inside = [sys.executable, "-m", init.__name__, str(directory), *command]
            child = subprocess.Popen([*_build_tether(), *_UNSHARE[1:], *inside], env=os.environ | here)
            try:
                yield Sandbox(directory, child)
            finally:
                child.kill()  # of no effect if it has ended; process 1 ends with it
                child.wait()
    finally:
        signals.unblock()


class Sandbox:
    """A command that runs in namespaces of its own, as seen from outside."""

    def __init__(self, directory: Path, unshare: subprocess.Popen[bytes]) -> None:
        self.directory = directory
        self._unshare = unshare

    def wait(self) -> int:
        """The exit status of the command. SIGTERM and Ctrl-C are passed on to it."""
        return signals.to_exit_status(signals.wait(self._unshare.poll, self._pass_on))

    def _pass_on(self, number: int) -> bool:
        """To process 1, once there is one: `unshare` does not listen."""
        children = [pid for pid, parent in _list_processes() if parent == self._unshare.pid]
        return any(signals.send(pid, number) for pid in children)


def _list_processes() -> Iterator[tuple[int, int]]:
    """All processes with their parents."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            yield int(file.parent.name), int(file.read_text().rpartition(")")[2].split()[1])


def _build_tether() -> list[str]:
    """Runs `unshare` so that it ends with this process, even by kill -9; its child ends with it."""
    unshare = shutil.which(_UNSHARE[0]) or _UNSHARE[0]
    return [sys.executable, "-I", "-S", tether.__file__, str(os.getpid()), unshare]


def _find_namespace_problem() -> str:
    done = subprocess.run([*_UNSHARE, "true"], capture_output=True, text=True, check=False)
    return f"namespaces cannot be made: {done.stderr.strip()}" if done.returncode else ""


def _remove_remains() -> None:
    """Of sandboxes that were killed together with their cleanup. A living one holds a lock in its directory."""
    for cgroup in cgroups.list_subtrees():
        directory = root() / Path(cgroup).name
        if not is_alive(directory):
            cleanup.remove(cgroup, directory)
