"""Why is it so? One answer about a VPA, an Hvpa, a pod, or about what is recommended for a container."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from trellis.api.kinds import HVPA, VPA
from trellis.api.kube.pods import Pod
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.base.errors import InvalidInput
from trellis.base.names import nearest
from trellis.core.explain.containers import vpa_part
from trellis.core.explain.evidence import Evidence
from trellis.core.explain.explained import Container, Explained, NewPod, PodPart, Unseen, VpaPart
from trellis.core.explain.happening import events_about
from trellis.core.explain.hvpas import hvpa_part
from trellis.core.explain.naming import unknown_object
from trellis.core.explain.noding import Noded
from trellis.core.explain.placing import pod_placing
from trellis.core.explain.pods import Planful, pod_part, verdicts_of, without_verdict
from trellis.core.explain.says import says_about
from trellis.core.explain.scaling import Scaled
from trellis.core.explain.unseen import FLAGS_UNSEEN, RECOMMENDER_ELSEWHERE, SCALING_UNSEEN, is_partial, unseen_by
from trellis.core.explain.unseen_nodes import unseen_of_nodes
from trellis.core.explain.wording import time_text
from trellis.core.hvpa.surroundings import vpa_of
from trellis.core.model.keys import BY_NAMESPACE
from trellis.core.model.owners import TargetRef
from trellis.core.recommend.roster import target_of_vpa

VPA_KIND: Final = "vpa"
HVPA_KIND: Final = "hvpa"
POD_KIND: Final = "pod"
RECOMMENDATION_KIND: Final = "recommendation"


def explain_vpa(evidence: Evidence, name: str) -> Explained:
    """All there is to say about a VPA; raises `InvalidInput` if there is none of that name."""
    vpa = _vpa(evidence, name)
    part, containers = vpa_part(evidence, vpa)
    target = target_of_vpa(vpa)
    pods = _pods_of(evidence, name, target)
    scaled = next((each for each in evidence.scaled.values() if vpa_of(each.hvpa, [vpa]) is not None), None)
    return _answer(evidence, _Subject(VPA_KIND, name, part, containers, pods, target, scaled))


def explain_hvpa(evidence: Evidence, name: str) -> Explained:
    """All there is to say about an Hvpa; raises `InvalidInput` if there is none of that name."""
    scaled = evidence.scaled.get(name)
    if scaled is None:
        raise unknown_object(HVPA.name, name, evidence, evidence.collected.hvpas)
    every, own = evidence.collected.pods.by(BY_NAMESPACE, evidence.namespace), frozenset(scaled.pods)
    pods = [pod for pod in every if pod.metadata.name in own]
    return _answer(evidence, _Subject(HVPA_KIND, name, None, (), pods, scaled.target, scaled))


def explain_pod(evidence: Evidence, name: str, noded: Noded | None = None) -> Explained:
    """All there is to say about a pod, and about the VPA and the Hvpa that govern it.

    `noded` are the plans for nodes, where groups of nodes are known: of interest for a pod that has none.
    """
    pod = evidence.collected.pods.get(evidence.namespace, name)
    if pod is None:
        raise unknown_object("Pod", name, evidence, evidence.collected.pods)
    governor = evidence.recommended.roster.governance.governor.get(name)
    vpa = evidence.collected.vpas.get(evidence.namespace, governor) if governor is not None else None
    part, containers = vpa_part(evidence, vpa) if vpa is not None else (None, ())
    scaled = next((each for each in evidence.scaled.values() if name in each.pods and _sizes(each)), None)
    target = target_of_vpa(vpa) if vpa is not None else scaled.target if scaled is not None else None
    explained = _answer(evidence, _Subject(POD_KIND, name, part, containers, [pod], target, scaled))
    if pod.spec.node_name:
        return explained
    placing = pod_placing(noded, pod) if noded is not None else None
    unseen = (*explained.unseen, *unseen_of_nodes(evidence.collected, noded))
    return msgspec.structs.replace(explained, placing=placing, unseen=unseen, partial=is_partial(unseen))


def explain_recommendation(evidence: Evidence, name: str, container: str = "") -> Explained:
    """How the recommendation of a VPA comes about: for all of its containers, or for one of them."""
    vpa = _vpa(evidence, name)
    part, containers = vpa_part(evidence, vpa)
    if container:
        chosen = tuple(each for each in containers if each.name == container)
        if not chosen:
            guess = nearest(container, [each.name for each in containers])
            hint = f' (did you mean "{guess}"?)' if guess else ""
            raise InvalidInput(container, f"is no container that {VPA.name} {name} has usage of{hint}")
        containers = chosen
    return _answer(evidence, _Subject(RECOMMENDATION_KIND, name, part, containers))


class _Subject(msgspec.Struct, frozen=True):
    """What the answer is about."""

    kind: str
    name: str
    vpa: VpaPart | None
    containers: tuple[Container, ...]
    pods: Sequence[Pod] = ()
    target: TargetRef | None = None
    scaled: Scaled | None = None

    @property
    def has_events(self) -> set[tuple[str, str]]:
        """The objects, by kind and name, whose Events belong to the answer."""
        own = {("Pod", pod.metadata.name) for pod in self.pods}
        own |= {(VPA.name, self.vpa.name)} if self.vpa is not None else set()
        return own | ({(HVPA.name, self.scaled.hvpa.metadata.name)} if self.scaled is not None else set())


def _answer(evidence: Evidence, about: _Subject) -> Explained:
    vpa, pods, target = about.vpa, about.pods, about.target
    parts = tuple(_pod_parts(evidence, pods))
    unseen = tuple(unseen_by(evidence, about.containers, parts, verdicts=about.kind != RECOMMENDATION_KIND))
    if about.scaled is not None and about.scaled.plan is not None:
        unseen = (*unseen, Unseen(SCALING_UNSEEN))
        if "hvpa" not in evidence.components.seen:
            unseen = (*unseen, Unseen(FLAGS_UNSEEN, "hvpa"))
    if vpa is not None and not vpa.is_answered:
        unseen = (Unseen(RECOMMENDER_ELSEWHERE, vpa.recommender), *unseen)
    explained = Explained(
        kind=about.kind,
        namespace=evidence.namespace,
        name=about.name,
        time=time_text(evidence.now),
        vpa=vpa,
        hvpa=hvpa_part(evidence, about.scaled) if about.scaled is not None else None,
        containers=about.containers,
        pods=parts,
        unseen=unseen,
        partial=is_partial(unseen),
    )
    if about.kind == RECOMMENDATION_KIND:
        return explained
    return msgspec.structs.replace(
        explained,
        new_pods=tuple(_new_pods(evidence, target)),
        says=tuple(says_about(evidence, target, pods)),
        events=tuple(events_about(evidence, about.has_events)),
    )


def _vpa(evidence: Evidence, name: str) -> VerticalPodAutoscaler:
    found = evidence.collected.vpas.get(evidence.namespace, name)
    if found is None:
        raise unknown_object(VPA.name, name, evidence, evidence.collected.vpas)
    return found


def _sizes(scaled: Scaled) -> bool:
    """Whether an Hvpa has a say about its pods: one that yields has none."""
    return scaled.view is not None and scaled.view.yields is None


def _pods_of(evidence: Evidence, vpa: str, target: TargetRef) -> list[Pod]:
    """The pods that a VPA governs, and those of its target that something else governs."""
    governor = evidence.recommended.roster.governance.governor
    planned = evidence.updated.plans.get((target.namespace, target.kind, target.name))
    below = {pod.metadata.name for pod in planned.gathered.pods} if planned is not None else set()
    pods = evidence.collected.pods.by(BY_NAMESPACE, evidence.namespace)
    return [pod for pod in pods if governor.get(pod.metadata.name) == vpa or pod.metadata.name in below]


def _pod_parts(evidence: Evidence, pods: Iterable[Pod]) -> Iterator[PodPart]:
    verdicts: dict[str, Planful] = {each.verdict.pod.name: each for each in verdicts_of(evidence)}
    for pod in pods:
        found = verdicts.get(pod.metadata.name)
        yield pod_part(evidence, found) if found is not None else without_verdict(evidence, pod)


def _new_pods(evidence: Evidence, target: TargetRef | None) -> Iterator[NewPod]:
    arrived = evidence.arrivals.get(target) if target is not None else None
    if arrived is not None:
        workload = f"{arrived.target.kind} {arrived.target.name}"
        yield NewPod(workload, arrived.reason, arrived.warnings, arrived.account)
