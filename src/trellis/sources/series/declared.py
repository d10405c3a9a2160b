"""What is requested, and what are the limits, as far as files of usage say? In columns, or in a manifest beside them.

Names are as those of usage: `cpu_request_cores`, `memory_limit_mib`, `cpu_limit_fraction` of a machine. They may change
over time, and what they were at last counts.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from trellis.base.errors import InvalidSeries
from trellis.sources.amounts import bytes_of, cores_of
from trellis.sources.series.units import FRACTION, SIZES, Amount, Machine, cores_in

_RESOURCES: Final = ("cpu", "memory")
_KINDS: Final = ("request", "limit")


class Declared(msgspec.Struct, frozen=True):
    """Cores and bytes; NaN where nobody says."""

    cpu_request: float = math.nan
    memory_request: float = math.nan
    cpu_limit: float = math.nan
    memory_limit: float = math.nan

    @property
    def is_empty(self) -> bool:
        """Whether nobody says anything."""
        return all(math.isnan(value) for value in msgspec.structs.astuple(self))

    def over(self, other: Declared) -> Declared:
        """The same, and where nobody says, what the other says."""
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return Declared(*(second if math.isnan(first) else first for first, second in pairs))


def declared_columns(known: Mapping[str, int], machine: Machine) -> dict[str, Amount]:
    """Columns that say something of the kind, by the field of `Declared` that they are."""
    found: dict[str, Amount] = {}
    for resource in _RESOURCES:
        units = cores_in(machine) if resource == "cpu" else SIZES | {FRACTION: machine.bytes}
        for kind in _KINDS:
            names = [(f"{resource}_{kind}_{unit}", scale) for unit, scale in units.items()]
            for name, scale in reversed(names):
                if name in known:
                    found[f"{resource}_{kind}"] = Amount(known[name], scale)
    return found


def read_manifest(manifest: Path) -> tuple[list[str], list[list[str]]]:
    """The names of its columns, in small letters, and its rows; `InvalidSeries` if it cannot be read."""
    try:
        with manifest.open(encoding="utf-8-sig", newline="") as text:
            header, *rows = list(csv.reader(text)) or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidSeries(str(manifest), f"is no table that can be read: {error}") from error
    return [name.strip().lower() for name in header], rows


def declared_in(manifest: Path, machine: Machine) -> dict[str, Declared]:
    """What a manifest says of its series; `InvalidSeries` where that is no number."""
    header, rows = read_manifest(manifest)
    known = {name: number for number, name in enumerate(header)}
    columns = declared_columns(known, machine)
    series = next((known[name] for name in ("series_id", "series") if name in known), None)
    if series is None or not columns:
        return {}
    found: dict[str, Declared] = {}
    for line, row in enumerate(rows, start=2):
        if len(row) == len(header):
            said = {field: _amount(row[at.column].strip(), field, at) for field, at in columns.items()}
            for field, at in columns.items():
                if said[field] < 0 or math.isinf(said[field]):
                    rule = f'row {line}, column {header[at.column]}: "{row[at.column].strip()}" is no amount'
                    raise InvalidSeries(str(manifest), rule)
            found[row[series]] = Declared(**said)
    return found


def _amount(text: str, field: str, at: Amount) -> float:
    """Cores or bytes, from a number or a quantity, which says its unit itself; below 0 if it is neither."""
    try:
        return float(text or "nan") * at.scale
    except ValueError:
        [found], _ = (cores_of if field.startswith("cpu") else bytes_of)([text])
        return float(found) if at.scale == 1.0 and not np.isnan(found) else -1.0
