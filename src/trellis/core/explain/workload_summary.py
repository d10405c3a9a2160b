"""Explains a workload: which objects govern it, how big its pods are, how many there are, and its spare capacity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.pods import READY, Pod
from trellis.api.kube.workloads import (
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from trellis.api.registry import HVPA
from trellis.base.prices import EXAMPLE_PRICES, Prices
from trellis.core.cluster.owners import TargetRef, build_controller_ref
from trellis.core.cluster.store import BY_NAMESPACE
from trellis.core.explain.buffer import build_buffer_part
from trellis.core.explain.buffer_headroom import BufferHeadroom
from trellis.core.explain.buffer_translation import find_buffer_target, translate_buffers
from trellis.core.explain.component_decisions.evidence import Evidence, build_unknown_object_error
from trellis.core.explain.component_decisions.hvpa_plans import HvpaEvidence
from trellis.core.explain.component_decisions.new_pods import find_pod_template
from trellis.core.explain.explanation.buffer import BufferPart
from trellis.core.explain.explanation.document import ObjectExplanation
from trellis.core.explain.explanation.workload import TemplateContainerPart, WorkloadPart
from trellis.core.explain.vpa import build_vpa_part
from trellis.core.explain.workload import ExplanationSubject, explain_subject
from trellis.core.recommend.state.governed_pods import read_vpa_target

_ENDED = ("Succeeded", "Failed")
_HPA = "HorizontalPodAutoscaler"


def explain_workload(evidence: Evidence, kind: str, name: str, prices: Prices = EXAMPLE_PRICES) -> ObjectExplanation:
    """Explain a workload of a kind such as `Deployment`; raises `InvalidInput` if there is none of that name.

    A workload that another one controls, such as a ReplicaSet, is explained by the one at the top.
    """
    found = evidence.collected.workloads[kind].get(evidence.namespace, name)
    if found is None:
        raise build_unknown_object_error(kind, name, evidence, evidence.collected.workloads[kind])
    asked = TargetRef(evidence.namespace, "", kind, name)
    target = evidence.collected.owners.follow(asked).topmost or asked
    workload = evidence.collected.owners.find(target)
    pods = _list_pods(evidence, target)
    vpa, idle_vpas = _find_vpas(evidence, target, pods)
    scaled = _find_hvpa(evidence, target)
    vpa_part, containers = build_vpa_part(evidence, vpa) if vpa is not None else (None, ())
    subject = ExplanationSubject(target.kind.lower(), target.name, vpa_part, containers, pods, target, scaled)
    replicas = _count_replicas(workload)
    part = WorkloadPart(
        kind=target.kind,
        name=target.name,
        asked="" if target.is_same(asked) else f"{kind} {name}",
        replicas=replicas,
        ready=sum(_is_ready(pod) for pod in pods) if replicas is not None else None,
        counted_by=tuple(_list_counting_objects(evidence, target, scaled)),
        idle_vpas=idle_vpas,
        containers=tuple(_list_containers(workload, vpa)),
        buffers=tuple(_build_buffer_parts(evidence, target, prices)),
    )
    return msgspec.structs.replace(explain_subject(evidence, subject), workload=part)


def _list_pods(evidence: Evidence, target: TargetRef) -> list[Pod]:
    """The pods whose topmost controller is the workload, and that have not ended."""
    owners = evidence.collected.owners
    pods: list[Pod] = []
    for pod in evidence.collected.pods.by_index(BY_NAMESPACE, evidence.namespace):
        controller = build_controller_ref(evidence.namespace, pod.metadata.controller)
        topmost = owners.follow(controller).topmost if controller is not None else None
        if topmost is not None and topmost.is_same(target) and pod.status.phase not in _ENDED:
            pods.append(pod)
    return pods


def _find_vpas(
    evidence: Evidence, target: TargetRef, pods: Sequence[Pod]
) -> tuple[VerticalPodAutoscaler | None, tuple[str, ...]]:
    """The VPA that governs the pods, or that would, and the names of those that target the workload without effect."""
    governor = evidence.recommended.namespace_governance.governance.governor
    governed = Counter(governor[pod.metadata.name] for pod in pods if pod.metadata.name in governor)
    targeting = [
        vpa
        for vpa in evidence.collected.vpas.by_index(BY_NAMESPACE, evidence.namespace)
        if read_vpa_target(vpa).is_same(target)
    ]
    names = [name for name, _ in governed.most_common()] or [vpa.metadata.name for vpa in targeting]
    vpa = evidence.collected.vpas.get(evidence.namespace, names[0]) if names else None
    idle = [vpa.metadata.name for vpa in targeting if vpa.metadata.name not in names[:1]]
    return vpa, tuple(sorted(idle))


def _find_hvpa(evidence: Evidence, target: TargetRef) -> HvpaEvidence | None:
    return next((scaled for scaled in evidence.hvpas.values() if scaled.target.is_same(target)), None)


def _count_replicas(workload: object) -> int | None:
    """The number of pods that the workload asks for; None where its kind has none."""
    match workload:
        case Deployment() | StatefulSet() | ReplicaSet() | ReplicationController():
            return 1 if workload.spec.replicas is None else workload.spec.replicas
        case DaemonSet():
            return workload.status.desired_number_scheduled
        case Job():
            return 1 if workload.spec.parallelism is None else workload.spec.parallelism
        case _:
            return None


def _is_ready(pod: Pod) -> bool:
    return any(condition.type == READY and condition.status == "True" for condition in pod.status.conditions)


def _list_counting_objects(evidence: Evidence, target: TargetRef, scaled: HvpaEvidence | None) -> Iterator[str]:
    """The objects that write the replica count, by kind and name."""
    if scaled is not None and scaled.plan is not None:
        yield f"{HVPA.name} {scaled.hvpa.metadata.name}"
    for hpa in evidence.collected.hpas.by_index(BY_NAMESPACE, evidence.namespace):
        reference = hpa.spec.scale_target_ref
        if (reference.kind, reference.name) == (target.kind, target.name):
            yield f"{_HPA} {hpa.metadata.name}"


def _list_containers(workload: object, vpa: VerticalPodAutoscaler | None) -> Iterator[TemplateContainerPart]:
    template = find_pod_template(workload)
    status = vpa.status if vpa is not None else None
    advice = status.recommendation if status is not None else None
    targets = {
        recommendation.container_name: {name: str(amount) for name, amount in (recommendation.target or {}).items()}
        for recommendation in (advice.container_recommendations or () if advice is not None else ())
    }
    for container in template.spec.containers if template is not None else ():
        resources = container.resources
        yield TemplateContainerPart(
            container.name, dict(resources.requests), dict(resources.limits), targets.get(container.name, {})
        )


def _build_buffer_parts(evidence: Evidence, target: TargetRef, prices: Prices) -> Iterator[BufferPart]:
    """The Buffers whose target is the workload."""
    headroom = BufferHeadroom(evidence.collected)
    for _, buffered in sorted(translate_buffers(evidence, headroom).items()):
        reference = find_buffer_target(buffered.buffer, buffered.meaning)
        if reference is not None and reference.is_same(target):
            yield build_buffer_part(evidence, buffered, headroom, prices)
