"""How is a result written for programs? As JSON with everything in it, and as CSV with a row for each thing scored."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

Cell = str | float | int | None
_WHOLE = 1e6  # from here on fractions are of no use


def json_document(kind: str, result: msgspec.Struct) -> bytes:
    """Keys as elsewhere in Kubernetes; what is not known is null. The keys are part of the interface."""
    return msgspec.json.encode({"kind": kind, "formatVersion": 1, **_document(result)}) + b"\n"


def _document(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        found = {name: getattr(value, name) for name in value.__struct_fields__}
        return {_camel(name): _document(each) for name, each in found.items() if each is not msgspec.UNSET}
    if isinstance(value, list) and value and not isinstance(value[0], (int, float, str)):
        return [_document(each) for each in value]
    return value


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)


def csv_document(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A heading and rows; what is not known is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: Cell) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= _WHOLE else f"{value:.10g}"
    return str(value)
