"""The page of proposed buckets in a real browser."""

from __future__ import annotations

import msgspec
import pytest
import yaml
from playwright.sync_api import expect

from support.browser_pages import Open
from support.builders.surveys import NOW
from support.builders.surveys_over_time import recorded_shop
from trellis.base.prices import EXAMPLE_PRICES
from trellis.core.advice.advisor import advise
from trellis.core.advice.policy import AdvicePolicy
from trellis.reports.buckets.report import render_buckets

SHOP = recorded_shop()
PAGE = render_buckets(advise(SHOP, AdvicePolicy(), EXAMPLE_PRICES, NOW), "html")


def test_it_leaves_the_console_silent_and_sends_no_requests(opened: Open) -> None:
    report = opened(PAGE)
    assert report.page.locator("details").count() == 5
    report.page.locator("summary").first.click()
    assert "kind: Hvpa" in report.page.locator("pre").first.inner_text()
    assert report.console_messages == []
    assert [url for url in report.request_urls if not url.startswith(("file:", "data:"))] == []


def test_each_proposal_draws_its_ladder_with_demand_over_time(opened: Open) -> None:
    page = opened(PAGE, java_script_enabled=False).page
    ladders = page.locator("svg.ladder:visible")
    assert ladders.count() == 5
    for ladder in ladders.all():
        table = ladder.locator("xpath=ancestor::section").locator("table").first
        assert ladder.locator("rect.rung").count() == table.locator("tbody tr").count()
        demand, base = ladder.locator("path.demand").bounding_box(), ladder.locator("path.base").bounding_box()
        assert demand is not None
        assert base is not None
        assert demand["width"] > 0.95 * base["width"]


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_but_tables_is_wider_than_the_window(opened: Open, width: int) -> None:
    page = opened(PAGE, viewport={"width": width, "height": 900}).page
    page.locator("summary").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_button_copies_the_manifest_beside_it(opened: Open) -> None:
    page = opened(PAGE, permissions=["clipboard-read", "clipboard-write"]).page
    page.locator("summary").nth(1).click()
    page.get_by_role("button", name="Copy the manifest of shop/web").click()
    expect(page.locator("#copied")).to_have_text("Copied to the clipboard")
    manifest = yaml.safe_load(page.evaluate("navigator.clipboard.readText()"))
    assert (manifest["kind"], manifest["metadata"]["name"]) == ("Hvpa", "web")


def test_a_table_leads_to_each_of_many_workloads(opened: Open) -> None:
    workloads = [
        msgspec.structs.replace(workload, namespace=f"team-{number}")
        for number in range(2)
        for workload in SHOP.workloads
    ]
    survey = msgspec.structs.replace(SHOP, workloads=workloads)
    page = opened(render_buckets(advise(survey, AdvicePolicy(), EXAMPLE_PRICES, NOW), "html")).page
    rows = page.locator("#list-table tbody tr:not([hidden])")
    assert rows.count() == 10
    page.locator("#list-filter").fill("team-1/web")
    assert rows.count() == 1
    link = rows.first.get_by_role("link")
    section = page.locator(str(link.get_attribute("href")))
    assert section.locator("h2").inner_text() == "team-1/web"
