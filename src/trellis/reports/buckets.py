"""Proposed buckets for people and for programs: a function for each form, by the names that a command line has."""

from __future__ import annotations

from trellis.core.advice.advised import Advised
from trellis.reports.bucket_document import as_csv, as_json, as_yaml
from trellis.reports.bucket_html import as_html
from trellis.reports.bucket_markdown import as_markdown
from trellis.reports.bucket_text import as_text
from trellis.reports.form_names import named_forms
from trellis.reports.suggested import proposals_for

__all__ = ["FORMS", "as_text", "proposals_for", "written"]


FORMS = named_forms(text=as_text, json=as_json, yaml=as_yaml, csv=as_csv, html=as_html, markdown=as_markdown)


def written(advised: Advised, form: str, width: int = 100, top: int = 0) -> str:
    """Buckets for what was surveyed, in one of the forms."""
    return FORMS[form](proposals_for(advised), width, top)
