"""Surveys workloads and their usage from Prometheus, and estimates what they need.

Namespaces are read one after the other. One that cannot be read is named, and the others go on; what has been read of
those that are done outlives an interruption, if there is a file for it.

One query has all containers of a namespace for as long a time as makes a response of moderate length; where that is
too much, half of it is next. Samples are counted at once and then dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from trellis.base.errors import PrometheusError, PrometheusUnreachable
from trellis.core.advice.survey.estimates import estimate_workloads
from trellis.core.advice.survey.model import SurveyedWorkload, SurveyEffort, SurveyResult
from trellis.core.advice.survey.scope import SurveyObjects, WorkloadFilter
from trellis.core.advice.survey.usage import NamespaceUsageCounter, SurveySettings, WorkloadUsageCounter
from trellis.core.advice.survey.workloads import WorkloadInventory, find_workloads
from trellis.core.cluster.dump_format import MissingData
from trellis.core.cluster.oom_kill_detection import OomKill
from trellis.core.hvpa.suggest.suitability import is_scaled
from trellis.core.recording.survey import SavedNamespace
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.history import TimeGrid, read_windows
from trellis.sources.prometheus.queries import build_cpu_query, build_memory_peak_query, get_container_labels
from trellis.sources.prometheus.settings import PrometheusSettings, duration_seconds
from trellis.sources.survey.kube_state import KubeState
from trellis.sources.survey.resume_file import ResumeFile

# Samples of one resource in a response with the expected number of containers: 15 MB of text.
_SAMPLES_AT_ONCE: Final = 500_000


class UsageProgress(msgspec.Struct, frozen=True):
    """The progress of one namespace, in steps of time, and the samples so far."""

    done: int
    total: int
    samples: int


ReportUsage: TypeAlias = Callable[[UsageProgress], None]


async def read_usage(
    client: PrometheusClient,
    settings: PrometheusSettings,
    counter: NamespaceUsageCounter,
    namespace: str,
    *,
    containers: int,
    now: float,
    report: ReportUsage,
) -> SavedNamespace:
    """Read the usage of a namespace; the number of its containers is an estimate; raises `PrometheusError`."""
    times = TimeGrid.until(now, settings)
    most = min(_SAMPLES_AT_ONCE / max(1, containers), duration_seconds(settings.history_chunk) / times.step)
    windows = times.split_into_windows([(namespace,)], most)
    total, samples = windows.size, 0

    def queries(namespaces: tuple[str, ...] | None) -> tuple[str, str]:
        step = settings.history_resolution
        return build_cpu_query(settings, namespaces, step), build_memory_peak_query(settings, namespaces, step)

    async for read in read_windows(client, windows, times, queries, get_container_labels(settings)):
        joined, measured = read.joined, read.measured
        names = [(pod, container) for _, pod, container in joined.containers]
        await asyncio.to_thread(counter.add_batch, names, joined.rows, measured, now)
        samples += joined.size
        report(UsageProgress(total - windows.size, total, samples))
    rows = await asyncio.to_thread(counter.build_rows, now)
    return SavedNamespace(namespace, tuple(rows), samples, counter.series, counter.build_totals())


USAGE: Final = "usage"
_STOPPED: Final = "the survey was stopped before this namespace"
# An unreachable Prometheus is not awaited once per namespace.
_MOST_UNREACHABLE: Final = 2


class PrometheusSurveyProgress(msgspec.Struct, frozen=True):
    """The progress of a survey: current namespace, completed namespaces of the total, and samples."""

    namespace: str
    done: float
    total: int
    samples: int


ReportSurvey: TypeAlias = Callable[[PrometheusSurveyProgress], None]


class PrometheusSurvey:
    """Surveys the chosen workloads once."""

    def __init__(
        self,
        client: PrometheusClient,
        settings: PrometheusSettings,
        workload_filter: WorkloadFilter,
        survey_settings: SurveySettings,
        *,
        resume_file: ResumeFile,
        report: ReportSurvey = lambda _progress: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._client = client
        self._settings = settings
        self._workload_filter = workload_filter
        self._survey_settings = survey_settings
        self._resume_file = resume_file
        self._report = report
        self._stop = stop
        self._now = resume_file.time
        self._missing: list[MissingData] = []
        self._workloads: list[SurveyedWorkload] = []
        self._samples = self._series = 0

    async def run(self, survey_objects: SurveyObjects | None = None) -> SurveyResult:
        """Survey the given objects, or those in Prometheus; raises `PrometheusError` if it has none."""
        clock = asyncio.get_running_loop().time
        began = clock()
        state = KubeState(self._client, self._settings, self._now)
        objects = (
            await state.read_objects(self._workload_filter)
            if survey_objects is None
            else await _add_past_pods(survey_objects, state)
        )
        inventory = await asyncio.to_thread(find_workloads, objects, self._workload_filter)
        self._missing += objects.missing
        await self._survey_namespaces(inventory)
        return SurveyResult(
            time=self._now,
            source=self._settings.prometheus_address,
            recommender=self._survey_settings.recommender.name,
            workloads=tuple(self._workloads),
            values=self._survey_settings.values,
            missing=tuple(self._missing),
            notes=tuple(self._notes()),
            effort=SurveyEffort(
                queries=self._client.queries,
                repeated=self._client.attempts - self._client.queries,
                samples=self._samples,
                series=self._series,
                queries_per_container=2 * sum(len(workload.containers) for workload in self._workloads),
                seconds=clock() - began,
            ),
            largest_node=objects.largest_node,
        )

    async def _survey_namespaces(self, inventory: WorkloadInventory) -> None:
        """Namespace by namespace; of those that cannot be read, what is known without their usage."""
        unreachable = 0
        reason = ""
        for done_count, namespace in enumerate(inventory.namespaces):
            saved = SavedNamespace(namespace, ())
            if reason := reason or (_STOPPED if self._stop() else ""):
                self._missing.append(MissingData(USAGE, namespace, reason))
            else:
                try:
                    saved = self._resume_file.pop_saved(namespace) or await self._survey_namespace(
                        namespace, inventory, done_count
                    )
                    unreachable = 0
                except PrometheusError as error:
                    self._missing.append(MissingData(USAGE, namespace, str(error)))
                    unreachable += isinstance(error, PrometheusUnreachable)
                    reason = str(error) if unreachable >= _MOST_UNREACHABLE else ""
            await self._estimate(saved, inventory)
        total = len(inventory.namespaces)
        self._report(PrometheusSurveyProgress("", total, total, self._samples))

    async def _estimate(self, saved: SavedNamespace, inventory: WorkloadInventory) -> None:
        """Estimate a namespace and drop its rows: they may be many."""
        workloads = {
            (saved.namespace, key): workload for key, workload in inventory.list_workloads(saved.namespace).items()
        }
        result = await asyncio.to_thread(estimate_workloads, workloads, saved.rows, self._survey_settings, self._now)
        self._workloads += (
            msgspec.structs.replace(workload, totals=saved.totals.get(key))
            for (_, key), workload in zip(workloads, result.workloads, strict=True)
        )
        self._missing += result.missing
        self._samples += saved.samples
        self._series += saved.series

    async def _survey_namespace(self, namespace: str, inventory: WorkloadInventory, done_count: int) -> SavedNamespace:
        pods = {pod: key for (where, pod), key in inventory.pods.items() if where == namespace}
        workloads = inventory.list_workloads(namespace)
        kills: list[OomKill] = [kill for kill in inventory.kills if kill.namespace == namespace]
        times = TimeGrid.until(self._now, self._settings)
        counter = NamespaceUsageCounter(
            namespace,
            workloads,
            pods,
            self._survey_settings,
            kills,
            totals=self._create_totals_counter(workloads) if self._survey_settings.totals else None,
            span=(times.start, self._now),
        )
        before = self._samples
        total = len(inventory.namespaces)

        def report(progress: UsageProgress) -> None:
            self._report(
                PrometheusSurveyProgress(
                    namespace, done_count + progress.done / progress.total, total, before + progress.samples
                )
            )

        report(UsageProgress(0, 1, 0))
        containers = sum(workload.pods * len(workload.containers) for workload in workloads.values())
        saved = await read_usage(
            self._client,
            self._settings,
            counter,
            namespace,
            containers=containers,
            now=self._now,
            report=report,
        )
        await self._resume_file.append(saved)
        return saved

    def _create_totals_counter(self, workloads: Mapping[str, SurveyedWorkload]) -> WorkloadUsageCounter:
        times = TimeGrid.until(self._now, self._settings)
        scaled = [key for key, workload in workloads.items() if is_scaled(workload.kind, workload.api_version)]
        return WorkloadUsageCounter(scaled, times.start, times.step, times.count)

    def _lacks_cpu(self) -> bool:
        """Whether memory is known of some container, and CPU of none."""
        highest = [container.highest for workload in self._workloads for container in workload.containers]
        return any(amount.memory > 0 for amount in highest) and not any(amount.cpu >= 0 for amount in highest)

    def _notes(self) -> Iterator[str]:
        settings = self._settings
        if not self._workloads:
            yield "no workload matches the selection"
        elif not self._samples and not any(missing.what == USAGE for missing in self._missing):
            yield (
                "Prometheus has no usage of these workloads; the queries use the metrics "
                f"{settings.history_memory_metric} and {settings.history_cpu_metric} with the labels "
                f"{settings.container_pod_name_label} and {settings.container_name_label}"
            )
        elif self._lacks_cpu():
            yield (
                f"Prometheus has memory and no CPU usage of these workloads: {settings.history_cpu_metric} needs two "
                f"samples within {settings.history_resolution}; if it is scraped less often, take a longer --resolution"
            )


async def _add_past_pods(objects: SurveyObjects, state: KubeState) -> SurveyObjects:
    """The objects with past pods, their owners and OOM kills, as far as Prometheus has them."""
    try:
        past_pods, series = await state.read_past_pods(objects.namespaces)
        kills, missing = await state.read_kills(objects.namespaces)
    except PrometheusError as error:
        unknown = MissingData("deleted pods", "", str(error))
        return msgspec.structs.replace(objects, missing=(*objects.missing, unknown))
    names = {(pod.metadata.namespace, pod.metadata.name) for pod in objects.pods}
    return msgspec.structs.replace(
        objects,
        intermediate_owners=series.intermediate_owners(),
        past_pods=[pod for pod in past_pods if (pod.metadata.namespace, pod.metadata.name) not in names],
        kills=kills,
        missing=(*objects.missing, *missing),
    )
