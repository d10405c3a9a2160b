"""Proposed buckets for people and for programs: a function for each form, by the names that a command line has."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trellis.core.advice.advised import Advised
from trellis.reports.bucket_document import as_csv, as_json, as_yaml
from trellis.reports.bucket_html import as_html
from trellis.reports.bucket_markdown import as_markdown
from trellis.reports.bucket_text import as_text
from trellis.reports.suggested import Proposals, proposals_for

__all__ = ["FORMS", "as_text", "proposals_for", "written"]


def _table(proposals: Proposals, width: int, top: int) -> str:
    return "\n".join(as_text(proposals, width, top)) + "\n"


# Proposals, the width of a line and how many workloads in; the last two matter to people only.
FORMS: Mapping[str, Callable[[Proposals, int, int], str]] = {
    "table": _table,
    "json": lambda proposals, _width, _top: as_json(proposals).decode(),
    "yaml": lambda proposals, _width, _top: as_yaml(proposals),
    "csv": lambda proposals, _width, _top: as_csv(proposals),
    "html": lambda proposals, _width, _top: as_html(proposals),
    "markdown": lambda proposals, _width, top: as_markdown(proposals, top),
}


def written(advised: Advised, form: str, width: int = 100, top: int = 0) -> str:
    """Buckets for what was surveyed, in one of the forms."""
    return FORMS[form](proposals_for(advised), width, top)
