"""A real browser, where there is one: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from support.browser_pages import Open, OpenPage

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = ["--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """As long as a module needs it: Playwright's event loop runs meanwhile, and no other test could run one."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium; `python3 tools/browser.py` installs Debian's")
    with sync_playwright() as playwright:
        # Root, as in a container of CI, has no sandbox.
        result = playwright.chromium.launch(executable_path=CHROMIUM, args=[*QUIET, "--no-sandbox"])
        yield result
        result.close()


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens a report: `opened(html, color_scheme="dark")`; options are those of a browser's context."""
    contexts: list[BrowserContext] = []

    def opening(html: str, **options: object) -> OpenPage:
        file = tmp_path / f"report-{len(contexts)}.html"
        file.write_text(html, encoding="utf-8")
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))  # type: ignore[arg-type]
        context.set_default_timeout(60_000)
        contexts.append(context)
        opening = OpenPage(context.new_page())
        opening.page.goto(file.as_uri())
        return opening

    yield opening
    for context in contexts:
        context.close()
