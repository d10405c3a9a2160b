"""Where no real node can run, the reason is said in a sentence, and tests on it are skipped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import node_tests
from testbed import __main__ as testbed_command
from testbed.node import cgroups, packages, sandbox

ROOT = Path(__file__).resolve().parents[4]
HIERARCHIES = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "pids", "systemd")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Seems fit for a node, whatever this one is; tests take parts of it away."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "sysconf", lambda name: 4096 if name == "SC_PAGE_SIZE" else 2**22)
    monkeypatch.setattr("shutil.which", lambda program: f"/usr/bin/{program}")
    monkeypatch.setattr(sandbox, "_UNSHARE", ("true",))
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    for name in HIERARCHIES:
        (tmp_path / name).mkdir()
    return monkeypatch


def test_a_fit_machine_has_no_problem(machine: pytest.MonkeyPatch) -> None:
    assert sandbox.find_problem() == ""


def test_another_system_is_refused(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(sys, "platform", "darwin")
    assert sandbox.find_problem() == "a real node needs Linux"


def test_another_user_is_refused(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(os, "geteuid", lambda: 1000)
    assert sandbox.find_problem() == "a real node needs root"


@pytest.mark.parametrize("program", ["unshare", "ip", "mount", "apt-get", "dpkg"])
def test_a_missing_program_is_named(machine: pytest.MonkeyPatch, program: str) -> None:
    machine.setattr("shutil.which", lambda name: None if name == program else f"/usr/bin/{name}")
    machine.setattr(packages, "find_unpacked", lambda _: None)
    assert sandbox.find_problem() == f"a real node needs the program {program}"


def test_unpacked_packages_need_no_program(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine.setattr("shutil.which", lambda name: None if name == "apt-get" else f"/usr/bin/{name}")
    machine.setattr(packages, "find_unpacked", {"node": tmp_path}.get)
    assert sandbox.find_problem() == ""


def test_too_little_memory_is_refused(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(os, "sysconf", lambda name: 4096 if name == "SC_PAGE_SIZE" else 2**20)
    assert sandbox.find_problem() == "a real node needs 8 GiB of memory"


def test_refused_namespaces_are_reported_in_the_words_of_unshare(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(sandbox, "_UNSHARE", ("sh", "-c", "echo unshare failed: Operation not permitted >&2; exit 1"))
    assert sandbox.find_problem() == "namespaces cannot be made: unshare failed: Operation not permitted"


def test_missing_hierarchies_of_version_1_are_named(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cpuset").rmdir()
    (tmp_path / "pids").rmdir()
    assert sandbox.find_problem() == "cgroup controllers are missing: cpuset, pids"


def test_missing_controllers_of_version_2_are_named(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu memory hugetlb\n")
    assert sandbox.find_problem() == "cgroup controllers are missing: io, pids"


def test_cgroups_that_cannot_be_made_are_a_problem(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine.setattr(os, "access", lambda *_: False)
    assert sandbox.find_problem() == f"{tmp_path} is read-only"


def test_make_node_test_is_skipped_with_the_reason(
    machine: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.setattr(os, "geteuid", lambda: 1000)
    assert node_tests.main([]) == 0
    assert capsys.readouterr().out == "node tests are skipped: a real node needs root\n"


@pytest.mark.parametrize(
    ("statuses", "combined"),
    [([0, 0], 0), ([1, 0], 1), ([0, 1], 1), ([5, 0], 0), ([0, 5], 0), ([5, 5], 5), ([130, 0], 130), ([5, 2], 2)],
)
def test_make_node_test_fails_if_one_of_its_runs_does(statuses: list[int], combined: int) -> None:
    assert node_tests.combine(statuses) == combined


def test_make_node_test_begins_no_further_run_after_one_that_was_interrupted() -> None:
    statuses = iter([130, 0])
    assert node_tests.combine(statuses) == 130
    assert next(statuses) == 0


def test_a_real_cluster_is_refused_with_the_reason_and_what_there_is_instead(
    machine: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.setattr(os, "geteuid", lambda: 1000)
    assert testbed_command.main(["up", "real"]) == 1
    said = "a real node needs root; `make cluster` starts a control plane with simulated nodes instead\n"
    assert capsys.readouterr().out == said


def test_an_unknown_sort_of_nodes_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert testbed_command.main(["up", "fake"]) == 2
    assert capsys.readouterr().err == "nodes are kwok or real, not fake\n"


def test_make_cluster_passes_the_sort_of_nodes_on() -> None:
    for argument, sort in ((), "kwok"), (("NODE=real",), "real"):
        shown = subprocess.run(
            ["make", "--dry-run", "cluster", *argument], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert f"-m testbed up {sort}\n" in shown.stdout


def test_outside_of_a_node_its_tests_are_skipped_with_the_reason() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TRELLIS_", "PYTEST_"))}
    pytest_command = [sys.executable, "-m", "pytest", "-q", "-m", "node", "-p", "no:cacheprovider", "tests/node"]
    done = subprocess.run(pytest_command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert f"{sandbox.find_problem() or '`make node-test` runs it'}\n" in done.stdout
    assert "passed" not in done.stdout
