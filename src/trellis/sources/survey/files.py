"""Surveys files of usage: each series is a container, identified by its name.

`shop/web/app` is container `app` of workload `web` in namespace `shop`; a name of two parts has no namespace, and one
of a single part is a workload with one container. Requests are known where columns or a manifest declare them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

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
from trellis.core.advice.survey.scope import WorkloadFilter
from trellis.core.advice.survey.usage import NamespaceUsageCounter, SurveyedUsage, SurveySettings
from trellis.core.cluster.dump_format import MissingData
from trellis.core.cluster.store import ObjectKey
from trellis.core.usage.columns import RowKey
from trellis.core.usage.samples import Measurements
from trellis.sources.series.files import SeriesParts, read_part
from trellis.sources.series.series import DeclaredResources, Series
from trellis.sources.series.units import Machine

KIND: Final = "Workload"
NO_NAMESPACE: Final = "default"
_ONLY_CONTAINER: Final = "app"


class _FileSurvey:
    """Accumulates the workloads and usage of the files."""

    def __init__(self, settings: SurveySettings, workload_filter: WorkloadFilter) -> None:
        self._survey_settings = settings
        self._workload_filter = workload_filter
        self.workloads: dict[ObjectKey, SurveyedWorkload] = {}
        self.used: dict[RowKey, SurveyedUsage] = {}
        self.missing: list[MissingData] = []
        self.notes: list[str] = []
        self.samples = 0
        self.newest = -np.inf

    def add_series(self, all_series: Sequence[Series]) -> None:
        """Take in complete series."""
        for series in all_series:
            namespace, workload, container = _split_name(series.name)
            if not (self._workload_filter.covers(namespace) and self._workload_filter.selects(KIND, {})):
                continue
            row_key = RowKey(namespace, f"{KIND}/{workload}", container)
            if row_key in self.used:
                self.missing.append(MissingData(series.source, namespace, f"series {series.name} is there twice"))
                continue
            self._add_usage(row_key, workload, series)

    def _add_usage(self, row_key: RowKey, workload: str, series: Series) -> None:
        key = (row_key.namespace, row_key.vpa)
        workload_object = self.workloads.get(key) or SurveyedWorkload(
            row_key.namespace, "", KIND, workload, pods=1, is_sized=False
        )
        workload_object = msgspec.structs.replace(
            workload_object, is_sized=workload_object.is_sized or not series.declared.is_empty
        )
        measured = msgspec.structs.replace(
            workload_object, containers=(_build_container(row_key.container, series.declared),)
        )
        counter = NamespaceUsageCounter(
            row_key.namespace, {row_key.vpa: measured}, {series.name: row_key.vpa}, self._survey_settings
        )
        now = float(series.times[-1])
        which = np.zeros(len(series), dtype=np.int64)
        counter.add_batch(
            [(series.name, row_key.container)], which, Measurements(series.times, series.cpu, series.memory), now
        )
        self.used |= {usage.row.key: usage for usage in counter.build_rows(now)}
        self.workloads[key] = msgspec.structs.replace(
            workload_object, containers=(*workload_object.containers, *measured.containers)
        )
        self.samples += int(np.count_nonzero(~np.isnan(series.cpu)) + np.count_nonzero(~np.isnan(series.memory)))
        self.newest = max(self.newest, now)


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
    if any(workload.is_sized for workload in survey.workloads.values()):
        yield "files of usage do not say how many pods there are"
    elif survey.workloads:
        yield "files of usage do not say what is requested now, nor how many pods there are"
    else:
        yield "there is no usage in them that was asked about"


def _split_name(name: str) -> tuple[str, str, str]:
    """Namespace, workload and container."""
    parts = [part for part in name.split("/") if part] or [name]
    if len(parts) == 1:
        return NO_NAMESPACE, parts[0], _ONLY_CONTAINER
    return (parts[-3] if len(parts) > 2 else NO_NAMESPACE), parts[-2], parts[-1]
