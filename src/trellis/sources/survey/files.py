"""What would workloads need, going by files of usage? Each series is a container, and its name says of what.

`shop/web/app` is container `app` of workload `web` in namespace `shop`; a name of two parts has no namespace, and one
of a single part is a workload with one container. What they request is known where columns or a manifest say it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from trellis.base.errors import InvalidSeries
from trellis.core.advice.asked import Asked
from trellis.core.advice.choice import Choice
from trellis.core.advice.counting import NamespaceUsage, UsedRow
from trellis.core.advice.estimating import estimated
from trellis.core.advice.surveyed import Amount, Effort, Surveyed, SurveyedContainer, SurveyedWorkload
from trellis.core.model.dump_lines import Missing
from trellis.core.model.keys import Key
from trellis.core.usage.columns import RowKey
from trellis.core.usage.samples import Measured
from trellis.sources.series.declared import Declared
from trellis.sources.series.reading import Parts, read_part
from trellis.sources.series.series import Series
from trellis.sources.series.units import Machine

KIND: Final = "Workload"
NO_NAMESPACE: Final = "default"
_ONLY_CONTAINER: Final = "app"


class _Reading:
    """What came of the files so far."""

    def __init__(self, asked: Asked, choice: Choice) -> None:
        self._asked = asked
        self._choice = choice
        self.workloads: dict[Key, SurveyedWorkload] = {}
        self.used: dict[RowKey, UsedRow] = {}
        self.missing: list[Missing] = []
        self.notes: list[str] = []
        self.samples = 0
        self.newest = -np.inf

    def take(self, found: Sequence[Series]) -> None:
        """Some series, each of which is whole."""
        for series in found:
            namespace, workload, container = _names(series.name)
            if not (self._choice.covers(namespace) and self._choice.wants(KIND, {})):
                continue
            place = RowKey(namespace, f"{KIND}/{workload}", container)
            if place in self.used:
                self.missing.append(Missing(series.source, namespace, f"series {series.name} is there twice"))
                continue
            self._count(place, workload, series)

    def _count(self, place: RowKey, workload: str, series: Series) -> None:
        key = (place.namespace, place.vpa)
        known = self.workloads.get(key) or SurveyedWorkload(place.namespace, "", KIND, workload, pods=1, is_sized=False)
        known = msgspec.structs.replace(known, is_sized=known.is_sized or not series.declared.is_empty)
        one = msgspec.structs.replace(known, containers=(_container(place.container, series.declared),))
        counting = NamespaceUsage(place.namespace, {place.vpa: one}, {series.name: place.vpa}, self._asked)
        now = float(series.times[-1])
        which = np.zeros(len(series), dtype=np.int64)
        counting.take_in(
            [(series.name, place.container)], which, Measured(series.times, series.cpu, series.memory), now
        )
        self.used |= {each.row.key: each for each in counting.rows(now)}
        self.workloads[key] = msgspec.structs.replace(known, containers=(*known.containers, *one.containers))
        self.samples += int(np.count_nonzero(~np.isnan(series.cpu)) + np.count_nonzero(~np.isnan(series.memory)))
        self.newest = max(self.newest, now)


def survey_files(parts: Parts, source: str, choice: Choice, asked: Asked, machine: Machine = Machine()) -> Surveyed:  # noqa: B008 - frozen
    """What the files say; it is about the time of their newest sample. What cannot be used is named."""
    reading = _Reading(asked, choice)
    problems: list[InvalidSeries] = list(parts.problems)
    for part in parts.parts:
        found = read_part(part, machine)
        problems += found.problems
        reading.notes += found.notes
        reading.take(found.series)
    now = reading.newest if reading.workloads else 0.0
    workloads = dict(sorted(reading.workloads.items()))
    result = estimated(workloads, list(reading.used.values()), asked, now)
    missing = [Missing(str(error.value), "", error.rule) for error in problems]
    return Surveyed(
        time=now,
        source=source,
        recommender=asked.recommender.name,
        workloads=result.workloads,
        values=asked.values,
        missing=(*missing, *reading.missing, *result.missing),
        notes=(*_notes(reading), *reading.notes),
        effort=Effort(samples=reading.samples, series=len(reading.used)),
    )


def _container(name: str, declared: Declared) -> SurveyedContainer:
    """One that has a limit and no request requests its limit, as for the API server."""
    limit = Amount(1000.0 * declared.cpu_limit, declared.memory_limit)
    request = Amount(
        limit.cpu if math.isnan(declared.cpu_request) else 1000.0 * declared.cpu_request,
        limit.memory if math.isnan(declared.memory_request) else declared.memory_request,
    )
    return SurveyedContainer(name, request, limit)


def _notes(reading: _Reading) -> Iterator[str]:
    if any(each.is_sized for each in reading.workloads.values()):
        yield "files of usage do not say how many pods there are"
    elif reading.workloads:
        yield "files of usage do not say what is requested now, nor how many pods there are"
    else:
        yield "there is no usage in them that was asked about"


def _names(name: str) -> tuple[str, str, str]:
    """Namespace, workload and container."""
    parts = [part for part in name.split("/") if part] or [name]
    if len(parts) == 1:
        return NO_NAMESPACE, parts[0], _ONLY_CONTAINER
    return (parts[-3] if len(parts) > 2 else NO_NAMESPACE), parts[-2], parts[-1]
