"""A page in a browser: its console messages, and its requests."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page


class OpenPage:
    """Listens from the beginning."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.console_messages: list[str] = []
        self.request_urls: list[str] = []
        page.on("console", lambda message: self.console_messages.append(message.text))
        page.on("pageerror", lambda error: self.console_messages.append(str(error)))
        page.on("request", lambda request: self.request_urls.append(request.url))


Open = Callable[..., OpenPage]
