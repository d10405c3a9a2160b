"""Advice for people and for programs: a function for each form, by the names that a command line has for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trellis.core.advice.advised import Advised
from trellis.reports.advice_document import as_csv, as_json, as_yaml
from trellis.reports.advice_files import Emitted, Files, manifest_files
from trellis.reports.advice_html import as_html
from trellis.reports.advice_markdown import as_markdown
from trellis.reports.advice_text import as_text
from trellis.reports.advice_words import named

__all__ = ["FORMS", "Emitted", "Files", "as_text", "manifest_files", "named", "written"]


def _table(advised: Advised, width: int, top: int) -> str:
    return "\n".join(as_text(advised, width, top)) + "\n"


# Advice, the width of a line and how many rows in; the last two matter to people only.
FORMS: Mapping[str, Callable[[Advised, int, int], str]] = {
    "table": _table,
    "json": lambda advised, _width, _top: as_json(advised).decode(),
    "yaml": lambda advised, _width, _top: as_yaml(advised),
    "csv": lambda advised, _width, _top: as_csv(advised),
    "html": lambda advised, _width, _top: as_html(advised),
    "markdown": lambda advised, _width, top: as_markdown(advised, top),
}


def written(advised: Advised, form: str, width: int = 100, top: int = 0) -> str:
    """The advice in one of the forms."""
    return FORMS[form](advised, width, top)
