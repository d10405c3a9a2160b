"""Renders HTML pages from the templates of this package: style, data and scripts in one file.

Every template is escaped (autoescape), and a name that a template uses and a page does not give is an error. Only
this module declares text as markup: packaged files, and data for scripts. Jinja2 is imported for the first page.

Figures get a real minus and dash, and a colour for better or worse; the sign says the same without colour.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import msgspec

from trellis.reports.html.documentation import Documentation
from trellis.reports.measures import COSTS_MORE
from trellis.reports.text.numbers import NO_VALUE

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

# Classes in report.css for values that are better, neither, worse, and more of a cost.
_TRENDS = {1: "good", 0: "even", -1: "bad", COSTS_MORE: "more"}


class Difference(msgspec.Struct, frozen=True):
    """A difference with the class of its colour."""

    text: str
    trend: str


class TableCell(msgspec.Struct, frozen=True):
    """A cell of a table: its text, the value it is sorted by, its classes, and a trend if it is a difference."""

    text: str
    order: str | None = None
    classes: str = ""
    trend: str = ""


class ColumnHead(msgspec.Struct, frozen=True):
    """The heading of a column that a table is sorted by."""

    title: str
    sort: str = "number"
    classes: str = ""
    meaning: str = ""


class ColumnGroup(msgspec.Struct, frozen=True):
    """A heading above several columns."""

    title: str
    columns: int


def make_difference(text: str, improvement: int) -> Difference | None:
    """A difference that is better (1), the same (0), worse (-1) or costs more; none for an empty text."""
    return Difference(text, _TRENDS[improvement]) if text else None


def number_cell(text: str, value: float, *, begins: bool = False) -> TableCell:
    """A cell that is sorted by its value; zero is muted. `begins` marks the first column of a group."""
    classes = " ".join(["none"] * (text in {"0", "0 %", NO_VALUE}) + ["part"] * begins)
    return TableCell(text, format_sort_value(value), classes)


def difference_cell(text: str, improvement: int, value: float | None = None) -> TableCell:
    """A cell with a difference in its colour; sorted by the value, if there is one."""
    return TableCell(
        text, None if value is None else format_sort_value(value), trend=_TRENDS[improvement] if text else ""
    )


def list_spans(cards: int) -> list[int]:
    """How many twelfths of a row each card takes: rows of at most four, as even as they can be, so none is alone."""
    rows = -(-cards // 4)
    sizes = [cards // rows + (row < cards % rows) for row in range(rows)] if cards else []
    return [12 // size for size in sizes for _ in range(size)]


def format_sort_value(value: float) -> str:
    """The value as scripts read it; empty where it is unknown."""
    return f"{value:.6g}" if value == value else ""  # noqa: PLR0124 (NaN is not itself)


def typeset(text: str) -> str:
    """A figure with the minus, dash, multiplication sign and spaces of print."""
    if text == NO_VALUE:
        return "\N{EN DASH}"
    signed = f"\N{MINUS SIGN}{text[1:]}" if text.startswith("-") else text
    unbroken = signed.replace(" ", "\N{NO-BREAK SPACE}")
    return f"{unbroken[:-1]}\N{MULTIPLICATION SIGN}" if unbroken.endswith("x") else unbroken


def keep_together(sentence: str) -> str:
    """A sentence with no line end before per cent signs and after `(baseline:`; bracketed figures have a real minus."""
    joined = sentence.replace(" %", "\N{NO-BREAK SPACE}%").replace("(-", "(\N{MINUS SIGN}")
    return re.sub(r"(\(\w+:) ", "\\1\N{NO-BREAK SPACE}", joined)


def render_page(
    template: str,
    script: str,
    data: Any,
    documentation: Documentation,
    *,
    title: str,
    kind: str,
    heading: str,
    facts: Sequence[str],
    **context: Any,
) -> str:
    """The document. `data` is what the page's own script draws; `script` is the name of its file."""
    head = {"title": title, "kind": kind, "heading": heading, "facts": facts, "documentation": documentation}
    return str(render_template(template, script=script, data=data, **head, **context))


def render_template(name: str, **context: Any) -> Markup:
    """A template's output, which other templates may include as it is."""
    from markupsafe import Markup  # noqa: PLC0415 -- see load_environment

    return Markup(load_environment().get_template(name).render(context))  # noqa: S704 -- escaped by the template


@cache
def load_environment() -> Environment:
    """The templates of all pages with their filters."""
    # A twentieth of a second, for those who render a page.
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415

    environment = Environment(
        loader=PackageLoader("trellis.reports.html", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )
    environment.filters["typeset"] = typeset
    environment.filters["keep_together"] = keep_together
    environment.filters["embed_json"] = _embed_json
    environment.globals["packaged"] = _load_packaged
    environment.globals["card_spans"] = list_spans
    return environment


def embed_json(data: Any) -> str:
    """JSON that cannot end the element it stands in, whatever names are in it."""
    return msgspec.json.encode(data).decode().replace("<", "\\u003c")


def _embed_json(data: Any) -> Markup:
    from markupsafe import Markup  # noqa: PLC0415 -- see load_environment

    return Markup(embed_json(data))  # noqa: S704 -- has no `<`


def _load_packaged(name: str) -> Markup:
    """A style sheet or script of this package."""
    from markupsafe import Markup  # noqa: PLC0415 -- see load_environment

    return Markup(files(__package__).joinpath(name).read_text(encoding="utf-8"))  # noqa: S704 -- a file of this package
