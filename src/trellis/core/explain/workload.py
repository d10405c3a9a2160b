"""Explains a VPA, an Hvpa, a pod, or the recommendation for a container."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.pods import Pod
from trellis.api.registry import HVPA, VPA
from trellis.base.errors import InvalidInput
from trellis.base.names import suggest_name
from trellis.core.cluster.owners import TargetRef
from trellis.core.cluster.store import BY_NAMESPACE
from trellis.core.explain.component_decisions.evidence import Evidence, build_unknown_object_error
from trellis.core.explain.component_decisions.hvpa_plans import HvpaEvidence
from trellis.core.explain.component_decisions.node_plans import NodeEvidence
from trellis.core.explain.context import find_events, find_influences
from trellis.core.explain.explanation.document import (
    ContainerRecommendationPart,
    MissingEvidencePart,
    NewPodPart,
    ObjectExplanation,
    PodPart,
    VpaPart,
)
from trellis.core.explain.explanation.values import format_timestamp
from trellis.core.explain.hvpa import build_hvpa_part
from trellis.core.explain.missing_evidence import (
    FLAGS_NOT_OBSERVED,
    RECOMMENDER_NOT_AVAILABLE,
    SCALING_NOT_OBSERVED,
    find_missing_evidence,
    find_missing_placement_evidence,
    is_partial,
)
from trellis.core.explain.placement import explain_pod_placement
from trellis.core.explain.pod import PlannedPod, build_pod_part, build_undecided_pod_part, list_pod_decisions
from trellis.core.explain.vpa import build_vpa_part
from trellis.core.hvpa.autoscalers import find_vpa
from trellis.core.recommend.state.governed_pods import read_vpa_target

VPA_KIND: Final = "vpa"
HVPA_KIND: Final = "hvpa"
POD_KIND: Final = "pod"
RECOMMENDATION_KIND: Final = "recommendation"


def explain_vpa(evidence: Evidence, name: str) -> ObjectExplanation:
    """Explain a VPA; raises `InvalidInput` if there is none of that name."""
    vpa = _vpa(evidence, name)
    part, containers = build_vpa_part(evidence, vpa)
    target = read_vpa_target(vpa)
    pods = _list_pods(evidence, name, target)
    scaled = next((scaled for scaled in evidence.hvpas.values() if find_vpa(scaled.hvpa, [vpa]) is not None), None)
    return explain_subject(evidence, ExplanationSubject(VPA_KIND, name, part, containers, pods, target, scaled))


def explain_hvpa(evidence: Evidence, name: str) -> ObjectExplanation:
    """Explain an Hvpa; raises `InvalidInput` if there is none of that name."""
    scaled = evidence.hvpas.get(name)
    if scaled is None:
        raise build_unknown_object_error(HVPA.name, name, evidence, evidence.collected.hvpas)
    every, own = evidence.collected.pods.by_index(BY_NAMESPACE, evidence.namespace), frozenset(scaled.pods)
    pods = [pod for pod in every if pod.metadata.name in own]
    return explain_subject(evidence, ExplanationSubject(HVPA_KIND, name, None, (), pods, scaled.target, scaled))


def explain_pod(evidence: Evidence, name: str, node_evidence: NodeEvidence | None = None) -> ObjectExplanation:
    """Explain a pod, with the VPA and the Hvpa that govern it.

    `node_evidence` are the plans for nodes, where groups of nodes are known: of interest for a pod that has none, or
    whose node is too small for its resize.
    """
    pod = evidence.collected.pods.get(evidence.namespace, name)
    if pod is None:
        raise build_unknown_object_error("Pod", name, evidence, evidence.collected.pods)
    governor = evidence.recommended.namespace_governance.governance.governor.get(name)
    vpa = evidence.collected.vpas.get(evidence.namespace, governor) if governor is not None else None
    part, containers = build_vpa_part(evidence, vpa) if vpa is not None else (None, ())
    scaled = next((scaled for scaled in evidence.hvpas.values() if name in scaled.pods and _sizes(scaled)), None)
    target = read_vpa_target(vpa) if vpa is not None else scaled.target if scaled is not None else None
    explained = explain_subject(evidence, ExplanationSubject(POD_KIND, name, part, containers, [pod], target, scaled))
    placement = explain_pod_placement(node_evidence, pod) if node_evidence is not None else None
    if pod.spec.node_name:
        return msgspec.structs.replace(explained, placement=placement)
    missing = (*explained.missing, *find_missing_placement_evidence(evidence.collected, node_evidence))
    return msgspec.structs.replace(explained, placement=placement, missing=missing, partial=is_partial(missing))


def explain_recommendation(evidence: Evidence, name: str, container: str = "") -> ObjectExplanation:
    """Explain each step of a VPA's recommendation, for all of its containers or for one."""
    vpa = _vpa(evidence, name)
    part, containers = build_vpa_part(evidence, vpa)
    if container:
        chosen = tuple(part for part in containers if part.name == container)
        if not chosen:
            guess = suggest_name(container, [container.name for container in containers])
            hint = f' (did you mean "{guess}"?)' if guess else ""
            raise InvalidInput(container, f"is not a container with usage for {VPA.name} {name}{hint}")
        containers = chosen
    return explain_subject(evidence, ExplanationSubject(RECOMMENDATION_KIND, name, part, containers))


class ExplanationSubject(msgspec.Struct, frozen=True):
    """The subject of an explanation."""

    kind: str
    name: str
    vpa: VpaPart | None
    containers: tuple[ContainerRecommendationPart, ...]
    pods: Sequence[Pod] = ()
    target: TargetRef | None = None
    hvpa: HvpaEvidence | None = None

    @property
    def event_objects(self) -> set[tuple[str, str]]:
        """The objects, by kind and name, whose Events belong to the answer."""
        objects = {("Pod", pod.metadata.name) for pod in self.pods}
        objects |= {(VPA.name, self.vpa.name)} if self.vpa is not None else set()
        return objects | ({(HVPA.name, self.hvpa.hvpa.metadata.name)} if self.hvpa is not None else set())


def explain_subject(evidence: Evidence, subject: ExplanationSubject) -> ObjectExplanation:
    """Put the parts about a subject together, with related objects and missing evidence."""
    vpa, pods, target = subject.vpa, subject.pods, subject.target
    parts = tuple(_pod_parts(evidence, pods))
    missing = tuple(
        find_missing_evidence(evidence, subject.containers, parts, with_decisions=subject.kind != RECOMMENDATION_KIND)
    )
    if subject.hvpa is not None and subject.hvpa.plan is not None:
        missing = (*missing, MissingEvidencePart(SCALING_NOT_OBSERVED))
        if "hvpa" not in evidence.components.with_flags:
            missing = (*missing, MissingEvidencePart(FLAGS_NOT_OBSERVED, "hvpa"))
    if vpa is not None and not vpa.is_answered:
        missing = (MissingEvidencePart(RECOMMENDER_NOT_AVAILABLE, vpa.recommender), *missing)
    explained = ObjectExplanation(
        kind=subject.kind,
        namespace=evidence.namespace,
        name=subject.name,
        time=format_timestamp(evidence.now),
        vpa=vpa,
        hvpa=build_hvpa_part(evidence, subject.hvpa) if subject.hvpa is not None else None,
        containers=subject.containers,
        pods=parts,
        missing=missing,
        partial=is_partial(missing),
    )
    if subject.kind == RECOMMENDATION_KIND:
        return explained
    return msgspec.structs.replace(
        explained,
        new_pods=tuple(_new_pods(evidence, target)),
        influences=tuple(find_influences(evidence, target, pods)),
        events=tuple(find_events(evidence, subject.event_objects)),
    )


def _vpa(evidence: Evidence, name: str) -> VerticalPodAutoscaler:
    vpa = evidence.collected.vpas.get(evidence.namespace, name)
    if vpa is None:
        raise build_unknown_object_error(VPA.name, name, evidence, evidence.collected.vpas)
    return vpa


def _sizes(scaled: HvpaEvidence) -> bool:
    """Whether an Hvpa decides about its pods: one that yields does not."""
    return scaled.view is not None and scaled.view.conflict is None


def _list_pods(evidence: Evidence, vpa: str, target: TargetRef) -> list[Pod]:
    """The pods that a VPA governs, and those of its target that something else governs."""
    governor = evidence.recommended.namespace_governance.governance.governor
    planned = evidence.updated.plans.get((target.namespace, target.kind, target.name))
    below = {pod.metadata.name for pod in planned.snapshot.pods} if planned is not None else set()
    pods = evidence.collected.pods.by_index(BY_NAMESPACE, evidence.namespace)
    return [pod for pod in pods if governor.get(pod.metadata.name) == vpa or pod.metadata.name in below]


def _pod_parts(evidence: Evidence, pods: Iterable[Pod]) -> Iterator[PodPart]:
    decisions: dict[str, PlannedPod] = {
        planned_pod.verdict.pod.name: planned_pod for planned_pod in list_pod_decisions(evidence)
    }
    for pod in pods:
        planned_pod = decisions.get(pod.metadata.name)
        yield (
            build_pod_part(evidence, planned_pod)
            if planned_pod is not None
            else build_undecided_pod_part(evidence, pod)
        )


def _new_pods(evidence: Evidence, target: TargetRef | None) -> Iterator[NewPodPart]:
    arrived = evidence.new_pods.get(target) if target is not None else None
    if arrived is not None:
        workload = f"{arrived.target.kind} {arrived.target.name}"
        yield NewPodPart(workload, arrived.reason, arrived.warnings, arrived.account)
