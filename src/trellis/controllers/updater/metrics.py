"""Which metrics does the updater have? Upstream's, by name and label, and a few of its own."""

from __future__ import annotations

import math
from typing import Final

from trellis.runtime.cluster_metrics import CLUSTER_METRICS
from trellis.runtime.metrics import CounterSpec, GaugeSpec, HistogramSpec, Spec
from trellis.runtime.steps import execution_latency

# The steps of a full pass, as upstream names them.
LIST_VPAS: Final = "ListVPAs"
LIST_PODS: Final = "ListPods"
FILTER_PODS: Final = "FilterPods"
ADMISSION_INIT: Final = "AdmissionInit"
EVICT_PODS: Final = "EvictPods"

# Why an attempt failed, in upstream's words.
EVICTION_ERROR: Final = "EvictionError"
UPDATE_ERROR: Final = "InPlaceUpdateError"
UPDATE_INFEASIBLE: Final = "InPlaceUpdateInfeasible"
UNBOOST_ERROR: Final = "UnboostError"

# Why the admission controller counts as absent, in upstream's words: its Lease could not be read, or is too old.
STATUS_ERROR: Final = "error"
STATUS_INVALID: Final = "invalid"

# The sizes that are told apart: powers of two up to this one.
LARGEST_SIZE: Final = 20

_BY_MODE: Final = ("vpa_size_log2", "update_mode")
_BY_SIZE: Final = ("vpa_size_log2",)
OBJECT: Final = ("vpa_name", "vpa_namespace")

CONTROLLED: Final = GaugeSpec("vpa_updater_controlled_pods_total", "Pods that are governed.", _BY_MODE)
EVICTABLE: Final = GaugeSpec(
    "vpa_updater_evictable_pods_total", "Pods that are to be evicted, their turn or not.", _BY_MODE
)
WITH_EVICTABLE: Final = GaugeSpec(
    "vpa_updater_vpas_with_evictable_pods_total", "Objects with pods that are to be evicted.", _BY_MODE
)
WITH_EVICTED: Final = GaugeSpec(
    "vpa_updater_vpas_with_evicted_pods_total", "Objects with pods that the last pass evicted.", _BY_MODE
)
EVICTED: Final = CounterSpec("vpa_updater_evicted_pods_total", "Pods that were evicted.", (*_BY_MODE, *OBJECT))
FAILED_EVICTIONS: Final = CounterSpec(
    "vpa_updater_failed_eviction_attempts_total",
    "Evictions that were asked for and not granted, budgets of others included.",
    (*_BY_MODE, "reason", *OBJECT),
)
UPDATABLE: Final = GaugeSpec(
    "vpa_updater_in_place_updatable_pods_total", "Pods that are to be resized, their turn or not.", _BY_SIZE
)
WITH_UPDATABLE: Final = GaugeSpec(
    "vpa_updater_vpas_with_in_place_updatable_pods_total",
    "Objects with pods that are to be resized.",
    _BY_SIZE,
)
WITH_UPDATED: Final = GaugeSpec(
    "vpa_updater_vpas_with_in_place_updated_pods_total", "Objects with pods that the last pass resized.", _BY_SIZE
)
UPDATED: Final = CounterSpec(
    "vpa_updater_in_place_updated_pods_total", "Pods that were resized in place.", (*_BY_SIZE, *OBJECT)
)
FAILED_UPDATES: Final = CounterSpec(
    "vpa_updater_failed_in_place_update_attempts_total",
    "Resizes that were asked for and not granted.",
    (*_BY_SIZE, "reason", *OBJECT),
)
INFEASIBLE_SKIPS: Final = CounterSpec(
    "vpa_updater_in_place_infeasible_skip_pods_total",
    "Pods left alone because their resize was found to be infeasible.",
    (*_BY_SIZE, *OBJECT),
)
LATENCY: Final = execution_latency("vpa_updater")
ABSENT_ADMISSION: Final = CounterSpec(
    "vpa_updater_admission_controller_status_invalid_total",
    "Passes without evictions, because the Lease of the admission controller is missing, too old or cannot be read.",
    ("reason",),
)

VERDICTS: Final = GaugeSpec(
    "trellis_updater_pods", "Governed pods, by what was last decided about them and why.", ("way", "reason")
)
WARNINGS: Final = GaugeSpec("trellis_updater_warned_pods", "Governed pods with a warning, by reason.", ("reason",))
PLANS: Final = CounterSpec("trellis_updater_plans_total", "Plans that were made for a workload.")
PLANNING: Final = HistogramSpec(
    "trellis_updater_planning_seconds",
    "Time that views and plans of one batch of workloads took.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5),
)
PLAN_FAILURES: Final = CounterSpec(
    "trellis_updater_plan_failures_total",
    "Errors of our own that left a workload without a plan; each of them is a bug, and logged.",
)
OUTDATED: Final = CounterSpec(
    "trellis_updater_outdated_actions_total", "Actions dropped because their workload had changed while they waited."
)
UNBOOST_DELAY: Final = HistogramSpec(
    "trellis_updater_unboost_delay_seconds",
    "Time that the API server took for the resize that ends a boost.",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0),
)
WAITING: Final = GaugeSpec("trellis_updater_waiting_writes", "Changes that wait for their turn to be written.")
ADMISSION_LIVE: Final = GaugeSpec(
    "trellis_updater_admission_live", "1 while the admission controller is there, else 0."
)

UPDATER_METRICS: Final[tuple[Spec, ...]] = (
    *CLUSTER_METRICS,
    *(CONTROLLED, EVICTABLE, WITH_EVICTABLE, WITH_EVICTED, EVICTED, FAILED_EVICTIONS),
    *(UPDATABLE, WITH_UPDATABLE, WITH_UPDATED, UPDATED, FAILED_UPDATES, INFEASIBLE_SKIPS, LATENCY),
    ABSENT_ADMISSION,
    *(VERDICTS, WARNINGS, PLANS, PLANNING, PLAN_FAILURES, OUTDATED, UNBOOST_DELAY, WAITING, ADMISSION_LIVE),
)


def size_label(pods: int) -> str:
    """How upstream tells the size of a workload: the whole part of the binary logarithm."""
    return str(min(int(math.log2(pods)), LARGEST_SIZE) if pods > 0 else 0)
