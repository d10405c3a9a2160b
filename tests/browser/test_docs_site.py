from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from support.browser_pages import OpenPage
from support.docs.site import INSTALLED, REASON, build_shared_site

pytestmark = [pytest.mark.skipif(not INSTALLED, reason=REASON), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_shared_site(tmp_path_factory)


@pytest.fixture
def home(browser: Browser, site: Path) -> Iterator[OpenPage]:
    """The home page, read from disk."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    context.set_default_timeout(60_000)
    opened = OpenPage(context.new_page())
    opened.page.goto((site / "index.html").as_uri())
    yield opened
    context.close()


def read_background(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_the_search_works_from_disk_without_the_network(home: OpenPage) -> None:
    page = home.page
    page.get_by_placeholder("Search").fill("NoProbe")
    page.get_by_placeholder("Search").press("Enter")
    result = page.locator("#search-results li", has=page.get_by_role("link", name="Reasons"))
    expect(result.locator("p.found")).to_contain_text("without a readiness or startup probe")
    expect(result.locator("mark").first).to_have_text("NoProbe")
    result.get_by_role("link").click()
    expect(page.get_by_role("heading", name="Reasons").first).to_be_visible()
    assert home.console_messages == []
    assert [url for url in home.request_urls if not url.startswith(("file:", "data:"))] == []


def test_a_button_chooses_light_and_dark_for_pictures_too(home: OpenPage) -> None:
    page = home.page
    light = read_background(page)
    button = page.locator(".theme-toggle-content button")
    while page.locator("body").get_attribute("data-theme") != "dark":
        button.click()
    assert read_background(page) != light
    assert page.evaluate("getComputedStyle(document.querySelector('article img')).colorScheme") == "dark"


def test_a_transcript_is_copied_without_prompts_and_output(home: OpenPage) -> None:
    page = home.page
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    block = page.locator(".highlight-console", has_text="trellis explain vpa/web").first
    block.hover()
    block.get_by_role("button", name="Copy").click()
    expect(block.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("window.copied") == "trellis explain vpa/web -n shop --dump examples/explain/shop.jsonl"


def test_no_page_is_wider_than_a_telephone(browser: Browser, site: Path) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    wide = []
    for name in ("index", "docs/reference/requirements", "docs/reference/cli", "examples/simulate/first.yaml"):
        page.goto((site / f"{name}.html").as_uri())
        if page.evaluate("document.documentElement.scrollWidth") > 390:
            wide.append(name)
    context.close()
    assert wide == []
