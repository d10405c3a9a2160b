"""Addresses of the documentation that pages link to: a copy of the site that `make site` builds."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from trellis.base.errors import InvalidInput

_RULE = "must be the address of a site, such as https://docs.example.com/trellis: http or https, no query, no fragment"
_REASONS = "docs/reference/reasons.md"


class Documentation(msgspec.Struct, frozen=True):
    """Where the documentation is published, without a slash at the end; empty if it is not."""

    address: str = ""

    def locate(self, page: str, anchor: str = "") -> str:
        """The address of a page of the repository, such as `docs/guides/simulate.md`."""
        fragment = f"#{anchor}" if anchor else ""
        return f"{self.address}/{page.removesuffix('.md')}.html{fragment}"

    def locate_reason(self, code: str) -> str:
        """The address of a reason on the page of reasons."""
        return self.locate(_REASONS, code)


UNPUBLISHED = Documentation()


def parse_documentation(text: str) -> Documentation:
    """The documentation at an address that a user wrote."""
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidInput(text, _RULE) from error
    is_plain = text.isascii() and text.isprintable() and not set(text) & set(" \"'<>?#\\")
    if parts.scheme not in {"http", "https"} or not host or not is_plain:
        raise InvalidInput(text, _RULE)
    return Documentation(text.rstrip("/"))
