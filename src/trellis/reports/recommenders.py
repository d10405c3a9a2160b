"""The list of recommenders and their parameters, as text and JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from trellis.controllers.recommender.plugins.catalog import CatalogEntry
from trellis.core.recommend.parameters import Parameter
from trellis.reports.text.tables import align_columns, wrap_line

_INDENT = " " * 6


def as_text(entries: Sequence[CatalogEntry], width: int = 0) -> Iterator[str]:
    """A line for each recommender, and one for each of its parameters, written as `--set` takes it.

    Lines are wrapped at `width`, if it is not zero.
    """
    for number, entry in enumerate(entries):
        if number:
            yield ""
        needs = ", keeps hourly history" * entry.needs_history + ", remembers runs" * entry.needs_runs
        origin = f"{entry.package} {entry.version}" if entry.package else "built in"
        yield from wrap_line(f"{entry.name} ({origin}{needs})", width)
        if entry.problem:
            yield from wrap_line(f"  cannot be used: {entry.problem}", width)
        for line in align_columns([_parameter_cells(parameter) for parameter in entry.parameters], left_aligned=2):
            yield from textwrap.wrap(line, width or len(line), subsequent_indent=_INDENT, break_on_hyphens=False)


def _parameter_cells(parameter: Parameter) -> tuple[str, str]:
    setting = f"{parameter.name}={parameter.format(parameter.default)}"
    return f"  {setting}", f"{parameter.accepts}: {parameter.meaning}"


def as_json(entries: Sequence[CatalogEntry]) -> dict[str, Any]:
    """The list for scripts. The keys are part of the interface."""
    return {"recommenders": [_document(entry) for entry in entries]}


def _document(entry: CatalogEntry) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": entry.name,
        "builtIn": not entry.package,
        "needsHistory": entry.needs_history,
        "needsRuns": entry.needs_runs,
        "parameters": [_parameter(parameter) for parameter in entry.parameters],
    }
    if entry.package:
        document |= {"package": entry.package, "version": entry.version}
    return document | ({"problem": entry.problem} if entry.problem else {})


def _parameter(parameter: Parameter) -> dict[str, Any]:
    """Values and bounds as a user writes them."""
    bounds = {"minimum": parameter.minimum, "maximum": parameter.maximum}
    shown = {name: parameter.format(bound) for name, bound in bounds.items() if bound is not None}
    return {
        "name": parameter.name,
        "type": str(parameter.kind),
        "unit": parameter.unit,
        "default": parameter.format(parameter.default),
        **shown,
        **({"choices": list(parameter.choices)} if parameter.choices else {}),
        "meaning": parameter.meaning,
    }
