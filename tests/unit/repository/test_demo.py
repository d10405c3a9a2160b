"""`make demo` works, and the README shows the same scenario: its cheapest variant, for the whole takes a minute.

`tests/docs/test_demo_in_full.py` plays all of it.
"""

from __future__ import annotations

import re
from pathlib import Path

import demo
import demo_shown
from trellis.sim.scenario.files import load_scenario

ROOT = Path(__file__).resolve().parents[3]


def figures(lines: list[str]) -> dict[str, str]:
    """The rows of the first table, each with its first figure."""
    begin = lines.index("Cost")
    end = next(number for number, line in enumerate(lines) if "Prices: " in line)
    return {row[1]: row[2] for line in lines[begin:end] if (row := re.match(r"  (\S.*?)  +(\S+(?: %)?)(?:  |$)", line))}


def test_the_first_column_of_the_readme_is_what_the_demo_prints(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    printed = demo_shown.demo(report, "--only", "fixed")
    assert report.read_text().lower().startswith("<!doctype html>")
    found = figures(printed)
    assert len(found) > 10
    assert found == figures(demo_shown.shown())


def test_the_demo_says_how_large_it_is() -> None:
    fleet = load_scenario(ROOT / demo.SCENARIO).fleet
    assert fleet is not None
    assert (len(fleet.workloads), fleet.clock.steps * fleet.clock.step / 86400) == (60, 14)
    assert demo.BEFORE.startswith("Sixty workloads over two weeks")
    [header] = [line for line in demo_shown.shown() if line.split()[:1] == ["fixed"]]
    assert header.split() == [variant.name for variant in fleet.variants]


def test_the_picture_of_the_report_is_small_enough_for_a_page() -> None:
    assert demo_shown.PICTURE.stat().st_size < 300_000
