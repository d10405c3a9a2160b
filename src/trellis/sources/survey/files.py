"""Surveys files of usage: each series is a container, identified by columns or by its name.

Columns `namespace`, `workload`, `pod` and `container` say what a series is of. Pods of one workload are added up; where
no column names the workload, the name of the pod does: `web-5d8f7c9b64-x7k2p` is a pod of `web`. Without such columns
the name of the series counts: `shop/web/app` is container `app` of workload `web` in namespace `shop`; a name of two
parts has no namespace, and one of a single part is a workload with one container. Requests are known where columns or
a manifest declare them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from trellis.base.errors import InvalidSeries
from trellis.core.advice.survey.estimates import estimate_workloads
from trellis.core.advice.survey.model import (
    ResourceAmount,
    SurveyedContainer,
    SurveyedWorkload,
    SurveyEffort,
    SurveyResult,
)
from trellis.core.advice.survey.ownership import guess_workload
from trellis.core.advice.survey.scope import WorkloadFilter
from trellis.core.advice.survey.usage import NamespaceUsageCounter, SurveyedUsage, SurveySettings
from trellis.core.cluster.dump_format import MissingData
from trellis.core.cluster.store import ObjectKey
from trellis.core.usage.columns import IntColumn, RowKey
from trellis.core.usage.samples import Measurements
from trellis.sources.series.files import SeriesParts, read_part
from trellis.sources.series.series import ContainerIdentity, DeclaredResources, Series
from trellis.sources.series.units import Machine

KIND: Final = "Workload"
NO_NAMESPACE: Final = "default"
_ONLY_CONTAINER: Final = "app"
_MISSED_SAMPLES: Final = 3


class _Container(NamedTuple):
    """The container that a series is of. `pod` is empty where series are of workloads, not of pods."""

    namespace: str
    workload: str
    pod: str
    name: str


class _FileSurvey:
    """Accumulates the workloads and usage of the files.

    A workload's series are counted when all files are read if they are of pods, which may be in several files; else at
    once, so that they need not be kept.
    """

    def __init__(self, settings: SurveySettings, workload_filter: WorkloadFilter) -> None:
        self._survey_settings = settings
        self._workload_filter = workload_filter
        self._series_of_pods: dict[ObjectKey, dict[_Container, Series]] = {}
        self.workloads: dict[ObjectKey, SurveyedWorkload] = {}
        self.used: dict[RowKey, SurveyedUsage] = {}
        self.missing: list[MissingData] = []
        self.notes: list[str] = []
        self.has_series_without_pod = False
        self.samples = 0
        self.newest = -np.inf

    def add_series(self, all_series: Sequence[Series]) -> None:
        """Add the series of a part of the files."""
        for series in all_series:
            container = _identify(series)
            namespace, key = container.namespace, f"{KIND}/{container.workload}"
            if not (self._workload_filter.covers(namespace) and self._workload_filter.selects(KIND, {})):
                continue
            pending = self._series_of_pods.setdefault((namespace, key), {}) if container.pod else {}
            if container in pending or RowKey(namespace, key, container.name) in self.used:
                self.missing.append(MissingData(series.source, namespace, f"series {series.name} occurs twice"))
            elif container.pod:
                pending[container] = series
            else:
                self.has_series_without_pod = True
                self._count_usage((namespace, key), {container: series})

    def finish(self) -> None:
        """Count the series of pods, workload by workload."""
        while self._series_of_pods:
            key, series = self._series_of_pods.popitem()
            self._count_usage(key, series)

    def _count_usage(self, key: ObjectKey, series: Mapping[_Container, Series]) -> None:
        """Count all series of a workload, or one of them where they are not of pods."""
        surveyed = self.workloads.get(key) or _build_workload(next(iter(series)))
        declared: dict[str, DeclaredResources] = {}
        for container, one_series in series.items():
            earlier = declared.get(container.name, DeclaredResources())
            declared[container.name] = one_series.declared.overlay(earlier)
        measured = msgspec.structs.replace(
            surveyed, containers=tuple(_build_container(name, stated) for name, stated in declared.items())
        )
        pods = {container: container.pod or container.workload for container in series}
        which, samples = _merge(list(series.values()))
        now = float(samples.times[-1])
        counter = NamespaceUsageCounter(
            key[0],
            {key[1]: measured},
            dict.fromkeys(pods.values(), key[1]),
            self._survey_settings,
            span=(float(samples.times[0]), now),
        )
        counter.add_batch([(pods[container], container.name) for container in series], which, samples, now)
        self.used |= {usage.row.key: usage for usage in counter.build_rows(now)}
        self.workloads[key] = msgspec.structs.replace(
            surveyed,
            containers=(*surveyed.containers, *measured.containers),
            is_sized=surveyed.is_sized or not all(stated.is_empty for stated in declared.values()),
            pods=_count_running_pods(series, now),
        )
        self.samples += int(np.count_nonzero(~np.isnan(samples.cpu)) + np.count_nonzero(~np.isnan(samples.memory)))
        self.newest = max(self.newest, now)


def _build_workload(container: _Container) -> SurveyedWorkload:
    return SurveyedWorkload(container.namespace, "", KIND, container.workload, pods=1, is_sized=False)


def _merge(all_series: Sequence[Series]) -> tuple[IntColumn, Measurements]:
    """The samples of several series in the order of their times, and the series that each is of."""
    which = np.repeat(np.arange(len(all_series)), [len(series) for series in all_series])
    times, cpu, memory = (
        np.concatenate([getattr(series, column) for series in all_series]) for column in ("times", "cpu", "memory")
    )
    order = np.argsort(times, kind="stable")
    return which[order], Measurements(times[order], cpu[order], memory[order])


def _count_running_pods(series: Mapping[_Container, Series], now: float) -> int:
    """The pods with samples up to the end; a sample or two may be missing."""
    running = {
        container.pod
        for container, one_series in series.items()
        if one_series.times[-1] + _MISSED_SAMPLES * one_series.interval >= now
    }
    return max(1, len(running))


def survey_files(
    parts: SeriesParts,
    source: str,
    workload_filter: WorkloadFilter,
    settings: SurveySettings,
    machine: Machine = Machine(),  # noqa: B008 - frozen
) -> SurveyResult:
    """The survey of files, at the time of their newest sample. Problems are listed as missing."""
    survey = _FileSurvey(settings, workload_filter)
    problems: list[InvalidSeries] = list(parts.problems)
    for part in parts.parts:
        loaded = read_part(part, machine)
        problems += loaded.problems
        survey.notes += loaded.notes
        survey.add_series(loaded.series)
    survey.finish()
    now = survey.newest if survey.workloads else 0.0
    workloads = dict(sorted(survey.workloads.items()))
    result = estimate_workloads(workloads, list(survey.used.values()), settings, now)
    missing = [MissingData(str(error.value), "", error.rule) for error in problems]
    return SurveyResult(
        time=now,
        source=source,
        recommender=settings.recommender.name,
        workloads=result.workloads,
        values=settings.values,
        missing=(*missing, *survey.missing, *result.missing),
        notes=(*_notes(survey), *survey.notes),
        effort=SurveyEffort(samples=survey.samples, series=len(survey.used)),
    )


def _build_container(name: str, declared: DeclaredResources) -> SurveyedContainer:
    """The declared sizes; a container with only a limit requests its limit, as for the API server."""
    limit = ResourceAmount(1000.0 * declared.cpu_limit, declared.memory_limit)
    request = ResourceAmount(
        limit.cpu if math.isnan(declared.cpu_request) else 1000.0 * declared.cpu_request,
        limit.memory if math.isnan(declared.memory_request) else declared.memory_request,
    )
    return SurveyedContainer(name, request, limit)


def _notes(survey: _FileSurvey) -> Iterator[str]:
    if not survey.workloads:
        yield "the files contain no usage of the selected namespaces and kinds"
        return
    if not any(workload.is_sized for workload in survey.workloads.values()):
        yield (
            "the files contain no requests: add columns such as cpu_request_cores and "
            "memory_request_mib, or a manifest.csv with them"
        )
    if survey.has_series_without_pod:
        yield "the files do not contain the number of pods: add a column `pod`"


def _identify(series: Series) -> _Container:
    """The container by its columns, or else by the name of the series."""
    at = series.identity
    if at == ContainerIdentity():
        return _split_name(series.name)
    guessed = guess_workload(at.pod)
    workload = at.workload or (guessed[1] if guessed else at.pod) or at.container or at.namespace
    return _Container(at.namespace or NO_NAMESPACE, workload, at.pod, at.container or _ONLY_CONTAINER)


def _split_name(name: str) -> _Container:
    parts = [part for part in name.split("/") if part] or [name]
    if len(parts) == 1:
        return _Container(NO_NAMESPACE, parts[0], "", _ONLY_CONTAINER)
    return _Container(parts[-3] if len(parts) > 2 else NO_NAMESPACE, parts[-2], "", parts[-1])
