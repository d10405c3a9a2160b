"""Which metrics does the recommender have? Upstream's, by name and label, and a few of its own."""

from __future__ import annotations

from typing import Final

from trellis.runtime.cluster_metrics import CLUSTER_METRICS
from trellis.runtime.metrics import CounterSpec, GaugeSpec, HistogramSpec, Spec
from trellis.runtime.steps import execution_latency

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
    ("update_mode", "has_recommendation", "api", "matches_pods", "unsupported_config"),
)
FIRST_RECOMMENDATION: Final = HistogramSpec(
    "vpa_recommender_recommendation_latency_seconds",
    "Time from the creation of a VPA to its first recommendation.",
    buckets=_FIRST_ADVICE,
)
LATENCY: Final = execution_latency("vpa_recommender")
STATES: Final = GaugeSpec(
    "vpa_recommender_aggregate_container_states_count", "Containers of VPAs for which usage is remembered."
)
RESPONSES: Final = CounterSpec(
    "vpa_recommender_metric_server_responses",
    "Answers of the source of live metrics.",
    ("is_error", "client_name"),
)
PROMETHEUS_REQUESTS: Final = CounterSpec(
    "vpa_recommender_prometheus_client_api_requests_count", "Requests to Prometheus.", ("code", "method")
)
PROMETHEUS_SECONDS: Final = HistogramSpec(
    "vpa_recommender_prometheus_client_api_requests_duration_seconds",
    "Time that requests to Prometheus took.",
    ("code", "method"),
    buckets=(
        *(0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
        *(1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0),
    ),
)
RESOURCES_READ: Final = CounterSpec(
    "vpa_resources_get_resources_count", "Where the resources of containers were read from.", ("source",)
)

RELATIVE_DIFFS: Final = HistogramSpec(
    "vpa_quality_usage_recommendation_relative_diffs",
    "Usage minus recommendation, over the recommendation.",
    ("update_mode", "resource", "is_oom"),
    buckets=_RELATIVE,
)
MISSING: Final = CounterSpec(
    "vpa_quality_usage_sample_missing_recommendation_count",
    "Samples of containers that have no recommendation.",
    ("update_mode", "resource", "is_oom"),
)
CPU_OVER: Final = HistogramSpec(
    "vpa_quality_cpu_recommendation_over_usage_diffs_cores",
    "Recommendation minus usage, where the recommendation is higher.",
    ("update_mode", "recommendation_missing"),
    buckets=_CORES,
)
MEMORY_OVER: Final = HistogramSpec(
    "vpa_quality_mem_recommendation_over_usage_diffs_bytes",
    "Recommendation minus usage, where the recommendation is higher.",
    ("update_mode", "recommendation_missing", "is_oom"),
    buckets=_BYTES,
)
CPU_UNDER: Final = HistogramSpec(
    "vpa_quality_cpu_recommendation_lower_equal_usage_diffs_cores",
    "Usage minus recommendation, where the recommendation is not higher.",
    ("update_mode", "recommendation_missing"),
    buckets=_CORES,
)
MEMORY_UNDER: Final = HistogramSpec(
    "vpa_quality_mem_recommendation_lower_equal_usage_diffs_bytes",
    "Usage minus recommendation, where the recommendation is not higher.",
    ("update_mode", "recommendation_missing", "is_oom"),
    buckets=_BYTES,
)
CPU_ADVICE: Final = HistogramSpec(
    "vpa_quality_cpu_recommendations_cores",
    "The recommendation, once for each sample.",
    ("update_mode",),
    buckets=_CORES,
)
MEMORY_ADVICE: Final = HistogramSpec(
    "vpa_quality_mem_recommendations_bytes",
    "The recommendation, once for each sample.",
    ("update_mode", "is_oom"),
    buckets=_BYTES,
)
RELATIVE_CHANGES: Final = HistogramSpec(
    "vpa_quality_relative_recommendation_changes",
    "By how much a published recommendation moved in a pass, over what it was.",
    ("update_mode", "resource", "vpa_size_log2"),
    buckets=_RELATIVE,
)

SAMPLES: Final = CounterSpec("trellis_recommender_samples_total", "Usage samples by what became of them.", ("result",))
OOMS: Final = CounterSpec(
    "trellis_recommender_oom_kills_total", "Out-of-memory kills by what became of them.", ("result",)
)
UNREADABLE: Final = GaugeSpec(
    "trellis_recommender_unreadable_checkpoints",
    "Checkpoints that could not be read and were not written anew yet; a copy of each is kept.",
)
MODEL_BYTES: Final = GaugeSpec(
    "trellis_recommender_model_bytes",
    "Bytes of the columns of the usage model, those included that were never touched and take no memory yet.",
)
WORKER_FAILURES: Final = CounterSpec(
    "trellis_recommender_worker_failures_total",
    "Failures of recommenders that work in a process of their own, by reason.",
    ("recommender", "reason"),
)
SHADOW_DIFFERENCE: Final = HistogramSpec(
    "trellis_recommender_shadow_relative_difference",
    "Target of a shadow recommender minus that of the serving one, over the latter, once for each container and pass.",
    ("recommender", "resource"),
    buckets=_RELATIVE,
)
SHADOW_FAILURES: Final = CounterSpec(
    "trellis_recommender_shadow_failures_total", "Passes in which a shadow recommender failed.", ("recommender",)
)
SHADOW_UNHOSTED: Final = GaugeSpec(
    "trellis_recommender_shadow_unhosted_vpas",
    "VPAs that want a shadow recommender that this process does not host.",
    ("recommender",),
)

RECOMMENDER_METRICS: Final[tuple[Spec, ...]] = (
    *CLUSTER_METRICS,
    *(OBJECTS, FIRST_RECOMMENDATION, LATENCY, STATES, RESPONSES, PROMETHEUS_REQUESTS, PROMETHEUS_SECONDS),
    *(RESOURCES_READ, RELATIVE_DIFFS, MISSING, CPU_OVER, MEMORY_OVER, CPU_UNDER, MEMORY_UNDER, CPU_ADVICE),
    *(MEMORY_ADVICE, RELATIVE_CHANGES, SAMPLES, OOMS, UNREADABLE, MODEL_BYTES),
    *(WORKER_FAILURES, SHADOW_DIFFERENCE, SHADOW_FAILURES, SHADOW_UNHOSTED),
)
