"""Metrics of the recommender: upstream's, by name and label, and some of its own.

The metrics of quality compare each usage sample with the recommendation in force when it came. That is the uncapped
one, as upstream compares it: a policy that caps it says nothing of the estimate. Samples of containers that are not to
be sized are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import Final

import msgspec
import numpy as np

from trellis.api.resolve import COUNTED_MODES, WRITTEN_MODES
from trellis.core.cluster.pod_resources import RESOURCE_SOURCES
from trellis.core.recommend.amounts import CPU, MEMORY, MILLICORES_PER_CORE, RESOURCES, UNCAPPED
from trellis.core.recommend.engine import PassDecision
from trellis.core.recommend.estimation import compare_shadows
from trellis.core.recommend.recommendation_pass import PassColumns, PassResult
from trellis.core.recommend.state.tables import VpaStatusWrite
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.core.usage.sample_ingestion import OomRecord
from trellis.core.usage.samples import IngestResult
from trellis.runtime.telemetry.cluster_metrics import CLUSTER_METRICS, SHARD_METRICS
from trellis.runtime.telemetry.metrics import (
    BOOLEANS,
    REASON,
    RESOURCE_AMOUNT,
    CounterSpec,
    GaugeSpec,
    HistogramSpec,
    Label,
    Metrics,
    Spec,
    execution_latency,
)
from trellis.sources.prometheus.client import NO_ANSWER

# The steps of a pass, in order, as upstream names them.
LOAD_VPAS: Final = "LoadVPAs"
LOAD_PODS: Final = "LoadPods"
LOAD_METRICS: Final = "LoadMetrics"
DELETE_PODS: Final = "DeleteRemovedPods"
UPDATE_VPAS: Final = "UpdateVPAs"
CHECKPOINTS: Final = "MaintainCheckpoints"
GARBAGE: Final = "GarbageCollect"

# The one client of metrics that upstream has a name for.
CLIENT_NAME: Final = "default-metrics-client"

# The versions that upstream has a label for. Only the first is served, so that there are no objects of the others.
_API: Final = "v1"
_APIS: Final = (_API, "v1beta2", "v1beta1")
# From 2^20 pods on all VPAs are of one size, as upstream has it.
_LARGEST: Final = 20
_ACCEPTED: Final = "Accepted"

_COUNTED_MODE: Final = Label("update_mode", values=COUNTED_MODES)
# Empty for an object without a mode.
_MODE: Final = Label("update_mode", values=WRITTEN_MODES)
_IS_OOM: Final = Label("is_oom", values=BOOLEANS)
_IS_MISSING: Final = Label("recommendation_missing", values=BOOLEANS)
_CODE: Final = Label("code", f"HTTP status, or `{NO_ANSWER}` without an answer")
_METHOD: Final = Label("method", values=("get", "post"))
_RESULT: Final = Label("result", f"`{_ACCEPTED}`, or the [reason](reasons.md) why it was discarded")
_RECOMMENDER: Final = Label("recommender", "name of the recommender")

_CORES: Final = tuple(0.01 * 2.0**power for power in range(17))
_BYTES: Final = tuple(1e6 * 2.0**power for power in range(17))
# From nothing of the recommendation to a hundred times it.
_RELATIVE: Final = (
    *(-1.0, -0.75, -0.5, -0.25, -0.1, -0.05, -0.025, -0.01, -0.005, -0.0025, -0.001, 0.0),
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0),
)
_FIRST_ADVICE: Final = (
    *(1.0, 2.0, 5.0, 7.5, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 90.0, 120.0, 150.0, 180.0, 240.0, 300.0, 600.0, 900.0),
    1800.0,
)

OBJECTS: Final = GaugeSpec(
    "vpa_recommender_vpa_objects_count",
    "VPA objects that this recommender serves.",
    (
        _COUNTED_MODE,
        Label("has_recommendation", values=BOOLEANS),
        Label("api", values=_APIS),
        Label("matches_pods", values=BOOLEANS),
        Label("unsupported_config", values=BOOLEANS),
    ),
)
FIRST_RECOMMENDATION: Final = HistogramSpec(
    "vpa_recommender_recommendation_latency_seconds",
    "Time from the creation of a VPA to its first recommendation.",
    buckets=_FIRST_ADVICE,
)
LATENCY: Final = execution_latency(
    "vpa_recommender", LOAD_VPAS, LOAD_PODS, LOAD_METRICS, DELETE_PODS, UPDATE_VPAS, CHECKPOINTS, GARBAGE
)
STATES: Final = GaugeSpec("vpa_recommender_aggregate_container_states_count", "Containers of VPAs with usage history.")
RESPONSES: Final = CounterSpec(
    "vpa_recommender_metric_server_responses",
    "Responses of the source of live usage.",
    (Label("is_error", values=BOOLEANS), Label("client_name", values=(CLIENT_NAME,))),
)
PROMETHEUS_REQUESTS: Final = CounterSpec(
    "vpa_recommender_prometheus_client_api_requests_count", "Requests to Prometheus.", (_CODE, _METHOD)
)
PROMETHEUS_SECONDS: Final = HistogramSpec(
    "vpa_recommender_prometheus_client_api_requests_duration_seconds",
    "Latency of requests to Prometheus.",
    (_CODE, _METHOD),
    buckets=(
        *(0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
        *(1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0),
    ),
)
RESOURCES_READ: Final = CounterSpec(
    "vpa_resources_get_resources_count",
    "Containers by the source of their resources: pod spec or container status.",
    (Label("source", values=RESOURCE_SOURCES),),
)

RELATIVE_DIFFS: Final = HistogramSpec(
    "vpa_quality_usage_recommendation_relative_diffs",
    "Usage minus recommendation, over the recommendation.",
    (_MODE, RESOURCE_AMOUNT, _IS_OOM),
    buckets=_RELATIVE,
)
MISSING: Final = CounterSpec(
    "vpa_quality_usage_sample_missing_recommendation_count",
    "Samples of containers that have no recommendation.",
    (_MODE, RESOURCE_AMOUNT, _IS_OOM),
)
CPU_OVER: Final = HistogramSpec(
    "vpa_quality_cpu_recommendation_over_usage_diffs_cores",
    "Recommendation minus usage, where the recommendation is higher.",
    (_MODE, _IS_MISSING),
    buckets=_CORES,
)
MEMORY_OVER: Final = HistogramSpec(
    "vpa_quality_mem_recommendation_over_usage_diffs_bytes",
    "Recommendation minus usage, where the recommendation is higher.",
    (_MODE, _IS_MISSING, _IS_OOM),
    buckets=_BYTES,
)
CPU_UNDER: Final = HistogramSpec(
    "vpa_quality_cpu_recommendation_lower_equal_usage_diffs_cores",
    "Usage minus recommendation, where the recommendation is not higher.",
    (_MODE, _IS_MISSING),
    buckets=_CORES,
)
MEMORY_UNDER: Final = HistogramSpec(
    "vpa_quality_mem_recommendation_lower_equal_usage_diffs_bytes",
    "Usage minus recommendation, where the recommendation is not higher.",
    (_MODE, _IS_MISSING, _IS_OOM),
    buckets=_BYTES,
)
CPU_ADVICE: Final = HistogramSpec(
    "vpa_quality_cpu_recommendations_cores",
    "The recommendation, once for each sample.",
    (_MODE,),
    buckets=_CORES,
)
MEMORY_ADVICE: Final = HistogramSpec(
    "vpa_quality_mem_recommendations_bytes",
    "The recommendation, once for each sample.",
    (_MODE, _IS_OOM),
    buckets=_BYTES,
)
RELATIVE_CHANGES: Final = HistogramSpec(
    "vpa_quality_relative_recommendation_changes",
    "Relative change of a published recommendation in a pass.",
    (
        _MODE,
        RESOURCE_AMOUNT,
        Label("vpa_size_log2", "binary logarithm of the number of pods, rounded down: `0` to `20`"),
    ),
    buckets=_RELATIVE,
)

SAMPLES: Final = CounterSpec("trellis_recommender_samples_total", "Usage samples by result.", (_RESULT,))
NEWEST_SAMPLE: Final = GaugeSpec(
    "trellis_recommender_newest_sample_timestamp_seconds",
    "Time of the newest accepted usage sample; 0 before the first.",
)
OOMS: Final = CounterSpec("trellis_recommender_oom_kills_total", "Out-of-memory kills by result.", (_RESULT,))
UNREADABLE: Final = GaugeSpec(
    "trellis_recommender_unreadable_checkpoints",
    "Invalid checkpoints that were not overwritten yet; a copy of each is kept.",
)
MODEL_BYTES: Final = GaugeSpec(
    "trellis_recommender_model_bytes",
    "Size of the columns of the usage model in bytes, including memory reserved and not yet used.",
)
WORKER_FAILURES: Final = CounterSpec(
    "trellis_recommender_worker_failures_total",
    "Failures of installed recommenders, which run in their own processes, by reason.",
    (_RECOMMENDER, REASON),
)
SHADOW_DIFFERENCE: Final = HistogramSpec(
    "trellis_recommender_shadow_relative_difference",
    "Relative difference between the targets of a shadow recommender and of the serving one, for "
    "each container and pass.",
    (_RECOMMENDER, RESOURCE_AMOUNT),
    buckets=_RELATIVE,
)
SHADOW_FAILURES: Final = CounterSpec(
    "trellis_recommender_shadow_failures_total", "Passes in which a shadow recommender failed.", (_RECOMMENDER,)
)
SHADOW_UNHOSTED: Final = GaugeSpec(
    "trellis_recommender_shadow_unhosted_vpas",
    "VPAs with a shadow recommender that this process does not serve.",
    (_RECOMMENDER,),
)

RECOMMENDER_METRICS: Final[tuple[Spec, ...]] = (
    *CLUSTER_METRICS,
    *SHARD_METRICS,
    *(OBJECTS, FIRST_RECOMMENDATION, LATENCY, STATES, RESPONSES, PROMETHEUS_REQUESTS, PROMETHEUS_SECONDS),
    *(RESOURCES_READ, RELATIVE_DIFFS, MISSING, CPU_OVER, MEMORY_OVER, CPU_UNDER, MEMORY_UNDER, CPU_ADVICE),
    *(MEMORY_ADVICE, RELATIVE_CHANGES, SAMPLES, NEWEST_SAMPLE, OOMS, UNREADABLE, MODEL_BYTES),
    *(WORKER_FAILURES, SHADOW_DIFFERENCE, SHADOW_FAILURES, SHADOW_UNHOSTED),
)


_TRUE, _FALSE = BOOLEANS


class UsageComparison(msgspec.Struct, frozen=True):
    """Samples beside their recommendations: cores or bytes, NaN where there is none.

    `modes` has for each the number of its VPA's update mode in `names`.
    """

    usage: FloatColumn
    recommended: FloatColumn
    modes: IntColumn
    names: Sequence[str]


def observe_usage(metrics: Metrics, resource: str, compared: UsageComparison, *, oom: bool = False) -> None:
    """Take samples of one resource into the metrics, a column for each update mode."""
    sampled = ~np.isnan(compared.usage)
    for number, mode in enumerate(compared.names):
        is_selected = sampled & (compared.modes == number)
        if is_selected.any():
            usage, recommended = compared.usage[is_selected], compared.recommended[is_selected]
            _observe(metrics, (resource, mode, _TRUE if oom else _FALSE), usage, recommended)


def _observe(metrics: Metrics, labels: tuple[str, str, str], usage: FloatColumn, recommended: FloatColumn) -> None:
    resource, mode, oom = labels
    is_cpu = resource == "cpu"
    over, under, recommendations = (
        (CPU_OVER, CPU_UNDER, CPU_ADVICE) if is_cpu else (MEMORY_OVER, MEMORY_UNDER, MEMORY_ADVICE)
    )
    oom_labels = () if is_cpu else (oom,)
    missing = ~(recommended > 0)
    if missing.any():
        metrics.add(MISSING, float(missing.sum()), mode, resource, oom)
        metrics.observe_all(under, usage[missing], mode, _TRUE, *oom_labels)
    usage, recommended = usage[~missing], recommended[~missing]
    if not len(usage):
        return
    metrics.observe_all(RELATIVE_DIFFS, (usage - recommended) / recommended, mode, resource, oom)
    metrics.observe_all(recommendations, recommended, mode, *oom_labels)
    higher = recommended > usage
    if higher.any():
        metrics.observe_all(over, (recommended - usage)[higher], mode, _FALSE, *oom_labels)
    if not higher.all():
        metrics.observe_all(under, (usage - recommended)[~higher], mode, _FALSE, *oom_labels)


def observe_changes(
    metrics: Metrics,
    moved: tuple[FloatColumn, FloatColumn],
    modes: IntColumn,
    pods: IntColumn,
    names: Sequence[str],
) -> None:
    """Take in by how much targets moved, from and to (resource, container); a first one has not moved."""
    before, after = moved
    sizes = np.minimum(np.frexp(np.maximum(pods, 1).astype(np.float64))[1] - 1, _LARGEST)
    labels = modes * (_LARGEST + 1) + sizes
    for label in np.unique(labels).tolist():
        mode, size = divmod(label, _LARGEST + 1)
        for number, resource in enumerate(RESOURCES):
            is_selected = (labels == label) & (before[number] > 0) & ~np.isnan(after[number])
            if is_selected.any():
                changes = (after[number] - before[number])[is_selected] / before[number][is_selected]
                metrics.observe_all(RELATIVE_CHANGES, changes, names[mode], resource, str(size))


class RecommenderMetrics:
    """The metrics of passes."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._newest_sample = 0.0

    def observe_decision(self, decision: PassDecision) -> None:
        """Observe what a pass took in, and how that compares with what was recommended before."""
        ingested = decision.ingested
        self._metrics.set(STATES, decision.sizes.rows)
        self._metrics.set(MODEL_BYTES, decision.sizes.bytes)
        for source, number in ingested.sources.items():
            self._metrics.add(RESOURCES_READ, number, source)
        self._observe_samples(ingested.samples, ingested.kills)
        self._observe_quality(ingested.samples, ingested.kills, decision.recommendations.columns)

    def _observe_samples(self, samples: IngestResult, kills: OomRecord) -> None:
        self._metrics.add(SAMPLES, samples.accepted, _ACCEPTED)
        # History that is read later is older than live usage.
        self._newest_sample = float(np.max(samples.times, initial=self._newest_sample))
        self._metrics.set(NEWEST_SAMPLE, self._newest_sample)
        for code, number in samples.dropped.items():
            self._metrics.add(SAMPLES, number, code)
        self._metrics.add(OOMS, len(kills.kills), _ACCEPTED)
        for code, number in kills.dropped.items():
            self._metrics.add(OOMS, number, code)

    def _observe_quality(self, samples: IngestResult, kills: OomRecord, columns: PassColumns) -> None:
        """Compare samples and kills with what was published when they came, which was in force.

        The columns are those of the pass that ingested them: only it has the VPAs of new containers.
        """
        cpu, memory, modes = _read_published_targets(columns, samples.rows)
        observe_usage(self._metrics, "cpu", UsageComparison(samples.cpu, cpu, modes, WRITTEN_MODES))
        observe_usage(self._metrics, "memory", UsageComparison(samples.memory, memory, modes, WRITTEN_MODES))
        _, memory, modes = _read_published_targets(columns, kills.rows)
        observe_usage(self._metrics, "memory", UsageComparison(kills.memory, memory, modes, WRITTEN_MODES), oom=True)

    def observe_recommendations(self, result: PassResult, written: Sequence[VpaStatusWrite], now: float) -> None:
        """Observe what was recommended, once statuses are written."""
        flags = [str(flag).lower() for flag in (True, False)]
        counts: dict[tuple[str, ...], float] = dict.fromkeys(product(COUNTED_MODES, flags, _APIS, flags, flags), 0.0)
        for (mode, *others), number in result.counts.items():
            has, matches, unsupported = (str(flag).lower() for flag in others)
            counts[mode, has, _API, matches, unsupported] = number
        self._metrics.set_all(OBJECTS, counts)
        first = [now - write.created for write in written if write.is_first]
        self._metrics.observe_all(FIRST_RECOMMENDATION, np.array(first, dtype=np.float64))
        self._observe_changes(result.columns, written)
        self._observe_shadows(result)

    def set_unreadable(self, checkpoints: int) -> None:
        self._metrics.set(UNREADABLE, checkpoints)

    def _observe_changes(self, columns: PassColumns, written: Sequence[VpaStatusWrite]) -> None:
        """Observe by how much published targets changed, in every pass as upstream: one not written has not changed."""
        has_container = columns.container_numbers >= 0
        containers = columns.container_numbers[has_container]
        if not len(containers):
            return
        keys = {(write.namespace, write.name) for write in written}
        moved = np.array([(key.namespace, key.vpa) in keys for key in columns.keys], dtype=np.bool_)[has_container]
        before = columns.previous[:, containers]
        after = np.where(moved, columns.amounts[UNCAPPED][:, containers], before)
        observe_changes(
            self._metrics, (before, after), columns.modes[containers], columns.pods[containers], WRITTEN_MODES
        )

    def _observe_shadows(self, result: PassResult) -> None:
        """Observe how far shadow recommendations are from those in force."""
        for name, shadow in result.estimates.shadows.items():
            self._metrics.add(SHADOW_FAILURES, 1 if shadow.failure else 0, name)
        for name, resource, differences in compare_shadows(result.estimates.shadows, result.estimates.bounds):
            self._metrics.observe_all(SHADOW_DIFFERENCE, differences, name, resource)
        unhosted = Counter(shadow_use.recommender for shadow_use in result.missing_shadows)
        self._metrics.set_all(SHADOW_UNHOSTED, {(name,): number for name, number in unhosted.items()})


def _read_published_targets(columns: PassColumns, rows: IntColumn) -> tuple[FloatColumn, FloatColumn, IntColumn]:
    """The recommendation for some rows, in cores and bytes, and the modes of their VPAs."""
    uncapped = columns.find_previous_targets(rows)
    return uncapped[CPU] / MILLICORES_PER_CORE, uncapped[MEMORY], columns.find_modes(rows)
