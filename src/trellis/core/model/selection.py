"""Which pods does a target call its own?

Well-known kinds are told by `kind` alone, whatever `apiVersion` says, and have their selector in their spec; a CronJob
has none, and the labels of its pod template take its place. Any other kind says it through its scale subresource.
Nothing but the selector is read there, and nothing is ever changed.

A target must also be the topmost controller of its kind: an autoscaler for a ReplicaSet whose Deployment replaces it
tomorrow would be about nothing then.
"""

from __future__ import annotations

from typing import TypeAlias

from trellis.api.kube.meta import KubeObject, LabelSelector
from trellis.api.kube.observed_workloads import (
    Observed,
    ObservedCronJob,
    ObservedReplicationController,
    ObservedWorkload,
)
from trellis.api.kube.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from trellis.base.errors import InternalError, InvalidSelector
from trellis.base.selectors import MatchExpression, Selector, parse_selector, selector_from_object
from trellis.core.model.owners import Chain, Owners, TargetRef, missing
from trellis.core.model.target_problems import (
    NO_TARGET_REF,
    TARGET_NOT_FOUND,
    TARGET_NOT_TOPMOST,
    TARGET_OWNERS_UNKNOWN,
    TARGET_SELECTOR_UNREADABLE,
    TARGET_SELECTS_NOTHING,
    TARGET_UNREACHABLE,
    TargetProblem,
    unread,
)

Selection: TypeAlias = Selector | TargetProblem


def select(target: TargetRef | None, owners: Owners) -> Selection:
    """The selector of a target's pods, or why it cannot be used as a target.

    A selector without requirements stands for "by owner alone": a CronJob whose pods have no labels.
    """
    if target is None or not (target.kind and target.name):
        return unread(NO_TARGET_REF, "targetRef not defined")
    try:
        found = _by_kind(target, owners) if target.is_well_known else _by_scale(target, owners)
    except InvalidSelector as error:
        return unread(TARGET_SELECTOR_UNREADABLE, f"the selector of {target.kind} {_place(target)}: {error}")
    if isinstance(found, TargetProblem):
        return found
    return _why_not_topmost(target, owners.follow(target)) or found


def _by_kind(target: TargetRef, owners: Owners) -> Selection:
    workload = owners.find(target)
    if workload is None:
        return unread(TARGET_NOT_FOUND, missing(target))
    if isinstance(workload, CronJob | ObservedCronJob):
        return selector_from_object(workload.spec.job_template.spec.template.metadata.labels)
    selector = _selector_in(workload)
    if not selector.requirements:
        return unread(TARGET_SELECTS_NOTHING, f"{target.kind} {_place(target)} has an empty selector")
    return selector


def _selector_in(workload: KubeObject | Observed) -> Selector:
    match workload:
        case ReplicationController() | ObservedReplicationController():
            return selector_from_object(workload.spec.selector)
        case Deployment() | ReplicaSet() | StatefulSet() | DaemonSet() | Job() | ObservedWorkload():
            return selector_of(workload.spec.selector)
        case _:
            raise InternalError(f"{type(workload).__name__} is no workload that says which pods are its own")


def selector_of(selector: LabelSelector | None) -> Selector:
    """A selector in its object form; none at all selects nothing."""
    if selector is None:
        return Selector.nothing()
    expressions = [MatchExpression(each.key, each.operator, each.values) for each in selector.match_expressions]
    return selector_from_object(selector.match_labels, expressions)


def _by_scale(target: TargetRef, owners: Owners) -> Selection:
    answer = owners.scale(target)
    if answer is None:
        return unread(TARGET_UNREACHABLE, f"the scale sub-resource of {_place(target)} has not been read yet")
    if answer.problem is not None:
        return answer.problem
    if not answer.selector:
        why = f"resource {_place(target)} has an empty selector for scale sub-resource"
        return unread(TARGET_SELECTS_NOTHING, why)
    return parse_selector(answer.selector)


def _why_not_topmost(target: TargetRef, chain: Chain) -> TargetProblem | None:
    if chain.topmost is not None and chain.topmost.is_same(target):
        return None
    rule = "a topmost well-known or scalable controller"
    if chain.topmost is not None:
        message = f"The target {target} has a parent controller but it should point to {rule}: {chain.topmost}"
        return TargetProblem(TARGET_NOT_TOPMOST, message)
    why = chain.trouble or f"the scale sub-resource of {chain.unasked} has not been read yet"
    return TargetProblem(TARGET_OWNERS_UNKNOWN, f"Error checking if target {target} is {rule}: {why}")


def _place(target: TargetRef) -> str:
    return f"{target.namespace}/{target.name}"
