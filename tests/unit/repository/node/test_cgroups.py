"""The subtree of a node on cgroups of version 2, at the root of the hierarchy and below a delegated cgroup.

On a machine whose controllers are all in hierarchies of version 1 there is a hierarchy of version 2 without them, often
with `hugetlb` to spare. The rules of the kernel are the same for it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from testbed.node import cgroups
from testbed.waiting import until

UNIFIED = next((path for path in (cgroups.ROOT / "unified", cgroups.ROOT) if (path / "cgroup.procs").exists()), None)
CONTROLLER = "hugetlb"


def find_problem() -> str:
    """Why the rules of version 2 cannot be tried here."""
    if os.geteuid() != 0:
        return "cgroups need root"
    if UNIFIED is None or CONTROLLER not in (UNIFIED / "cgroup.controllers").read_text().split():
        return f"no hierarchy of version 2 has the controller {CONTROLLER}"
    return "" if os.access(UNIFIED, os.W_OK) else f"{UNIFIED} is read-only"


@pytest.fixture
def parent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cgroup that takes the place of the root of all, as in a container, with a process in it."""
    problem = find_problem()
    if problem:
        pytest.skip(problem)
    assert UNIFIED is not None
    with cgroups.hold(UNIFIED), borrow_controller(UNIFIED):
        directory = UNIFIED / f"trellis-test-{os.getpid()}"
        directory.mkdir()
        monkeypatch.setattr(cgroups, "ROOT", directory)
        monkeypatch.setattr(cgroups, "_CONTROLLERS", (CONTROLLER,))
        with subprocess.Popen(["/bin/sleep", "600"]) as process:
            (directory / "cgroup.procs").write_text(str(process.pid))
            yield directory
            process.kill()
        until("the cgroup to be gone", lambda: remove(directory))


@contextmanager
def borrow_controller(hierarchy: Path) -> Iterator[None]:
    """Give it to the cgroups below the root, as it mostly is not."""
    control = hierarchy / "cgroup.subtree_control"
    given = CONTROLLER in control.read_text().split()
    control.write_text(f"+{CONTROLLER}")
    try:
        yield
    finally:
        if not given:
            control.write_text(f"-{CONTROLLER}")


def remove(directory: Path) -> bool:
    """Whether it is gone, with all below it; it stays while processes in it end."""
    with suppress(OSError):
        for path, _, _ in os.walk(directory, topdown=False):
            Path(path).rmdir()
    return not directory.exists()


def read(file: Path) -> str:
    return file.read_text().strip()


def test_a_subtree_gets_controllers_though_its_parent_has_processes(parent: Path) -> None:
    pid = read(parent / "cgroup.procs")
    with pytest.raises(OSError, match="busy"):
        (parent / "cgroup.subtree_control").write_text(f"+{CONTROLLER}")
    cgroups.create("trellis-node-1", 2**30)
    assert read(parent / "trellis-node-1" / "cgroup.controllers") == CONTROLLER
    assert read(parent / "trellis-node-1" / "cgroup.subtree_control") == CONTROLLER
    assert read(parent / "trellis-others" / "cgroup.procs") == pid


def test_the_parent_is_as_it_was_after_the_last_subtree(parent: Path) -> None:
    pid = read(parent / "cgroup.procs")
    cgroups.create("trellis-node-1", 2**30)
    cgroups.create("trellis-node-2", 2**30)
    assert sorted(cgroups.list_subtrees()) == ["trellis-node-1", "trellis-node-2"]
    cgroups.remove("trellis-node-1")
    assert read(parent / "trellis-node-2" / "cgroup.controllers") == CONTROLLER
    cgroups.remove("trellis-node-2")
    cgroups.remove("trellis-node-2")
    assert cgroups.list_subtrees() == []
    assert read(parent / "cgroup.procs") == pid
    assert read(parent / "cgroup.subtree_control") == ""
    assert not (parent / "trellis-others").exists()


def test_removal_ends_what_runs_in_the_subtree(parent: Path) -> None:
    cgroups.create("trellis-node-1", 2**30)
    pod = parent / "trellis-node-1" / "kubepods" / "pod1"
    pod.mkdir(parents=True)
    with subprocess.Popen(["/bin/sleep", "600"]) as container:
        (pod / "cgroup.procs").write_text(str(container.pid))
        cgroups.remove("trellis-node-1")
        assert container.wait() < 0
    assert not (parent / "trellis-node-1").exists()


def test_controllers_that_the_parent_gave_before_are_left_to_it(parent: Path) -> None:
    others = parent / "others"
    others.mkdir()
    (others / "cgroup.procs").write_text(read(parent / "cgroup.procs"))
    (parent / "cgroup.subtree_control").write_text(f"+{CONTROLLER}")
    cgroups.create("trellis-node-1", 2**30)
    assert not (parent / "trellis-others").exists()
    cgroups.remove("trellis-node-1")
    assert read(parent / "cgroup.subtree_control") == CONTROLLER


@pytest.mark.parametrize("mark", ["trusted.delegate", "user.delegate"])
def test_the_subtree_lies_below_the_nearest_cgroup_that_was_delegated(
    parent: Path, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    scope = parent / "run.slice" / "node.scope"
    (scope / "trellis-others").mkdir(parents=True)
    monkeypatch.setattr(cgroups, "_read_own_cgroup", lambda: "run.slice/node.scope/trellis-others")
    assert cgroups.locate("trellis-node-1") == "trellis-node-1"
    os.setxattr(scope, mark, b"1")
    assert cgroups.locate("trellis-node-1") == "run.slice/node.scope/trellis-node-1"
    (parent / "run.slice" / "trellis-node-2").mkdir()
    assert cgroups.list_subtrees() == ["run.slice/trellis-node-2"]


def test_hugetlb_is_given_to_a_subtree_where_the_machine_has_it(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubelet refuses to start otherwise."""
    monkeypatch.setattr(cgroups, "_CONTROLLERS", ())
    cgroups.create("trellis-node-1", 2**30)
    assert read(parent / "trellis-node-1" / "cgroup.controllers") == "hugetlb"
