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
from trellis.core.boost.boosted_size import BoostNote, BoostSettings, CpuCeiling, PodBoost, boost_pod
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
from trellis.core.sizing.shapes import ContainerList, ContainerShape, PodShape, is_resizable
from trellis.core.sizing.sizes import PodSize, SizeNote, size_pod

POD_SIZED = Reason("PodSized", "A new pod gets the recommended requests and limits.")
POD_BOOSTED = Reason("PodBoosted", "A new pod gets a startup boost of its CPU.")
POD_ALREADY_SIZED = Reason("PodAlreadySized", "A new pod already requests what is recommended.")
POD_WITHOUT_ADVICE = Reason(
    "PodWithoutRecommendation", "There is no recommendation yet for the containers of a new pod."
)


# The most CPU that the pod could have on some node, asked for only if it is to be boosted.
CeilingLookup: TypeAlias = Callable[[], CpuCeiling | None]


class PodAdmissionDecision(msgspec.Struct, frozen=True):
    """The decision about a new pod. `applied`: its resources are set. `warnings` go to the client that creates it."""

    reason: Reason
    patch: tuple[PatchOp, ...] = ()
    applied: bool = False
    warnings: tuple[str, ...] = ()


class _ContainerOutcome(msgspec.Struct, frozen=True):
    """The resources that one container gets, with notes on them."""

    container: ContainerShape
    requests: ResourceAmounts
    limits: ResourceAmounts
    notes: tuple[SizeNote | BoostNote, ...] = ()
    boost_annotation: str = ""

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
    """Decide about a pod that has a governor."""
    annotations = pod.metadata.annotations
    pre_boost = read_pre_boost_resources(annotations)
    in_spec = PodShape.from_spec(pod.spec)
    # A pod that is reviewed again, or a copy of a boosted pod, is not boosted a second time.
    shape = restore_pre_boost_shape(in_spec, pre_boost)
    resizable = is_resizable(pod.spec)
    size, boost, outcomes = decide_resources(shape, governor, limits, settings, ceiling, resizable=resizable)
    if shape is not in_spec and not _is_consistent(outcomes, shape, in_spec):
        # Any user may write the annotation: one that does not match the pod is ignored.
        size, boost, outcomes = decide_resources(in_spec, governor, limits, settings, ceiling, resizable=resizable)
    resources = build_resource_ops([outcome.change for outcome in outcomes])
    # The account of the first review stays: a second one changes nothing.
    written = _marker_annotations(pod, outcomes) | (
        _explain_annotations(governor, outcomes) if resources or SIZED_ANNOTATION not in annotations else {}
    )
    stale = [key for key in map(annotation_key, pre_boost) if key not in written]
    return PodAdmissionDecision(
        _find_reason(size, boost, changed=bool(resources)),
        (*build_annotation_ops(annotations, written, stale), *resources),
        applied=bool(resources),
        warnings=_list_warnings(outcomes),
    )


def decide_resources(
    shape: PodShape,
    governor: Governor,
    limits: NamespaceLimits,
    settings: BoostSettings,
    ceiling: CeilingLookup,
    *,
    resizable: bool,
) -> tuple[PodSize, PodBoost, list[_ContainerOutcome]]:
    """The recommended size and the boost of a new pod of a shape, and what its containers get together."""
    vpa, applies = governor.vpa, governor.applies
    size = size_pod(shape, governor.advice, vpa, limits) if applies and governor.advice else PodSize()
    boost = PodBoost()
    if settings.enabled and vpa.can_boost:
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
    return size, boost, _build_outcomes(shape, size, boost)


def _is_consistent(outcomes: Iterable[_ContainerOutcome], unboosted: PodShape, in_spec: PodShape) -> bool:
    """Whether the unboosted pod and the pod of the spec have the same resources after the change."""
    by_name = {outcome.container.name: outcome for outcome in outcomes}
    for before, now in zip(unboosted.containers, in_spec.containers, strict=True):
        outcome = by_name.get(now.name) or _ContainerOutcome(now, {}, {})
        if {**before.requests, **outcome.requests} != {**now.requests, **outcome.requests}:
            return False
        if {**before.limits, **outcome.limits} != {**now.limits, **outcome.limits}:
            return False
    return True


def _build_outcomes(shape: PodShape, size: PodSize, boost: PodBoost) -> list[_ContainerOutcome]:
    """The outcome by container, without containers that have neither a change nor a note."""
    if not boost.containers and not boost.notes:
        return [
            _ContainerOutcome(container.container, container.requests, container.limits, container.notes)
            for container in size.containers
        ]
    sized = {container.container.name: container for container in size.containers}
    boosted = {container.container.name: container for container in boost.containers}
    outcomes = []
    for container in shape.containers:
        size_of_container, boost_of_container = sized.get(container.name), boosted.get(container.name)
        notes = tuple(note for name, note in boost.notes if name == container.name)
        if size_of_container is None and boost_of_container is None and not notes:
            continue
        requests = dict(size_of_container.requests) if size_of_container else {}
        limits = dict(size_of_container.limits) if size_of_container else {}
        if boost_of_container is not None:
            requests["cpu"] = boost_of_container.request
            # A limit that stays as it came is nothing to tell.
            if boost_of_container.limit is not None and boost_of_container.limit != limits.get(
                "cpu", container.limits.get("cpu")
            ):
                limits["cpu"] = boost_of_container.limit
        outcomes.append(
            _ContainerOutcome(
                container,
                requests,
                limits,
                (*(size_of_container.notes if size_of_container else ()), *notes),
                boost_of_container.annotation if boost_of_container else "",
            )
        )
    return outcomes


def _marker_annotations(pod: Pod, outcomes: Iterable[_ContainerOutcome]) -> dict[str, str]:
    """Build the annotations that components read: which containers are boosted, and which were observed."""
    written = {
        annotation_key(outcome.container.name): outcome.boost_annotation
        for outcome in outcomes
        if outcome.boost_annotation
    }
    written[OBSERVED_CONTAINERS_ANNOTATION] = ", ".join(container.name for container in pod.spec.containers)
    return written


def _explain_annotations(governor: Governor, outcomes: Sequence[_ContainerOutcome]) -> dict[str, str]:
    """Build the annotations that explain the changes to people and machines."""
    if not outcomes:
        return {}
    containers = {outcome.container.name: _summarize_outcome(outcome) for outcome in outcomes}
    account = {"by": f"{governor.kind}/{governor.name}", "containers": containers}
    annotations = {SIZED_ANNOTATION: msgspec.json.encode(account).decode()}
    changed = "; ".join([_describe_outcome(outcome) for outcome in outcomes if outcome.requests or outcome.limits])
    if changed:
        annotations[UPDATES_ANNOTATION] = f"Pod resources updated by {governor.name}: {changed}"
    return annotations


def _list_warnings(outcomes: Iterable[_ContainerOutcome]) -> tuple[str, ...]:
    notes = [(outcome.container.name, note) for outcome in outcomes for note in outcome.notes]
    return tuple([f"{name}: {note}" for name, note in notes if note.reason.severity is Severity.WARNING])


def _describe_outcome(outcome: _ContainerOutcome) -> str:
    """Describe an outcome as upstream does: notes first, then what was set."""
    container = outcome.container
    list_name = "container" if container.place is ContainerList.CONTAINERS else "init container"
    phrases = [str(note) for note in outcome.notes]
    phrases += [f"{resource} request" for resource in RESOURCES if resource in outcome.requests]
    phrases += [f"{resource} limit" for resource in RESOURCES if resource in outcome.limits]
    return f"{list_name} {container.index}: {', '.join(phrases)}"


def _summarize_outcome(outcome: _ContainerOutcome) -> dict[str, Any]:
    """Summarize an outcome for machines: amounts before and after, and the reasons by their codes."""
    container = outcome.container
    account: dict[str, Any] = {}
    if outcome.requests:
        account["requests"] = _changes(container.requests, outcome.requests)
    if outcome.limits:
        account["limits"] = _changes(container.limits, outcome.limits)
    if outcome.notes:
        account["why"] = [f"{note.resource} {note.reason.code}" for note in outcome.notes]
    if outcome.boost_annotation:
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


def _find_reason(size: PodSize, boost: PodBoost, *, changed: bool) -> Reason:
    if boost.containers:
        return POD_BOOSTED
    if not size.containers:
        return POD_WITHOUT_ADVICE
    return POD_SIZED if changed else POD_ALREADY_SIZED
