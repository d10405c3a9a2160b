"""All components of a variant: recommender, updater, admission, HPAs, Hvpas, Buffers and node autoscaler.

It watches the model cluster as the live components watch a real one, and passes each change on to those concerned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.coordination import Event
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.registry import HVPA
from trellis.base.errors import InternalError
from trellis.core.cluster.store import key_of
from trellis.core.resize.state.indexes import WorkloadKey
from trellis.core.sizing.governors import Governor, compile_hvpa_governor, compile_vpa_governor, update_advice
from trellis.sim.cluster.api_server import ScaleRegistry
from trellis.sim.cluster.cluster import ModelCluster
from trellis.sim.cluster.container_table import ModelContainerTable
from trellis.sim.cluster.telemetry import StepUsage
from trellis.sim.components.admission import SimulatedAdmission
from trellis.sim.components.buffers import SimulatedBuffers
from trellis.sim.components.hpa import SimulatedHpas
from trellis.sim.components.hpa_metrics import ModelPodMetrics
from trellis.sim.components.hvpa import SimulatedHvpas
from trellis.sim.components.nodes import SimulatedNodeAutoscaler
from trellis.sim.components.objects import add_owned_autoscalers, read_objects
from trellis.sim.components.recommender import PublishedStatus, SimulatedRecommender, UsageSampler
from trellis.sim.components.settings import read_flags
from trellis.sim.components.updater import SimulatedUpdater
from trellis.sim.faults import ADMISSION_DOWN, RECOMMENDER_DOWN, UPDATER_DOWN, VPA_DELETED, Faults
from trellis.sim.fleet import Fleet, Variant
from trellis.sim.kernel import Kernel, Priority
from trellis.sim.results import NodeFigures
from trellis.sim.scores.charts import OnRecommendation, RecommendationCharts

OnReason = Callable[[str, str, str], None]

K = TypeVar("K", bound=KubeObject)


class ControlPlane:
    """The components of a variant. `begin` is called before the cluster begins."""

    def __init__(
        self,
        fleet: Fleet,
        variant: Variant,
        kernel: Kernel,
        cluster: ModelCluster,
        *,
        on_recommendation: OnRecommendation,
        on_reason: OnReason,
    ) -> None:
        settings, begin = read_flags(variant.settings), fleet.clock.begin
        self._policies = policies = add_owned_autoscalers(read_objects(variant.objects, begin), begin)
        self._fleet = fleet
        self._kernel = kernel
        self._faults = Faults(fleet.faults)
        self._sampler = UsageSampler(fleet, self._faults)
        self._vpas: dict[tuple[str, str], VerticalPodAutoscaler] = {}
        self._governors: dict[tuple[str, str], Governor | None] = {}
        self.has_autoscalers = bool(policies.vpas or policies.hvpas)
        """Whether the variant has VPAs or Hvpas; without them the components need no input."""
        self._admission = SimulatedAdmission(policies.limits, settings)
        self.updater = SimulatedUpdater(
            kernel, cluster, self, settings=settings, on_reason=on_reason, on_change=self._on_workload_changed
        )
        cache = self.updater.workload_cache
        scales = ScaleRegistry(cluster)
        self.hvpas = SimulatedHvpas(
            kernel,
            policies.hvpas,
            scales=scales,
            pods=self._list_pods,
            publish=self._on_hvpa_published,
            settings=settings.hvpas,
        )
        scales.register(HVPA.name, self.hvpas)
        self._pod_metrics = ModelPodMetrics(cluster)
        self._hpas = SimulatedHpas(
            kernel, scales, self._pod_metrics, cluster.select_workloads, on_status=self.hvpas.on_hpa
        )
        for hpa in policies.hpas if variant.scales else ():
            self._hpas.put(hpa)
        self._recommendation_charts = RecommendationCharts(fleet, on_recommendation, self.hvpas.__contains__)
        self._recommender = SimulatedRecommender(
            policies.vpas,
            settings,
            variant.parameters,
            self._on_statuses_written,
            hvpas=policies.hvpas,
            on_totals=self.hvpas.on_totals,
        )
        self._node_autoscaler: SimulatedNodeAutoscaler | None = None
        if fleet.pools:
            simulated_buffers = SimulatedBuffers(policies.buffers, cluster, self._admission, settings.boosts)
            self._node_autoscaler = SimulatedNodeAutoscaler(
                fleet,
                kernel,
                cluster,
                simulated_buffers=simulated_buffers,
                settings=settings,
                build_sizing=self._admission.build_sizing_sources,
            )
        for namespace in sorted({limit.metadata.namespace for limit in policies.limits}):
            cache.put_limits(namespace, [limit for limit in policies.limits if limit.metadata.namespace == namespace])
        for hpa in policies.hpas:
            cache.put_hpa(key_of(hpa), None, hpa)
            self.hvpas.on_hpa(hpa)
        for vpa in policies.vpas:
            self._put_vpa_governor(vpa, compile_vpa_governor(vpa))
            self.hvpas.on_vpa(vpa)
        for hvpa in policies.hvpas:
            self._put_hvpa_governor(hvpa)

    def begin(self) -> None:
        """Start the components, at the fleet's intervals."""
        intervals = self._fleet.intervals
        if self.has_autoscalers:
            self._every(intervals.recommender, self._recommend, Priority.RECOMMENDER)
            self._every(intervals.updater, self.updater.run_full_pass, Priority.UPDATER)
            for fault in self._faults.list_faults(VPA_DELETED):
                for moment in (fault.begin, fault.end):
                    self._kernel.at(max(moment, self._kernel.now), self._delete_or_create, Priority.FAULT)
        if len(self._hpas):
            self._every(intervals.hpa, self._hpas.reconcile_all, Priority.HPA)
        if len(self.hvpas):
            self._every(intervals.hvpa, self.hvpas.reconcile_all, Priority.HVPA)
        if self._node_autoscaler is not None:
            self._node_autoscaler.begin()
            self._every(intervals.nodes, self._node_autoscaler.run_if_due, Priority.NODES)

    def is_updater_running(self) -> bool:
        """Whether the updater runs."""
        return not self._faults.is_active(UPDATER_DOWN, self._kernel.now)

    def is_admission_running(self) -> bool:
        """Whether the admission controller runs."""
        return not self._faults.is_active(ADMISSION_DOWN, self._kernel.now)

    def admit(self, pod: Pod) -> Pod:
        """Admit a new pod; returns it as it is stored."""
        return self._admission.admit(pod) if self.has_autoscalers and self.is_admission_running() else pod

    def on_usage(self, usage: StepUsage, rows: ModelContainerTable) -> None:
        """Take in what containers used in a step."""
        measured = self._sampler.find_measured(usage)
        if self._policies.hpas:
            self._pod_metrics.on_usage(usage, measured)
        if self.has_autoscalers and not self._faults.is_active(RECOMMENDER_DOWN, self._kernel.now):
            self._recommender.on_samples(self._sampler.build_samples(usage, rows, measured), self._kernel.now)

    def on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Handle a change of a pod."""
        if self._node_autoscaler is not None:
            self._node_autoscaler.on_pod(old, new)
        if not self.has_autoscalers:
            return
        present = _newest(old, new)
        self._recommender.on_pod(key_of(present), new)
        self.updater.workload_cache.put_pod(key_of(present), old, new)
        if new is None:
            self.updater.forget_pod(present.metadata.uid)

    def on_workload(self, kind: str, old: KubeObject | None, new: KubeObject | None) -> None:
        """Handle a change of a controller."""
        key = key_of(_newest(old, new))
        if self._node_autoscaler is not None and kind == "DaemonSet":
            self._node_autoscaler.on_daemon_set(key, new)
        if not self.has_autoscalers:
            return
        self._admission.on_workload(kind, key, new)
        self._recommender.on_workload(kind, key, old, new)
        self.updater.workload_cache.put_workload(kind, key, old, new)

    def on_node(self, old: Node | None, new: Node | None) -> None:
        """Handle a change of a node."""
        name = _newest(old, new).metadata.name
        if self._node_autoscaler is not None:
            self._node_autoscaler.on_node(name, new)
        if self.has_autoscalers:
            self._admission.on_node(name, new)
            self.updater.workload_cache.put_node(name, new)

    def on_eviction(self, event: Event) -> None:
        """Handle an eviction by a kubelet."""
        if self.has_autoscalers:
            self._recommender.on_eviction(event)

    @property
    def verdicts(self) -> dict[str, int]:
        """The number of decisions by reason."""
        result = self.updater.verdicts + self.hvpas.verdicts
        return result if self._node_autoscaler is None else result + self._node_autoscaler.verdicts

    @property
    def chunks(self) -> int:
        """The number of chunks of all Buffers now."""
        return 0 if self._node_autoscaler is None else self._node_autoscaler.buffer_accounting.chunks

    @property
    def node_figures(self) -> NodeFigures | msgspec.UnsetType:
        """How nodes came and went, where they do."""
        return msgspec.UNSET if self._node_autoscaler is None else self._node_autoscaler.build_figures()

    def _on_workload_changed(self, workload: WorkloadKey) -> None:
        self.updater.on_workload_changed(workload)
        self.hvpas.on_workload_changed(workload)

    def _list_pods(self, workload: WorkloadKey) -> Sequence[Pod]:
        result = self.updater.workload_cache.build_snapshot(workload, self._kernel.now)
        return result.pods if result is not None else ()

    def _on_hvpa_published(self, hvpa: Hvpa) -> None:
        """Pass on the new size of an Hvpa, at once, to the updater, to admission and to charts."""
        self._recommendation_charts.draw_hvpa(self._put_hvpa_governor(hvpa))

    def _every(self, seconds: float, callback: Callable[[], None], priority: Priority) -> None:
        def run_and_repeat() -> None:
            callback()
            self._kernel.after(seconds, run_and_repeat, priority)

        self._kernel.at(self._kernel.now, run_and_repeat, priority)

    def _recommend(self) -> None:
        if self._faults.is_active(RECOMMENDER_DOWN, self._kernel.now):
            self._recommender.drop_samples()
        else:
            self._recommender.run_pass(self._kernel.now)

    def _on_statuses_written(self, written: Sequence[PublishedStatus]) -> None:
        """Pass on new statuses, as soon as they are written."""
        for vpa, _ in written:
            governor = self._governors[key_of(vpa)]
            self._put_vpa_governor(vpa, update_advice(governor, vpa.status) if governor is not None else None)
            self.hvpas.on_vpa(vpa)
        self._recommendation_charts.draw_vpas(written)

    def _delete_or_create(self) -> None:
        """Delete VPAs for as long as a fault says so. Their history stays, as it does in checkpoints."""
        for key, vpa in tuple(self._vpas.items()):
            if self._is_deleted(vpa):
                self._put_vpa_governor(vpa, None)
            elif self._governors[key] is None:
                self._put_vpa_governor(vpa, compile_vpa_governor(vpa))

    def _is_deleted(self, vpa: VerticalPodAutoscaler) -> bool:
        return self._faults.is_active(VPA_DELETED, self._kernel.now, vpa.spec.target_ref.name)

    def _put_hvpa_governor(self, hvpa: Hvpa) -> Governor:
        key, governor = key_of(hvpa), compile_hvpa_governor(hvpa)
        self._on_governor_changed()
        self._admission.put_governor(hvpa.kind, key, governor)
        self.updater.workload_cache.put_governor(hvpa.kind, key, governor, hvpa.metadata.annotations)
        return governor

    def _put_vpa_governor(self, vpa: VerticalPodAutoscaler, governor: Governor | None) -> None:
        key = key_of(vpa)
        self._vpas[key] = vpa
        self._governors[key] = governor
        self._on_governor_changed()
        self._admission.put_governor(vpa.kind, key, governor)
        self.updater.workload_cache.put_governor(vpa.kind, key, governor, vpa.metadata.annotations)

    def _on_governor_changed(self) -> None:
        if self._node_autoscaler is not None:
            self._node_autoscaler.on_governor()


def _newest(old: K | None, new: K | None) -> K:
    result = new if new is not None else old
    if result is None:
        raise InternalError("a change has neither an old nor a new object")
    return result
