"""Metrics of the updater: upstream's, by name and label, and some of its own.

Actions are counted as they happen; how many pods wait, and for what, is set once in a full pass.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import product
from typing import Final

import msgspec

from trellis.api.resolve import COUNTED_MODES, UpdateMode
from trellis.core.resize.actions import Action, DecisionKind, EvictPod, ResizePod, UnmarkPod
from trellis.core.resize.disruption_budget import EVICTION_TOLERANCE_EXHAUSTED, HOURLY_BUDGET_EXHAUSTED
from trellis.core.resize.plan import UpdatePlan
from trellis.core.resize.planner import ADMISSION_ABSENT
from trellis.core.resize.resize_or_evict import RESIZE_INFEASIBLE, RESIZE_REFUSED
from trellis.core.resize.state.attempts import BACKING_OFF, EVICTION_LOOP
from trellis.core.resize.state.indexes import WorkloadKey
from trellis.core.resize.state.workload_cache import WorkloadSnapshot
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.runtime.telemetry.cluster_metrics import CLUSTER_METRICS, SHARD_METRICS
from trellis.runtime.telemetry.metrics import (
    REASON,
    CounterSpec,
    GaugeSpec,
    HistogramSpec,
    Label,
    Metrics,
    Spec,
    execution_latency,
)

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

# Sizes are counted by powers of two, up to this one.
LARGEST_SIZE: Final = 20

_SIZE: Final = Label("vpa_size_log2", "binary logarithm of the number of pods, rounded down: `0` to `20`")
_BY_MODE: Final = (_SIZE, Label("update_mode", values=COUNTED_MODES))
_BY_SIZE: Final = (_SIZE,)
OBJECT: Final = (
    Label("vpa_name", "name of the VPA or Hvpa"),
    Label("vpa_namespace", "namespace of the VPA or Hvpa"),
)

CONTROLLED: Final = GaugeSpec("vpa_updater_controlled_pods_total", "Pods governed by a VPA or Hvpa.", _BY_MODE)
EVICTABLE: Final = GaugeSpec("vpa_updater_evictable_pods_total", "Pods that need an eviction, now or later.", _BY_MODE)
WITH_EVICTABLE: Final = GaugeSpec(
    "vpa_updater_vpas_with_evictable_pods_total", "VPAs and Hvpas with pods that need an eviction.", _BY_MODE
)
WITH_EVICTED: Final = GaugeSpec(
    "vpa_updater_vpas_with_evicted_pods_total", "VPAs and Hvpas with pods evicted in the last pass.", _BY_MODE
)
EVICTED: Final = CounterSpec("vpa_updater_evicted_pods_total", "Pods evicted.", (*_BY_MODE, *OBJECT))
FAILED_EVICTIONS: Final = CounterSpec(
    "vpa_updater_failed_eviction_attempts_total",
    "Failed evictions, including those refused by a PodDisruptionBudget.",
    (*_BY_MODE, Label("reason", values=(EVICTION_ERROR,)), *OBJECT),
)
UPDATABLE: Final = GaugeSpec(
    "vpa_updater_in_place_updatable_pods_total", "Pods that need a resize in place, now or later.", _BY_SIZE
)
WITH_UPDATABLE: Final = GaugeSpec(
    "vpa_updater_vpas_with_in_place_updatable_pods_total",
    "VPAs and Hvpas with pods that need a resize in place.",
    _BY_SIZE,
)
WITH_UPDATED: Final = GaugeSpec(
    "vpa_updater_vpas_with_in_place_updated_pods_total",
    "VPAs and Hvpas with pods resized in place in the last pass.",
    _BY_SIZE,
)
UPDATED: Final = CounterSpec("vpa_updater_in_place_updated_pods_total", "Pods resized in place.", (*_BY_SIZE, *OBJECT))
FAILED_UPDATES: Final = CounterSpec(
    "vpa_updater_failed_in_place_update_attempts_total",
    "Failed resizes in place.",
    (*_BY_SIZE, Label("reason", values=(UPDATE_ERROR, UPDATE_INFEASIBLE, UNBOOST_ERROR)), *OBJECT),
)
INFEASIBLE_SKIPS: Final = CounterSpec(
    "vpa_updater_in_place_infeasible_skip_pods_total",
    "Pods that are not resized because an earlier resize was infeasible.",
    (*_BY_SIZE, *OBJECT),
)
LATENCY: Final = execution_latency("vpa_updater", LIST_VPAS, LIST_PODS, ADMISSION_INIT, FILTER_PODS, EVICT_PODS)
ABSENT_ADMISSION: Final = CounterSpec(
    "vpa_updater_admission_controller_status_invalid_total",
    "Passes without evictions, because the admission controller's status Lease is missing, stale or unreadable.",
    (Label("reason", values=(STATUS_ERROR, STATUS_INVALID)),),
)

VERDICTS: Final = GaugeSpec(
    "trellis_updater_pods",
    "Governed pods by last decision and reason.",
    (Label("way", values=DecisionKind), REASON),
)
WARNINGS: Final = GaugeSpec("trellis_updater_warned_pods", "Governed pods with a warning, by reason.", (REASON,))
PLANS: Final = CounterSpec("trellis_updater_plans_total", "Plans computed for workloads.")
PLANNING: Final = HistogramSpec(
    "trellis_updater_planning_seconds",
    "Time to compute the plans of one batch of workloads.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5),
)
PLAN_FAILURES: Final = CounterSpec(
    "trellis_updater_plan_failures_total",
    "Internal errors that left a workload without a plan; each is a bug, and logged.",
)
OUTDATED: Final = CounterSpec(
    "trellis_updater_outdated_actions_total", "Actions dropped because their workload changed while they were queued."
)
UNBOOST_DELAY: Final = HistogramSpec(
    "trellis_updater_unboost_delay_seconds",
    "Latency of the API server for resizes that end a boost.",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0),
)
WAITING: Final = GaugeSpec("trellis_updater_waiting_writes", "Changes queued for the API server.")
ADMISSION_LIVE: Final = GaugeSpec(
    "trellis_updater_admission_live", "1 while an admission controller renews its status Lease, else 0."
)

UPDATER_METRICS: Final[tuple[Spec, ...]] = (
    *CLUSTER_METRICS,
    *SHARD_METRICS,
    *(CONTROLLED, EVICTABLE, WITH_EVICTABLE, WITH_EVICTED, EVICTED, FAILED_EVICTIONS),
    *(UPDATABLE, WITH_UPDATABLE, WITH_UPDATED, UPDATED, FAILED_UPDATES, INFEASIBLE_SKIPS, LATENCY),
    ABSENT_ADMISSION,
    *(VERDICTS, WARNINGS, PLANS, PLANNING, PLAN_FAILURES, OUTDATED, UNBOOST_DELAY, WAITING, ADMISSION_LIVE),
)


def size_label(pods: int) -> str:
    """The size of a workload as upstream reports it: the whole part of the binary logarithm."""
    return str(min(int(math.log2(pods)), LARGEST_SIZE) if pods > 0 else 0)


_SIZES = tuple(map(str, range(LARGEST_SIZE)))
# Why pods that are to be changed wait for their turn.
_WAITING_REASONS = (BACKING_OFF, HOURLY_BUDGET_EXHAUSTED)
_EVICTING = ("Recreate", "Auto")
_MODES = (UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.IN_PLACE)


class DecisionCounts(msgspec.Struct, frozen=True):
    """What was last decided about a workload."""

    name: str
    mode: str
    size: str
    pods: int
    decisions: Counter[tuple[str, str]]
    warnings: Counter[str]
    # Whether the object lets the updater change running pods at all: others are not controlled, as upstream has it.
    is_controlling: bool

    def count_pending(self) -> tuple[int, int]:
        """How many pods are to be evicted and resized, now or after others."""
        evicts, resizes = (
            sum(count for (way, _), count in self.decisions.items() if way == kind.value)
            for kind in (DecisionKind.EVICT, DecisionKind.RESIZE)
        )
        # If no pod may be disrupted now, the tolerance is used up by other pods, and no waiting pod is next.
        waiting_reasons = (*_WAITING_REASONS, EVICTION_TOLERANCE_EXHAUSTED) if evicts or resizes else _WAITING_REASONS
        waiting = sum(self.decisions[DecisionKind.WAIT.value, reason.code] for reason in waiting_reasons)
        evicts += (
            self.decisions[DecisionKind.WAIT.value, ADMISSION_ABSENT.code]
            + self.decisions[DecisionKind.LEAVE.value, EVICTION_LOOP.code]
        )
        return (evicts + waiting, resizes) if self.mode in _EVICTING else (evicts, resizes + waiting)


class UpdaterMetrics:
    """Exports the metrics of the updater. All methods but `full_pass` are called on the event loop."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.counts_by_workload: dict[WorkloadKey, DecisionCounts] = {}
        self._evicted: set[WorkloadKey] = set()
        self._updated: set[WorkloadKey] = set()
        for counter in (PLANS, PLAN_FAILURES, OUTDATED):
            metrics.add(counter, 0)
        for reason in (STATUS_ERROR, STATUS_INVALID):
            metrics.add(ABSENT_ADMISSION, 0, reason)

    def observe_plan(self, snapshot: WorkloadSnapshot, plan: UpdatePlan) -> None:
        """A plan was made."""
        ways = Counter((decision.kind.value, decision.reason.code) for decision in plan.decisions)
        warnings = Counter(warning.code for decision in plan.decisions for warning in decision.warnings)
        governor, pods = snapshot.governor, snapshot.live_pods
        vpa, size = governor.vpa, size_label(pods)
        controls = vpa.can_boost or vpa.mode not in (UpdateMode.OFF, UpdateMode.INITIAL)
        counts = DecisionCounts(governor.name, vpa.counted_mode, size, pods, ways, warnings, controls)
        before = self.counts_by_workload.get(snapshot.workload)
        self.counts_by_workload[snapshot.workload] = counts
        skipped = _count_skipped(counts) - (_count_skipped(before) if before is not None else 0)
        if skipped > 0:
            self._metrics.add(INFEASIBLE_SKIPS, skipped, counts.size, counts.name, snapshot.workload[0])

    def forget(self, workload: WorkloadKey) -> None:
        """Nothing governs the workload any more."""
        self.counts_by_workload.pop(workload, None)

    def retain(self, covers: Callable[[str], bool]) -> None:
        """Forget workloads in namespaces that are not covered: another replica serves them."""
        counts = self.counts_by_workload
        self.counts_by_workload = {workload: counts[workload] for workload in counts if covers(workload[0])}

    def count_outdated(self) -> None:
        """An action was dropped."""
        self._metrics.add(OUTDATED, 1)

    def observe_execution(
        self, snapshot: WorkloadSnapshot, action: Action, outcome: WriteOutcome, seconds: float
    ) -> None:
        """An action was tried, with its duration."""
        governor = snapshot.governor
        size, mode = size_label(snapshot.live_pods), governor.vpa.counted_mode
        object_labels = (governor.name, snapshot.workload[0])
        if isinstance(action, UnmarkPod) or outcome.result is Result.SKIPPED:
            return
        if isinstance(action, EvictPod):
            if outcome.applied:
                self._metrics.add(EVICTED, 1, size, mode, *object_labels)
                self._evicted.add(snapshot.workload)
            else:
                self._metrics.add(FAILED_EVICTIONS, 1, size, mode, EVICTION_ERROR, *object_labels)
        elif outcome.applied:
            self._metrics.add(UPDATED, 1, size, *object_labels)
            self._updated.add(snapshot.workload)
            if action.unboosts:
                self._metrics.observe(UNBOOST_DELAY, seconds)
        else:
            reason = _classify_failure(action, outcome, governor.vpa.mode)
            self._metrics.add(FAILED_UPDATES, 1, size, reason, *object_labels)

    def begin_pass(self) -> None:
        """A full pass begins: what was done before belongs to another."""
        self._evicted.clear()
        self._updated.clear()

    def export_counts(self, counts_by_workload: Mapping[WorkloadKey, DecisionCounts]) -> None:
        """Say how many pods wait for what. It takes milliseconds for thousands of workloads: call it in a thread."""
        by_mode = {spec: Counter[tuple[str, ...]]() for spec in _GAUGES_BY_MODE}
        by_size = {spec: Counter[tuple[str, ...]]() for spec in _GAUGES_BY_SIZE}
        reasons: Counter[tuple[str, ...]] = Counter()
        warnings: Counter[tuple[str, ...]] = Counter()
        for workload, counts in counts_by_workload.items():
            reasons.update(counts.decisions)
            warnings.update({(code,): count for code, count in counts.warnings.items()})
            if not counts.is_controlling:
                continue
            labels = (counts.size, counts.mode)
            evicts, resizes = counts.count_pending()
            by_mode[CONTROLLED][labels] += counts.pods
            by_mode[EVICTABLE][labels] += evicts
            by_mode[WITH_EVICTABLE][labels] += evicts > 0
            by_mode[WITH_EVICTED][labels] += workload in self._evicted
            by_size[UPDATABLE][counts.size,] += resizes
            by_size[WITH_UPDATABLE][counts.size,] += resizes > 0
            by_size[WITH_UPDATED][counts.size,] += workload in self._updated
            self._create_counters(workload[0], counts)
        for spec, totals in by_mode.items():
            zeros: dict[tuple[str, ...], float] = {(size, mode.value): 0.0 for size, mode in product(_SIZES, _MODES)}
            self._set(spec, zeros, totals)
        for spec, totals in by_size.items():
            self._set(spec, {(size,): 0.0 for size in _SIZES}, totals)
        self._set(VERDICTS, {}, reasons)
        self._set(WARNINGS, {}, warnings)
        self._metrics.remove_deleted(
            OBJECT, {(counts.name, workload[0]) for workload, counts in counts_by_workload.items()}
        )

    def _create_counters(self, namespace: str, counts: DecisionCounts) -> None:
        """A first eviction shall show as a rise."""
        self._metrics.add(EVICTED, 0, counts.size, counts.mode, counts.name, namespace)
        self._metrics.add(UPDATED, 0, counts.size, counts.name, namespace)

    def _set(self, spec: GaugeSpec, zeros: dict[tuple[str, ...], float], totals: Mapping[tuple[str, ...], int]) -> None:
        self._metrics.set_all(spec, zeros | {labels: float(count) for labels, count in totals.items()})


_GAUGES_BY_MODE = (CONTROLLED, EVICTABLE, WITH_EVICTABLE, WITH_EVICTED)
_GAUGES_BY_SIZE = (UPDATABLE, WITH_UPDATABLE, WITH_UPDATED)


def _count_skipped(counts: DecisionCounts) -> int:
    return sum(
        counts.decisions[DecisionKind.LEAVE.value, reason.code] for reason in (RESIZE_INFEASIBLE, RESIZE_REFUSED)
    )


def _classify_failure(action: ResizePod, outcome: WriteOutcome, mode: UpdateMode) -> str:
    if action.unboosts:
        return UNBOOST_ERROR
    # Where the pod is evicted instead, upstream does not distinguish failures.
    is_final = outcome.result is Result.INFEASIBLE and mode is UpdateMode.IN_PLACE
    return UPDATE_INFEASIBLE if is_final else UPDATE_ERROR
