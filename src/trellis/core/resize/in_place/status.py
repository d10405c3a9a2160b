"""Reads from a pod's status how far its resize is, and which containers are down.

The kubelet reports a resize in two conditions (Kubernetes 1.33), with the time: so nothing has to be remembered, and a
pod of the same name does not inherit the past of another. Before the kubelet reports anything, the spec asks for
resources that are not in force.

A container that ended and will be restarted is down: in its crash back-off the kubelet reports it as `terminated`, and
as `waiting` only when the back-off ends. A container that never ran yet is not down: nothing of the pod's cgroups was
made for an older size. A container that has ended for good (in a Job, or an init container) is not awaited.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

import msgspec

from trellis.api.kube.meta import Condition
from trellis.api.kube.pods import (
    RESIZE_IN_PROGRESS,
    RESIZE_PENDING,
    Container,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    ResourceRequirements,
)
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


class ResizeStatus(msgspec.Struct, frozen=True):
    """The state and since when, as seconds since 1970; None if nobody says."""

    state: ResizeState = ResizeState.NONE
    since: float | None = None


def read_resources_in_force(pod: Pod) -> dict[str, ResourceRequirements]:
    """What the kubelet says that containers have now, by name; without those of which it says nothing."""
    status = pod.status
    return {
        each.name: each.resources
        for each in (*status.container_statuses, *status.init_container_statuses)
        # A runtime that cannot tell reports an empty one.
        if each.resources is not None and (each.resources.requests or each.resources.limits)
    }


def read_resize_status(pod: Pod, in_force: PodShape) -> ResizeStatus:
    """How far the resize is; `in_force` is the pod's shape with the resources in force."""
    for condition in pod.status.conditions:
        if condition.type == RESIZE_PENDING and condition.status == "True":
            return ResizeStatus(_pending(condition), _since(condition))
    for condition in pod.status.conditions:
        if condition.type == RESIZE_IN_PROGRESS and condition.status == "True":
            failing = condition.reason == _ERROR
            return ResizeStatus(ResizeState.FAILING if failing else ResizeState.IN_PROGRESS, _since(condition))
    if any(_differs(each) for each in in_force.containers):
        return ResizeStatus(ResizeState.PROPOSED)
    return ResizeStatus()


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


# Times in a status are whole seconds. A resize written in the second of a start could have come before it.
_SECOND: Final = 1.0


class Downtime(msgspec.Struct, frozen=True):
    """`since` is when the container that is down for the longest ended, `restarted` when the last one came back."""

    since: float | None = None
    restarted: float | None = None
    containers: tuple[str, ...] = ()

    def is_settling(self, now: float) -> bool:
        """Whether a container was restarted in this very second."""
        return self.restarted is not None and self.restarted <= now < self.restarted + _SECOND

    @property
    def settled(self) -> float | None:
        """When a restarted container counts as running."""
        return self.restarted + _SECOND if self.restarted is not None else None


_ALL_UP: Final = Downtime()


def read_downtime(pod: Pod) -> Downtime:
    """Which containers are down."""
    ended: list[tuple[str, float]] = []
    restarted: float | None = None
    for container, status, is_sidecar in _long_running(pod):
        state, last = status.state, status.last_state.terminated
        if state.terminated is not None or (state.running is None and last is not None):
            end = state.terminated or last
            if end is not None and (is_sidecar or _comes_back(pod, container, end)):
                ended.append((status.name, end.finished_at.timestamp() if end.finished_at is not None else 0.0))
        elif last is not None and state.running is not None and state.running.started_at is not None:
            restarted = max(restarted or 0.0, state.running.started_at.timestamp())
    if not ended and restarted is None:
        return _ALL_UP
    return Downtime(min(at for _, at in ended) if ended else None, restarted, tuple(name for name, _ in ended))


def _comes_back(pod: Pod, container: Container, end: ContainerStateTerminated) -> bool:
    """Whether the kubelet restarts a container; one may have a policy of its own (Kubernetes 1.34)."""
    match container.restart_policy or pod.spec.restart_policy:
        case "Never":
            return False
        case "OnFailure":
            return end.exit_code != 0
        case _:
            return True


def _long_running(pod: Pod) -> Iterator[tuple[Container, ContainerStatus, bool]]:
    """Containers and native sidecars with their statuses."""
    if pod.status.container_statuses:
        containers = {each.name: each for each in pod.spec.containers}
        yield from (
            (containers[each.name], each, False) for each in pod.status.container_statuses if each.name in containers
        )
    if pod.status.init_container_statuses:
        sidecars = {each.name: each for each in pod.spec.init_containers if each.is_sidecar}
        yield from (
            (sidecars[each.name], each, True) for each in pod.status.init_container_statuses if each.name in sidecars
        )
