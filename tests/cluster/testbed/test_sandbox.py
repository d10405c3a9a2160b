"""A sandbox of a node leaves nothing behind: no processes, cgroups, mounts or files, however it ends."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from testbed.node import cgroups, sandbox
from testbed.scratch import root
from testbed.waiting import until

ROOT = Path(__file__).resolve().parents[3]

STARTER = "import sys; from testbed.node import sandbox; sys.exit(sandbox.run(sys.argv[1:]))"
FOREGROUND = "import os, sys; os.login_tty(0); os.execv(sys.argv[1], sys.argv[1:])"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}

# Beside a mount, what a kubelet and runc leave: cgroups in all hierarchies, with a process in them.
INSIDE = """
import os, signal, subprocess, sys
from pathlib import Path
directory, cgroup = Path(os.environ["TRELLIS_NODE_SANDBOX"]), os.environ["TRELLIS_NODE_CGROUP"]
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
signal.signal(signal.SIGINT, lambda *_: sys.exit(4))
(directory / "mounted").mkdir()
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", directory / "mounted"], check=True)
container = subprocess.Popen(["sleep", "600"], start_new_session=True)
root = Path("/sys/fs/cgroup")
for hierarchy in (root, *root.iterdir()):
    if (hierarchy / cgroup).is_dir():
        pod = hierarchy / cgroup / "kubepods" / "pod1"
        pod.mkdir(parents=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            if hierarchy.name == "cpuset":
                for made in (pod.parent, pod):
                    (made / file).write_text((hierarchy / file).read_text())
        (pod / "cgroup.procs").write_text(str(container.pid))
(directory / "up").touch()
while True:
    signal.pause()
"""

pytestmark = pytest.mark.skipif(bool(sandbox.find_problem()), reason=sandbox.find_problem())


class Running:
    """A sandbox in which INSIDE runs, as seen from outside."""

    def __init__(self, runner: subprocess.Popen[str]) -> None:
        self.runner = runner
        self.name = f"{cgroups.PREFIX}{runner.pid}"
        self.directory = root() / self.name
        until("the sandbox", self._is_up)
        parents = list_parents()
        children = [pid for pid, parent in parents.items() if parent == runner.pid]
        [self.cleanup] = [pid for pid in children if "testbed.node.cleanup" in read_command(pid)]
        [self.unshare] = [pid for pid in children if pid != self.cleanup]
        [self.process_1] = [pid for pid, parent in parents.items() if parent == self.unshare]
        # While this is open, the kernel gives its number to no other namespace.
        self._namespace_file = os.open(f"/proc/{self.process_1}/ns/pid", os.O_RDONLY)
        self._namespace = read_namespace(self.process_1)

    def close(self) -> None:
        os.close(self._namespace_file)

    def _is_up(self) -> bool:
        assert self.runner.poll() is None
        return (self.directory / "up").exists()

    def find_remains(self) -> list[str]:
        """Processes in its namespaces, cgroups, mounts and files."""
        return [
            *(f"process {pid}" for pid in list_parents() if read_namespace(pid) == self._namespace),
            *map(str, self.list_cgroups()),
            *(f"mount of {pid}" for pid in list_parents() if str(self.directory) in read_mounts(pid)),
            *map(str, filter(Path.exists, [self.directory])),
        ]

    def list_cgroups(self) -> list[Path]:
        """Its subtrees in all hierarchies."""
        return [Path(path) / self.name for path, names, _ in os.walk(cgroups.ROOT) if self.name in names]

    def is_gone(self) -> bool:
        return not self.find_remains()


@pytest.fixture
def running() -> Iterator[Running]:
    with start() as runner:
        try:
            with closing(Running(runner)) as sandbox_in_use:
                yield sandbox_in_use
        finally:
            runner.kill()


def start(*, terminal: int | None = None) -> subprocess.Popen[str]:
    """Start a process that runs INSIDE in a sandbox; in the foreground of a terminal, if one is given."""
    command = [sys.executable, "-c", STARTER, sys.executable, "-c", INSIDE]
    if terminal is not None:
        command = [sys.executable, "-c", FOREGROUND, *command]
    return subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stdin=terminal, text=True)


def test_a_running_sandbox_has_processes_cgroups_mounts_and_files(running: Running) -> None:
    """What the other tests look for is there to be found."""
    remains = running.find_remains()
    hierarchies = 1 if cgroups.is_version_2() else len(list(cgroups.ROOT.iterdir()))
    assert len(running.list_cgroups()) == hierarchies
    assert all((directory / "kubepods/pod1/cgroup.procs").read_text() for directory in running.list_cgroups())
    assert {remain.split()[0] for remain in remains if not remain.startswith("/")} == {"process", "mount"}
    assert str(running.directory) in remains


def test_the_end_of_its_command_removes_it(running: Running) -> None:
    command = next(pid for pid, parent in list_parents().items() if parent == running.process_1)
    os.kill(command, signal.SIGINT)
    assert running.runner.wait() == 4
    assert running.find_remains() == []


def test_sigterm_is_passed_on_to_its_command(running: Running) -> None:
    running.runner.terminate()
    assert running.runner.wait() == 3
    assert running.find_remains() == []


def test_ctrl_c_in_a_terminal_ends_its_command_and_removes_it() -> None:
    keyboard, terminal = pty.openpty()
    with start(terminal=terminal) as runner:
        os.close(terminal)
        with closing(Running(runner)) as running:
            os.write(keyboard, b"\x03")
            assert runner.wait() == 4
            assert running.find_remains() == []
    os.close(keyboard)


def test_kill_of_the_process_that_started_it_removes_it(running: Running) -> None:
    running.runner.kill()
    until("everything to be gone", running.is_gone)


def test_kill_of_its_process_1_removes_it(running: Running) -> None:
    os.kill(running.process_1, signal.SIGKILL)
    assert running.runner.wait() != 0
    assert running.find_remains() == []


def test_kill_of_unshare_removes_it(running: Running) -> None:
    os.kill(running.unshare, signal.SIGKILL)
    assert running.runner.wait() == 128 + signal.SIGKILL
    until("everything to be gone", running.is_gone)


def test_kill_of_its_cleanup_leaves_the_work_to_the_process_that_started_it(running: Running) -> None:
    os.kill(running.cleanup, signal.SIGKILL)
    running.runner.terminate()
    assert running.runner.wait() == 3
    assert running.find_remains() == []


def test_kill_of_all_at_once_leaves_the_work_to_the_next_sandbox(running: Running) -> None:
    for pid in (running.cleanup, running.runner.pid, running.unshare, running.process_1):
        os.kill(pid, signal.SIGKILL)
    running.runner.wait()
    assert running.list_cgroups() != []
    command = [sys.executable, "-c", STARTER, "true"]
    subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, check=True)
    until("everything to be gone", running.is_gone)


def test_a_sandbox_leaves_another_one_alone_that_lives(running: Running) -> None:
    command = [sys.executable, "-c", STARTER, "true"]
    subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, check=True)
    assert running.runner.poll() is None
    assert all((directory / "kubepods/pod1/cgroup.procs").read_text() for directory in running.list_cgroups())


def list_parents() -> dict[int, int]:
    """The parent of each process of the machine."""
    parents: dict[int, int] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(file.parent.name)] = int(file.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    return parents


def read_command(pid: int) -> str:
    return read(Path(f"/proc/{pid}/cmdline"))


def read_mounts(pid: int) -> str:
    return read(Path(f"/proc/{pid}/mountinfo"))


def read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


def read_namespace(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return ""
