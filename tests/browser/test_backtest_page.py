from __future__ import annotations

from playwright.sync_api import expect

from support.browser_pages import Open
from support.builders.results import backtested
from trellis.reports.backtest.report import as_html

PAGE = as_html(backtested(series=12))


def test_it_draws_its_charts_with_a_silent_console_and_no_requests(opened: Open) -> None:
    report = opened(PAGE)
    page = report.page
    expect(page.locator("#series-chart .frame path.stroke")).not_to_have_count(0)
    assert page.locator("svg.frontier:visible circle.spot").count() == 6
    assert page.locator("#series-chart .frame path.area").count() == 2
    assert report.console_messages == []
    assert [url for url in report.request_urls if not url.startswith(("file:", "data:"))] == []


def test_scores_and_series_are_sorted_by_a_click(opened: Open) -> None:
    page = opened(PAGE).page
    for table, rows in (("table.sortable >> nth=0", 6), ("#series-table", 12)):
        locator = page.locator(table)
        head = locator.locator("thead th[data-column='2']")
        head.get_by_role("button").click()
        cells = locator.locator("tbody:not([hidden]) tr:not(.heading) > :nth-child(3)")
        values = [float(cell.get_attribute("data-v") or "nan") for cell in cells.all()]
        assert values == sorted(values, reverse=True)
        assert len(values) == rows


def test_what_is_not_known_comes_last_whichever_way_it_is_sorted(opened: Open) -> None:
    page = opened(PAGE).page
    head = page.locator("#series-table th[data-column='5']").get_by_role("button")
    last = page.locator("#series-table tbody:not([hidden]) tr:last-child td:first-child")
    for _ in range(2):
        head.click()
        assert last.inner_text() == "web-03/app"


def test_a_series_with_a_chart_is_shown_by_a_click_on_its_name(opened: Open) -> None:
    page = opened(PAGE).page
    page.locator("#series-table tbody:not([hidden])").get_by_role("button", name="web-02/app").click()
    assert page.locator("#series-select option:checked").inner_text() == "web-02/app"
    # Of the twelve four have a chart.
    assert page.locator("#series-table tbody:not([hidden])").get_by_role("button").count() == 4


def test_without_scripts_every_figure_is_there(opened: Open) -> None:
    page = opened(PAGE, java_script_enabled=False).page
    assert page.locator("svg.frontier:visible").count() == 1
    assert page.locator("#series-table tbody:visible").count() == 6
