"""Makes the size of a pod from a recommendation, boost aside.

In this order: the recommendation as `core.recommend.capping` bounds it for the pod, limits in proportion, what the API
server demands of the result, and for running pods their QoS class. The caller decides whether the object acts at all
(`updateMode`); `mode: Off` of a container is respected here.

The QoS class of a pod is fixed when it is created, and the API server refuses a resize that would change it.

| class | what is kept |
|---|---|
| Guaranteed | every request is equal to its limit: where the limit is not ours to change, neither is changed |
| Burstable | one request at least is below its limit: if none would be left, one is set a unit below it |
| BestEffort | nothing is set |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from trellis.api.resolve import EffectiveVpa
from trellis.base.quantities import LARGEST_COUNT
from trellis.base.reasons import Reason, Severity
from trellis.core.recommend.amounts import RESOURCES, ResourceAmounts, is_rounded_up
from trellis.core.recommend.capping import CappedResources, NamespaceLimits, RecommendedResources, cap_for_pod
from trellis.core.recommend.capping.limit_ranges import ResourceRange
from trellis.core.recommend.capping.pod import TARGET_FIELD, CapNote
from trellis.core.sizing.admissible_sizes import (
    CAPPED_TO_POD_LIMIT,
    FITTED_TO_POD_REQUEST,
    FITTED_TO_RATIO,
    SIZE_NOT_ADMISSIBLE,
    is_newly_refused,
    leave_unsized,
    make_admissible,
)
from trellis.core.sizing.shapes import ContainerShape, PodShape, QosClass, compute_qos
from trellis.core.sizing.size_drafts import ContainerDraft, ResourceDraft

QOS_CLASS_PRESERVED = Reason(
    "QosClassPreserved", "The recommendation was changed, or not applied, so that the pod keeps its QoS class."
)


def preserve_qos_class(drafts: Sequence[ResourceDraft], shape: PodShape, limits: NamespaceLimits) -> None:
    """Changes what is sized so that the pod keeps its class."""
    if shape.has_pod_resources:
        return
    if shape.qos is QosClass.GUARANTEED:
        _equalize_limits(drafts)
    elif shape.qos is QosClass.BURSTABLE and _compute_draft_qos(drafts, shape) is QosClass.GUARANTEED:
        _lower_one_request(drafts, limits)
    if _compute_draft_qos(drafts, shape) is not shape.qos or any(is_newly_refused(draft, limits) for draft in drafts):
        for draft in drafts:
            leave_unsized(draft, QOS_CLASS_PRESERVED)


def _equalize_limits(drafts: Sequence[ResourceDraft]) -> None:
    for container in _list_sized(drafts):
        if not container.limit_follows and container.request != container.limit:
            container.reset(QOS_CLASS_PRESERVED)
        elif container.request != container.limit:
            container.limit = container.request
            container.add_reason(QOS_CLASS_PRESERVED)


def _lower_one_request(drafts: Sequence[ResourceDraft], limits: NamespaceLimits) -> None:
    """Lower one request below its limit, preferably where the author of the pod set them apart."""
    choices = sorted(_list_sized(drafts), key=lambda draft: draft.spec[0] == draft.spec[1])
    for container in choices:
        if container.request < 2 or container.request != container.limit:
            continue
        container.request -= 1
        if not any(is_newly_refused(draft, limits) for draft in drafts):
            container.add_reason(QOS_CLASS_PRESERVED)
            return
        container.request += 1


def _list_sized(drafts: Sequence[ResourceDraft]) -> Iterator[ContainerDraft]:
    return (container for draft in drafts for container in draft.containers if container.sized)


def _compute_draft_qos(drafts: Sequence[ResourceDraft], shape: PodShape) -> QosClass:
    return compute_qos(
        [*_sized_amounts(drafts), *((container.requests, container.limits) for container in shape.init_containers)]
    )


def _sized_amounts(resource_drafts: Sequence[ResourceDraft]) -> Iterator[tuple[ResourceAmounts, ResourceAmounts]]:
    for drafts in zip(*(draft.containers for draft in resource_drafts), strict=True):
        yield (
            dict(zip(RESOURCES, (draft.request for draft in drafts), strict=True)),
            dict(zip(RESOURCES, (draft.limit for draft in drafts), strict=True)),
        )


LIMIT_NOT_SET = Reason("LimitNotSet", "No limit was set, because the container has none.")
LIMIT_WITHOUT_REQUEST = Reason(
    "LimitWithoutRequest", "A limit was not changed, because there is no recommendation for its resource."
)
LIMIT_OVERFLOW = Reason(
    "LimitOverflow",
    "The limit in proportion to the request would exceed the largest possible quantity.",
    Severity.WARNING,
)

# The first three as upstream words them in the pod's annotation; about the others it has nothing to say.
_PHRASES: Final = {
    LIMIT_NOT_SET.code: ": limit NOT set since originalLimit is nil or 0",
    LIMIT_WITHOUT_REQUEST.code: ": limit NOT set since recommendedRequest is nil or 0",
    LIMIT_OVERFLOW.code: ": failed to keep limit to request ratio; capping limit to int64",
    FITTED_TO_POD_REQUEST.code: " scaled to fit the pod's own request",
    CAPPED_TO_POD_LIMIT.code: " limit capped to the pod's own limit",
    FITTED_TO_RATIO.code: " changed to fit maxLimitRequestRatio in LimitRange",
    SIZE_NOT_ADMISSIBLE.code: " left as it is, since the recommendation would not be admitted",
    QOS_CLASS_PRESERVED.code: " held back to keep the QoS class",
}


class SizeNote(msgspec.Struct, frozen=True):
    """Something that made a size other than the recommendation; its text is the phrase of the pod's annotation.

    `request` is what is requested once it is done.
    """

    resource: str
    reason: Reason
    request: int

    def __str__(self) -> str:
        phrase = _PHRASES.get(self.reason.code)
        return str(CapNote(self.resource, self.reason, self.request)) if phrase is None else f"{self.resource}{phrase}"


class ContainerSize(msgspec.Struct, frozen=True):
    """What a container should have. Only what is to be set: what is absent stays as the container has it."""

    container: ContainerShape
    requests: ResourceAmounts
    limits: ResourceAmounts
    notes: tuple[SizeNote, ...] = ()


class PodSize(msgspec.Struct, frozen=True):
    """The sizes of those containers that are recommended for, in the order of the pod."""

    containers: tuple[ContainerSize, ...] = ()

    def find(self, name: str) -> ContainerSize | None:
        """The size of one container."""
        return next((container for container in self.containers if container.container.name == name), None)


def size_pod(
    shape: PodShape,
    advice: Sequence[RecommendedResources],
    vpa: EffectiveVpa,
    limits: NamespaceLimits,
    *,
    keep_qos: bool = False,
    capped: Sequence[CappedResources] | None = None,
) -> PodSize:
    """The size of a pod. With `keep_qos`, for pods that run, it is one that the pod can be resized to.

    `capped` is the advice as it is bounded for this pod, if it was computed before.
    """
    capped_resources = _cap_targets(shape, advice, vpa, limits) if capped is None else capped
    by_name = {resources.container: resources for resources in capped_resources}
    if not by_name:
        return PodSize()
    drafts = [
        ResourceDraft.from_shape(resource, shape, limits.container.default_limit.get(resource, 0))
        for resource in RESOURCES
    ]
    for draft in drafts:
        _apply_recommendation(draft, by_name)
        make_admissible(draft, limits)
    if keep_qos:
        preserve_qos_class(drafts, shape, limits)
    return PodSize(tuple(_build_sizes(drafts, by_name)))


def _cap_targets(
    shape: PodShape, advice: Sequence[RecommendedResources], vpa: EffectiveVpa, limits: NamespaceLimits
) -> tuple[CappedResources, ...]:
    """The capped targets. Bounds are left out: only decisions about changes need them, and they cost as much again."""
    return cap_for_pod(
        advice, shape.containers, vpa, _drop_pod_bounds(limits, shape.pod_limits), fields=(TARGET_FIELD,)
    )


def _drop_pod_bounds(limits: NamespaceLimits, pod_limits: ResourceAmounts) -> NamespaceLimits:
    """Where a pod has its own resources, LimitRanges for pods hold for those and not for its containers."""
    if not pod_limits:
        return limits
    pod = limits.pod
    minimum, maximum = (
        {resource: amount for resource, amount in bounds.items() if resource not in pod_limits}
        for bounds in (pod.least, pod.most)
    )
    return NamespaceLimits(limits.container, ResourceRange(minimum, maximum, pod.default_limit, pod.ratio))


def _apply_recommendation(draft: ResourceDraft, capped: Mapping[str, CappedResources]) -> None:
    for container in draft.containers:
        resources = capped.get(container.shape.name)
        if resources is None or draft.resource not in resources.target:
            continue
        container.set_request(resources.target[draft.resource], limit_follows=resources.limits_follow)
        if (
            not container.limit_follows
            and container.request
            and _is_limit_below(draft.resource, container.shape, container.request)
        ):
            container.reset(SIZE_NOT_ADMISSIBLE)


def _is_limit_below(resource: str, container: ContainerShape, request: int) -> bool:
    """Whether a limit that stays is below a request that was capped to it.

    Everywhere else zero is "not set", and a part of a byte is a byte; but the API server compares what is written.
    """
    limit = container.in_spec.limits.get(resource)
    if limit is None:
        return False
    return limit == 0 or (request >= limit and is_rounded_up(resource, container.written.limits.get(resource)))


def _build_sizes(
    resource_drafts: Sequence[ResourceDraft], capped: Mapping[str, CappedResources]
) -> Iterator[ContainerSize]:
    for drafts in zip(*[draft.containers for draft in resource_drafts], strict=True):
        container = drafts[0].shape
        resources = capped.get(container.name)
        if resources is None:
            continue
        requests, limits = {}, {}
        for draft in drafts:
            if draft.sized:
                requests[draft.resource] = draft.request
            if draft.limit_follows:
                limits[draft.resource] = draft.limit
        notes = _build_notes(resources, drafts)
        if limits:
            notes += _build_limit_notes(resources, drafts)
        yield ContainerSize(container, requests, limits, tuple(notes))


def _build_notes(capped: CappedResources, drafts: Sequence[ContainerDraft]) -> list[SizeNote]:
    """What bounded the recommendation. It comes before what was done about limits, as upstream has it."""
    notes = [SizeNote(note.resource, note.reason, note.amount) for note in capped.notes]
    for draft in drafts:
        if draft.reasons:
            noted = [note.reason for note in capped.notes if note.resource == draft.resource]
            notes += [
                SizeNote(draft.resource, reason, draft.request) for reason in draft.reasons if reason not in noted
            ]
    return notes


def _build_limit_notes(capped: CappedResources, drafts: Sequence[ContainerDraft]) -> list[SizeNote]:
    """What was done about the limits of a container, if some limit of it is set."""
    notes = []
    for draft in drafts:
        if draft.limit_follows:
            if draft.limit == LARGEST_COUNT:
                notes.append(SizeNote(draft.resource, LIMIT_OVERFLOW, draft.request))
        elif not (draft.base[1] or draft.default):
            notes.append(SizeNote(draft.resource, LIMIT_NOT_SET, draft.request))
        elif not capped.target.get(draft.resource):
            notes.append(SizeNote(draft.resource, LIMIT_WITHOUT_REQUEST, draft.request))
    return notes
