"""Caps a recommendation for one pod, in upstream's order: the pod's LimitRange, then container by container.

Used wherever resources are set: by admission for pods that are created, by the updater for pods that run. A container
under `mode: Off` is left out of the result and out of all changes. A container without a recommendation is left out
too, unless a LimitRange for pods can only be met by scaling it with the others.

For a LimitRange of pods, the containers are scaled in proportion until the whole pod fits. The sum of requests and the
sum of limits must reach the minimum, and the sum of limits must not pass the maximum. A container without a
recommendation is scaled with the others, as if its own request were recommended: otherwise the API server would refuse
the pod for it. Upstream does the same. A container under `mode: Off` and a resource that is not controlled keep what
they have, and the others fit around them; upstream scales those too, or panics over them. A maximum that they alone
exceed cannot be met, and nothing is changed for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import msgspec

from trellis.api.kinds.hvpa import HvpaStatus
from trellis.api.kinds.vpa import VerticalPodAutoscalerStatus
from trellis.api.resolve import EffectiveContainerPolicy, EffectiveVpa
from trellis.base.reasons import Reason
from trellis.core.recommend.amounts import RESOURCES, ResourceAmounts, parse_amounts
from trellis.core.recommend.capping.container import (
    CAPPED_TO_LIMIT,
    CAPPED_TO_MAX_ALLOWED,
    CAPPED_TO_MIN_ALLOWED,
    CAPPED_TO_RANGE_MAX,
    CAPPED_TO_RANGE_MIN,
    AmountBound,
    PodContainer,
    compute_exact_limit,
    find_bounds,
    scale_count,
    select_violated_bounds,
)
from trellis.core.recommend.capping.limit_ranges import NamespaceLimits, ResourceRange


class _PodShare(msgspec.Struct, frozen=True):
    """A container's share of its pod's request and limit; `is_scaled` and `is_limit_scaled` say what is scaled."""

    name: str
    request: int
    limit: Fraction
    is_scaled: bool
    is_limit_scaled: bool


def fit_pod_range(
    recommended: Mapping[str, int],
    resource: str,
    containers: Sequence[PodContainer],
    limits_follow: Mapping[str, bool],
    limits: ResourceRange,
) -> dict[str, int]:
    """The recommended amounts of one resource, by container, scaled in proportion where the range requires it."""
    least, most = limits.least.get(resource, 0), limits.most.get(resource, 0)
    if not recommended or not (least or most):
        return dict(recommended)
    shares = [_build_share(container, resource, recommended, limits_follow, limits) for container in containers]
    requests, all_limits = sum(share.request for share in shares), sum((share.limit for share in shares), Fraction(0))
    if requests < least:
        return dict(recommended) | _scale_requests(shares, least)
    if 0 < all_limits < least:
        return dict(recommended) | _scale_limits(shares, least, up=True)
    if most and all_limits > most:
        return dict(recommended) | _scale_limits(shares, most, up=False)
    return dict(recommended)


def _build_share(
    container: PodContainer,
    resource: str,
    recommended: Mapping[str, int],
    limits_follow: Mapping[str, bool],
    limits: ResourceRange,
) -> _PodShare:
    request, limit = container.requests.get(resource, 0), container.limits.get(resource, 0)
    default = limits.default_limit.get(resource, 0)
    is_scaled = container.name in recommended
    recommended_request = recommended.get(container.name, request)
    if is_scaled and limits_follow.get(container.name, True):
        proportional = compute_exact_limit(recommended_request, request, limit, default)
        return _PodShare(
            container.name,
            recommended_request,
            proportional or Fraction(0),
            is_scaled,
            is_limit_scaled=proportional is not None,
        )
    return _PodShare(container.name, recommended_request, Fraction(limit or default), is_scaled, is_limit_scaled=False)


def _scale_requests(shares: Sequence[_PodShare], goal: int) -> dict[str, int]:
    moving = [share for share in shares if share.is_scaled]
    movable = sum(share.request for share in moving)
    fixed = sum(share.request for share in shares if not share.is_scaled)
    if not movable:
        return {}
    factor = Fraction(goal - fixed, movable)
    return {share.name: scale_count(share.request, factor, up=True) for share in moving}


def _scale_limits(shares: Sequence[_PodShare], goal: int, *, up: bool) -> dict[str, int]:
    """A limit moves with its request, and a container without a limit shares the cut, as upstream has it."""
    movable = sum((share.limit for share in shares if share.is_limit_scaled), Fraction(0))
    remaining = goal - sum((share.limit for share in shares if not share.is_limit_scaled), Fraction(0))
    if not movable or remaining <= 0:
        return {}
    scaling = [share for share in shares if share.is_limit_scaled or (share.is_scaled and not share.limit)]
    return {share.name: scale_count(share.request, remaining / movable, up=up) for share in scaling}


FITTED_TO_POD_RANGE = Reason(
    "FittedToPodLimitRange", "The recommendation was scaled so that the pod fits a pod LimitRange."
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
TARGET_FIELD = "target"
RECOMMENDED_FIELDS = (TARGET_FIELD, "lower", "upper")


class RecommendedResources(msgspec.Struct, frozen=True):
    """The recommendation for one container, in millicores and bytes."""

    container: str
    target: ResourceAmounts
    lower: ResourceAmounts = {}
    upper: ResourceAmounts = {}


class CapNote(msgspec.Struct, frozen=True):
    """A reason that changed the target of a resource, and the resulting amount."""

    resource: str
    reason: Reason
    amount: int

    def __str__(self) -> str:
        return f"{self.resource} {_PHRASES[self.reason.code]}"


class CappedResources(msgspec.Struct, frozen=True):
    """The same for one pod; the notes are about the target alone. Limits follow unless the policy says otherwise."""

    container: str
    target: ResourceAmounts
    lower: ResourceAmounts = {}
    upper: ResourceAmounts = {}
    notes: tuple[CapNote, ...] = ()
    limits_follow: bool = True


class _ContainerCapping(msgspec.Struct):
    """The recommended amounts of a container, by field, while bounds are applied."""

    container: PodContainer
    policy: EffectiveContainerPolicy
    amounts: dict[str, dict[str, int]]
    notes: list[CapNote] = []

    def set_amount(self, field: str, resource: str, amount: int, reason: Reason) -> None:
        """Set an amount; changes of targets are noted with the reason."""
        self.amounts[field][resource] = amount
        if field == TARGET_FIELD:
            self.notes.append(CapNote(resource, reason, amount))

    def build_result(self, *, advised: bool) -> CappedResources:
        """The result for this container.

        Without a recommendation there are no bounds: the container is resized along with its neighbours, and is never
        the reason to disturb a pod. A resource of it that nothing changed stays out.
        """
        name, follow, notes = self.container.name, self.policy.scales_limits, tuple(self.notes)
        if advised:
            return CappedResources(name, **self.amounts, notes=notes, limits_follow=follow)
        changed = {note.resource for note in notes}
        target = {resource: amount for resource, amount in self.amounts[TARGET_FIELD].items() if resource in changed}
        return CappedResources(name, target, notes=notes, limits_follow=follow)


def read_recommended_resources(
    status: VerticalPodAutoscalerStatus | HvpaStatus | None,
) -> tuple[RecommendedResources, ...]:
    """The recommendations in a status."""
    recommendation = status.recommendation if status is not None else None
    return tuple(
        RecommendedResources(
            container.container_name,
            parse_amounts(container.target),
            parse_amounts(container.lower_bound or {}),
            parse_amounts(container.upper_bound or {}),
        )
        for container in (recommendation.container_recommendations if recommendation is not None else None) or ()
    )


def cap_for_pod(
    advice: Sequence[RecommendedResources],
    containers: Sequence[PodContainer],
    vpa: EffectiveVpa,
    limits: NamespaceLimits,
    *,
    fields: Sequence[str] = RECOMMENDED_FIELDS,
) -> tuple[CappedResources, ...]:
    """The capped recommendations of a pod's containers, in the order of the pod; only the given fields."""
    advice_by_container = {resources.container: resources for resources in advice}
    # Most namespaces have no LimitRange for whole pods.
    has_pod_range = bool(limits.pod.least or limits.pod.most) and any(
        container.name in advice_by_container for container in containers
    )
    policies = {container.name: vpa.get_container(container.name) for container in containers}
    cappings: dict[str, _ContainerCapping] = {}
    for container in containers:
        policy = policies[container.name]
        resources = advice_by_container.get(container.name) or (
            _recommend_current_requests(container) if has_pod_range else None
        )
        if resources is not None and policy.is_scaled:
            amounts = {field: _select_controlled(getattr(resources, field), policy) for field in fields}
            cappings[container.name] = _ContainerCapping(container, policy, amounts)
    if has_pod_range:
        limits_follow = {name: policy.scales_limits for name, policy in policies.items()}
        for field in fields:
            _fit_to_pod_range(field, cappings, containers, limits_follow, limits.pod)
    for capping in cappings.values():
        _cap_to_bounds(capping, find_bounds(capping.container, capping.policy, limits.container))
    return tuple(
        [
            capping.build_result(advised=name in advice_by_container)
            for name, capping in cappings.items()
            if name in advice_by_container or capping.notes
        ]
    )


def _recommend_current_requests(container: PodContainer) -> RecommendedResources:
    """Stands for a recommendation that a container does not have, so that it is scaled with its neighbours."""
    requests = {resource: amount for resource, amount in container.requests.items() if amount}
    return RecommendedResources(container.name, requests, requests, requests)


def _fit_to_pod_range(
    field: str,
    cappings: Mapping[str, _ContainerCapping],
    containers: Sequence[PodContainer],
    limits_follow: Mapping[str, bool],
    limits: ResourceRange,
) -> None:
    """Changes what is recommended in one field so that the whole pod fits."""
    for resource in RESOURCES:
        amounts = {
            name: capping.amounts[field][resource]
            for name, capping in cappings.items()
            if resource in capping.amounts[field]
        }
        for name, amount in fit_pod_range(amounts, resource, containers, limits_follow, limits).items():
            if amount != amounts[name]:
                cappings[name].set_amount(field, resource, amount, FITTED_TO_POD_RANGE)


def _cap_to_bounds(capping: _ContainerCapping, bounds: Mapping[str, Sequence[AmountBound]]) -> None:
    """Changes what is recommended for a container so that it is within its own bounds."""
    if not bounds:
        return
    for field, amounts in capping.amounts.items():
        for resource, amount in amounts.items():
            for bound in select_violated_bounds(amount, bounds[resource]):
                capping.set_amount(field, resource, bound.amount, bound.reason)


def _select_controlled(amounts: ResourceAmounts, policy: EffectiveContainerPolicy) -> dict[str, int]:
    return {resource: amounts[resource] for resource in policy.controlled if resource in amounts}
