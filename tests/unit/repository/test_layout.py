"""Layout of the tree: small folders, unique class names, docstrings that state, tests beside their subject."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src" / "trellis"
MOST_MODULES = 16


def modules(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if path.name != "__init__.py")


@pytest.mark.parametrize("name", ["src", "tests", "testbed", "bench", "tools"])
def test_folders_hold_at_most_sixteen_modules(name: str) -> None:
    sizes = Counter(path.parent.relative_to(ROOT) for path in modules(ROOT / name))
    assert sizes
    assert {str(folder): size for folder, size in sizes.items() if size > MOST_MODULES} == {}


def test_folders_with_modules_are_packages_with_a_docstring() -> None:
    for folder in {path.parent for path in modules(SOURCE)}:
        assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text())), folder


def test_class_names_are_unique() -> None:
    classes = Counter(
        node.name
        for path in modules(SOURCE)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in classes.items() if count > 1] == []


def test_module_docstrings_state_what_the_module_is() -> None:
    for path in modules(SOURCE):
        docstring = ast.get_docstring(ast.parse(path.read_text()))
        assert docstring, path
        assert not docstring.splitlines()[0].endswith("?"), path


def test_unit_tests_mirror_their_subject() -> None:
    unit = ROOT / "tests" / "unit"
    folders = {path.parent.relative_to(unit) for path in unit.rglob("test_*.py")}
    of_package = {folder for folder in folders if folder.parts[0] != "repository"}
    assert {str(folder) for folder in of_package if not (SOURCE / folder).is_dir()} == set()
