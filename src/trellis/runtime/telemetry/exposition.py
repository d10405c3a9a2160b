"""Prometheus's text format, version 0.0.4, with the names of metrics as they were declared.

The client library's own writer differs from Go's, and so from upstream's. It adds `_total` to every counter, and four
of upstream's have no such suffix. It writes the time at which each series began as one more series. It writes numbers
as Python does, 1.0 and 1000000.0, where Go's library writes 1 and 1e+06: in the bounds of a histogram these are
different labels. It writes labels in the order of declaration, where upstream's are sorted.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from decimal import Decimal
from typing import Final

from prometheus_client import Metric
from prometheus_client.samples import Sample

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_TOTAL: Final = "_total"
# The library's names for types that this version of the format does not know.
_TYPES: Final = {"unknown": "untyped", "info": "gauge", "stateset": "gauge", "gaugehistogram": "histogram"}
# From here on Go writes an exponent.
_LARGE: Final = 6
_SMALL: Final = -4
# The bound of a bucket comes after the sorted labels.
_BOUND: Final = "le"
_HELP: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})
_VALUE: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def format_families(families: Iterable[Metric], declared: Collection[str]) -> bytes:
    """The families as text; `declared` are the names that counters keep even if they have no `_total`."""
    return "".join(text for family in families for text in _format_family(family, declared)).encode()


def _format_family(family: Metric, declared: Collection[str]) -> Iterator[str]:
    plain = family.type == "counter" and family.name in declared
    name = family.name + _TOTAL if family.type == "counter" and not plain else family.name
    name = family.name + "_info" if family.type == "info" else name
    yield f"# HELP {name} {family.documentation.translate(_HELP)}\n"
    yield f"# TYPE {name} {_TYPES.get(family.type, family.type)}\n"
    for sample in family.samples:
        if sample.name == f"{family.name}_created":
            continue
        yield _format_sample(sample.name.removesuffix(_TOTAL) if plain else sample.name, sample)


def _format_sample(name: str, sample: Sample) -> str:
    pairs = sorted(sample.labels.items(), key=lambda label: (label[0] == _BOUND, label[0]))
    labels = ",".join(f'{label}="{value.translate(_VALUE)}"' for label, value in pairs)
    return (
        f"{name}{{{labels}}} {format_number(sample.value)}\n" if labels else f"{name} {format_number(sample.value)}\n"
    )


def format_number(value: float) -> str:
    """A number as Go writes it: the fewest digits that tell it from others."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    value = float(value)
    if value.is_integer() and abs(value) < 10**_LARGE:
        return str(int(value))
    # The shortest digits are Python's, too; only where it writes an exponent differs.
    exact = Decimal(repr(value)).normalize()
    power = exact.adjusted()
    if _SMALL <= power < _LARGE:
        return f"{exact:f}"
    return f"{exact.scaleb(-power):f}e{power:+03d}"
