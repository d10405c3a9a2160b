"""Bounds a recommendation for one pod, in upstream's order: the pod's LimitRange, then container by container.

Used wherever resources are set: by admission for pods that are created, by the updater for pods that run. A container
under `mode: Off` is left out of the answer and out of all changes. A container without a recommendation is left out
too, unless a LimitRange for pods can only be met by scaling it with the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    cutting,
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
TARGET = "target"
FIELDS = (TARGET, "lower", "upper")


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
    """The same for one pod; the notes are about the target alone. Limits follow unless the policy says otherwise."""

    container: str
    target: Counts
    lower: Counts = {}
    upper: Counts = {}
    notes: tuple[CapNote, ...] = ()
    limits_follow: bool = True


class _Bounded(msgspec.Struct):
    """What is recommended for a container, by field, while it is being bounded."""

    container: PodContainer
    meaning: ContainerMeaning
    amounts: dict[str, dict[str, int]]
    notes: list[CapNote] = []

    def change(self, field: str, resource: str, amount: int, reason: Reason) -> None:
        """Set an amount; of targets it is told."""
        self.amounts[field][resource] = amount
        if field == TARGET:
            self.notes.append(CapNote(resource, reason, amount))

    def capped(self, *, advised: bool) -> CappedAdvice:
        """What has become of it.

        Without a recommendation there are no bounds: the container is resized along with its neighbours, and is never
        the reason to disturb a pod. A resource of it that nothing changed stays out.
        """
        name, follow, notes = self.container.name, self.meaning.limits_follow, tuple(self.notes)
        if advised:
            return CappedAdvice(name, **self.amounts, notes=notes, limits_follow=follow)
        changed = {note.resource for note in notes}
        target = {resource: amount for resource, amount in self.amounts[TARGET].items() if resource in changed}
        return CappedAdvice(name, target, notes=notes, limits_follow=follow)


def read_advice(status: VerticalPodAutoscalerStatus | HvpaStatus | None) -> tuple[Advice, ...]:
    """What a status recommends."""
    recommendation = status.recommendation if status is not None else None
    return tuple(
        Advice(each.container_name, counts(each.target), counts(each.lower_bound or {}), counts(each.upper_bound or {}))
        for each in (recommendation.container_recommendations if recommendation is not None else None) or ()
    )


def cap_for_pod(
    advice: Sequence[Advice],
    containers: Sequence[PodContainer],
    vpa: EffectiveVpa,
    limits: NamespaceLimits,
    *,
    fields: Sequence[str] = FIELDS,
) -> tuple[CappedAdvice, ...]:
    """The advice for a pod's containers, in the order of the pod; only those fields of it that are asked for."""
    given = {each.container: each for each in advice}
    # Most namespaces have no LimitRange for whole pods.
    whole_pod = bool(limits.pod.least or limits.pod.most) and any(each.name in given for each in containers)
    meanings = {each.name: vpa.container(each.name) for each in containers}
    ours: dict[str, _Bounded] = {}
    for container in containers:
        meaning = meanings[container.name]
        found = given.get(container.name) or (_as_it_is(container) if whole_pod else None)
        if found is not None and meaning.scaled:
            amounts = {field: _controlled(getattr(found, field), meaning) for field in fields}
            ours[container.name] = _Bounded(container, meaning, amounts)
    if whole_pod:
        follow = {name: meaning.limits_follow for name, meaning in meanings.items()}
        for field in fields:
            _fit(field, ours, containers, follow, limits.pod)
    for each in ours.values():
        _cap(each, bounds_of(each.container, each.meaning, limits.container))
    return tuple([each.capped(advised=name in given) for name, each in ours.items() if name in given or each.notes])


def _as_it_is(container: PodContainer) -> Advice:
    """Stands for a recommendation that a container does not have, so that it is scaled with its neighbours."""
    requests = {resource: amount for resource, amount in container.requests.items() if amount}
    return Advice(container.name, requests, requests, requests)


def _fit(
    field: str,
    ours: Mapping[str, _Bounded],
    containers: Sequence[PodContainer],
    limits_follow: Mapping[str, bool],
    limits: Range,
) -> None:
    """Changes what is recommended in one field so that the whole pod fits."""
    for resource in RESOURCES:
        wanted = {name: each.amounts[field][resource] for name, each in ours.items() if resource in each.amounts[field]}
        for name, amount in fit_pod(wanted, resource, containers, limits_follow, limits).items():
            if amount != wanted[name]:
                ours[name].change(field, resource, amount, FITTED_TO_POD_RANGE)


def _cap(each: _Bounded, bounds: Mapping[str, Sequence[Bound]]) -> None:
    """Changes what is recommended for a container so that it is within its own bounds."""
    if not bounds:
        return
    for field, amounts in each.amounts.items():
        for resource, amount in amounts.items():
            for bound in cutting(amount, bounds[resource]):
                each.change(field, resource, bound.amount, bound.reason)


def _controlled(amounts: Counts, meaning: ContainerMeaning) -> dict[str, int]:
    return {resource: amounts[resource] for resource in meaning.controlled if resource in amounts}
