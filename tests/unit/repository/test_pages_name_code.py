"""Pages for people who change the code name modules and objects that exist."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import trellis

ROOT = Path(__file__).resolve().parents[3]
PAGES = ("docs/architecture.md", "CONTRIBUTING.md", "docs/guides/writing-a-controller.md")
# A dotted path that begins with one of our packages: `core.resize.plan`, or `runtime.passes.Periodic`.
PACKAGES = "|".join(package.name for package in pkgutil.iter_modules(trellis.__path__) if package.ispkg)
NAME = re.compile(rf"`(?:trellis\.)?((?:{PACKAGES})(?:\.\w+)+)`")
FILE = re.compile(r"`((?:src/trellis|tests|tools)/[\w/.]+)`")


def _exists(name: str) -> bool:
    module, _, attribute = f"trellis.{name}".rpartition(".")
    try:
        parent = importlib.import_module(module)
    except ModuleNotFoundError:
        return False
    if hasattr(parent, attribute):
        return True
    return hasattr(parent, "__path__") and any(
        submodule.name == attribute for submodule in pkgutil.iter_modules(parent.__path__)
    )


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_modules_and_objects_that_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    names = set(NAME.findall(text))
    assert [name for name in sorted(names) if not _exists(name)] == []
    assert [file for file in sorted(set(FILE.findall(text))) if not (ROOT / file).exists()] == []


def test_the_architecture_names_the_entry_point_of_each_decision() -> None:
    assert len(set(NAME.findall((ROOT / PAGES[0]).read_text(encoding="utf-8")))) > 15
