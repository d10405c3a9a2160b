"""What do LimitRanges leave of the advice for a workload? A pod beyond them would not be admitted.

It is what would be done to its pods, by the same rules: first the whole pod, then container by container.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from trellis.api.resolve import resolve_vpa
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.base.reason import Reason
from trellis.core.advice.judging import FINE, LOW_CONFIDENCE, NO_USAGE_KNOWN, OVER_REQUESTED, UNDER_REQUESTED, Change
from trellis.core.advice.policy import RESOURCES, LimitRule, Policy, new_limit, part
from trellis.core.advice.surveyed import SurveyedContainer, SurveyedWorkload
from trellis.core.recommend.capping import Advice, NamespaceLimits, PodContainer, cap_for_pod
from trellis.core.recommend.capping.pod import TARGET

Changes = Mapping[tuple[str, str], Change]

_UNLIMITED = NamespaceLimits()
# Without any policy of its own, and with limits that follow requests.
_EVERYTHING = resolve_vpa(VerticalPodAutoscaler())


def bounded(workload: SurveyedWorkload, changes: Changes, policy: Policy) -> Changes:
    """The changes of a workload's containers, by name and resource, within the LimitRanges of its namespace."""
    if workload.limits == _UNLIMITED:
        return changes
    advice = [Advice(each.name, _wanted(each, changes)) for each in workload.containers]
    containers = [_container(each, changes, policy) for each in workload.containers]
    found = dict(changes)
    for capped in cap_for_pod(advice, containers, _EVERYTHING, workload.limits, fields=(TARGET,)):
        for note in capped.notes:  # of several for a resource, the last has the amount that is left
            place = (capped.container, note.resource)
            most = workload.limits.container.most.get(note.resource, 0)
            found[place] = _cut(changes[place], note.resource, note.amount, note.reason, policy=policy, most=most)
    return found


def _wanted(container: SurveyedContainer, changes: Changes) -> dict[str, int]:
    """Requests in millicores and bytes; what nobody judged is left as it is, however large."""
    named = {resource: changes[container.name, resource] for resource in RESOURCES}
    return {
        resource: math.ceil(change.request)
        for resource, change in named.items()
        if change.reason not in {LOW_CONFIDENCE, NO_USAGE_KNOWN} and not math.isnan(change.request)
    }


def _container(container: SurveyedContainer, changes: Changes, policy: Policy) -> PodContainer:
    """As the pod would have it. Where a limit does not follow its request, the bounds are for the request itself."""
    requests, limits = {}, {}
    for resource in RESOURCES:
        change = changes[container.name, resource]
        if not math.isnan(change.request):
            requests[resource] = limits[resource] = math.ceil(change.request)
        if policy.limits.rule(resource) is LimitRule.KEEP_RATIO and part(container.limit, resource) > 0:
            limits[resource] = math.ceil(change.limit)
    return PodContainer(container.name, requests, limits)


def _cut(change: Change, resource: str, amount: int, reason: Reason, *, policy: Policy, most: int) -> Change:
    """A change to another request, with the limit that goes with it and is allowed."""
    request = float(amount)
    limit = new_limit(policy, resource, (change.request_before, change.limit_before), request)
    if request > change.request:
        limit = max(limit, change.limit)  # it may be above its share, because more was used at some time
    if most and limit > most:
        limit = max(float(most), request)
    judged = change.reason
    if judged is FINE:
        judged = UNDER_REQUESTED if request > change.request_before else OVER_REQUESTED
    return msgspec.structs.replace(change, reason=judged, request=request, limit=limit, capped=reason)
