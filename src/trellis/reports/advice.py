"""Advice for people and for programs: a function for each form, by the names that a command line has for them."""

from __future__ import annotations

from trellis.core.advice.advised import Advised
from trellis.reports.advice_document import as_csv, as_json, as_yaml
from trellis.reports.advice_files import Emitted, Files, manifest_files
from trellis.reports.advice_html import as_html
from trellis.reports.advice_markdown import as_markdown
from trellis.reports.advice_text import as_text
from trellis.reports.advice_words import named
from trellis.reports.form_names import named_forms

__all__ = ["FORMS", "Emitted", "Files", "as_text", "manifest_files", "named", "written"]


FORMS = named_forms(text=as_text, json=as_json, yaml=as_yaml, csv=as_csv, html=as_html, markdown=as_markdown)


def written(advised: Advised, form: str, width: int = 100, top: int = 0) -> str:
    """The advice in one of the forms."""
    return FORMS[form](advised, width, top)
