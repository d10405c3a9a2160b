"""The page of proposed buckets in a real browser."""

from __future__ import annotations

import pytest

from lived_surveys import living_shop
from opened_pages import Open
from sample_surveys import NOW
from trellis.base.prices import EXAMPLE_PRICES
from trellis.core.advice.advise import advise
from trellis.core.advice.policy import Policy
from trellis.reports.buckets import written

PAGE = written(advise(living_shop(), Policy(), EXAMPLE_PRICES, NOW), "html")


def test_it_says_nothing_in_the_console_and_asks_nobody_for_anything(opened: Open) -> None:
    report = opened(PAGE)
    assert report.page.locator("details").count() == 5
    report.page.locator("summary").first.click()
    assert "kind: Hvpa" in report.page.locator("pre").first.inner_text()
    assert report.said == []
    assert [url for url in report.asked if not url.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_but_tables_is_wider_than_the_window(opened: Open, width: int) -> None:
    page = opened(PAGE, viewport={"width": width, "height": 900}).page
    page.locator("summary").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
