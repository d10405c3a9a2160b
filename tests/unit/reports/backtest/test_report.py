from __future__ import annotations

import csv
import io
import json
import re
from itertools import combinations

import msgspec
import pytest

from support.builders.results import backtested
from support.golden_files import assert_golden, page_body
from trellis.reports.backtest.frontier import FrontierCurve, draw_frontier
from trellis.reports.backtest.headline import find_best
from trellis.reports.backtest.report import as_csv, as_html, as_json, as_markdown, as_text

SMALL = backtested(series=4, points=5)


def test_the_reports_are_as_approved() -> None:
    assert_golden("backtest.txt", "\n".join(as_text(SMALL, 100)) + "\n")
    assert_golden("backtest.csv", as_csv(SMALL))
    assert_golden("backtest.json", as_json(SMALL).decode())
    assert_golden("backtest.md", as_markdown(SMALL))
    assert_golden("backtest.html", page_body(as_html(SMALL)))


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_no_line_is_wider_than_asked_for(width: int) -> None:
    assert max(map(len, as_text(SMALL, width))) <= width


def test_the_answer_requests_least_of_those_that_risk_no_more() -> None:
    text = " ".join(" ".join(as_text(SMALL, 100)).split())
    assert "adaptive requests 17 % less CPU and 17 % less memory than default." in text


def test_a_variant_that_saves_by_risking_more_is_not_proposed() -> None:
    risky = [SMALL.variants[0], SMALL.variants[3]]
    scores = [score for score in SMALL.series if score.variant in {variant.name for variant in risky}]
    result = msgspec.structs.replace(SMALL, variants=risky, series=scores, curves=[], sweeps=[], charts=[])
    assert any("No recommender requests less CPU than default" in line for line in as_text(result, 100))
    assert "No recommender requests less CPU" in as_html(result)
    for text in (" ".join(as_text(result, 100)), as_html(result)):
        assert "is not recommended: usage is above the CPU request" in " ".join(text.split())


def test_a_variant_that_saves_cpu_by_killing_containers_is_not_proposed() -> None:
    best = find_best(SMALL)
    variant = SMALL.variants[best]
    assert best
    assert variant.memory is not None
    figures = msgspec.structs.replace(variant.memory.figures, kills=5.0)
    killing = msgspec.structs.replace(variant, memory=msgspec.structs.replace(variant.memory, figures=figures))
    variants = [killing if number == best else other for number, other in enumerate(SMALL.variants)]
    assert find_best(msgspec.structs.replace(SMALL, variants=variants)) != best


def test_where_no_cpu_was_measured_nothing_is_reported_about_it() -> None:
    blind = [msgspec.structs.replace(SMALL.variants[number], cpu=None) for number in (0, 3)]
    scores = [score for score in SMALL.series if score.variant in {variant.name for variant in blind}]
    result = msgspec.structs.replace(SMALL, variants=blind, series=scores, curves=[], sweeps=[], charts=[])
    assert "CPU" not in as_text(result, 100)[-1]


def test_a_series_without_memory_has_empty_cells() -> None:
    rows = [row for row in csv.DictReader(io.StringIO(as_csv(SMALL))) if row["series"] == "web-03/app"]
    assert rows
    assert {row["memory_requested"] for row in rows} == {""}
    assert all(float(row["cpu_requested"]) > 0 for row in rows)


def test_json_keeps_names_of_parameters_as_they_are() -> None:
    document = json.loads(as_json(SMALL))
    assert document["variants"][1]["parameters"] == {"horizon": "2h"}
    assert document["series"][0]["cpu"]["timeOver"] > 0


def test_where_nothing_is_scored_nothing_is_compared() -> None:
    unscored = [msgspec.structs.replace(variant, cpu=None, memory=None) for variant in SMALL.variants]
    nothing = msgspec.structs.replace(SMALL, variants=unscored, curves=[], sweeps=[])
    text = as_text(nothing, 100)
    assert "No series could be scored." in text
    assert not any(line.startswith(("Requested:", "No other")) for line in text)
    assert "No series could be scored." in as_html(nothing)


def test_the_frontier_is_drawn_without_scripts() -> None:
    body = page_body(as_html(SMALL))
    for drawing in re.findall(r"<svg.*?</svg>", body, re.DOTALL):
        assert drawing.count('<circle class="spot"') == 6
    assert "percentile=0.95" in body


def test_the_frontier_is_drawn_for_wide_and_for_narrow_screens() -> None:
    body = page_body(as_html(SMALL))
    assert re.findall(r'class="drawing (\w+)-screen frontier" viewBox="0 0 (\d+)', body) == [
        ("wide", "1140"),
        ("narrow", "336"),
    ]


def test_no_name_of_the_frontier_lies_upon_a_spot_or_a_name() -> None:
    close = [
        FrontierCurve(name, "red", [], [], [(1.7 + apart, 0.01, name)])
        for name, apart in (("first", 0.0), ("next", 0.004), ("a longer name", 0.4))
    ]
    for drawing in draw_frontier(close, "both"):
        spots = [
            (float(x), float(y)) for x, y in re.findall(r'<circle class="spot" cx="([\d.]+)" cy="([\d.]+)"', drawing)
        ]
        names = re.findall(r'<text class="named-spot" x="([\d.]+)" y="([\d.]+)">([^<]+)', drawing)
        assert len(spots) == len(names) == 3
        assert drawing.rindex("<circle") < drawing.index("named-spot")
        boxes = [(float(x), float(x) + 7 * len(name), float(y) - 4) for x, y, name in names]
        assert not [box for box in boxes for x, y in spots if box[0] < x < box[1] and abs(y - box[2]) < 9]
        assert not [
            pair
            for pair in combinations(boxes, 2)
            if pair[0][0] < pair[1][1] and pair[1][0] < pair[0][1] and abs(pair[0][2] - pair[1][2]) < 12
        ]


def test_what_was_left_out_and_what_was_stopped_is_reported() -> None:
    partial = msgspec.structs.replace(SMALL, partial=True, notes=["web-02/app: 1 gap"])
    text = "\n".join(as_text(partial, 100))
    page = as_html(partial)
    for expected in ("Partial: the backtest was stopped", "traces/broken.csv: row 7", "web-02/app: 1 gap"):
        assert expected in text
        assert expected in page


def test_very_many_series_leave_the_page_readable() -> None:
    page = as_html(backtested(series=900, points=4))
    assert "The 500 series that use most of 900" in page
    assert len(page.encode()) < 2_500_000


def test_equal_requests_are_neither_better_nor_worse() -> None:
    twin = msgspec.structs.replace(SMALL.variants[0], name="twin")
    scores = [score for score in SMALL.series if score.variant in {"default", "adaptive"}]
    result = msgspec.structs.replace(SMALL, variants=[SMALL.variants[0], twin], series=scores, curves=[], sweeps=[])
    page = as_html(msgspec.structs.replace(result, charts=[]))
    assert '<span class="diff even">same</span>' in page
    assert 'class="diff good"' not in page


def test_a_backtest_of_nothing_has_reports_too() -> None:
    nothing = msgspec.structs.replace(SMALL, facts=[], series=[], variants=[], curves=[], sweeps=[], charts=[])
    assert as_text(nothing, 80)
    assert "Backtest" in as_html(nothing)
    assert as_csv(nothing).count("\n") == 1
