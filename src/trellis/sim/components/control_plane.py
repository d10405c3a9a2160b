"""All components of a variant: recommender, updater, admission, HPAs, Hvpas, Buffers and node autoscaler.

It watches the model cluster as the live components watch a real one, and passes on to each what it would see.
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
        advised: OnRecommendation,
        because: OnReason,
    ) -> None:
        figures, begin = read_flags(variant.settings), fleet.clock.begin
        self._policies = policies = add_owned_autoscalers(read_objects(variant.objects, begin), begin)
        self._fleet = fleet
        self._kernel = kernel
        self._faults = Faults(fleet.faults)
        self._sampling = UsageSampler(fleet, self._faults)
        self._vpas: dict[tuple[str, str], VerticalPodAutoscaler] = {}
        self._governors: dict[tuple[str, str], Governor | None] = {}
        self.decides = bool(policies.vpas or policies.hvpas)
        """Whether there is anything to decide: without a VPA or Hvpa nobody needs to be told anything."""
        self._admitting = SimulatedAdmission(policies.limits, figures)
        self.updating = SimulatedUpdater(
            kernel, cluster, self, figures=figures, because=because, on_change=self._changed
        )
        gathering = self.updating.gathering
        scales = ScaleRegistry(cluster)
        self.hvpas = SimulatedHvpas(
            kernel, policies.hvpas, scales=scales, pods=self._pods_of, publish=self._sized, figures=figures.hvpas
        )
        scales.register(HVPA.name, self.hvpas)
        self._pod_metrics = ModelPodMetrics(cluster)
        self._hpas = SimulatedHpas(kernel, scales, self._pod_metrics, cluster.selected, on_status=self.hvpas.hpa)
        for hpa in policies.hpas if variant.scales else ():
            self._hpas.put(hpa)
        self._advising = RecommendationCharts(fleet, advised, self.hvpas.__contains__)
        self._recommending = SimulatedRecommender(
            policies.vpas,
            figures,
            variant.parameters,
            self._published,
            hvpas=policies.hvpas,
            tell=self.hvpas.totals,
        )
        self._noding: SimulatedNodeAutoscaler | None = None
        if fleet.pools:
            translating = SimulatedBuffers(policies.buffers, cluster, self._admitting, figures.boosts)
            self._noding = SimulatedNodeAutoscaler(
                fleet, kernel, cluster, translating=translating, figures=figures, starts=self._admitting.starts
            )
        for namespace in sorted({limit.metadata.namespace for limit in policies.limits}):
            gathering.put_limits(
                namespace, [limit for limit in policies.limits if limit.metadata.namespace == namespace]
            )
        for hpa in policies.hpas:
            gathering.put_hpa(key_of(hpa), None, hpa)
            self.hvpas.hpa(hpa)
        for vpa in policies.vpas:
            self._govern(vpa, compile_vpa_governor(vpa))
            self.hvpas.vpa(vpa)
        for hvpa in policies.hvpas:
            self._govern_by_hvpa(hvpa)

    def begin(self) -> None:
        """Start the components, at the fleet's intervals."""
        intervals = self._fleet.intervals
        if self.decides:
            self._every(intervals.recommender, self._recommend, Priority.RECOMMENDER)
            self._every(intervals.updater, self.updating.full_pass, Priority.UPDATER)
            for fault in self._faults.of(VPA_DELETED):
                for moment in (fault.begin, fault.end):
                    self._kernel.at(max(moment, self._kernel.now), self._delete_or_create, Priority.FAULT)
        if len(self._hpas):
            self._every(intervals.hpa, self._hpas.work, Priority.HPA)
        if len(self.hvpas):
            self._every(intervals.hvpa, self.hvpas.reconcile_all, Priority.HVPA)
        if self._noding is not None:
            self._noding.begin()
            self._every(intervals.nodes, self._noding.look, Priority.NODES)

    def updates(self) -> bool:
        """Whether the updater runs."""
        return not self._faults.holds(UPDATER_DOWN, self._kernel.now)

    def admits(self) -> bool:
        """Whether the admission controller runs."""
        return not self._faults.holds(ADMISSION_DOWN, self._kernel.now)

    def admit(self, pod: Pod) -> Pod:
        """Admit a new pod; returns it as it is stored."""
        return self._admitting.admit(pod) if self.decides and self.admits() else pod

    def measured(self, usage: StepUsage, rows: ModelContainerTable) -> None:
        """Take in what containers used in a step."""
        measured = self._sampling.find_measured(usage)
        if self._policies.hpas:
            self._pod_metrics.measured(usage, measured)
        if self.decides and not self._faults.holds(RECOMMENDER_DOWN, self._kernel.now):
            self._recommending.measured(self._sampling.samples(usage, rows, measured), self._kernel.now)

    def pod(self, old: Pod | None, new: Pod | None) -> None:
        """Handle a change of a pod."""
        if self._noding is not None:
            self._noding.pod(old, new)
        if not self.decides:
            return
        either = _either(old, new)
        self._recommending.pod(key_of(either), new)
        self.updating.gathering.put_pod(key_of(either), old, new)
        if new is None:
            self.updating.gone(either.metadata.uid)

    def workload(self, kind: str, old: KubeObject | None, new: KubeObject | None) -> None:
        """Handle a change of a controller."""
        key = key_of(_either(old, new))
        if self._noding is not None and kind == "DaemonSet":
            self._noding.daemon_set(key, new)
        if not self.decides:
            return
        self._admitting.workload(kind, key, new)
        self._recommending.workload(kind, key, old, new)
        self.updating.gathering.put_workload(kind, key, old, new)

    def node(self, old: Node | None, new: Node | None) -> None:
        """Handle a change of a node."""
        name = _either(old, new).metadata.name
        if self._noding is not None:
            self._noding.node(name, new)
        if self.decides:
            self._admitting.node(name, new)
            self.updating.gathering.put_node(name, new)

    def event(self, event: Event) -> None:
        """Handle an eviction by a kubelet."""
        if self.decides:
            self._recommending.event(event)

    @property
    def verdicts(self) -> dict[str, int]:
        """The number of decisions by reason."""
        result = self.updating.verdicts + self.hvpas.verdicts
        return result if self._noding is None else result + self._noding.verdicts

    @property
    def chunks(self) -> int:
        """The number of chunks of all Buffers now."""
        return 0 if self._noding is None else self._noding.keeping.chunks

    @property
    def node_figures(self) -> NodeFigures | msgspec.UnsetType:
        """How nodes came and went, where they do."""
        return msgspec.UNSET if self._noding is None else self._noding.figures()

    def _changed(self, workload: WorkloadKey) -> None:
        self.updating.changed(workload)
        self.hvpas.changed(workload)

    def _pods_of(self, workload: WorkloadKey) -> Sequence[Pod]:
        result = self.updating.gathering.gather(workload, self._kernel.now)
        return result.pods if result is not None else ()

    def _sized(self, hvpa: Hvpa) -> None:
        """Pass on the new size of an Hvpa, at once, to the updater, to admission and to charts."""
        self._advising.hvpa(self._govern_by_hvpa(hvpa))

    def _every(self, seconds: float, do: Callable[[], None], priority: Priority) -> None:
        def again() -> None:
            do()
            self._kernel.after(seconds, again, priority)

        self._kernel.at(self._kernel.now, again, priority)

    def _recommend(self) -> None:
        if self._faults.holds(RECOMMENDER_DOWN, self._kernel.now):
            self._recommending.skip()
        else:
            self._recommending.work(self._kernel.now)

    def _published(self, written: Sequence[PublishedStatus]) -> None:
        """Pass on new statuses, as soon as they are written."""
        for vpa, _ in written:
            governor = self._governors[key_of(vpa)]
            self._govern(vpa, update_advice(governor, vpa.status) if governor is not None else None)
            self.hvpas.vpa(vpa)
        self._advising.vpas(written)

    def _delete_or_create(self) -> None:
        """Delete VPAs for as long as a fault says so. Their history stays, as it does in checkpoints."""
        for key, vpa in tuple(self._vpas.items()):
            if self._is_deleted(vpa):
                self._govern(vpa, None)
            elif self._governors[key] is None:
                self._govern(vpa, compile_vpa_governor(vpa))

    def _is_deleted(self, vpa: VerticalPodAutoscaler) -> bool:
        return self._faults.holds(VPA_DELETED, self._kernel.now, vpa.spec.target_ref.name)

    def _govern_by_hvpa(self, hvpa: Hvpa) -> Governor:
        key, governor = key_of(hvpa), compile_hvpa_governor(hvpa)
        self._admitting.put_governor(hvpa.kind, key, governor)
        self.updating.gathering.put_governor(hvpa.kind, key, governor, hvpa.metadata.annotations)
        return governor

    def _govern(self, vpa: VerticalPodAutoscaler, governor: Governor | None) -> None:
        key = key_of(vpa)
        self._vpas[key] = vpa
        self._governors[key] = governor
        self._admitting.put_governor(vpa.kind, key, governor)
        self.updating.gathering.put_governor(vpa.kind, key, governor, vpa.metadata.annotations)


def _either(old: K | None, new: K | None) -> K:
    result = new if new is not None else old
    if result is None:
        raise InternalError("somebody tells of a change of nothing")
    return result
