"""Why is it so? One answer about a VPA, about a pod, or about what is recommended for a container."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from trellis.api.kinds import VPA
from trellis.api.kube.coordination import Event
from trellis.api.kube.pods import Pod
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.base.errors import InvalidInput
from trellis.base.names import nearest
from trellis.core.explain.containers import vpa_part
from trellis.core.explain.evidence import Evidence
from trellis.core.explain.explained import Container, Explained, Happened, NewPod, PodPart, Unseen, VpaPart
from trellis.core.explain.pods import Planful, pod_part, verdicts_of, without_verdict
from trellis.core.explain.says import says_about
from trellis.core.explain.unseen import RECOMMENDER_ELSEWHERE, is_partial, unseen_by
from trellis.core.explain.wording import moment_text, time_text
from trellis.core.model.keys import BY_NAMESPACE
from trellis.core.model.owners import TargetRef
from trellis.core.model.store import Snapshot
from trellis.core.recommend.roster import target_of_vpa

VPA_KIND: Final = "vpa"
POD_KIND: Final = "pod"
RECOMMENDATION_KIND: Final = "recommendation"

# Of what happened, the latest.
_MOST_EVENTS: Final = 10


def explain_vpa(evidence: Evidence, name: str) -> Explained:
    """All there is to say about a VPA; raises `InvalidInput` if there is none of that name."""
    vpa = _vpa(evidence, name)
    part, containers = vpa_part(evidence, vpa)
    target = target_of_vpa(vpa)
    pods = _pods_of(evidence, name, target)
    return _answer(evidence, _Subject(VPA_KIND, name, part, containers, pods, target))


def explain_pod(evidence: Evidence, name: str) -> Explained:
    """All there is to say about a pod, and about the VPA that governs it."""
    pod = evidence.collected.pods.get(evidence.namespace, name)
    if pod is None:
        raise _unknown("Pod", name, evidence, evidence.collected.pods)
    governor = evidence.recommended.roster.governance.governor.get(name)
    vpa = evidence.collected.vpas.get(evidence.namespace, governor) if governor is not None else None
    part, containers = vpa_part(evidence, vpa) if vpa is not None else (None, ())
    target = target_of_vpa(vpa) if vpa is not None else None
    return _answer(evidence, _Subject(POD_KIND, name, part, containers, [pod], target))


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


def _answer(evidence: Evidence, about: _Subject) -> Explained:
    vpa, pods, target = about.vpa, about.pods, about.target
    parts = tuple(_pod_parts(evidence, pods))
    unseen = tuple(unseen_by(evidence, about.containers, parts, verdicts=about.kind != RECOMMENDATION_KIND))
    if vpa is not None and not vpa.is_answered:
        unseen = (Unseen(RECOMMENDER_ELSEWHERE, vpa.recommender), *unseen)
    explained = Explained(
        kind=about.kind,
        namespace=evidence.namespace,
        name=about.name,
        time=time_text(evidence.now),
        vpa=vpa,
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
        events=tuple(_events(evidence, {*(pod.metadata.name for pod in pods), *((vpa.name,) if vpa else ())})),
    )


def _vpa(evidence: Evidence, name: str) -> VerticalPodAutoscaler:
    found = evidence.collected.vpas.get(evidence.namespace, name)
    if found is None:
        raise _unknown(VPA.name, name, evidence, evidence.collected.vpas)
    return found


def _unknown(what: str, name: str, evidence: Evidence, among: Snapshot) -> InvalidInput:  # type: ignore[type-arg]
    """That there is no such object, and which may have been meant."""
    namespace, collected = evidence.namespace, evidence.collected
    if (namespace, name) in among.rejected:
        return InvalidInput(name, f"cannot be read: {among.rejected[namespace, name]}")
    for missing in collected.missing_in(namespace):
        if missing.what in (what, f"{what} {name}"):
            return InvalidInput(name, f"is no {what} that can be seen in namespace {namespace}: {missing.why}")
        if missing.what == "Namespace" and missing.where == namespace:
            return InvalidInput(namespace, f"is a namespace that cannot be seen: it {missing.why}")
    guess = nearest(name, [each.metadata.name for each in among.by(BY_NAMESPACE, namespace)])
    elsewhere = sorted({namespace for namespace, other in among.objects if other == name})
    hint = f' (did you mean "{guess}"?)' if guess else ""
    if elsewhere:
        hint = f" (there is one in {', '.join(elsewhere)})"
    elif not guess and not collected.is_whole:
        hint = " (the dump is cut off)"
    return InvalidInput(name, f"there is no {what} of that name in namespace {namespace}{hint}")


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


def _events(evidence: Evidence, names: set[str]) -> list[Happened]:
    """The latest Events about these, oldest first."""
    found = [
        each
        for each in evidence.collected.events.by(BY_NAMESPACE, evidence.namespace)
        if each.involved_object.name in names and each.involved_object.kind in {"Pod", VPA.name}
    ]
    return [_happened(each) for each in sorted(found, key=_when)[-_MOST_EVENTS:]]


def _when(event: Event) -> str:
    moment = event.last_timestamp or event.event_time or event.first_timestamp or event.metadata.creation_timestamp
    return moment_text(moment)


def _happened(event: Event) -> Happened:
    about = event.involved_object
    return Happened(_when(event), f"{about.kind} {about.name}", event.reason, event.message, max(event.count, 1))
