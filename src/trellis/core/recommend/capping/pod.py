"""What does a recommendation come to for one pod? Upstream's order: the pod's LimitRange, then container by container.

Used wherever resources are set: by admission for pods that are made, by the updater for pods that run. A container
under `mode: Off`, or without a recommendation, is left out of the answer and out of all changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from trellis.api.hvpa import HvpaStatus
from trellis.api.resolve import ContainerMeaning, EffectiveVpa
from trellis.api.vpa import VerticalPodAutoscalerStatus
from trellis.base.reason import Reason
from trellis.core.recommend.amounts import RESOURCES
from trellis.core.recommend.capping.container import (
    CAPPED_TO_LIMIT,
    CAPPED_TO_MAX_ALLOWED,
    CAPPED_TO_MIN_ALLOWED,
    CAPPED_TO_RANGE_MAX,
    CAPPED_TO_RANGE_MIN,
    Bound,
    PodContainer,
    bounds_of,
    cap_amount,
)
from trellis.core.recommend.capping.limit_ranges import Counts, NamespaceLimits, Range, counts
from trellis.core.recommend.capping.pod_range import fit_pod

FITTED_TO_POD_RANGE = Reason(
    "FittedToPodLimitRange", "The recommendation was scaled so that the whole pod fits a pod LimitRange."
)

# As upstream words them in the pod's annotation; the last is ours, because upstream says nothing there.
_PHRASES = {
    CAPPED_TO_RANGE_MIN.code: "capped to fit Min in container LimitRange",
    CAPPED_TO_RANGE_MAX.code: "capped to fit Max in container LimitRange",
    CAPPED_TO_MIN_ALLOWED.code: "capped to minAllowed",
    CAPPED_TO_MAX_ALLOWED.code: "capped to maxAllowed",
    CAPPED_TO_LIMIT.code: "capped to container limit",
    FITTED_TO_POD_RANGE.code: "scaled to fit pod LimitRange",
}
_FIELDS = ("target", "lower", "upper")


class Advice(msgspec.Struct, frozen=True):
    """What is recommended for one container, in millicores and bytes."""

    container: str
    target: Counts
    lower: Counts = {}
    upper: Counts = {}


class CapNote(msgspec.Struct, frozen=True):
    """Something that changed the target of a resource, and what it made of it."""

    resource: str
    reason: Reason
    amount: int

    def __str__(self) -> str:
        return f"{self.resource} {_PHRASES[self.reason.code]}"


class CappedAdvice(msgspec.Struct, frozen=True):
    """The same for one pod; the notes are about the target alone."""

    container: str
    target: Counts
    lower: Counts
    upper: Counts
    notes: tuple[CapNote, ...] = ()


def read_advice(status: VerticalPodAutoscalerStatus | HvpaStatus | None) -> tuple[Advice, ...]:
    """What a status recommends."""
    recommendation = status.recommendation if status is not None else None
    return tuple(
        Advice(each.container_name, counts(each.target), counts(each.lower_bound or {}), counts(each.upper_bound or {}))
        for each in (recommendation.container_recommendations if recommendation is not None else None) or ()
    )


def cap_for_pod(
    advice: Sequence[Advice], containers: Sequence[PodContainer], vpa: EffectiveVpa, limits: NamespaceLimits
) -> tuple[CappedAdvice, ...]:
    """The advice for a pod's containers, in the order of the pod."""
    meanings = {each.name: vpa.container(each.name) for each in containers}
    given = {each.container: each for each in advice}
    ours = {
        each.name: {field: _controlled(getattr(given[each.name], field), meanings[each.name]) for field in _FIELDS}
        for each in containers
        if each.name in given and meanings[each.name].scaled
    }
    notes: dict[str, list[CapNote]] = {name: [] for name in ours}
    # Most namespaces have no LimitRange for whole pods.
    if limits.pod.least or limits.pod.most:
        follow = {name: meaning.limits_follow for name, meaning in meanings.items()}
        for field in _FIELDS:
            for name, note in _fit(field, ours, containers, follow, limits.pod):
                if field == "target":
                    notes[name].append(note)
    for container in containers:
        if container.name in ours:
            bounds = bounds_of(container, meanings[container.name], limits.container)
            if bounds:
                _cap(ours[container.name], bounds, notes[container.name])
    return tuple(CappedAdvice(name, **fields, notes=tuple(notes[name])) for name, fields in ours.items())


def _fit(
    field: str,
    ours: Mapping[str, Mapping[str, dict[str, int]]],
    containers: Sequence[PodContainer],
    limits_follow: Mapping[str, bool],
    limits: Range,
) -> Iterator[tuple[str, CapNote]]:
    """Changes what is recommended in one field; what was changed for whom."""
    for resource in RESOURCES:
        wanted = {name: fields[field][resource] for name, fields in ours.items() if resource in fields[field]}
        for name, amount in fit_pod(wanted, resource, containers, limits_follow, limits).items():
            if amount != wanted[name]:
                ours[name][field][resource] = amount
                yield name, CapNote(resource, FITTED_TO_POD_RANGE, amount)


def _cap(fields: Mapping[str, dict[str, int]], bounds: Mapping[str, tuple[Bound, ...]], notes: list[CapNote]) -> None:
    for field, amounts in fields.items():
        for resource, amount in amounts.items():
            amounts[resource], cutting = cap_amount(amount, bounds[resource])
            if field == "target":
                notes += [CapNote(resource, bound.reason, bound.amount) for bound in cutting]


def _controlled(amounts: Counts, meaning: ContainerMeaning) -> dict[str, int]:
    return {resource: amounts[resource] for resource in meaning.controlled if resource in amounts}
