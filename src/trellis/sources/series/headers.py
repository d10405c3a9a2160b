"""Which column of a table is what? Known by its name, which says the unit as well.

| what | names |
|---|---|
| time | `timestamp`, `time`, `ts`, `datetime` |
| series | `series_id`, `series`, `id`, `name`; else `namespace`, `workload`, `pod`, `container`, as many as are there |
| cores | `cpu_cores`, `cpu`, `cpu_usage`, `cores`; `cpu_millicores`, `millicores`; `cpu_fraction` of a machine |
| bytes | `memory_max_bytes`, `memory_bytes`, `memory`, `memory_usage`; `memory_mib`, `memory_gib`; `memory_fraction` |

Where there are averages and maxima of memory, the maxima count: too little memory is a kill.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from trellis.base.errors import InvalidSeries
from trellis.base.names import nearest

_TIME: Final = ("timestamp", "time", "ts", "datetime", "date")
_SERIES: Final = ("series_id", "series", "id", "name")
_PARTS: Final = ("namespace", "workload", "pod", "container")
_CORES: Final = {
    "cpu_cores": 1.0,
    "cpu": 1.0,
    "cpu_usage": 1.0,
    "cpu_usage_cores": 1.0,
    "cores": 1.0,
    "cpu_millicores": 1e-3,
    "millicores": 1e-3,
}
_BYTES: Final = {
    "memory_max_bytes": 1.0,
    "memory_bytes": 1.0,
    "memory": 1.0,
    "memory_usage": 1.0,
    "memory_usage_bytes": 1.0,
    "mem_bytes": 1.0,
    "mem": 1.0,
    "memory_mib": 2.0**20,
    "memory_gib": 2.0**30,
}
_CPU_FRACTION: Final = "cpu_fraction"
_MEMORY_FRACTIONS: Final = ("memory_max_fraction", "memory_fraction")


class Machine(msgspec.Struct, frozen=True):
    """What a fraction is one of, where a trace says no more than fractions of its largest machine."""

    cores: float = 100.0
    bytes: float = 512.0 * 2**30


class Amount(msgspec.Struct, frozen=True):
    """A column of amounts, and what to multiply it by for cores or bytes."""

    column: int
    scale: float


class Roles(msgspec.Struct, frozen=True):
    """Columns by their number. Of several for one amount the first counts, and where it says nothing the next."""

    header: tuple[str, ...]
    time: int
    names: tuple[int, ...]
    cpu: tuple[Amount, ...]
    memory: tuple[Amount, ...]

    @property
    def columns(self) -> tuple[int, ...]:
        """All of them, in order."""
        return tuple(sorted({self.time, *self.names, *(each.column for each in (*self.cpu, *self.memory))}))


def roles_of(source: str, header: Sequence[str], machine: Machine) -> Roles:
    """What each column is for; `InvalidSeries` if there is no time, or nothing that was used."""
    known = {name.strip().lower(): number for number, name in enumerate(header)}
    time = next((known[name] for name in _TIME if name in known), None)
    there = ", ".join(name.strip() for name in header)
    if time is None:
        raise InvalidSeries(source, f"has no column `timestamp`; {_instead(_TIME, known)}its columns are {there}")
    cpu = [Amount(known[name], scale) for name, scale in _CORES.items() if name in known]
    if not cpu and _CPU_FRACTION in known:
        cpu = [Amount(known[_CPU_FRACTION], machine.cores)]
    memory = [Amount(known[name], scale) for name, scale in _BYTES.items() if name in known]
    if not memory:
        memory = [Amount(known[name], machine.bytes) for name in _MEMORY_FRACTIONS if name in known]
    if not cpu and not memory:
        guess = _instead((*_CORES, *_BYTES), known)
        raise InvalidSeries(source, f"has no column `cpu_cores` or `memory_bytes`; {guess}its columns are {there}")
    named = [known[name] for name in _SERIES if name in known][:1]
    names = named or [known[name] for name in _PARTS if name in known]
    return Roles(tuple(name.strip() for name in header), time, tuple(names), tuple(cpu[:1]), tuple(memory))


def _instead(wanted: Sequence[str], known: dict[str, int]) -> str:
    for name in known:
        if (guess := nearest(name, wanted)) is not None:
            return f"is `{name}` meant to be `{guess}`? "
    return ""
