"""The command line where modules and functions of POSIX are missing, as on Windows and, partly, on macOS."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trellis.cli.main import COMMANDS, SECTIONS

ROOT = Path(__file__).resolve().parents[3]
# What Windows lacks. macOS lacks os.sched_getaffinity.
HIDDEN_MODULES = ("fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty", "uvloop")
HIDDEN_NAMES = {
    "os": ("fork", "getuid", "geteuid", "getpgid", "memfd_create", "sched_getaffinity", "setsid"),
    "signal": ("SIGALRM", "SIGHUP", "SIGKILL", "SIGUSR1", "pthread_sigmask", "setitimer"),
}
RUN = f"""if True:
    import os, signal, sys

    class Hiding:
        def find_spec(self, name, path=None, target=None):
            if name in {HIDDEN_MODULES}:
                raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

    for name in {HIDDEN_MODULES}:
        sys.modules.pop(name, None)
    for module, names in {HIDDEN_NAMES}.items():
        for name in names:
            if hasattr(sys.modules[module], name):
                delattr(sys.modules[module], name)
    sys.meta_path.insert(0, Hiding())
    from trellis.__main__ import main
    sys.argv = ["trellis", *sys.argv[1:]]
    main()
"""
CLIENT_COMMANDS = [name for name in COMMANDS if name not in SECTIONS["Run in a cluster"]]


def run_elsewhere(*arguments: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN, *arguments], cwd=cwd, capture_output=True, text=True, encoding="utf-8", check=False
    )


def test_the_modules_are_hidden_indeed() -> None:
    hidden = run_elsewhere.__globals__["RUN"].replace("from trellis.__main__ import main", "import resource")
    ended = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False)
    assert "No module named 'resource'" in ended.stderr


@pytest.mark.parametrize("name", CLIENT_COMMANDS)
def test_help_of_every_client_command_works(name: str) -> None:
    ended = run_elsewhere(name, "--help")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith(f"Usage: trellis {name}")


def test_manifests_are_checked() -> None:
    ended = run_elsewhere("check", "examples/web", "-o", "json")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)["findings"] == []


def test_requests_are_advised_from_a_file() -> None:
    ended = run_elsewhere("recommend", "examples/backtest/usage.csv", "--quiet", "-o", "json")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)["workloads"]


def test_a_scenario_is_simulated_in_several_processes(tmp_path: Path) -> None:
    scenario = ROOT / "examples/simulate/small.yaml"
    ended = run_elsewhere("simulate", scenario, "--quiet", "--processes", "2", "--output-file", "r.json", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "wrote r.json\n")
    assert json.loads((tmp_path / "r.json").read_text())["kind"] == "SimulationResult"


def test_recommenders_are_scored_and_listed() -> None:
    ended = run_elsewhere("backtest", "examples/backtest/usage.csv", "--quiet", "-o", "csv", "--recommenders=default")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "shop/web,default," in ended.stdout
    assert "seasonal" in run_elsewhere("recommenders").stdout


def test_a_dump_is_explained() -> None:
    ended = run_elsewhere("explain", "vpa/web", "--dump", "examples/explain/shop.jsonl")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "VerticalPodAutoscaler shop/web" in ended.stdout


def test_a_missing_kubeconfig_is_one_line(tmp_path: Path) -> None:
    ended = run_elsewhere("explain", "vpa/web", "--kubeconfig", tmp_path / "none")
    assert ended.returncode == 2
    assert "no such file" in ended.stderr
    assert "Traceback" not in ended.stderr
