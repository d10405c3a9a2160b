"""The list of recommenders and their parameters, as text and JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from trellis.controllers.recommender.plugins.catalog import CatalogEntry
from trellis.core.recommend.parameters import Parameter

_INDENT = " " * 6


def as_text(listed: Sequence[CatalogEntry], room: int = 0) -> Iterator[str]:
    """A line for each recommender, and one for each of its parameters, written as `--set` takes it.

    Lines are as long as they are, or broken at `room`.
    """
    for number, each in enumerate(listed):
        if number:
            yield ""
        kept = ", keeps hourly history" * each.needs_history + ", remembers runs" * each.needs_runs
        yield f"{each.name} ({f'{each.package} {each.version}' if each.package else 'built in'}{kept})"
        if each.problem:
            yield f"  cannot be used: {each.problem}"
        settings = [f"{parameter.name}={parameter.show(parameter.default)}" for parameter in each.parameters]
        width = max(map(len, settings), default=0)
        for setting, parameter in zip(settings, each.parameters, strict=True):
            line = f"  {setting:<{width}}  {parameter.accepts}: {parameter.meaning}"
            yield from textwrap.wrap(line, room or len(line), subsequent_indent=_INDENT, break_on_hyphens=False)


def as_json(listed: Sequence[CatalogEntry]) -> dict[str, Any]:
    """Everything, for scripts. The keys are part of the interface."""
    return {"recommenders": [_document(each) for each in listed]}


def _document(each: CatalogEntry) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": each.name,
        "builtIn": not each.package,
        "needsHistory": each.needs_history,
        "needsRuns": each.needs_runs,
        "parameters": [_parameter(parameter) for parameter in each.parameters],
    }
    if each.package:
        document |= {"package": each.package, "version": each.version}
    return document | ({"problem": each.problem} if each.problem else {})


def _parameter(parameter: Parameter) -> dict[str, Any]:
    """As the values of a parameter are written; bounds of a duration are such, too."""
    bounds = {"minimum": parameter.minimum, "maximum": parameter.maximum}
    shown = {name: parameter.show(bound) for name, bound in bounds.items() if bound is not None}
    return {
        "name": parameter.name,
        "type": str(parameter.kind),
        "unit": parameter.unit,
        "default": parameter.show(parameter.default),
        **shown,
        **({"choices": list(parameter.choices)} if parameter.choices else {}),
        "meaning": parameter.meaning,
    }
