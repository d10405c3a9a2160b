"""The layout of every report page, in light and dark, on a desktop and on a telephone: structure, not pixels."""

from __future__ import annotations

import msgspec
import pytest
from playwright.sync_api import Page

from support.browser_pages import Open
from support.builders.results import backtested, simulated
from support.builders.surveys import NOW, generated_survey, shop, with_usage
from support.builders.surveys_over_time import recorded_shop
from trellis.base.prices import EXAMPLE_PRICES
from trellis.core.advice.advisor import advise
from trellis.core.advice.policy import AdvicePolicy
from trellis.reports.advice.report import render_advice
from trellis.reports.backtest.report import as_html as backtest_page
from trellis.reports.buckets.report import render_buckets
from trellis.reports.simulation.report import as_html as simulation_page
from trellis.sim.results import RunResult, ScalingTotals, VariantResult


def _scaled(result: RunResult) -> RunResult:
    """With replicas that change, for the widest tables."""

    def scale(variant: VariantResult) -> VariantResult:
        scaling = ScalingTotals(12.3, 1234, 56.7)
        workloads = [
            msgspec.structs.replace(workload, totals=msgspec.structs.replace(workload.totals, scaling=scaling))
            for workload in variant.workloads
        ]
        fleet = msgspec.structs.replace(variant.fleet, scaling=scaling)
        return msgspec.structs.replace(variant, fleet=fleet, workloads=workloads)

    variants = [scale(variant) for variant in result.variants]
    fifth = msgspec.structs.replace(variants[1], name="fifth", title="Fifth variant")
    return msgspec.structs.replace(result, variants=[*variants, fifth])


SURVEY = advise(with_usage(shop()), AdvicePolicy(), EXAMPLE_PRICES, NOW)
LARGE = advise(with_usage(generated_survey(60)), AdvicePolicy(), EXAMPLE_PRICES, NOW)
PAGES = {
    "advice": render_advice(SURVEY, "html"),
    "large advice": render_advice(LARGE, "html"),
    "advice without usage": render_advice(advise(shop(), AdvicePolicy(), EXAMPLE_PRICES, NOW), "html"),
    "buckets": render_buckets(advise(recorded_shop(), AdvicePolicy(), EXAMPLE_PRICES, NOW), "html"),
    "simulation": simulation_page(_scaled(simulated(workloads=8, days=4, points=24))),
    "backtest": backtest_page(backtested(series=6)),
}
WIDTHS = (1280, 390)

# Elements that reach beyond the window to the right, other than within what scrolls or is hidden.
OUTSIDE = """() => [...document.querySelectorAll("body *")].filter((element) => {
  const box = element.getBoundingClientRect();
  const unseen = !box.width || !box.height || element.closest(".unseen, .scroll, [hidden]");
  return !unseen && (box.right > innerWidth + 1 || box.left < -1);
}).map((element) => `${element.tagName}.${element.className} ${element.textContent.slice(0, 40)}`)"""
# Containers that scroll sideways.
SCROLLED = """() => [...document.querySelectorAll(".scroll")].filter(
  (element) => element.scrollWidth > element.clientWidth + 1 && !element.querySelector("svg.ladder, svg.frontier, pre")
).map((element) => element.closest("section").id)"""
# Cells whose text is wider than the cell, and parts of cards and cells that cover one another.
CLIPPED = """() => [...document.querySelectorAll("td, th, dt, dd, .price, h1, h2, h3")].filter((element) => {
  const style = getComputedStyle(element);
  return element.clientWidth && style.display !== "none" && element.scrollWidth > element.clientWidth + 2
    && !element.closest(".unseen") && !element.querySelector("button");
}).map((element) => `${element.tagName} ${element.textContent.trim().slice(0, 40)}`)"""
ROWS_OF_CARDS = """() => {
  const rows = new Map();
  for (const card of document.querySelectorAll(".card")) {
    const { top, width } = card.getBoundingClientRect();
    rows.set(Math.round(top), [...(rows.get(Math.round(top)) || []), Math.round(width)]);
  }
  return [...rows.values()];
}"""


@pytest.fixture(params=[(name, width, scheme) for name in PAGES for width in WIDTHS for scheme in ("light", "dark")])
def page(opened: Open, request: pytest.FixtureRequest) -> Page:
    name, width, scheme = request.param
    return opened(PAGES[name], viewport={"width": width, "height": 900}, color_scheme=scheme).page


def test_everything_is_within_the_window(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= page.evaluate("innerWidth")
    assert page.evaluate(OUTSIDE) == []


def test_no_table_scrolls_sideways_and_no_text_is_clipped(page: Page) -> None:
    assert page.evaluate(SCROLLED) == []
    assert page.evaluate(CLIPPED) == []


@pytest.mark.parametrize("name", PAGES)
def test_the_answer_is_on_the_first_screen_of_a_telephone(opened: Open, name: str) -> None:
    box = opened(PAGES[name], viewport={"width": 390, "height": 844}).page.locator(".lead").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 844


@pytest.mark.parametrize("variants", range(1, 10))
def test_cards_fill_their_rows_and_none_is_left_alone(opened: Open, variants: int) -> None:
    result = simulated(workloads=2, days=4, points=8)
    many = [msgspec.structs.replace(result.variants[0], name=str(number)) for number in range(variants)]
    rows = opened(simulation_page(msgspec.structs.replace(result, variants=many))).page.evaluate(ROWS_OF_CARDS)
    assert sum(map(len, rows)) == variants
    assert max(map(len, rows)) - min(map(len, rows)) <= 1
    assert max(map(len, rows)) <= 4
    assert all(abs(sum(row) + 14 * (len(row) - 1) - 1192) <= 4 for row in rows)


@pytest.mark.parametrize("name", PAGES)
def test_more_cost_is_not_shown_in_the_colour_of_what_is_worse(opened: Open, name: str) -> None:
    page = opened(PAGES[name]).page
    worse = page.locator(".card .price .diff.bad, #containers-table .diff.bad, #namespaces-table .diff.bad")
    assert worse.count() == 0
