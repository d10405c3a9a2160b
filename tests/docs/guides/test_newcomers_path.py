"""A reader of "Write a recommender" gets from nothing to a package that is installed: the files of the page, no others.

The tests are run as the page says, and the wheel is built by the backend that its `pyproject.toml` names. That one is
fetched from a package registry, as by the reader; where none is reached, that part is skipped.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.wheels import build_wheel, build_with_backend, install

ROOT = Path(__file__).resolve().parents[3]
GUIDE = (ROOT / "docs" / "guides" / "write-a-recommender.md").read_text()
TRELLIS = str(Path(sys.executable).with_name("trellis"))

# A package registry may take its time.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The directory that the page draws, with the files it shows, in the order in which it does."""
    [(name, drawn)] = re.findall(r"^```text\n(\S+)/\n((?:[├└].*\n)+)```$", GUIDE, re.MULTILINE)
    paths = re.findall(r"── (\S+)", drawn)
    files = re.findall(r"^```(?:toml|python)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    project = tmp_path / str(name)
    for path, text in zip(paths, files[: len(paths)], strict=True):
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)
    return project


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    result = {**os.environ, **environment}
    return subprocess.run(command, cwd=cwd, env=result, capture_output=True, text=True, check=False)


def test_the_tests_of_the_page_pass(package: Path) -> None:
    done = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=package)
    assert done.returncode == 0, done.stdout + done.stderr
    [passed] = re.findall(r"(\d+) passed", done.stdout)
    [shown] = re.findall(r"pytest -q\n(\.+) ", GUIDE)
    assert int(passed) == len(shown)


def test_the_package_of_the_page_is_built_installed_and_listed(package: Path, tmp_path: Path) -> None:
    wheel = build_with_backend(package, tmp_path)
    names = zipfile.ZipFile(wheel).namelist()
    assert "trellis_peak_of_week/__init__.py" in names
    assert not [name for name in names if name.startswith("tests")]
    install(wheel, tmp_path / "site")
    done = run(TRELLIS, "recommenders", "-o", "json", "peak-of-week", cwd=tmp_path, PYTHONPATH=str(tmp_path / "site"))
    assert done.returncode == 0, done.stdout + done.stderr
    [recommender] = json.loads(done.stdout)["recommenders"]
    assert (recommender["package"], recommender["version"]) == ("trellis-peak-of-week", "0.1.0")
    assert [parameter["name"] for parameter in recommender["parameters"]] == ["weeks", "margin"]


def test_the_backend_puts_into_the_wheel_of_the_example_what_the_cluster_tests_install(tmp_path: Path) -> None:
    example = ROOT / "examples" / "recommender-plugin"
    (tmp_path / "by-hand").mkdir()
    theirs = zipfile.ZipFile(build_with_backend(example, tmp_path / "theirs"))
    ours = zipfile.ZipFile(build_wheel(example, tmp_path / "by-hand"))
    assert _code(theirs) == _code(ours)
    entry_points = next(name for name in ours.namelist() if name.endswith("entry_points.txt"))
    assert theirs.read(entry_points).split() == ours.read(entry_points).split()


def _code(wheel: zipfile.ZipFile) -> dict[str, bytes]:
    return {name: wheel.read(name) for name in wheel.namelist() if ".dist-info/" not in name}
