"""Lists workloads from Prometheus alone: from kube-state-metrics, or else guessed from the names of pods."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from trellis.api.kube.meta import OwnerReference
from trellis.api.kube.observed_pods import ObservedPod, ObservedPodMeta
from trellis.base.errors import PrometheusError
from trellis.core.advice.survey.ownership import guess_workload
from trellis.core.advice.survey.scope import SurveyObjects, WorkloadFilter
from trellis.core.cluster.dump_format import MissingData
from trellis.core.cluster.oom_kill_detection import OomKill
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.labels import query_label_values
from trellis.sources.prometheus.queries import match_any, query_in_groups
from trellis.sources.prometheus.settings import PrometheusSettings, duration_seconds
from trellis.sources.survey.kube_state_metrics import (
    OWNER_METRICS,
    PHASE,
    POD_OWNER,
    STATE_METRICS,
    KubeStateObjects,
    LabelNames,
    Labels,
    MetricSample,
)

T = TypeVar("T")

KILLS: Final = "out-of-memory kills"
_TERMINATED_REASON: Final = "kube_pod_container_status_last_terminated_reason"
_TERMINATED_TIMESTAMP: Final = "kube_pod_container_status_last_terminated_timestamp"
_GUESSED: Final = (
    "Prometheus has no metrics of kube-state-metrics: workloads are derived from the names of pods, and "
    "their requests are unknown"
)


class KubeState:
    """Reads the state of a cluster at one time from Prometheus: current objects, or the owners of past pods."""

    def __init__(self, client: PrometheusClient, settings: PrometheusSettings, now: float) -> None:
        self._client = client
        self._settings = settings
        self._now = now
        self._since = now - duration_seconds(settings.history_length)
        self._label_names = LabelNames()

    async def read_objects(self, workload_filter: WorkloadFilter) -> SurveyObjects:
        """The objects of the chosen namespaces; raises `PrometheusError` if these cannot be listed."""
        namespaces = [name for name in await self._list_namespaces() if workload_filter.covers(name)]
        series = KubeStateObjects(self._label_names)
        for samples in await self._query_in_groups(namespaces, self._query_state):
            series.add_samples(samples)
        if series.is_empty:
            return await self._guess_objects(namespaces)
        past_pods, missing = await self._read_past_owners(series, namespaces)
        kills, unread = await self.read_kills(namespaces)
        return SurveyObjects(
            namespaces=tuple(namespaces),
            pods=series.pods(),
            workloads=series.workloads(),
            intermediate_owners=series.intermediate_owners(),
            hpas=series.hpas(),
            past_pods=past_pods,
            kills=kills,
            missing=(*missing, *unread),
        )

    async def read_past_pods(self, namespaces: Sequence[str]) -> tuple[list[ObservedPod], KubeStateObjects]:
        """Past pods, and the series about their owners; raises `PrometheusError`."""
        await self._list_reported_namespaces()
        series = KubeStateObjects(self._label_names)
        for owners in await self._query_in_groups(namespaces, self._query_owners):
            series.add_past_owners(owners)
        return series.past_pods(), series

    async def read_kills(self, namespaces: Sequence[str]) -> tuple[list[OomKill], tuple[MissingData, ...]]:
        """The last out-of-memory kill of every container that had one, and what could not be found out."""
        try:
            kills_by_group = await self._query_in_groups(namespaces, self._query_kills)
        except PrometheusError as error:
            return [], (MissingData(KILLS, "", str(error)),)
        return [kill for group in kills_by_group for kill in group], ()

    async def _list_namespaces(self) -> list[str]:
        """Namespaces known by kube-state-metrics, which also shows how its labels are spelled, or by usage."""
        namespaces = await self._list_reported_namespaces()
        label = self._settings.container_namespace_label
        metric = self._settings.history_memory_metric
        used = await query_label_values(self._client, self._settings, metric, [label], self._now)
        return sorted((namespaces | {labels.get(label, "") for labels in used}) - {""})

    async def _list_reported_namespaces(self) -> set[str]:
        """The namespaces in the series of kube-state-metrics; also detects how its labels are spelled."""
        labels = ("namespace", "exported_namespace")
        label_sets = await query_label_values(self._client, self._settings, POD_OWNER, labels, self._now)
        if any("exported_namespace" in series_labels for series_labels in label_sets):
            self._label_names = LabelNames("exported_")
        return {self._label_names.read(series_labels, "namespace") for series_labels in label_sets}

    async def _query_in_groups(
        self, namespaces: Sequence[str], query_group: Callable[[tuple[str, ...]], Awaitable[T]]
    ) -> list[T]:
        return await query_in_groups(namespaces, self._settings.prometheus_namespaces_per_query, query_group)

    def _build_selector(self, metrics: Sequence[str], namespaces: Sequence[str]) -> str:
        return f"{{{match_any('__name__', metrics)}, {match_any(f'{self._label_names.prefix}namespace', namespaces)}}}"

    async def _query_state(self, namespaces: tuple[str, ...]) -> list[MetricSample]:
        result = await self._client.query(self._build_selector(STATE_METRICS, namespaces), self._now)
        phases = await self._client.query(f"{self._build_selector([PHASE], namespaces)} == 1", self._now)
        phase_labels: list[Labels] = [{**labels, "__name__": PHASE} for labels in phases.labels]
        values = [*result.values.tolist(), *phases.values.tolist()]
        return list(zip([*result.labels, *phase_labels], values, strict=True))

    async def _query_owners(self, namespaces: tuple[str, ...]) -> list[dict[str, str]]:
        return await self._client.series(self._build_selector(tuple(OWNER_METRICS), namespaces), self._since, self._now)

    async def _read_past_owners(
        self, series: KubeStateObjects, namespaces: Sequence[str]
    ) -> tuple[list[ObservedPod], tuple[MissingData, ...]]:
        try:
            for owners in await self._query_in_groups(namespaces, self._query_owners):
                series.add_past_owners(owners)
        except PrometheusError as error:
            return [], (MissingData("owners of deleted pods", "", str(error)),)
        return series.past_pods(), ()

    async def _query_kills(self, namespaces: tuple[str, ...]) -> list[OomKill]:
        """The last kills. Their times are queried only if a cheap query finds killed containers."""
        where = match_any(f"{self._label_names.prefix}namespace", namespaces)
        kill_series = await self._client.series(
            f'{_TERMINATED_REASON}{{reason="OOMKilled", {where}}}', self._since, self._now
        )
        killed_containers = {
            (*self._label_names.read_name(labels, "pod"), self._label_names.read(labels, "container"))
            for labels in kill_series
        }
        if not killed_containers:
            return []
        pods = match_any(f"{self._label_names.prefix}pod", sorted({pod for _, pod, _ in killed_containers}))
        query = f"last_over_time({_TERMINATED_TIMESTAMP}{{{where}, {pods}}}[{self._settings.history_length}])"
        result = await self._client.query(query, self._now)
        return [
            OomKill(container[0], container[1], "", container[2], time)
            for labels, time in zip(result.labels, result.values.tolist(), strict=True)
            if (container := (*self._label_names.read_name(labels, "pod"), self._label_names.read(labels, "container")))
            in killed_containers
        ]

    async def _guess_objects(self, namespaces: Sequence[str]) -> SurveyObjects:
        """Pods that use something, each by its name."""
        namespace, pod = self._settings.container_namespace_label, self._settings.container_pod_name_label

        async def query_group(group: tuple[str, ...]) -> list[Labels]:
            used = f"{self._settings.history_memory_metric}{{{match_any(namespace, group)}}}"
            result = await self._client.query(f"group by ({namespace}, {pod}) ({used})", self._now)
            return list(result.labels)

        names = {
            (labels.get(namespace, ""), labels.get(pod, ""))
            for group in await self._query_in_groups(namespaces, query_group)
            for labels in group
        }
        pods = [_guess_owner(*name) for name in sorted(names) if all(name)]
        missing = (MissingData("requests and owners", "", _GUESSED),) if pods else ()
        return SurveyObjects(namespaces=tuple(namespaces), pods=pods, missing=missing)


def _guess_owner(namespace: str, name: str) -> ObservedPod:
    workload = guess_workload(name)
    if workload is None:
        return ObservedPod(ObservedPodMeta(name=name, namespace=namespace))
    kind, workload_name = workload
    owner = OwnerReference("batch/v1" if kind == "CronJob" else "apps/v1", kind, workload_name, "", True)
    return ObservedPod(ObservedPodMeta(name=name, namespace=namespace, owner_references=(owner,)))
