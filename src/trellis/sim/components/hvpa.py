"""The Hvpa controller in a simulation: the core's plans, made when the live controller would make them.

An Hvpa is reconciled when something about it changes, when it is due, and every interval. Actions are executed at once:
the model's API server has no queue, and nothing else writes a target's count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import msgspec

from trellis.api.kinds.hvpa import Hvpa, HvpaStatus, ResourceTotals
from trellis.api.kinds.vpa import PodRecommendation, VerticalPodAutoscaler
from trellis.api.kube.pods import Pod
from trellis.api.kube.scaling import HorizontalPodAutoscaler, Scale, ScaleSpec, ScaleStatus
from trellis.api.registry import HVPA
from trellis.base.errors import InvalidInput
from trellis.base.selectors import Selector
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.cluster.write_results import WriteResult
from trellis.core.hvpa import (
    HvpaMemory,
    HvpaPlan,
    HvpaSettings,
    SetScale,
    WriteBack,
    build_hpa_demand,
    build_recommendation,
    plan_hvpa,
)
from trellis.core.hvpa.autoscalers import RelatedAutoscalers
from trellis.core.hvpa.view import read_hvpa
from trellis.core.hvpa.view_builder import HvpaPod, HvpaPodProjection, build_view, select_live_pods
from trellis.core.resize.state.indexes import WorkloadKey
from trellis.sim.cluster.api_server import ScaleRegistry
from trellis.sim.kernel import Kernel, Priority, Ticket


class HvpaRecord:
    """One Hvpa: the object, what it means, its memory, and when it is reconciled next."""

    def __init__(self, hvpa: Hvpa) -> None:
        meaning, refused = read_hvpa(hvpa)
        if meaning is None:
            raise InvalidInput("/".join(key_of(hvpa)), f"the Hvpa is refused: {refused}")
        self.hvpa = hvpa
        self.meaning = meaning
        self.memory = HvpaMemory()
        self.verdict = ""
        self.next_pass: Ticket | None = None
        reference = hvpa.spec.target_ref
        self.target: WorkloadKey = (hvpa.metadata.namespace, reference.kind, reference.name)
        # By UID: most pods are the same from pass to pass.
        self._pods: dict[str, tuple[Pod, HvpaPod]] = {}
        self._observe_pod = HvpaPodProjection()

    @property
    def published(self) -> PodRecommendation | None:
        """The size in its status."""
        return self.hvpa.status.recommendation if self.hvpa.status is not None else None

    @property
    def scale(self) -> Scale | None:
        """The scale: the demanded replicas, and those of the target. None before the first pass if none were set."""
        spec, status = self.hvpa.spec, self.hvpa.status
        if spec.replicas is None or status is None:
            return None
        scale_status = ScaleStatus(status.replicas or 0, status.selector or "")
        return Scale(self.hvpa.metadata, ScaleSpec(spec.replicas), scale_status)

    def set_replicas(self, replicas: int) -> None:
        """Write `spec.replicas`."""
        metadata = self.hvpa.metadata
        stored = msgspec.structs.replace(metadata, resource_version=str(int(metadata.resource_version) + 1))
        spec = msgspec.structs.replace(self.hvpa.spec, replicas=replicas)
        self.hvpa = msgspec.structs.replace(self.hvpa, metadata=stored, spec=spec)

    def set_totals(self, totals: ResourceTotals) -> None:
        """Write `status.totals`, as the recommender does."""
        self._write(msgspec.structs.replace(self.hvpa.status or HvpaStatus(), totals=totals))

    def publish(self, plan: HvpaPlan, scale: Scale) -> bool:
        """Write a plan into the status; returns whether the size has changed."""
        before = self.hvpa.status or HvpaStatus()
        status = msgspec.structs.replace(
            before,
            replicas=scale.status.replicas,
            selector=scale.status.selector,
            recommendation=build_recommendation(plan),
            hpa=build_hpa_demand(plan),
        )
        self._write(status)
        return status.recommendation != before.recommendation

    def observe(self, pods: Iterable[Pod]) -> list[HvpaPod]:
        """The slices of pods that an Hvpa reads."""
        before, self._pods = self._pods, {}
        for pod in pods:
            known_pod = before.get(pod.metadata.uid)
            self._pods[pod.metadata.uid] = (
                known_pod if known_pod is not None and known_pod[0] is pod else (pod, self._observe_pod(pod))
            )
        return [observed for _, observed in self._pods.values()]

    def _write(self, status: HvpaStatus) -> None:
        self.hvpa = msgspec.structs.replace(self.hvpa, status=status)


# Pods change in numbers: a pass waits this long for further changes.
_GATHER_SECONDS: Final = 0.25
# A write that failed is tried again after this long, which is also the least time between two passes.
_RETRY_SECONDS: Final = 5.0
_SOONEST_SECONDS: Final = 0.2
# The pods that are passed in belong to the Hvpa's target already.
_ALL_PODS: Final = Selector.everything()


class SimulatedHvpas:
    """The Hvpas of a variant. `pods` finds those of a workload; `publish` is called with an Hvpa of another size.

    Each of them has a scale of its own, on which an HPA sets replicas; `scales` has those of the targets.
    """

    def __init__(
        self,
        kernel: Kernel,
        hvpas: Iterable[Hvpa],
        *,
        scales: ScaleRegistry,
        pods: Callable[[WorkloadKey], Sequence[Pod]],
        publish: Callable[[Hvpa], None],
        settings: HvpaSettings,
    ) -> None:
        self._kernel = kernel
        self._scales = scales
        self._pods = pods
        self._publish = publish
        self._settings = settings
        self._records = {key_of(hvpa): HvpaRecord(hvpa) for hvpa in hvpas}
        self._by_target: dict[WorkloadKey, list[HvpaRecord]] = {}
        for record in self._records.values():
            self._by_target.setdefault(record.target, []).append(record)
        # By target.
        self._vpas: dict[WorkloadKey, dict[ObjectKey, VerticalPodAutoscaler]] = {}
        self._hpas: dict[WorkloadKey, dict[ObjectKey, HorizontalPodAutoscaler]] = {}
        self.verdicts: Counter[str] = Counter()
        """How often the reason of an Hvpa's plan became another, by reason."""

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, workload: object) -> bool:
        """Whether a workload is the target of an Hvpa."""
        return workload in self._by_target

    def reconcile_all(self) -> None:
        """Reconcile all Hvpas now."""
        for record in self._records.values():
            self._wake(record)

    def on_workload_changed(self, workload: WorkloadKey) -> None:
        """Handle a change of a workload or of one of its pods."""
        for record in self._by_target.get(workload, ()):
            self._wake(record, _GATHER_SECONDS)

    def on_vpa(self, vpa: VerticalPodAutoscaler) -> None:
        """Handle a VPA that is new, or has another recommendation."""
        target = vpa.spec.target_ref
        about = (vpa.metadata.namespace, target.kind, target.name)
        self._vpas.setdefault(about, {})[key_of(vpa)] = vpa
        for record in self._by_target.get(about, ()):
            self._wake(record)

    def on_hpa(self, hpa: HorizontalPodAutoscaler) -> None:
        """Handle an HPA that is new, or has another status."""
        target = hpa.spec.scale_target_ref
        about = (hpa.metadata.namespace, target.kind, target.name)
        self._hpas.setdefault(about, {})[key_of(hpa)] = hpa
        record = self._records.get((about[0], about[2])) if target.kind == HVPA.name else None
        if record is not None:
            self._wake(record)

    def on_totals(self, key: ObjectKey, totals: ResourceTotals) -> None:
        """Handle the totals of a workload whose VPA is the user's."""
        record = self._records[key]
        record.set_totals(totals)
        self._wake(record)

    def scale(self, namespace: str, _kind: str, name: str) -> Scale | None:
        """The scale of an Hvpa."""
        record = self._records.get((namespace, name))
        return record.scale if record is not None else None

    def set_scale(self, namespace: str, _kind: str, name: str, replicas: int, *, version: str = "") -> WriteResult:
        """Set the replicas that an HPA or a user demands."""
        record = self._records.get((namespace, name))
        if record is None:
            return WriteResult.GONE
        if version and version != record.hvpa.metadata.resource_version:
            return WriteResult.CONFLICT
        record.set_replicas(replicas)
        self._wake(record)
        return WriteResult.APPLIED

    def _wake(self, record: HvpaRecord, seconds: float = 0.0) -> None:
        at = self._kernel.now + seconds
        if record.next_pass is not None and record.next_pass.is_pending:
            if record.next_pass.time <= at:
                return
            record.next_pass.cancel()
        record.next_pass = self._kernel.at(at, partial(self._reconcile, record), Priority.HVPA)

    def _reconcile(self, record: HvpaRecord) -> None:
        scale = self._scales.get(*record.target)
        if scale is None:
            self._wake(record, _RETRY_SECONDS)
            return
        now = self._kernel.now
        view = build_view(
            record.hvpa,
            record.meaning,
            scale,
            select_live_pods(record.observe(self._pods(record.target)), _ALL_PODS),
            self._build_input(record),
            spec_replicas=record.hvpa.spec.replicas,
            published=record.published,
            memory=record.memory,
        )
        plan = plan_hvpa(view, now, self._settings)
        if not self._execute(record, plan, scale):
            self._wake(record, _RETRY_SECONDS)
            return
        record.memory = plan.memory
        if plan.summary.reason.code != record.verdict:
            record.verdict = plan.summary.reason.code
            self.verdicts[record.verdict] += 1
        if record.publish(plan, scale):
            self._publish(record.hvpa)
        if plan.requeue_at is not None:
            self._wake(record, max(plan.requeue_at - now, _SOONEST_SECONDS))

    def _build_input(self, record: HvpaRecord) -> RelatedAutoscalers:
        metadata = record.hvpa.metadata
        own_key = (metadata.namespace, HVPA.name, metadata.name)
        hpas = [hpa for about in (own_key, record.target) for hpa in self._hpas.get(about, {}).values()]
        hvpas = [other.hvpa for other in self._by_target[record.target]]
        return RelatedAutoscalers(hvpas, hpas, tuple(self._vpas.get(record.target, {}).values()))

    def _execute(self, record: HvpaRecord, plan: HvpaPlan, scale: Scale) -> bool:
        """Execute a plan; False if the target could not be scaled."""
        for action in plan.actions:
            if isinstance(action, SetScale):
                version = scale.metadata.resource_version
                if self._scales.put(*record.target, action.replicas, version=version) is not WriteResult.APPLIED:
                    return False
            elif isinstance(action, WriteBack):
                record.set_replicas(action.replicas)
        return True
