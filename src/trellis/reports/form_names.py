"""By which names does a command line have the forms of a report? One function for each, given those that write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

T = TypeVar("T")

# What is reported, the width of a line and how many rows in; the last two matter to people only.
Form: TypeAlias = Callable[[T, int, int], str]


def named_forms(
    *,
    text: Callable[[T, int, int], Sequence[str]],
    json: Callable[[T], bytes],
    yaml: Callable[[T], str],
    csv: Callable[[T], str],
    html: Callable[[T], str],
    markdown: Callable[[T, int], str],
) -> Mapping[str, Form[T]]:
    """All of them."""
    return {
        "table": lambda what, width, top: "\n".join(text(what, width, top)) + "\n",
        "json": lambda what, _width, _top: json(what).decode(),
        "yaml": lambda what, _width, _top: yaml(what),
        "csv": lambda what, _width, _top: csv(what),
        "html": lambda what, _width, _top: html(what),
        "markdown": lambda what, _width, top: markdown(what, top),
    }
