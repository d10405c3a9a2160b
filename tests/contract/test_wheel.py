"""The wheel of Trellis, as its build backend makes it, holds everything that a page needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.wheels import build_with_backend, install

ROOT = Path(__file__).resolve().parents[2]
RENDER = """
import trellis
from trellis.reports.html.page import load_environment
from trellis.reports.simulation.report import as_html
from trellis.sim.results import RunResult

assert trellis.__file__.startswith({site!r}), trellis.__file__
templates = load_environment()
for name in templates.list_templates():
    templates.get_template(name)
print(len(templates.list_templates()))
print(as_html(RunResult("demo", 1, 0.0, 86400.0, 0.0, 300.0, "USD", "example", [])))
"""


@pytest.mark.timeout(600)  # a package registry may take its time
def test_an_installed_wheel_renders_pages(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(build_with_backend(ROOT, tmp_path), site)
    code = f"import sys\nsys.path.insert(0, {str(site)!r})\n{RENDER.format(site=str(site))}"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    count, page = done.stdout.split("\n", 1)
    assert int(count) == len(list((ROOT / "src/trellis/reports/html/templates").iterdir()))
    assert page.startswith("<!doctype html>")
    assert "</html>" in page


@pytest.mark.timeout(600)
def test_an_installed_wheel_brings_the_examples_and_the_plug_in_of_kubectl(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(build_with_backend(ROOT, tmp_path), site)
    run = f"import sys; sys.path.insert(0, {str(site)!r}); from trellis.__main__ import main; main()"
    command = [sys.executable, "-c", run, "examples", "--copy-to", "copied"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list_files(tmp_path / "copied") == list_files(ROOT / "examples")
    command = [sys.executable, "-c", run, "check", "copied/web"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    assert {"trellis", "kubectl-trellis", "kubectl_complete-trellis"} <= {
        path.name for path in (site / "bin").iterdir()
    }
    assert list_files(site / "trellis", ".py") == list_files(ROOT / "src/trellis", ".py") | {
        f"examples/{name}" for name in list_files(ROOT / "examples", ".py")
    }


def list_files(directory: Path, suffix: str = "") -> set[str]:
    paths = (path for path in directory.rglob(f"*{suffix}") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(directory).as_posix() for path in paths}
