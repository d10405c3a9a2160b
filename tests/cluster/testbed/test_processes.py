"""The testbed leaves nothing behind, and its parts can be killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testbed import scratch
from testbed.cluster import Cluster
from testbed.control_plane import ControlPlane
from testbed.errors import ProgramDied
from testbed.processes import Process, reserve_ports
from testbed.programs import building
from testbed.programs.versions import BY_NAME, KUBERNETES
from testbed.waiting import TIMEOUT_SECONDS, until

ROOT = Path(__file__).resolve().parents[3]

STARTER = """
import sys, time
from pathlib import Path
from testbed.processes import Process
print(Process(["/bin/sleep", "600"], Path(sys.argv[1])).pid, flush=True)
time.sleep(600)
"""


def test_a_program_dies_with_a_starter_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTER, str(tmp_path / "log")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        program = int(starter.stdout.readline())
        until("the program to run", lambda: _command(program) == "/bin/sleep")
        starter.kill()
    until("the program to die", lambda: _command(program) != "/bin/sleep")


def test_the_keeper_ends_with_the_run_it_belongs_to() -> None:
    """The keeper is asked to follow a process that is then killed; it must go, and its directory too."""
    with subprocess.Popen(["/bin/sleep", "600"]) as run:
        name = f"run-test-{os.getpid()}"
        keeper = subprocess.Popen([sys.executable, "-m", "testbed.keeper", name, str(run.pid)], cwd=ROOT)
        directory = scratch.root() / name
        try:
            until("the control plane", (directory / "state.json").exists)
        finally:
            run.kill()
    assert keeper.wait(TIMEOUT_SECONDS) == 0
    assert not directory.exists()


def test_a_program_that_exits_is_reported_with_its_last_output(tmp_path: Path) -> None:
    process = Process(["/bin/sh", "-c", "echo goodbye; exit 3"], tmp_path / "log")
    with pytest.raises(ProgramDied, match=r"(?s)sh ended with status 3.*goodbye"):
        until("it to be noticed", process.check)


def test_remains_of_a_killed_run_are_removed_by_the_next() -> None:
    left = scratch.root() / f"own-left-{os.getpid()}"
    left.mkdir()
    (left / scratch.ALIVE).touch()
    yesterday = time.time() - 86400
    os.utime(left, (yesterday, yesterday))
    with scratch.scratch() as mine:
        assert not left.exists()
        assert mine.exists()
    assert not mine.exists()


def test_ports_are_free_and_different() -> None:
    ports = reserve_ports(20)
    assert len(set(ports)) == 20


def test_provided_programs_are_not_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    (tmp_path / "etcd").touch()
    assert building.ensure_programs([BY_NAME["etcd"]]) == {"etcd": tmp_path / "etcd"}


def test_an_api_server_that_is_killed_comes_back_with_its_objects(own_api_server: ControlPlane) -> None:
    api = own_api_server.cluster.api
    api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}, "data": {"a": "b"}}, "default")
    own_api_server.kill("kube-apiserver")
    with pytest.raises(OSError, match="refused"):
        api.get("/api/v1/namespaces/default/configmaps/kept")
    own_api_server.start("kube-apiserver")
    own_api_server.wait_until_ready()
    assert api.get("/api/v1/namespaces/default/configmaps/kept")["data"] == {"a": "b"}


def test_a_frozen_api_server_answers_again_once_it_is_thawed(own_api_server: ControlPlane) -> None:
    api = own_api_server.cluster.api
    own_api_server.freeze("kube-apiserver")
    with pytest.raises(TimeoutError):
        api.send("GET", "/version", seconds=0.5)
    own_api_server.thaw("kube-apiserver")
    assert api.get("/version")["major"] == "1"


@pytest.mark.skipif("KUBEBUILDER_ASSETS" in os.environ, reason="another API server may have been provided")
def test_the_api_server_reports_its_version(cluster: Cluster) -> None:
    assert cluster.api.get("/version")["gitVersion"] == f"v{KUBERNETES}"


def test_make_cluster_starts_says_what_to_try_and_stops_on_sigterm() -> None:
    command = [sys.executable, "-m", "testbed"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        lines: list[str] = []
        while not lines or "Ctrl-C" not in lines[-1]:
            line = running.stdout.readline()
            assert line, "".join(lines)
            lines.append(line)
        result = "".join(lines)
        kubeconfig = Path(result.split("KUBECONFIG=")[1].split()[0])
        assert kubeconfig.exists()
        assert "kubectl apply -f examples/web" in result
        running.send_signal(signal.SIGTERM)
        assert "nothing is left behind" in running.stdout.read()
    assert running.returncode == 0
    assert not kubeconfig.parents[1].exists()


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]
    except OSError:
        return ""
