"""Runs a command in namespaces of its own, and removes what it leaves behind, also after kill -9.

`unshare` makes the namespaces and `init` is process 1 in them: when it ends, the kernel ends every process inside, and
mounts and network go with the last one. Cgroups do not. They are removed by `cleanup`, a process that waits for the end
of this one, and if that was killed as well, by the next sandbox.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from testbed import tether
from testbed.errors import HarnessError
from testbed.node import cgroups, cleanup, init, packages
from testbed.programs import building
from testbed.programs.versions import NEEDED, NODE_PROGRAMS
from testbed.scratch import root, scratch

# Where processes inside find the directory of the sandbox; it is also how they know that they are inside.
DIRECTORY_VARIABLE: Final = "TRELLIS_NODE_SANDBOX"

# What the containers of the node may use of the machine, and what is left for the control plane and the tests.
MEMORY_BYTES: Final = 6 * 2**30
_LEAST_MEMORY_BYTES: Final = 8 * 2**30

_NAMESPACES: Final = ("--mount", "--net", "--pid", "--mount-proc", "--propagation", "private")
_UNSHARE: Final = ("unshare", *_NAMESPACES, "--fork", "--kill-child", "--")
_PROGRAMS: Final = ("unshare", "ip", "mount")


def find_problem() -> str:
    """Why no real node can run on this machine, in a sentence; empty if one can."""
    if sys.platform != "linux":
        return "a real node needs Linux"
    if os.geteuid() != 0:
        return "a real node needs root"
    missing = next((program for program in _PROGRAMS if shutil.which(program) is None), packages.find_missing_tool())
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


def run(command: Sequence[str]) -> int:
    """Run a command in a sandbox; its exit status. SIGTERM and Ctrl-C are passed on to it."""
    problem = find_problem()
    if problem:
        raise HarnessError(problem)
    _fetch_programs()
    _remove_stale_subtrees()
    name = f"{cgroups.PREFIX}{os.getpid()}"
    with scratch(name) as directory, cleanup.at_the_end(name, directory):
        cgroups.create(name, MEMORY_BYTES)
        inside = [sys.executable, "-m", init.__name__, str(directory), *command]
        child = subprocess.Popen(
            [*_build_tether(), *_UNSHARE[1:], *inside], env=os.environ | {DIRECTORY_VARIABLE: str(directory)}
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda caught, _frame: init.pass_on(child.pid, caught))
        return child.wait()


def _fetch_programs() -> None:
    """Compile and download what is missing: there is no network inside."""
    building.ensure_programs((*NEEDED, *NODE_PROGRAMS))
    packages.unpack("node", *packages.NODE_PACKAGES)


def _build_tether() -> list[str]:
    """Runs `unshare` so that it ends with this process, even by kill -9; its child ends with it."""
    unshare = shutil.which(_UNSHARE[0]) or _UNSHARE[0]
    return [sys.executable, "-I", "-S", tether.__file__, str(os.getpid()), unshare]


def _find_namespace_problem() -> str:
    done = subprocess.run([*_UNSHARE, "true"], capture_output=True, text=True, check=False)
    return f"namespaces cannot be made: {done.stderr.strip()}" if done.returncode else ""


def _remove_stale_subtrees() -> None:
    """Those whose sandbox and cleanup were both killed. A living sandbox has a directory of the same name."""
    for name in cgroups.list_subtrees():
        if not (root() / name).exists() and not Path(f"/proc/{name.removeprefix(cgroups.PREFIX)}").exists():
            cgroups.remove(name)
