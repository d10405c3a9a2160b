"""How are metrics served? As Prometheus's text format, version 0.0.4, with the names as they were declared.

The client library's own writer will not do. It adds `_total` to every counter, and four of upstream's have no such
ending, so that dashboards would look for them in vain. It also writes the time at which each series began, as one more
series.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from prometheus_client import Metric
from prometheus_client.samples import Sample

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_TOTAL: Final = "_total"
# The library's names for types that this version of the format does not know.
_TYPES: Final = {"unknown": "untyped", "info": "gauge", "stateset": "gauge", "gaugehistogram": "histogram"}
_HELP: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})
_VALUE: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def as_text(families: Iterable[Metric], declared: Collection[str]) -> bytes:
    """The families as text; `declared` are the names that counters keep even if they have no `_total`."""
    return "".join(line for family in families for line in _lines(family, declared)).encode()


def _lines(family: Metric, declared: Collection[str]) -> Iterator[str]:
    plain = family.type == "counter" and family.name in declared
    name = family.name + _TOTAL if family.type == "counter" and not plain else family.name
    name = family.name + "_info" if family.type == "info" else name
    yield f"# HELP {name} {family.documentation.translate(_HELP)}\n"
    yield f"# TYPE {name} {_TYPES.get(family.type, family.type)}\n"
    for sample in family.samples:
        if sample.name == f"{family.name}_created":
            continue
        yield _line(sample.name.removesuffix(_TOTAL) if plain else sample.name, sample)


def _line(name: str, sample: Sample) -> str:
    labels = ",".join(f'{label}="{value.translate(_VALUE)}"' for label, value in sample.labels.items())
    return f"{name}{{{labels}}} {_number(sample.value)}\n" if labels else f"{name} {_number(sample.value)}\n"


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
