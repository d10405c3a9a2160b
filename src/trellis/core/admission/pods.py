"""Sizes a new pod: the recommended resources, a boost for its start, and annotations that record both.

Annotations are upstream's, which its updater and people's scripts read, and one of Trellis that says what was changed
and why, for machines and for `trellis explain`:

    vpaUpdates: "Pod resources updated by web: container 0: cpu capped to maxAllowed, cpu request, memory request"
    vpaObservedContainers: "app, proxy"
    trellis.x-k8s.io/sized: {"by": "VerticalPodAutoscaler/web", "containers": {"app": {...}}}

A pod gets the whole recommendation, whatever its governor requires of changes to running pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from trellis.api.kube.pods import Pod
from trellis.base.reasons import Reason, Severity
from trellis.core.boost.annotation import annotation_key, read_pre_boost_resources, restore_pre_boost_shape
from trellis.core.boost.boosted_size import BoostSettings, CpuCeiling, PodBoost, boost_pod, is_resizable
from trellis.core.boost.notes import BoostNote
from trellis.core.cluster.json_patches import (
    PatchOp,
    ResourceChange,
    build_annotation_ops,
    build_resource_ops,
    format_resource_amount,
)
from trellis.core.cluster.pod_annotations import OBSERVED_CONTAINERS_ANNOTATION, SIZED_ANNOTATION, UPDATES_ANNOTATION
from trellis.core.recommend.amounts import RESOURCES, ResourceAmounts
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.sizing.governors import Governor
from trellis.core.sizing.shapes import ContainerList, ContainerShape, PodShape
from trellis.core.sizing.sizes import PodSize, SizeNote, size_pod

POD_SIZED = Reason("PodSized", "A new pod got the recommended requests and limits.")
POD_BOOSTED = Reason("PodBoosted", "A new pod got more CPU for its start.")
POD_SIZED_ALREADY = Reason("PodSizedAlready", "A new pod asked for what is recommended.")
POD_WITHOUT_ADVICE = Reason("PodWithoutRecommendation", "Nothing is recommended yet for the containers of a new pod.")


# The most CPU that the pod could have on some node, asked for only if it is to be boosted.
CeilingLookup: TypeAlias = Callable[[], CpuCeiling | None]


class PodAdmissionDecision(msgspec.Struct, frozen=True):
    """What becomes of a new pod. `applied` is whether its resources are set; `warnings` go to whoever makes it."""

    reason: Reason
    patch: tuple[PatchOp, ...] = ()
    applied: bool = False
    warnings: tuple[str, ...] = ()


class _ContainerOutcome(msgspec.Struct, frozen=True):
    """What one container gets, and everything there is to say about it."""

    container: ContainerShape
    requests: ResourceAmounts
    limits: ResourceAmounts
    notes: tuple[SizeNote | BoostNote, ...] = ()
    memory: str = ""

    @property
    def change(self) -> ResourceChange:
        """The same as a change to the pod."""
        container = self.container
        return ResourceChange(
            container.place, container.index, container.name, container.written, self.requests, self.limits
        )


def admit_pod(
    pod: Pod, governor: Governor, limits: NamespaceLimits, settings: BoostSettings, ceiling: CeilingLookup
) -> PodAdmissionDecision:
    """The verdict on a pod that is governed."""
    annotations = pod.metadata.annotations
    memory = read_pre_boost_resources(annotations)
    own = PodShape.of(pod.spec)
    # Asked a second time about a pod, or about a copy of one, it is not raised from where it was raised to.
    shape = restore_pre_boost_shape(own, memory)
    resizable = is_resizable(pod.spec)
    size, boost, outcomes = _decide(shape, governor, limits, settings, ceiling, resizable=resizable)
    if shape is not own and not _goes_with(outcomes, shape, own):
        # Anybody may write an annotation: one that does not go with the pod is not believed.
        size, boost, outcomes = _decide(own, governor, limits, settings, ceiling, resizable=resizable)
    resources = build_resource_ops([each.change for each in outcomes])
    # What is told already stays: asked a second time, there is nothing to tell that was not so the first time.
    wanted = _marks(pod, outcomes) | (
        _told(governor, outcomes) if resources or SIZED_ANNOTATION not in annotations else {}
    )
    stale = [key for key in map(annotation_key, memory) if key not in wanted]
    return PodAdmissionDecision(
        _reason(size, boost, changed=bool(resources)),
        (*build_annotation_ops(annotations, wanted, stale), *resources),
        applied=bool(resources),
        warnings=_warnings(outcomes),
    )


def _decide(
    shape: PodShape,
    governor: Governor,
    limits: NamespaceLimits,
    settings: BoostSettings,
    ceiling: CeilingLookup,
    *,
    resizable: bool,
) -> tuple[PodSize, PodBoost, list[_ContainerOutcome]]:
    vpa, applies = governor.vpa, governor.applies
    size = size_pod(shape, governor.advice, vpa, limits) if applies and governor.advice else PodSize()
    boost = PodBoost()
    if settings.enabled and vpa.boosts:
        boost = boost_pod(
            shape,
            size,
            vpa,
            applies=applies,
            limits=limits,
            settings=settings,
            ceiling=ceiling(),
            resizable=resizable,
        )
    return size, boost, _outcomes(shape, size, boost)


def _goes_with(outcomes: Iterable[_ContainerOutcome], then: PodShape, own: PodShape) -> bool:
    """Whether a pod that is what it was before a boost, and one that is what its spec says, would come out the same."""
    made = {each.container.name: each for each in outcomes}
    for before, now in zip(then.containers, own.containers, strict=True):
        each = made.get(now.name) or _ContainerOutcome(now, {}, {})
        if {**before.requests, **each.requests} != {**now.requests, **each.requests}:
            return False
        if {**before.limits, **each.limits} != {**now.limits, **each.limits}:
            return False
    return True


def _outcomes(shape: PodShape, size: PodSize, boost: PodBoost) -> list[_ContainerOutcome]:
    """By container of the pod, without those of which there is nothing to say."""
    if not boost.raised and not boost.notes:
        return [_ContainerOutcome(each.container, each.requests, each.limits, each.notes) for each in size.containers]
    sized = {each.container.name: each for each in size.containers}
    raised = {each.container.name: each for each in boost.raised}
    outcomes = []
    for container in shape.containers:
        own, more = sized.get(container.name), raised.get(container.name)
        notes = tuple(note for name, note in boost.notes if name == container.name)
        if own is None and more is None and not notes:
            continue
        requests = dict(own.requests) if own else {}
        limits = dict(own.limits) if own else {}
        if more is not None:
            requests["cpu"] = more.request
            # A limit that stays as it came is nothing to tell.
            if more.limit is not None and more.limit != limits.get("cpu", container.limits.get("cpu")):
                limits["cpu"] = more.limit
        outcomes.append(
            _ContainerOutcome(
                container, requests, limits, (*(own.notes if own else ()), *notes), more.memory if more else ""
            )
        )
    return outcomes


def _marks(pod: Pod, outcomes: Iterable[_ContainerOutcome]) -> dict[str, str]:
    """What others go by: which containers are boosted, and which were there to be sized."""
    written = {annotation_key(each.container.name): each.memory for each in outcomes if each.memory}
    written[OBSERVED_CONTAINERS_ANNOTATION] = ", ".join(container.name for container in pod.spec.containers)
    return written


def _told(governor: Governor, outcomes: Sequence[_ContainerOutcome]) -> dict[str, str]:
    """What people and machines are told."""
    if not outcomes:
        return {}
    containers = {each.container.name: _account(each) for each in outcomes}
    account = {"by": f"{governor.kind}/{governor.name}", "containers": containers}
    told = {SIZED_ANNOTATION: msgspec.json.encode(account).decode()}
    changed = "; ".join([_sentence(each) for each in outcomes if each.requests or each.limits])
    if changed:
        told[UPDATES_ANNOTATION] = f"Pod resources updated by {governor.name}: {changed}"
    return told


def _warnings(outcomes: Iterable[_ContainerOutcome]) -> tuple[str, ...]:
    told = [(each.container.name, note) for each in outcomes for note in each.notes]
    return tuple([f"{name}: {note}" for name, note in told if note.reason.severity is Severity.WARNING])


def _sentence(outcome: _ContainerOutcome) -> str:
    """What upstream says of a container: notes first, then what was set."""
    container = outcome.container
    which = "container" if container.place is ContainerList.CONTAINERS else "init container"
    said = [str(note) for note in outcome.notes]
    said += [f"{resource} request" for resource in RESOURCES if resource in outcome.requests]
    said += [f"{resource} limit" for resource in RESOURCES if resource in outcome.limits]
    return f"{which} {container.index}: {', '.join(said)}"


def _account(outcome: _ContainerOutcome) -> dict[str, Any]:
    """The same for machines: what was there, what is there now, and the reasons by their codes."""
    container = outcome.container
    account: dict[str, Any] = {}
    if outcome.requests:
        account["requests"] = _changes(container.requests, outcome.requests)
    if outcome.limits:
        account["limits"] = _changes(container.limits, outcome.limits)
    if outcome.notes:
        account["why"] = [f"{note.resource} {note.reason.code}" for note in outcome.notes]
    if outcome.memory:
        account["boosted"] = True
    return account


def _changes(had: ResourceAmounts, has: ResourceAmounts) -> dict[str, tuple[str | None, str]]:
    return {
        resource: (
            format_resource_amount(resource, had[resource]) if resource in had else None,
            format_resource_amount(resource, amount),
        )
        for resource, amount in has.items()
    }


def _reason(size: PodSize, boost: PodBoost, *, changed: bool) -> Reason:
    if boost.raised:
        return POD_BOOSTED
    if not size.containers:
        return POD_WITHOUT_ADVICE
    return POD_SIZED if changed else POD_SIZED_ALREADY
