"""Units of amounts by the suffix of a column's name, as factors to cores or bytes."""

from __future__ import annotations

from typing import Final

import msgspec

CORES: Final = {"cores": 1.0, "millicores": 1e-3}
SIZES: Final = {
    "bytes": 1.0,
    "kib": 2.0**10,
    "mib": 2.0**20,
    "gib": 2.0**30,
    "kb": 1e3,
    "mb": 1e6,
    "gb": 1e9,
}
FRACTION: Final = "fraction"


class Machine(msgspec.Struct, frozen=True):
    """The machine that fractions refer to, for traces that only have fractions of their largest machine."""

    cores: float = 100.0
    bytes: float = 512.0 * 2**30


class AmountColumn(msgspec.Struct, frozen=True):
    """A column of amounts, and what to multiply it by for cores or bytes."""

    column: int
    scale: float


def get_cpu_units(machine: Machine) -> dict[str, float]:
    """All units of CPU, including a fraction of a machine."""
    return CORES | {FRACTION: machine.cores}
