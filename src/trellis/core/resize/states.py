"""How far is the resize of a pod?

The kubelet tells it in two conditions (Kubernetes 1.33), and from when: so nothing has to be remembered, and a pod that
has another's name does not inherit its past. Before the kubelet says anything, the spec asks for what is not in force.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from trellis.api.kube.containers import Resources
from trellis.api.kube.meta import Condition
from trellis.api.kube.pods import RESIZE_IN_PROGRESS, RESIZE_PENDING, Pod
from trellis.core.sizing.shapes import ContainerShape, PodShape

_INFEASIBLE = "Infeasible"
_ERROR = "Error"


class ResizeState(StrEnum):
    """What the kubelet says. A reason that we do not know is one more way to say later."""

    NONE = "None"
    PROPOSED = "Proposed"
    DEFERRED = "Deferred"
    INFEASIBLE = "Infeasible"
    IN_PROGRESS = "InProgress"
    FAILING = "Failing"


class Resize(msgspec.Struct, frozen=True):
    """The state and since when, as seconds since 1970; None if nobody says."""

    state: ResizeState = ResizeState.NONE
    since: float | None = None


def resources_in_force(pod: Pod) -> dict[str, Resources]:
    """What the kubelet says that containers have now, by name; without those of which it says nothing."""
    status = pod.status
    return {
        each.name: each.resources
        for each in (*status.container_statuses, *status.init_container_statuses)
        # A runtime that cannot tell reports an empty one.
        if each.resources is not None and (each.resources.requests or each.resources.limits)
    }


def read_resize(pod: Pod, in_force: PodShape) -> Resize:
    """How far the resize is; `in_force` is the pod's shape with the resources in force."""
    for condition in pod.status.conditions:
        if condition.type == RESIZE_PENDING and condition.status == "True":
            return Resize(_pending(condition), _since(condition))
    for condition in pod.status.conditions:
        if condition.type == RESIZE_IN_PROGRESS and condition.status == "True":
            failing = condition.reason == _ERROR
            return Resize(ResizeState.FAILING if failing else ResizeState.IN_PROGRESS, _since(condition))
    if any(_differs(each) for each in in_force.containers):
        return Resize(ResizeState.PROPOSED)
    return Resize()


def _pending(condition: Condition) -> ResizeState:
    return ResizeState.INFEASIBLE if condition.reason == _INFEASIBLE else ResizeState.DEFERRED


def _since(condition: Condition) -> float | None:
    changed = condition.last_transition_time
    return changed.timestamp() if changed is not None else None


def _differs(container: ContainerShape) -> bool:
    has, asked = container, container.declared
    if asked is None:
        return False
    return any(has.requests.get(name) != amount for name, amount in asked.requests.items()) or any(
        has.limits.get(name) != amount for name, amount in asked.limits.items()
    )
