"""Makes the Hvpa controller's plans for one namespace, from the collected state, as after a restart.

What the controller remembers between two plans is known to its process alone: windows begin with what runs now, and
the replica count that an HPA wrote is not read, because it is unknown whether it was acted on. Pods and autoscalers of
the namespace are indexed once for all Hvpas.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TypeAlias

import msgspec

from trellis.api.kinds.hvpa import Hvpa, HvpaStatus
from trellis.api.kinds.parts import TargetReference
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.observed_pods import ObservedPod
from trellis.api.kube.scaling import CrossVersionObjectReference, HorizontalPodAutoscaler, Scale, ScaleSpec
from trellis.api.kube.slices import NOTHING
from trellis.api.registry import HVPA
from trellis.base.reasons import Reason
from trellis.base.selectors import Selector
from trellis.core.cluster.owners import TargetRef
from trellis.core.cluster.state import ClusterState
from trellis.core.cluster.store import BY_NAMESPACE
from trellis.core.cluster.target_problems import TargetProblem
from trellis.core.cluster.target_selectors import resolve_selector
from trellis.core.explain.component_decisions.label_index import ObjectLabelIndex
from trellis.core.explain.component_decisions.settings import CollectedSettings
from trellis.core.hvpa import HvpaPlan, HvpaSettings, HvpaView, ResolvedHvpa, plan_hvpa, restore_memory
from trellis.core.hvpa.autoscalers import RelatedAutoscalers
from trellis.core.hvpa.view import HVPA_REFUSED, read_hvpa
from trellis.core.hvpa.view_builder import HvpaPod, HvpaPodMeta, build_view, select_live_pods

# Kind and name of a target.
_Target: TypeAlias = tuple[str, str]


class NamespaceAutoscalers:
    """Autoscalers of one namespace by their target, and pods by their labels."""

    def __init__(self, collected: ClusterState, namespace: str) -> None:
        self.hvpas = tuple(collected.hvpas.by_index(BY_NAMESPACE, namespace))
        self._hvpas: defaultdict[_Target, list[Hvpa]] = defaultdict(list)
        self._vpas: defaultdict[_Target, list[VerticalPodAutoscaler]] = defaultdict(list)
        self._hpas: defaultdict[_Target, list[HorizontalPodAutoscaler]] = defaultdict(list)
        for hvpa in self.hvpas:
            self._hvpas[_key(hvpa.spec.target_ref)].append(hvpa)
        for vpa in collected.vpas.by_index(BY_NAMESPACE, namespace):
            self._vpas[_key(vpa.spec.target_ref)].append(vpa)
        for hpa in collected.hpas.by_index(BY_NAMESPACE, namespace):
            self._hpas[_key(hpa.spec.scale_target_ref)].append(hpa)
        # Pods are looked up for Hvpas only.
        pods = collected.observed_pods.by_index(BY_NAMESPACE, namespace) if self.hvpas else ()
        self._pods = ObjectLabelIndex(_with_annotations(collected, pod) for pod in pods)

    def find_related(self, hvpa: Hvpa) -> RelatedAutoscalers:
        """The autoscalers of the same target, and those of the Hvpa itself."""
        target = _key(hvpa.spec.target_ref)
        hpas = [*self._hpas[target], *self._hpas[HVPA.name, hvpa.metadata.name]]
        return RelatedAutoscalers(self._hvpas[target], hpas, self._vpas[target])

    def list_pods(self, selector: Selector) -> list[HvpaPod]:
        """The pods of a target."""
        return select_live_pods(self._pods.select(selector), selector)


def _key(reference: TargetReference | CrossVersionObjectReference) -> _Target:
    return reference.kind, reference.name


def _with_annotations(collected: ClusterState, pod: ObservedPod) -> HvpaPod:
    """The pod as an Hvpa reads it: annotations tell which containers are boosted."""
    metadata = pod.metadata
    stored = collected.pods.get(metadata.namespace, metadata.name)
    notes = stored.metadata.annotations if stored is not None else NOTHING
    named = {field: getattr(metadata, field) for field in metadata.__struct_fields__}
    return HvpaPod(metadata=HvpaPodMeta(**named, annotations=notes), spec=pod.spec, status=pod.status)


class HvpaEvidence(msgspec.Struct, frozen=True):
    """One Hvpa and what is decided about it; without a plan, `problem` says why there is none."""

    hvpa: Hvpa
    target: TargetRef
    related: RelatedAutoscalers
    meaning: ResolvedHvpa | None = None
    view: HvpaView | None = None
    plan: HvpaPlan | None = None
    pods: tuple[str, ...] = ()
    problem: Reason | None = None
    details: str = ""


def run_hvpa_controller(
    collected: ClusterState, namespace: str, components: CollectedSettings, now: float
) -> dict[str, HvpaEvidence]:
    """Plans for all Hvpas of a namespace, by name."""
    index = NamespaceAutoscalers(collected, namespace)
    settings = components.hvpas
    return {hvpa.metadata.name: _plan_hvpa(collected, hvpa, index, settings, now) for hvpa in index.hvpas}


def _plan_hvpa(
    collected: ClusterState, hvpa: Hvpa, index: NamespaceAutoscalers, settings: HvpaSettings, now: float
) -> HvpaEvidence:
    related = index.find_related(hvpa)
    reference, namespace = hvpa.spec.target_ref, hvpa.metadata.namespace
    target = TargetRef(namespace, reference.api_version, reference.kind, reference.name)
    meaning, refused = read_hvpa(hvpa)
    if meaning is None:
        return HvpaEvidence(hvpa, target, related, problem=HVPA_REFUSED, details=refused)
    selector = resolve_selector(target, collected.owners)
    if isinstance(selector, TargetProblem):
        return HvpaEvidence(hvpa, target, related, meaning, problem=selector.reason, details=selector.message)
    pods = index.list_pods(selector)
    status = hvpa.status or HvpaStatus()
    view = build_view(
        hvpa,
        meaning,
        Scale(spec=ScaleSpec(_find_replicas(collected, target, status, len(pods)))),
        pods,
        related,
        spec_replicas=hvpa.spec.replicas,
        published=status.recommendation,
        memory=restore_memory(hvpa.status, now),
    )
    names = tuple(pod.metadata.name for pod in pods)
    return HvpaEvidence(hvpa, target, related, meaning, view, plan_hvpa(view, now, settings), names)


def _find_replicas(collected: ClusterState, target: TargetRef, status: HvpaStatus, pods: int) -> int:
    """The target's count. For a kind that is not well known, the Hvpa's own status mirrors it."""
    if not target.is_well_known:
        return pods if status.replicas is None else status.replicas
    spec = getattr(collected.owners.find(target), "spec", None)
    count: int | None = getattr(spec, "replicas", None)
    return 1 if count is None else count
