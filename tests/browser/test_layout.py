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
    fifth = msgspec.structs.replace(variants[1], name="fifth", title="Buffer in working hours")
    return msgspec.structs.replace(result, variants=[*variants, fifth])


def _on_nodes(result: RunResult) -> RunResult:
    """With nodes that come and go."""
    variants = [
        msgspec.structs.replace(
            variant, chart=msgspec.structs.replace(variant.chart, nodes=[3.0 + at % 4 for at in range(24)])
        )
        for variant in result.variants
    ]
    return msgspec.structs.replace(result, variants=variants)


SURVEY = advise(with_usage(shop()), AdvicePolicy(), EXAMPLE_PRICES, NOW)
LARGE = advise(with_usage(generated_survey(60)), AdvicePolicy(), EXAMPLE_PRICES, NOW)
PAGES = {
    "advice": render_advice(SURVEY, "html"),
    "large advice": render_advice(LARGE, "html"),
    "advice without usage": render_advice(advise(shop(), AdvicePolicy(), EXAMPLE_PRICES, NOW), "html"),
    "buckets": render_buckets(advise(recorded_shop(), AdvicePolicy(), EXAMPLE_PRICES, NOW), "html"),
    "simulation": simulation_page(_on_nodes(_scaled(simulated(workloads=8, days=4, points=24)))),
    "backtest": backtest_page(backtested(series=6)),
}
WIDTHS = (1280, 390)

# Elements that reach beyond the window to the right, other than within what scrolls or is hidden.
OUTSIDE = """() => [...document.querySelectorAll("body *")].filter((element) => {
  const box = element.getBoundingClientRect();
  const unseen = !box.width || !box.height || element.closest(".unseen, .scroll, [hidden], [clip-path]");
  return !unseen && (box.right > innerWidth + 1 || box.left < -1);
}).map((element) => `${element.tagName}.${element.className} ${element.textContent.slice(0, 40)}`)"""
# Containers that scroll sideways.
SCROLLED = """() => [...document.querySelectorAll(".scroll")].filter(
  (element) => element.scrollWidth > element.clientWidth + 1
).map((element) => element.closest("section").id)"""
# Cells whose text is wider than the cell, and parts of cards and cells that cover one another.
CLIPPED = """() => [...document.querySelectorAll("td, th, dt, dd, .price, h1, h2, h3")].filter((element) => {
  const style = getComputedStyle(element);
  return element.clientWidth && style.display !== "none" && element.scrollWidth > element.clientWidth + 2
    && !element.closest(".unseen") && !element.querySelector("button");
}).map((element) => `${element.tagName} ${element.textContent.trim().slice(0, 40)}`)"""
# Letters of drawings that are smaller than 10 px, or overlap.
LETTERS = """() => [...document.querySelectorAll("svg.drawing")].filter((svg) => svg.clientWidth).flatMap((svg) => {
  const texts = [...svg.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
  const scale = svg.clientWidth / svg.viewBox.baseVal.width;
  const small = texts.filter(() => 11.5 * scale < 10).map(([text]) => `small: ${text}`);
  const inset = 2;
  return [...small, ...texts.flatMap(([text, box], at) => texts.slice(at + 1).filter(([, other]) =>
    box.left + inset < other.right && other.left + inset < box.right
      && box.top + inset < other.bottom && other.top + inset < box.bottom).map(([other]) => `${text} / ${other}`))];
})"""
# Texts with less contrast than WCAG's level AA asks for; svg letters lie on what their drawing lies on.
FAINT = """() => {
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => [0.2126, 0.7152, 0.0722].reduce((sum, share, at) => {
    const part = colour[at] / 255;
    return sum + share * (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  }, 0);
  const ground = (element) => {
    const colour = parse(getComputedStyle(element).backgroundColor);
    return (colour[3] === undefined || colour[3] > 0.99) ? colour : ground(element.parentElement);
  };
  const faint = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (!text || !element.getClientRects().length || element.localName === "title") continue;
    const svg = element.closest("svg");
    const style = getComputedStyle(element);
    const ink = light(parse(svg ? style.fill : style.color));
    const paper = light(ground(svg ? svg.parentElement : element));
    if ((Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05) < 4.5) faint.add(text);
  }
  return [...faint];
}"""
# Drawings, headings of columns and controls that a screen reader cannot name.
NAMELESS = """() => [
  ...[...document.querySelectorAll("svg:not([aria-hidden])")].filter((svg) => svg.getAttribute("role") !== "img"
    || !(svg.getAttribute("aria-label") || svg.querySelector("title"))),
  ...document.querySelectorAll("th:not([scope])"),
  ...[...document.querySelectorAll("button, select, input")].filter((control) =>
    !control.getAttribute("aria-label") && !control.textContent.trim() && !(control.labels && control.labels.length)),
].map((element) => element.outerHTML.slice(0, 80))"""
# How far apart the figures of a measure end, where the variants stand below one another.
UNALIGNED = """() => [...document.querySelectorAll(".compare tbody tr:not(.heading)")].map((row) => {
  const ends = [...row.querySelectorAll("td")].map((cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell.firstChild);
    return range.getBoundingClientRect().right;
  });
  return [row.querySelector("th").textContent.trim(), Math.max(...ends) - Math.min(...ends)];
}).filter(([, apart]) => apart > 1)"""
# Lines below the title of a group of measures.
RULES_BELOW_TITLES = """() => [...document.querySelectorAll(".compare .heading")].map((row) =>
  [row, row.firstElementChild].filter((element) => parseFloat(getComputedStyle(element).borderBottomWidth)).length)"""
ROWS_OF_CARDS = """() => {
  const rows = new Map();
  for (const card of document.querySelectorAll(".card")) {
    const { top, width } = card.getBoundingClientRect();
    rows.set(Math.round(top), [...(rows.get(Math.round(top)) || []), Math.round(width)]);
  }
  return [...rows.values()];
}"""


# Figures of cards beside one another that are not on one line.
UNEVEN_CARDS = """() => {
  const tops = new Map();
  for (const card of document.querySelectorAll(".card")) {
    const row = Math.round(card.getBoundingClientRect().top);
    for (const term of card.querySelectorAll("dt")) {
      const key = `${row} ${term.textContent}`;
      tops.set(key, [...(tops.get(key) || []), term.getBoundingClientRect().top]);
    }
  }
  return [...tops].filter(([, values]) => Math.max(...values) - Math.min(...values) > 1).map(([key]) => key);
}"""


@pytest.fixture(params=[(name, width, scheme) for name in PAGES for width in WIDTHS for scheme in ("light", "dark")])
def page(opened: Open, request: pytest.FixtureRequest) -> Page:
    name, width, scheme = request.param
    return opened(PAGES[name], viewport={"width": width, "height": 900}, color_scheme=scheme).page


def test_everything_is_within_the_window(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= page.evaluate("innerWidth")
    assert page.evaluate(OUTSIDE) == []


def test_nothing_scrolls_sideways_and_no_text_is_clipped(page: Page) -> None:
    assert page.evaluate(SCROLLED) == []
    assert page.evaluate(CLIPPED) == []


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_cut_off_on_paper(opened: Open, name: str) -> None:
    page = opened(PAGES[name], viewport={"width": 703, "height": 1000}).page  # A4 within its margins
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 703
    assert page.evaluate(SCROLLED) == []


def test_letters_of_drawings_are_legible_and_do_not_overlap(page: Page) -> None:
    assert page.evaluate(LETTERS) == []


def test_every_text_has_contrast_and_every_part_a_name(page: Page) -> None:
    assert page.evaluate(FAINT) == []
    assert page.evaluate(NAMELESS) == []


@pytest.mark.parametrize("name", ["backtest", "buckets", "simulation"])
def test_a_drawing_is_shown_once_and_fills_a_telephone(opened: Open, name: str) -> None:
    page = opened(PAGES[name], viewport={"width": 390, "height": 844}).page
    shown = page.locator("svg.drawing:visible")
    assert 2 * shown.count() == page.locator("svg.drawing").count() > 0
    assert page.locator("svg.wide-screen:visible").count() == 0
    box = shown.first.bounding_box()
    assert box is not None
    assert box["width"] > 300


@pytest.mark.parametrize("name", PAGES)
def test_the_answer_is_on_the_first_screen_of_a_telephone(opened: Open, name: str) -> None:
    box = opened(PAGES[name], viewport={"width": 390, "height": 844}).page.locator(".lead").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 844


def test_figures_of_variants_are_aligned_on_a_telephone_and_one_line_is_below_each_title(opened: Open) -> None:
    page = opened(PAGES["simulation"], viewport={"width": 390, "height": 844}).page
    assert page.evaluate(UNALIGNED) == []
    assert set(page.evaluate(RULES_BELOW_TITLES)) == {1}


def test_a_click_on_a_key_isolates_the_line_of_nodes_too(opened: Open) -> None:
    page = opened(PAGES["simulation"]).page
    lines = page.locator("svg.wide-screen path[data-variant]:visible")
    assert lines.count() == 5
    page.locator("#fleet-legend").get_by_role("button", name="Buffer in working hours").click()
    assert lines.count() == 1


@pytest.mark.parametrize("width", [1280, 1024, 800])
def test_figures_of_cards_beside_one_another_are_on_one_line(opened: Open, width: int) -> None:
    page = opened(PAGES["simulation"], viewport={"width": width, "height": 900}).page
    assert page.evaluate(UNEVEN_CARDS) == []


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
