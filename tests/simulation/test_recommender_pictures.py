"""The pictures of the guide to choosing a recommender: drawn by a tool, all of them shown, readable on any page."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from bench.pictures.frontier import draw as frontier
from bench.pictures.job_runs import build_runs_chart
from bench.pictures.recommenders import NAMES, PICTURES
from bench.pictures.sizing import Chart, Line, draw
from trellis.core.recommend.evaluation.margin_curves import MARGIN_FACTORS, MarginCurve

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guides" / "which-recommender.md"
SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]  # noqa: S314 - our own text


@pytest.mark.parametrize("name", NAMES)
def test_every_picture_exists_and_is_shown(name: str) -> None:
    svg = (ROOT / "docs" / "images" / f"{name}.svg").read_text(encoding="utf-8")
    assert texts(svg)
    assert "prefers-color-scheme:dark" in svg
    assert f"](../images/{name}.svg)" in GUIDE.read_text(encoding="utf-8")


def test_every_workload_is_pictured_once() -> None:
    assert len({picture.usage for picture in PICTURES.values()}) == len(PICTURES)


def test_a_chart_labels_its_lines_and_marks_usage_above_request() -> None:
    usage = np.array([1.0, 1.0, 3.0, 1.0])
    line = Line("plain", "2 times", np.full(4, 2.0), usage > 2.0, np.array([2]))
    svg = draw(Chart("Some", "cores", usage, [line], [(0.0, "Mon")]))
    assert {"Some, cores", "usage", "plain: 2 times", "Mon"} <= set(texts(svg))
    kinds = [element.get("class") for element in ElementTree.fromstring(svg).iter()]  # noqa: S314
    assert (kinds.count("over"), kinds.count("kill")) == (1, 1)


def test_a_frontier_has_a_line_and_a_dot_for_each_recommender() -> None:
    falling = np.geomspace(0.05, 0.005, len(MARGIN_FACTORS))
    curve = MarginCurve(
        "plain", MARGIN_FACTORS, falling, falling, 1.5 * MARGIN_FACTORS, falling, falling, changes=1.0, worse=0.0
    )
    root = ElementTree.fromstring(frontier({"all": [curve], "some": [curve]}))  # noqa: S314
    assert len(list(root.iter(f"{SVG}polyline"))) == len(list(root.iter(f"{SVG}circle"))) == 2


@pytest.mark.req("CR-27")
def test_phases_is_raised_before_the_peak_of_a_run_and_default_is_not() -> None:
    default, phases = build_runs_chart(6).lines
    assert (default.name, phases.name) == ("default", "phases")
    assert phases.over.mean() < 0.2 * default.over.mean()
