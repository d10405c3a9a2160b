"""The package as its users install it: a wheel and an sdist, built by the locked tools, in a clean environment."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from bootstrap import find_uv
from release.build import ROOT, build_package
from trellis import __version__


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the sdist and the wheel."""
    directory = tmp_path_factory.mktemp("built")
    build_package(directory, 1_800_000_000)
    return directory


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The executables of an environment with pip, the wheel, and what it needs."""
    environment = tmp_path_factory.mktemp("installed")
    run(find_uv(), "venv", "--quiet", "--seed", f"--python={sys.executable}", str(environment))
    [wheel] = built.glob("*.whl")
    constraint = tmp_path_factory.mktemp("constraint") / "versions.txt"
    lines = (ROOT / "deploy" / "requirements.txt").read_text().splitlines()
    constraint.write_text("\n".join(line.rstrip(" \\") for line in lines if "==" in line and "--hash" not in line))
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*pip, "--only-binary=:all:", f"--constraint={constraint}", str(wheel))
    return environment / "bin"


def run(*command: str, cwd: Path | None = None) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_commands_of_the_wheel_run(installed: Path, tmp_path: Path) -> None:
    assert run(str(installed / "trellis"), "version", "--client").startswith(f"client  {__version__}")
    assert run(str(installed / "kubectl-trellis"), "version", "--client").startswith(f"client  {__version__}")
    assert "Usage: trellis run" in run(str(installed / "trellis"), "run", "--help")


def test_the_examples_are_in_the_wheel(installed: Path, tmp_path: Path) -> None:
    run(str(installed / "trellis"), "examples", "--copy-to", "copied", cwd=tmp_path)
    copied = tmp_path / "copied"
    assert {path.name for path in copied.rglob("*.yaml")} >= {path.name for path in (ROOT / "examples").rglob("*.yaml")}


def test_the_metadata_name_licence_python_and_commands(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        [name] = [name for name in files.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(files.read(name).decode())
        assert any(name.endswith("licenses/LICENSE") for name in files.namelist())
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])


def test_the_sdist_holds_the_sources_and_makes_the_same_wheel(built: Path, tmp_path: Path) -> None:
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as files:
        files.extractall(tmp_path, filter="data")
    [sources] = tmp_path.iterdir()
    assert {"src", "tests", "docs", "examples", "deploy", "LICENSE", "CHANGELOG.md"} <= {
        path.name for path in sources.iterdir()
    }
    constraints = f"--build-constraints={ROOT / 'deploy' / 'build-requirements.txt'}"
    os.environ["SOURCE_DATE_EPOCH"] = "1800000000"
    try:
        run(find_uv(), "build", "--quiet", "--wheel", constraints, f"--out-dir={tmp_path / 'again'}", str(sources))
    finally:
        del os.environ["SOURCE_DATE_EPOCH"]
    [wheel], [again] = built.glob("*.whl"), (tmp_path / "again").glob("*.whl")
    assert again.read_bytes() == wheel.read_bytes()
