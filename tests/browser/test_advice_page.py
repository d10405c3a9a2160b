from __future__ import annotations

import pytest
import yaml
from playwright.sync_api import expect

from support.browser_pages import Open
from support.builders.surveys import NOW, generated_survey, shop, with_usage
from trellis.base.prices import EXAMPLE_PRICES
from trellis.core.advice.advisor import advise
from trellis.core.advice.policy import AdvicePolicy
from trellis.reports.advice.report import render_advice

PAGE = render_advice(advise(with_usage(shop()), AdvicePolicy(), EXAMPLE_PRICES, NOW), "html")
LARGE = render_advice(advise(generated_survey(300), AdvicePolicy(), EXAMPLE_PRICES, NOW), "html")


def test_it_leaves_the_console_silent_and_sends_no_requests(opened: Open) -> None:
    report = opened(PAGE)
    expect(report.page.locator("#containers-count")).to_have_text("8 in total")
    assert report.console_messages == []
    assert [url for url in report.request_urls if not url.startswith(("file:", "data:"))] == []


def test_containers_are_sorted_by_a_click(opened: Open) -> None:
    page = opened(PAGE).page
    rows = page.locator("#containers-table tbody tr")
    assert rows.first.locator("td").nth(1).inner_text().splitlines() == ["risk of OOM kill", "MemoryAtRisk"]
    for column in ("2", "4", "6", "7"):
        page.locator(f"#containers-table th[data-column='{column}']").get_by_role("button").click()
        values = [row.locator("td").nth(int(column)).get_attribute("data-v") or "nan" for row in rows.all()]
        assert values == sorted(values, key=float, reverse=True)


def test_containers_are_found_by_name_kind_and_reason(opened: Open) -> None:
    page = opened(LARGE).page
    field = page.locator("#containers-filter")
    field.fill("team-03/")
    expect(page.locator("#containers-count")).to_have_text("20 of 300 shown")
    field.fill("deployment memoryatrisk")
    shown = page.locator("#containers-table tbody tr:not([hidden]) td:nth-child(2) .code").all_inner_texts()
    assert set(shown) == {"MemoryAtRisk"}
    field.fill("risk of OOM kill")
    assert len(page.locator("#containers-table tbody tr:not([hidden])").all()) >= len(shown)


def test_of_many_containers_the_first_are_shown_until_the_reader_asks_for_all(opened: Open) -> None:
    page = opened(LARGE).page
    rows = page.locator("#containers-table tbody tr:not([hidden])")
    assert rows.count() == 100
    expect(page.locator("#containers-count")).to_have_text("100 of 300 shown")
    head = page.locator("#containers-table th[data-column='2']")
    head.get_by_role("button").click()
    pods = [
        int(row.get_attribute("data-v") or 0) for row in page.locator("#containers-table td[data-v]:nth-child(3)").all()
    ]
    shown = [int(row.locator("td").nth(2).get_attribute("data-v") or 0) for row in rows.all()]
    assert shown == sorted(pods, reverse=True)[:100]
    page.get_by_role("button", name="Show 200 more").click()
    assert rows.count() == 300
    expect(page.locator("#containers-count")).to_have_text("300 in total")


def test_the_button_of_a_row_copies_the_resources_of_its_container(opened: Open) -> None:
    page = opened(PAGE, permissions=["clipboard-read", "clipboard-write"]).page
    button = page.get_by_role("button", name="Copy the resources of shop/search engine as YAML")
    button.click()
    expect(button).to_have_text("Copied")
    expect(page.locator("#copied")).to_have_text("Copied to the clipboard")
    text = page.evaluate("navigator.clipboard.readText()")
    requests = {"cpu": "1250m", "memory": "6656Mi"}
    assert yaml.safe_load(text) == {"resources": {"requests": requests, "limits": {"memory": "6656Mi"}}}


def test_rows_have_sparklines_where_there_is_usage(opened: Open) -> None:
    page = opened(PAGE).page
    sparklines = page.locator("#containers-table tbody tr").first.locator("svg.spark")
    assert sparklines.count() == 2
    assert sparklines.first.locator("path.usage, path.before, path.after").count() == 4  # usage has a gap
    assert "requested 1, advised 320m" in str(sparklines.first.locator("title").text_content())
    last = page.locator("#containers-table tbody tr", has_text="team-a/quiet")
    assert last.locator("svg.spark").count() == 0


def test_savings_of_namespaces_are_bars_in_proportion(opened: Open) -> None:
    page = opened(PAGE).page
    widths = [bar.bounding_box() for bar in page.locator("#namespaces-table .bar").all()]
    assert len(widths) == 2
    saved, more = (box["width"] for box in widths if box is not None)
    assert 0 < more < saved / 5
    assert page.locator("#namespaces-table .bar.good").count() == 1


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_but_tables_is_wider_than_the_window(opened: Open, width: int) -> None:
    page = opened(PAGE, viewport={"width": width, "height": 900}).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_without_scripts_every_figure_is_there(opened: Open) -> None:
    page = opened(PAGE, java_script_enabled=False).page
    assert page.locator("#containers-table tbody tr:visible").count() == 8
    assert page.locator("#namespaces tbody tr").count() == 4
    assert not page.locator("#containers-filter").is_visible()
