"""Advises whether a container's request is too high, too low or fine, and on its size, within LimitRanges.

A recommender may estimate less memory than the highest usage, which is harmless as a request. As a limit it would cause
an OOM kill the next time, so no memory limit is below the highest usage, nor a request that is the limit too.

LimitRanges bound the advice as they bound pods: a pod beyond them would not be admitted. The rules are those of
admission: first the whole pod, then container by container.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.resolve import resolve_vpa
from trellis.base.reasons import Reason, Severity
from trellis.core.advice.policy import DAY, RESOURCES, AdvicePolicy, LimitRule, compute_limit, select_resource
from trellis.core.advice.survey.model import SurveyedContainer, SurveyedWorkload
from trellis.core.recommend.capping import NamespaceLimits, PodContainer, RecommendedResources, cap_for_pod
from trellis.core.recommend.capping.pod import TARGET_FIELD

MEMORY_AT_RISK = Reason(
    "MemoryAtRisk",
    "The container was OOM-killed, or its usage is about to exceed its limit.",
    Severity.ERROR,
)
UNDER_REQUESTED = Reason("UnderRequested", "Usage is above the request.", Severity.WARNING)
NO_REQUEST = Reason("NoRequest", "The container uses this resource and requests none of it.", Severity.WARNING)
OVER_REQUESTED = Reason("OverRequested", "The request is higher than the need.", Severity.WARNING)
REQUEST_UNKNOWN = Reason("RequestUnknown", "The current request is unknown.")
LOW_CONFIDENCE = Reason("LowConfidence", "There is too little history for advice.")
NO_USAGE = Reason("NoUsage", "There is no usage data.")
WELL_SIZED = Reason("WellSized", "The request matches the need.")

# What is said only where both the request and what is needed are known, by enough history.
COMPARED = frozenset({UNDER_REQUESTED, NO_REQUEST, OVER_REQUESTED, WELL_SIZED})

# From the worst to the best: what a container is called by, if its resources differ.
ORDER = (
    MEMORY_AT_RISK,
    UNDER_REQUESTED,
    NO_REQUEST,
    OVER_REQUESTED,
    REQUEST_UNKNOWN,
    LOW_CONFIDENCE,
    NO_USAGE,
    WELL_SIZED,
)
# One an hour for a day. Fewer say little, however far apart they are.
_LEAST_SAMPLES = 24


class ResourceAdvice(msgspec.Struct, frozen=True):
    """Advice on one resource of a container: request and limit of one pod, before and after.

    `estimate` is what the recommender says, before bounds and steps. CPU is in millicores, and NaN is none. `capped` is
    what bounds the request, if a LimitRange does. `is_request_known` is false where there may be a current request.
    """

    reason: Reason
    request_before: float
    request: float
    limit_before: float
    limit: float
    estimate: float
    capped: Reason | None = None
    is_request_known: bool = True

    @property
    def is_change(self) -> bool:
        """Whether request or limit should change."""
        return not (_is_same(self.request, self.request_before) and _is_same(self.limit, self.limit_before))

    @property
    def requested_before(self) -> float:
        """The current request; 0 without one."""
        return 0.0 if math.isnan(self.request_before) else self.request_before

    @property
    def requested(self) -> float:
        """The new request; 0 without one."""
        return 0.0 if math.isnan(self.request) else self.request

    @property
    def difference(self) -> float:
        """The change of the request; 0 where the current one is unknown."""
        return 0.0 if self.reason is REQUEST_UNKNOWN else self.requested - self.requested_before


def advise_request(
    container: SurveyedContainer, resource: str, policy: AdvicePolicy, *, is_sized: bool = True
) -> ResourceAdvice:
    """Advise on one resource of a container; `is_sized` is whether its requests are known."""
    before, limit = select_resource(container.request, resource), select_resource(container.limit, resource)
    target = select_resource(container.estimate.target, resource)
    request = _compute_fitting_request(container, resource, target, policy)
    reason = _find_reason(container, resource, request, policy)
    if reason is NO_REQUEST and not is_sized:
        reason = REQUEST_UNKNOWN
    is_known = is_sized or not math.isnan(before)
    if reason in {WELL_SIZED, LOW_CONFIDENCE, NO_USAGE}:
        return ResourceAdvice(reason, before, before, limit, limit, target, is_request_known=is_known)
    new_limit = compute_limit(policy, resource, (before, limit), request)
    if resource == "memory" and new_limit < container.highest.memory:
        new_limit = max(policy.bound_amount(resource, container.highest.memory), new_limit)
    return ResourceAdvice(reason, before, request, limit, new_limit, target, is_request_known=is_known)


def _compute_fitting_request(container: SurveyedContainer, resource: str, target: float, policy: AdvicePolicy) -> float:
    """The request that fits the estimate, regardless of the current one."""
    if math.isnan(target):
        return math.nan
    if resource == "memory" and policy.limits.memory is LimitRule.REQUEST:
        target = max(target, container.highest.memory)  # of NaN, the first stays
    return policy.bound_amount(resource, target)


def _find_reason(container: SurveyedContainer, resource: str, request: float, policy: AdvicePolicy) -> Reason:
    before, limit = select_resource(container.request, resource), select_resource(container.limit, resource)
    if math.isnan(request):
        return NO_USAGE
    # Even a short history is enough to know that it is too little.
    killed = container.kills > 0 and not request <= before
    if resource == "memory" and (killed or request > limit):
        return MEMORY_AT_RISK
    if _has_short_history(container, policy):
        return LOW_CONFIDENCE
    if math.isnan(before):
        return NO_REQUEST
    slight = max(policy.tolerance * before, select_resource(policy.slight, resource))
    is_bounded = before < select_resource(policy.least, resource) or before > select_resource(policy.most, resource)
    if abs(request - before) <= slight and not is_bounded:
        return WELL_SIZED
    return UNDER_REQUESTED if request > before else OVER_REQUESTED


def _has_short_history(container: SurveyedContainer, policy: AdvicePolicy) -> bool:
    """Whether there is too little history; if its length is unknown, the confidence of the estimate decides."""
    if math.isnan(container.first):
        return not container.estimate.confidence >= 1.0
    return container.samples < _LEAST_SAMPLES or container.days * DAY < policy.history


def _is_same(first: float, second: float) -> bool:
    return first == second or (math.isnan(first) and math.isnan(second))


AdviceByResource = Mapping[tuple[str, str], ResourceAdvice]

_UNLIMITED = NamespaceLimits()
# Without any policy of its own, and with limits that follow requests.
_DEFAULT_VPA = resolve_vpa(VerticalPodAutoscaler())


def apply_limit_ranges(workload: SurveyedWorkload, changes: AdviceByResource, policy: AdvicePolicy) -> AdviceByResource:
    """The changes of a workload's containers, by name and resource, within the LimitRanges of its namespace."""
    if workload.limits == _UNLIMITED:
        return changes
    advice = [
        RecommendedResources(container.name, _collect_requests(container, changes)) for container in workload.containers
    ]
    containers = [_build_pod_container(container, changes, policy) for container in workload.containers]
    capped_changes = dict(changes)
    for capped in cap_for_pod(advice, containers, _DEFAULT_VPA, workload.limits, fields=(TARGET_FIELD,)):
        for note in capped.notes:  # of several for a resource, the last has the amount that is left
            change_key = (capped.container, note.resource)
            max_limit = workload.limits.container.most.get(note.resource, 0)
            capped_changes[change_key] = _apply_cap(
                changes[change_key], note.resource, note.amount, note.reason, policy=policy, max_limit=max_limit
            )
    return capped_changes


def _collect_requests(container: SurveyedContainer, changes: AdviceByResource) -> dict[str, int]:
    """Requests in millicores and bytes; one without advice is left as it is, however large."""
    named = {resource: changes[container.name, resource] for resource in RESOURCES}
    return {
        resource: math.ceil(change.request)
        for resource, change in named.items()
        if change.reason not in {LOW_CONFIDENCE, NO_USAGE} and not math.isnan(change.request)
    }


def _build_pod_container(container: SurveyedContainer, changes: AdviceByResource, policy: AdvicePolicy) -> PodContainer:
    """The container with new sizes. Where a limit does not follow its request, bounds apply to the request."""
    requests, limits = {}, {}
    for resource in RESOURCES:
        change = changes[container.name, resource]
        if not math.isnan(change.request):
            requests[resource] = limits[resource] = math.ceil(change.request)
        if policy.limits.get_rule(resource) is LimitRule.KEEP_RATIO and select_resource(container.limit, resource) > 0:
            limits[resource] = math.ceil(change.limit)
    return PodContainer(container.name, requests, limits)


def _apply_cap(
    change: ResourceAdvice, resource: str, amount: int, reason: Reason, *, policy: AdvicePolicy, max_limit: int
) -> ResourceAdvice:
    """A change to another request, with the limit that goes with it and is allowed."""
    request = float(amount)
    limit = compute_limit(policy, resource, (change.request_before, change.limit_before), request)
    if request > change.request:
        limit = max(limit, change.limit)  # it may be above its share, because more was used at some time
    if max_limit and limit > max_limit:
        limit = max(float(max_limit), request)
    capped_reason = change.reason
    if capped_reason is WELL_SIZED:
        capped_reason = UNDER_REQUESTED if request > change.request_before else OVER_REQUESTED
    return msgspec.structs.replace(change, reason=capped_reason, request=request, limit=limit, capped=reason)
