"""The HPA controller in a simulation: a model of that of Kubernetes 1.36, on virtual time.

It reads the count from the scale and the pods behind it from metrics, takes the highest proposal of its metrics, and
writes when its answer is another. Its status has counts, metrics and conditions as the controller writes them.

    hpas = SimulatedHpas(kernel, scales, ModelPodMetrics(cluster), cluster.selected, on_status=hvpas.hpa)
    hpas.put(hpa)
    hpas.work()
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from trellis.api.kube.meta import Condition
from trellis.api.kube.scaling import HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus, Scale, ScalingRules
from trellis.base.errors import InvalidQuantity, InvalidSelector
from trellis.base.quantities import Quantity
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.cluster.write_results import WriteResult
from trellis.sim.cluster.api_server import ScaleRegistry
from trellis.sim.cluster.pods import api_time
from trellis.sim.components.hpa_metrics import (
    MetricFailure,
    MetricProposal,
    ModelPodMetrics,
    PodMetricsSnapshot,
    evaluate_metric,
    list_metrics,
)
from trellis.sim.components.hpa_replicas import WITHIN_RANGE, HpaScaleLimits, HpaTolerance
from trellis.sim.kernel import Kernel

ABLE: Final = "AbleToScale"
ACTIVE: Final = "ScalingActive"
LIMITED: Final = "ScalingLimited"


class HpaStatusBuilder:
    """Builds the status of an HPA during one pass, step by step."""

    def __init__(self, before: HorizontalPodAutoscalerStatus, now: float) -> None:
        self._now = now
        self._before = {condition.type: condition for condition in before.conditions}
        self._conditions = dict(self._before)
        self.current = before.current_replicas
        self.desired = before.desired_replicas
        self.metrics = before.current_metrics
        self.scaled_at = before.last_scale_time

    def set_condition(self, type_: str, holds: bool, reason: str, message: str) -> None:
        """Set a condition, whose time changes with its value alone."""
        status, old = "True" if holds else "False", self._before.get(type_)
        since = old.last_transition_time if old is not None and old.status == status else api_time(self._now)
        self._conditions[type_] = Condition(type_, 0, status, since, reason, message)

    def status(self, generation: int) -> HorizontalPodAutoscalerStatus:
        return HorizontalPodAutoscalerStatus(
            generation, self.scaled_at, self.current, self.desired, self.metrics, tuple(self._conditions.values())
        )


# The numbers of the workloads whose pods a selector matches, in a namespace.
Selected = Callable[[str, str], Sequence[int]]
OnStatus = Callable[[HorizontalPodAutoscaler], None]


class _HpaRecord:
    """One HPA as it is stored, and what its controller remembers of it."""

    def __init__(self, hpa: HorizontalPodAutoscaler) -> None:
        spec = hpa.spec
        self.hpa = hpa
        self.metrics = list_metrics(spec)
        self.limits = HpaScaleLimits(
            1 if spec.min_replicas is None else spec.min_replicas, spec.max_replicas, spec.behavior
        )
        rules = (spec.behavior.scale_down, spec.behavior.scale_up) if spec.behavior is not None else (None, None)
        self.tolerance = HpaTolerance(*(_tolerance(rule) for rule in rules))
        reference = spec.scale_target_ref
        self.target = (hpa.metadata.namespace, reference.kind, reference.name)


class _HpaPass(msgspec.Struct, frozen=True):
    """The input of all HPAs: pods by metrics, the workloads behind each HPA, and how many HPAs select a workload."""

    pods: PodMetricsSnapshot
    workloads: Mapping[ObjectKey, Sequence[int]]
    claims: Counter[int]

    def find_failure(self, workloads: Sequence[int]) -> MetricFailure | None:
        """Why an HPA cannot scale by these workloads; None if it can."""
        if not workloads:
            return MetricFailure("InvalidSelector", "the HPA target's scale is missing a selector")
        if any(self.claims[number] > 1 for number in workloads):
            return MetricFailure("AmbiguousSelector", "several HPAs control the same pods")
        return None


class SimulatedHpas:
    """The HPAs of a variant. `on_status` is called with each HPA whose status has changed."""

    def __init__(
        self,
        kernel: Kernel,
        scales: ScaleRegistry,
        metrics: ModelPodMetrics,
        selected: Selected,
        *,
        on_status: OnStatus = lambda _: None,
    ) -> None:
        self._kernel = kernel
        self._scales = scales
        self._metrics = metrics
        self._selected = selected
        self._on_status = on_status
        self._records: dict[ObjectKey, _HpaRecord] = {}
        self._pods: dict[tuple[str, str], Sequence[int]] = {}

    def __len__(self) -> int:
        return len(self._records)

    def put(self, hpa: HorizontalPodAutoscaler) -> None:
        """Add an HPA, or replace its spec: its earlier proposals are forgotten."""
        self._records[key_of(hpa)] = _HpaRecord(hpa)

    def find(self, key: ObjectKey) -> HorizontalPodAutoscaler | None:
        """An HPA with its present status."""
        record = self._records.get(key)
        return record.hpa if record is not None else None

    def reconcile_all(self) -> None:
        """Reconcile all HPAs."""
        if not self._records:
            return
        now = self._kernel.now
        scales = {key: self._scales.get(*record.target) for key, record in self._records.items()}
        workloads = {key: self._find_workloads(key[0], scale) for key, scale in scales.items()}
        claims = Counter(number for selected in workloads.values() for number in selected)
        hpa_pass = _HpaPass(self._metrics.snapshot(now), workloads, claims)
        for key, record in self._records.items():
            builder = HpaStatusBuilder(record.hpa.status, now)
            self._reconcile(record, builder, scales[key], hpa_pass)
            status = builder.status(record.hpa.metadata.generation)
            if status != record.hpa.status:
                record.hpa = msgspec.structs.replace(record.hpa, status=status)
                self._on_status(record.hpa)

    def _find_workloads(self, namespace: str, scale: Scale | None) -> Sequence[int]:
        """The workloads whose pods a scale selects; none without a selector."""
        selector = scale.status.selector if scale is not None else ""
        if not selector:
            return ()
        selection = (namespace, selector)
        if selection not in self._pods:
            try:
                self._pods[selection] = self._selected(namespace, selector)
            except InvalidSelector:
                self._pods[selection] = ()
        return self._pods[selection]

    def _reconcile(
        self, record: _HpaRecord, builder: HpaStatusBuilder, scale: Scale | None, hpa_pass: _HpaPass
    ) -> None:
        if scale is None:
            builder.set_condition(
                ABLE, False, "FailedGetScale", "the HPA controller was unable to get the target's current scale"
            )
            return
        builder.set_condition(
            ABLE, True, "SucceededGetScale", "the HPA controller was able to get the target's current scale"
        )
        builder.current = current = scale.spec.replicas
        limits = record.limits
        limits.begin(current, self._kernel.now)
        desired: int | None
        if current == 0 and limits.least != 0:
            builder.set_condition(
                ACTIVE, False, "ScalingDisabled", "scaling is disabled since the replica count of the target is zero"
            )
            desired = 0
        elif current > limits.most:
            desired = limits.most
        elif current < limits.least:
            desired = limits.least
        else:
            desired = self._propose(record, builder, hpa_pass)
        if desired is None:
            return
        builder.desired = desired
        if desired != current:
            self._write(record, builder, scale, desired)

    def _propose(self, record: _HpaRecord, builder: HpaStatusBuilder, hpa_pass: _HpaPass) -> int | None:
        """The replicas that its metrics propose, within its limits; None if metrics have no answer."""
        workloads = hpa_pass.workloads[key_of(record.hpa)]
        failed = hpa_pass.find_failure(workloads)
        outcomes = [
            failed or evaluate_metric(metric, hpa_pass.pods, workloads, builder.current, record.tolerance)
            for metric in record.metrics
        ]
        proposals = [outcome for outcome in outcomes if isinstance(outcome, MetricProposal)]
        failed = next((outcome for outcome in outcomes if isinstance(outcome, MetricFailure)), None)
        builder.metrics = tuple(proposal.current for proposal in proposals)
        proposed = max((proposal.replicas for proposal in proposals), default=0)
        # A metric that fails might propose more: without it nothing is scaled down.
        if failed is not None and (not proposals or proposed < builder.current):
            builder.set_condition(ACTIVE, False, failed.reason, failed.message)
            return None
        builder.set_condition(
            ACTIVE, True, "ValidMetricFound", "the HPA was able to successfully calculate a replica count"
        )
        limited = record.limits.limit(proposed, builder.current, self._kernel.now)
        message = f"the metrics ask for {proposed} replicas, {limited.replicas} are allowed"
        builder.set_condition(ABLE, True, limited.able, message)
        builder.set_condition(LIMITED, limited.limited != WITHIN_RANGE, limited.limited, message)
        return limited.replicas

    def _write(self, record: _HpaRecord, builder: HpaStatusBuilder, scale: Scale, desired: int) -> None:
        result = self._scales.put(*record.target, desired, version=scale.metadata.resource_version)
        if result is not WriteResult.APPLIED:
            builder.set_condition(
                ABLE, False, "FailedUpdateScale", f"the HPA controller was unable to update the target scale: {result}"
            )
            return
        now = self._kernel.now
        builder.set_condition(
            ABLE, True, "SucceededRescale", f"the HPA controller was able to update the target scale to {desired}"
        )
        builder.scaled_at = api_time(now)
        record.limits.record_scaling(builder.current, desired, now)


def _tolerance(rules: ScalingRules | None) -> float:
    default = HpaTolerance().up
    if rules is None or not rules.tolerance:
        return default
    try:
        return float(Quantity.parse(rules.tolerance).exact())
    except InvalidQuantity:
        return default
