"""The guide to writing a recommender shows the files of the example, and every rule of the suite."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trellis.testing.recommenders import CHECKS

ROOT = Path(__file__).resolve().parents[3]
GUIDE = (ROOT / "docs" / "guides" / "write-a-recommender.md").read_text()
BLOCKS = re.findall(r"^```(?:toml|python|yaml)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
EXAMPLE = "examples/recommender-plugin"


@pytest.mark.parametrize(
    "path",
    [
        f"{EXAMPLE}/pyproject.toml",
        f"{EXAMPLE}/src/trellis_peak_of_week/__init__.py",
        f"{EXAMPLE}/tests/test_peak_of_week.py",
        f"{EXAMPLE}/deploy/vpa.yaml",
        "examples/recommenders/simple.py",
    ],
)
def test_a_file_of_the_guide_is_that_of_the_example(path: str) -> None:
    assert (ROOT / path).read_text() in BLOCKS


def test_every_rule_of_the_suite_is_in_the_table() -> None:
    for check in CHECKS:
        assert f"| `{check.name}` | {check.description} |" in GUIDE
