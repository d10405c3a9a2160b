"""Pages quote what was measured last about an installation on a real node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def read_measured(name: str) -> Any:
    return json.loads((ROOT / "docs" / "images" / f"{name}.json").read_text())


def test_the_readme_has_the_seconds_to_the_first_recommendation() -> None:
    seconds = read_measured("quickstart")["seconds"]
    assert f"the three commands took {seconds} seconds" in (ROOT / "README.md").read_text()


def test_the_page_about_replicas_has_the_figures_of_each_disruption() -> None:
    lines = (ROOT / "docs" / "guides" / "high-availability.md").read_text().splitlines()
    for phase, figures in read_measured("disruptions")["phases"].items():
        row = (
            f"| {phase} | {figures['slowestSeconds']} s | {figures['unsized']} of {figures['creations']} "
            f"| {figures['oldestSeconds']:.0f} s |"
        )
        assert row in lines, row
