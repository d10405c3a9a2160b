"""Assigns a role to each column of a table by its name, which says the unit as well.

| role | names |
|---|---|
| time | `timestamp`, `time`, `ts`, `datetime` |
| series | `series_id`, `series`, `id`, `name`; else `namespace`, `workload`, `pod`, `container`, as many as there are |
| cores | `cpu_cores`, `cpu`, `cpu_usage`, `cores`; `cpu_millicores`, `millicores`; `cpu_fraction` of a machine |
| seconds of CPU so far | `cpu_usage_seconds_total`, `cpu_seconds_total`, where there is nothing else of CPU |
| bytes | `memory_bytes`, `memory`, `memory_usage`; `memory_mib`, `memory_gib`, `memory_mb` ...; `memory_fraction` |
| requests and limits | `cpu_request_cores`, `memory_limit_mib`, `cpu_limit_fraction` ...; the last value counts |

Before CPU and memory `container_` may stand, as in the names of cAdvisor's metrics.
What an amount is of its interval may stand before the unit: `cpu_avg_cores`, `memory_max_bytes`. Where there are
averages and maxima, averages of CPU count and maxima of memory: too little memory is a kill.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from trellis.base.errors import InvalidSeries
from trellis.base.names import suggest_name
from trellis.sources.series.units import CORES, FRACTION, SIZES, AmountColumn, Machine, get_cpu_units

_RESOURCES: Final = ("cpu", "memory")
_KINDS: Final = ("request", "limit")


def find_declared_columns(numbers: Mapping[str, int], machine: Machine) -> dict[str, AmountColumn]:
    """Columns that say something of the kind, by the field of `Declared` that they are."""
    declared: dict[str, AmountColumn] = {}
    for resource in _RESOURCES:
        units = get_cpu_units(machine) if resource == "cpu" else SIZES | {FRACTION: machine.bytes}
        for kind in _KINDS:
            names = [(f"{resource}_{kind}_{unit}", scale) for unit, scale in units.items()]
            for name, scale in reversed(names):
                if name in numbers:
                    declared[f"{resource}_{kind}"] = AmountColumn(numbers[name], scale)
    return declared


_TIME: Final = ("timestamp", "time", "ts", "datetime", "date")
_SERIES: Final = ("series_id", "series", "id", "name")
IDENTITY_FIELDS: Final = ("namespace", "workload", "pod", "container")
_CPU: Final = ("cpu", "cpu_usage")
_MEMORY: Final = ("memory", "memory_usage", "mem", "memory_working_set")
_AVERAGES: Final = ("", "_avg", "_mean")
_MAXIMA: Final = ("_max",)
# What such a column counts is no amount that was used at some time; of those of CPU the rate is.
_COUNTER: Final = "_seconds_total"
_COUNTERS: Final = ("cpu_usage_seconds_total", "cpu_seconds_total")
_MEASURED: Final = ("container_cpu_", "container_memory_")


class ColumnRoles(msgspec.Struct, frozen=True):
    """Columns by their number. Of several for one amount the first counts, and where it says nothing the next."""

    header: tuple[str, ...]
    time: int
    names: tuple[int, ...]
    cpu: tuple[AmountColumn, ...]
    memory: tuple[AmountColumn, ...]
    declared: dict[str, AmountColumn] = {}
    """Requests and limits, by their field of `Declared`."""
    counts_seconds: bool = False
    """Whether the column of CPU has the seconds that were used so far."""

    @property
    def identity_fields(self) -> tuple[str, ...]:
        """The fields of `ContainerIdentity` that columns name; empty where one column has the whole name."""
        fields = tuple(self.header[column].lower() for column in self.names)
        return fields if set(fields) <= set(IDENTITY_FIELDS) else ()

    @property
    def amounts(self) -> tuple[AmountColumn, ...]:
        """All numeric columns except the time."""
        return (*self.cpu, *self.memory, *self.declared.values())

    @property
    def cores(self) -> frozenset[int]:
        """All columns of CPU: usage, requests and limits."""
        stated = (column for field, column in self.declared.items() if field.startswith("cpu"))
        return frozenset(column.column for column in (*self.cpu, *stated))

    @property
    def columns(self) -> tuple[int, ...]:
        """The numbers of all columns with a role, in order."""
        return tuple(sorted({self.time, *self.names, *(column.column for column in self.amounts)}))

    def notes(self, source: str) -> Iterator[str]:
        """Notes about a resource that is not read although columns seem to have it."""
        for amounts, resource, example in ((self.cpu, "CPU", "cpu_cores"), (self.memory, "memory", "memory_bytes")):
            alike = [name for name in self.header if resource[:3].lower() in name.lower()]
            if not amounts and alike:
                yield f"{source}: {resource} is ignored: column {', '.join(alike)} is not known; `{example}` would be"


def assign_roles(source: str, header: Sequence[str], machine: Machine) -> ColumnRoles:
    """The role of each column; raises `InvalidSeries` without a time or without usage."""
    names = [name.strip().lower() for name in header]
    numbers = {name.removeprefix("container_"): at for at, name in enumerate(names) if name.startswith(_MEASURED)}
    numbers |= {name: at for at, name in enumerate(names)}
    time = next((numbers[name] for name in _TIME if name in numbers), None)
    listed = ", ".join(name.strip() for name in header)
    if time is None:
        raise InvalidSeries(
            source, f"has no column `timestamp`; {_suggest_column(_TIME, numbers)}its columns are {listed}"
        )
    averages, maxima = (
        [*_list_names(_CPU, statistics, CORES), *_list_names(_CPU, statistics, {FRACTION: machine.cores})]
        for statistics in (_AVERAGES, _MAXIMA)
    )
    sizes = [*_list_names(_MEMORY, _MAXIMA, SIZES), *_list_names(_MEMORY, _AVERAGES, SIZES)]
    shares = _list_names(_MEMORY, (*_MAXIMA, *_AVERAGES), {FRACTION: machine.bytes})
    cpu = _find_columns(numbers, [*averages, *maxima])[:1]
    counted = [] if cpu else _find_columns(numbers, [(name, 1.0) for name in _COUNTERS])[:1]
    memory = _find_columns(numbers, sizes) or _find_columns(numbers, list(shares))
    if not cpu and not counted and not memory:
        raise InvalidSeries(
            source, f"has no column `cpu_cores` or `memory_bytes`; {_suggest_amount(numbers)}its columns are {listed}"
        )
    series = [numbers[name] for name in _SERIES if name in numbers][:1] or [
        numbers[name] for name in IDENTITY_FIELDS if name in numbers
    ]
    declared = find_declared_columns(numbers, machine)
    roles = ColumnRoles(
        tuple(name.strip() for name in header),
        time,
        tuple(series),
        tuple(cpu or counted),
        tuple(memory),
        declared,
        counts_seconds=bool(counted),
    )
    times = Counter(names)
    for column in roles.columns:
        if times[names[column]] > 1:
            raise InvalidSeries(
                source, f"has {times[names[column]]} columns `{roles.header[column]}`; remove all but one"
            )
    return roles


def _list_names(
    resources: Sequence[str], statistics: Sequence[str], units: dict[str, float]
) -> Iterator[tuple[str, float]]:
    """Names that a column may have, with what to multiply it by; without a unit it is the first one."""
    for statistic in statistics:
        for unit, scale in units.items():
            yield from ((f"{resource}{statistic}_{unit}", scale) for resource in resources)
            if not statistic and unit in ("cores", "millicores"):
                yield unit, scale
        if not statistic and FRACTION not in units:
            yield from ((resource, 1.0) for resource in resources)


def _find_columns(numbers: dict[str, int], names: Sequence[tuple[str, float]]) -> list[AmountColumn]:
    return [AmountColumn(numbers[name], scale) for name, scale in names if name in numbers]


def _suggest_amount(numbers: dict[str, int]) -> str:
    for name in numbers:
        if name.endswith(_COUNTER):
            return f"`{name}` is a counter; its rate is needed, as from `rate({name}[5m])`; "
    return _suggest_column(("cpu_cores", "cpu_millicores", "memory_bytes", "memory_mib", "memory_gib"), numbers)


def _suggest_column(names: Sequence[str], numbers: dict[str, int]) -> str:
    for name in numbers:
        if (guess := suggest_name(name, names)) is not None:
            return f"is `{name}` meant to be `{guess}`? "
    return ""
