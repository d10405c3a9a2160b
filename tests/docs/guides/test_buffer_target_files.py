"""The guide to kinds of targets shows the files of the example, and every rule of the suite."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from trellis.testing.buffer_targets import CHECKS

ROOT = Path(__file__).resolve().parents[3]
GUIDE = (ROOT / "docs" / "guides" / "write-a-buffer-target.md").read_text()
BLOCKS = re.findall(r"^```(?:toml|python|yaml)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
EXAMPLE = ROOT / "examples" / "buffer-target"


@pytest.mark.parametrize("path", ["src/trellis_game_servers/__init__.py", "deploy/role.yaml", "deploy/buffer.yaml"])
def test_a_file_of_the_guide_is_that_of_the_example(path: str) -> None:
    assert (EXAMPLE / path).read_text() in BLOCKS


@pytest.mark.parametrize("path", ["pyproject.toml", "tests/test_game_server_sets.py"])
def test_a_part_of_a_file_is_that_of_the_example(path: str) -> None:
    text = (EXAMPLE / path).read_text()
    assert any(block in text for block in BLOCKS)


def test_every_rule_of_the_suite_is_in_the_table() -> None:
    for check in CHECKS:
        assert f"| `{check.name}` | {check.description} |" in GUIDE


def test_the_example_passes_its_own_tests() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(command, cwd=EXAMPLE, capture_output=True, text=True, timeout=60, check=False)
    assert f"{len(CHECKS) + 2} passed" in done.stdout, done.stdout + done.stderr
