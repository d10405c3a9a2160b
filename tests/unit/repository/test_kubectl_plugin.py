"""`kubectl trellis`: the executable of the package, and the launcher that krew installs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from trellis import __version__

ROOT = Path(__file__).resolve().parents[3]
KREW = ROOT / "deploy" / "krew"
INSTALLED = Path(sys.executable).parent


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    """A directory of plug-ins with the launcher, as krew makes one."""
    directory = tmp_path / "plugins"
    directory.mkdir()
    shutil.copy(KREW / "kubectl-trellis", directory)
    return directory


def run(*command: str, path: list[Path]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": os.pathsep.join(map(str, path))}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def write_stub(directory: Path, name: str) -> None:
    """A program that prints its name and arguments."""
    (directory / name).write_text(f'#!/bin/sh\necho "{name} $*"\n')
    (directory / name).chmod(0o755)


def test_the_executable_of_the_package_is_found_by_name() -> None:
    done = run("kubectl-trellis", "version", "--client", "-o", "json", path=[INSTALLED])
    assert json.loads(done.stdout)["client"]["version"] == __version__, done.stderr


def test_messages_name_the_plug_in() -> None:
    refused = run("kubectl-trellis", "chekc", path=[INSTALLED])
    assert refused.stderr.startswith("Usage: kubectl trellis ")


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here")
def test_kubectl_finds_it() -> None:
    done = run(shutil.which("kubectl") or "", "trellis", "version", "--client", path=[INSTALLED])
    assert done.stdout.startswith(f"client  {__version__}"), done.stderr


def test_the_launcher_runs_the_installed_package(plugins: Path) -> None:
    done = run("kubectl-trellis", "version", "--client", path=[plugins, INSTALLED])
    assert done.stdout.startswith(f"client  {__version__}"), done.stderr


@pytest.mark.parametrize(
    ("program", "started"),
    [
        ("uvx", f"uvx --from trellis-autoscaler=={__version__} trellis check a b"),
        ("pipx", f"pipx run --spec trellis-autoscaler=={__version__} trellis check a b"),
    ],
)
def test_the_launcher_fetches_the_package_where_it_is_missing(plugins: Path, program: str, started: str) -> None:
    write_stub(plugins, program)
    assert run("kubectl-trellis", "check", "a", "b", path=[plugins]).stdout == f"{started}\n"


def test_the_launcher_says_what_it_needs(plugins: Path) -> None:
    done = run("kubectl-trellis", path=[plugins])
    assert (done.returncode, "install the Python package trellis-autoscaler" in done.stderr) == (1, True)


def test_the_manifest_fits_the_launcher_and_the_package() -> None:
    plugin = yaml.safe_load((KREW / "trellis.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (plugin["kind"], plugin["metadata"]["name"]) == ("Plugin", "trellis")
    assert plugin["spec"]["version"] == f"v{project['version']}" == f"v{__version__}"
    for platform in plugin["spec"]["platforms"]:
        assert platform["bin"] == "kubectl-trellis"
        assert platform["bin"] in [file["from"] for file in platform["files"]]
        for file in platform["files"]:
            assert (KREW / file["from"]).is_file() or (ROOT / file["from"]).is_file()
    assert project["name"] in plugin["spec"]["caveats"]
    assert os.access(KREW / "kubectl-trellis", os.X_OK)
