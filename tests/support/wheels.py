"""Builds another package as a wheel and installs it beside Trellis by pip, offline.

A build backend would have to be fetched, so that the wheel is put together here from what `pyproject.toml` says; pip,
the one that comes with Python, checks it when it installs it. `test_newcomers_path.py` compares it with the backend's.
"""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest


def build_wheel(project: Path, into: Path) -> Path:
    """The wheel of a project with its packages in `src`."""
    about = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    stem = f"{about['name'].replace('-', '_')}-{about['version']}"
    sources = sorted(path for path in (project / "src").rglob("*") if path.suffix in {".py", ".typed"})
    files = {str(path.relative_to(project / "src")): path.read_bytes() for path in sources}
    files[f"{stem}.dist-info/METADATA"] = "\n".join(_metadata(about)).encode()
    files[f"{stem}.dist-info/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    files[f"{stem}.dist-info/entry_points.txt"] = "\n".join(_entry_points(about["entry-points"])).encode()
    files[f"{stem}.dist-info/RECORD"] = "".join(
        f"{name},{_digest(data)},{len(data)}\n" for name, data in files.items()
    ).encode()
    wheel = into / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return wheel


def build_with_backend(project: Path, into: Path) -> Path:
    """The wheel that pip builds with the project's backend; skips the test where no package registry is reached."""
    options = ["--no-deps", "--quiet", "--disable-pip-version-check", "--retries=1", "--timeout=10"]
    command: list[str | Path] = [sys.executable, bundled_pip(), "wheel", *options, f"--wheel-dir={into}", "."]
    completed = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    if re.search(r"No matching distribution found|Connection|Max retries|Could not fetch", completed.stderr):
        pytest.skip("no package registry is reached, and so no build backend")
    assert completed.returncode == 0, completed.stderr
    [wheel] = into.glob("*.whl")
    return wheel


def write_project(into: Path, name: str, module: Path, entry_points: Mapping[str, str]) -> Path:
    """A project around one module, which announces recommenders."""
    (into / "src").mkdir(parents=True)
    (into / "src" / module.name).write_bytes(module.read_bytes())
    lines = ["[project]", f'name = "{name}"', 'version = "1.0"', '[project.entry-points."trellis.recommenders"]']
    lines += [f'{recommender} = "{value}"' for recommender, value in entry_points.items()]
    (into / "pyproject.toml").write_text("\n".join(lines))
    return into


def install(wheel: Path, site: Path, *others: Path) -> None:
    """Install a wheel or several, and nothing that they depend on, into a directory for `PYTHONPATH`."""
    options = ["--no-index", "--no-deps", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    wheels = [str(path) for path in (wheel, *others)]
    subprocess.run([sys.executable, bundled_pip(), "install", *options, "--target", str(site), *wheels], check=True)


def bundled_pip() -> Path:
    """The pip that comes with Python, to be run by it."""
    ensurepip = subprocess.run(
        [sys.executable, "-c", "import ensurepip; print(ensurepip.__path__[0])"],
        capture_output=True,
        text=True,
        check=True,
    )
    [pip] = (Path(ensurepip.stdout.strip()) / "_bundled").glob("pip-*.whl")
    return pip / "pip"


def _metadata(about: Mapping[str, Any]) -> Iterator[str]:
    yield from ("Metadata-Version: 2.1", f"Name: {about['name']}", f"Version: {about['version']}")
    yield from (f"Requires-Dist: {dependency}" for dependency in about.get("dependencies", ()))


def _entry_points(groups: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for group, entries in groups.items():
        yield f"[{group}]"
        yield from (f"{name} = {value}" for name, value in entries.items())


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
