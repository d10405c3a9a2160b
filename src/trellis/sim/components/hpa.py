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

    def say(self, type_: str, holds: bool, reason: str, message: str) -> None:
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
    behind: Mapping[ObjectKey, Sequence[int]]
    claims: Counter[int]

    def why_not(self, workloads: Sequence[int]) -> MetricFailure | None:
        """Why an HPA cannot scale by these workloads; None if it can."""
        if not workloads:
            return MetricFailure("InvalidSelector", "the scale of the target has no selector for pods")
        if any(self.claims[number] > 1 for number in workloads):
            return MetricFailure("AmbiguousSelector", "several HPAs are about the same pods")
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
        self._told = on_status
        self._known: dict[ObjectKey, _HpaRecord] = {}
        self._pods: dict[tuple[str, str], Sequence[int]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def put(self, hpa: HorizontalPodAutoscaler) -> None:
        """Add an HPA, or replace its spec: its earlier proposals are forgotten."""
        self._known[key_of(hpa)] = _HpaRecord(hpa)

    def find(self, key: ObjectKey) -> HorizontalPodAutoscaler | None:
        """An HPA with its present status."""
        record = self._known.get(key)
        return record.hpa if record is not None else None

    def work(self) -> None:
        """Reconcile all HPAs."""
        if not self._known:
            return
        now = self._kernel.now
        scales = {key: self._scales.get(*record.target) for key, record in self._known.items()}
        behind = {key: self._behind(key[0], scale) for key, scale in scales.items()}
        claims = Counter(number for numbers_behind in behind.values() for number in numbers_behind)
        at = _HpaPass(self._metrics.gathered(now), behind, claims)
        for key, record in self._known.items():
            look = HpaStatusBuilder(record.hpa.status, now)
            self._look(record, look, scales[key], at)
            status = look.status(record.hpa.metadata.generation)
            if status != record.hpa.status:
                record.hpa = msgspec.structs.replace(record.hpa, status=status)
                self._told(record.hpa)

    def _behind(self, namespace: str, scale: Scale | None) -> Sequence[int]:
        """The workloads whose pods a scale selects; none without a selector."""
        selector = scale.status.selector if scale is not None else ""
        if not selector:
            return ()
        where = (namespace, selector)
        if where not in self._pods:
            try:
                self._pods[where] = self._selected(namespace, selector)
            except InvalidSelector:
                self._pods[where] = ()
        return self._pods[where]

    def _look(self, record: _HpaRecord, look: HpaStatusBuilder, scale: Scale | None, at: _HpaPass) -> None:
        if scale is None:
            look.say(ABLE, False, "FailedGetScale", "the scale of the target cannot be read")
            return
        look.say(ABLE, True, "SucceededGetScale", "the scale of the target was read")
        look.current = current = scale.spec.replicas
        limits = record.limits
        limits.begin(current, self._kernel.now)
        desired: int | None
        if current == 0 and limits.least != 0:
            look.say(ACTIVE, False, "ScalingDisabled", "the target has no replicas, which switches scaling off")
            desired = 0
        elif current > limits.most:
            desired = limits.most
        elif current < limits.least:
            desired = limits.least
        else:
            desired = self._wanted(record, look, at)
        if desired is None:
            return
        look.desired = desired
        if desired != current:
            self._write(record, look, scale, desired)

    def _wanted(self, record: _HpaRecord, look: HpaStatusBuilder, at: _HpaPass) -> int | None:
        """The replicas that its metrics propose, within its limits; None if metrics have no answer."""
        workloads = at.behind[key_of(record.hpa)]
        failed = at.why_not(workloads)
        answers = [
            failed or evaluate_metric(metric, at.pods, workloads, look.current, record.tolerance)
            for metric in record.metrics
        ]
        proposals = [answer for answer in answers if isinstance(answer, MetricProposal)]
        failed = next((answer for answer in answers if isinstance(answer, MetricFailure)), None)
        look.metrics = tuple(proposal.current for proposal in proposals)
        proposed = max((proposal.replicas for proposal in proposals), default=0)
        # A metric that fails might propose more: without it nothing is scaled down.
        if failed is not None and (not proposals or proposed < look.current):
            look.say(ACTIVE, False, failed.reason, failed.message)
            return None
        look.say(ACTIVE, True, "ValidMetricFound", "a count was worked out from metrics")
        may = record.limits.limited(proposed, look.current, self._kernel.now)
        message = f"{proposed} proposed, {may.replicas} allowed now"
        look.say(ABLE, True, may.able, message)
        look.say(LIMITED, may.limited != WITHIN_RANGE, may.limited, message)
        return may.replicas

    def _write(self, record: _HpaRecord, look: HpaStatusBuilder, scale: Scale, desired: int) -> None:
        result = self._scales.put(*record.target, desired, version=scale.metadata.resource_version)
        if result is not WriteResult.APPLIED:
            look.say(ABLE, False, "FailedUpdateScale", f"the scale was not written: {result}")
            return
        now = self._kernel.now
        look.say(ABLE, True, "SucceededRescale", f"scaled from {look.current} to {desired}")
        look.scaled_at = api_time(now)
        record.limits.scaled(look.current, desired, now)


def _tolerance(rules: ScalingRules | None) -> float:
    usual = HpaTolerance().up
    if rules is None or not rules.tolerance:
        return usual
    try:
        return float(Quantity.parse(rules.tolerance).exact())
    except InvalidQuantity:
        return usual
