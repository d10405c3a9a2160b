"""Resizes of running pods, as a kubelet carries them out.

The kubelet looks a moment later. What the node can never do is infeasible, and stays so until another resize is
requested. What it has no capacity for now is deferred, and tried again when capacity appears. Otherwise the new size is
allocated at once and in force soon after; containers whose policy says so are restarted for it. A memory limit below
what is in use is not enforced: the kubelet reports an error, and tries again.

A resize that is written while every container that changes is down never reaches the pod's cgroup, as on kubelet 1.36:
the status says that it is done, and the limits in force are the lower of the old and the new ones. Each container is
taken by itself: the others' share of the pod's cgroup is not lent to it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from functools import partial
from typing import Final

import msgspec

from trellis.api.kube.pods import RESIZE_IN_PROGRESS, RESIZE_PENDING, Container, Pod, ResourceRequirements
from trellis.core.fit import Demand
from trellis.core.recommend.amounts import ResourceAmounts, parse_amounts
from trellis.sim.cluster.container_table import ContainerStage
from trellis.sim.cluster.kubelet.starts import PodStarts
from trellis.sim.cluster.kubelet.terminations import Terminations
from trellis.sim.cluster.nodes import ALLOCATED_RESOURCES
from trellis.sim.cluster.pod_state import ModelPod
from trellis.sim.cluster.pods import (
    PENDING,
    allocate_resources,
    find_container_status,
    running_containers,
    with_condition,
    with_container,
    without_condition,
)
from trellis.sim.cluster.state import ModelState
from trellis.sim.cluster.telemetry import PodEvent
from trellis.sim.faults import DEFER_RESIZES, REFUSE_DOWNSIZES, REFUSE_RESIZES

_RESTARTS: Final = "RestartContainer"


def needs_resize(container: Container, pod: Pod) -> bool:
    """Whether a container's spec differs from what it has or is allocated."""
    container_status = find_container_status(pod, container.name)
    if container_status is None or container_status.resources is None:
        return False
    spec_amounts = _amounts(container.resources)
    return spec_amounts != _amounts(container_status.resources) or spec_amounts[0] != parse_amounts(
        container_status.allocated_resources
    )


def lowers_resources(container: Container, pod: Pod) -> bool:
    """Whether a resize lowers a request or a limit."""
    return any(
        requested.get(name, 0) < amount for requested, had in _pairs(container, pod) for name, amount in had.items()
    )


def needs_restart(container: Container, pod: Pod) -> bool:
    """Whether a resize changes a resource for which the container's resize policy asks for a restart."""
    named = [policy.resource_name for policy in container.resize_policy if policy.restart_policy == _RESTARTS]
    return any(requested.get(name) != had.get(name) for name in named for requested, had in _pairs(container, pod))


def _pairs(container: Container, pod: Pod) -> list[tuple[ResourceAmounts, ResourceAmounts]]:
    """Requests, then limits: of the spec, and in force."""
    container_status = find_container_status(pod, container.name)
    if container_status is None or container_status.resources is None:
        return []
    return list(zip(_amounts(container.resources), _amounts(container_status.resources), strict=True))


def _amounts(resources: ResourceRequirements) -> tuple[ResourceAmounts, ResourceAmounts]:
    return parse_amounts(resources.requests), parse_amounts(resources.limits)


# Seconds until a kubelet syncs a changed pod, drawn between these, and from its consent until the new size is in force.
_SOONEST: Final = 1.0
_LATEST: Final = 3.0
_ENFORCED_AFTER: Final = 0.5
_TRIED_AGAIN_AFTER: Final = 30.0
_IN_USE: Final = "the memory limit would be below the memory in use"


class PodResizes:
    """Resizes pods, for the kubelets of all nodes."""

    def __init__(self, state: ModelState, starting: PodStarts, ending: Terminations) -> None:
        self._state = state
        self._starting = starting
        self._ending = ending
        self._deferred: defaultdict[int, dict[tuple[str, str], ModelPod]] = defaultdict(dict)
        for fault in state.faults.of(DEFER_RESIZES):
            state.kernel.at(max(fault.end, state.now), self._all_again)

    def resize(self, living: ModelPod) -> None:
        """Handle a pod whose spec has another size."""
        rows = self._state.rows
        down = (unit for unit in living.units if rows.stage[unit.row] == ContainerStage.DOWN)
        living.down_when_asked = frozenset(unit.name for unit in down if not math.isnan(rows.started[unit.row]))
        delay = float(self._state.rng.uniform(_SOONEST, _LATEST))
        self._later(living, delay, partial(self._sync, living))

    def retry_deferred(self, node: int) -> None:
        """Retry the deferred resizes of a node, in their order."""
        waiting = self._deferred[node]
        for living in list(waiting.values()):
            if living.node == node:
                self._later(living, 0.0, partial(self._sync, living))
            else:
                del waiting[living.key]

    def _all_again(self) -> None:
        for node in sorted(self._deferred):
            self.retry_deferred(node)

    def _later(self, living: ModelPod, delay: float, do: partial[None]) -> None:
        if living.resize is not None:
            living.resize.cancel()
        living.resize = self._state.kernel.after(delay, do)

    def _sync(self, living: ModelPod) -> None:
        state = self._state
        living.resize = None
        if not self._is_there(living):
            return
        self._deferred[living.node].pop(living.key, None)
        if living.pod.status.phase == PENDING:
            self._later(living, _SOONEST, partial(self._sync, living))
            return
        pod = living.pod
        if not any(needs_resize(container, pod) for container in running_containers(pod.spec)):
            self._settle(living)
            return
        requested = Demand.of(pod.spec).requests
        size = {name: requested.get(name, 0) for name in ALLOCATED_RESOURCES}
        if self._is_refused(living) or not state.nodes.could_allocate(living.node, size):
            self._postpone(living, "Infeasible", PodEvent.RESIZE_INFEASIBLE)
        elif self._faulty(living, DEFER_RESIZES) or not state.nodes.can_allocate(living.node, living, size):
            self._deferred[living.node][living.key] = living
            living.down_when_asked = frozenset()
            self._postpone(living, "Deferred", PodEvent.RESIZE_DEFERRED)
        else:
            self._accept(living, size)

    def _is_there(self, living: ModelPod) -> bool:
        """Whether a kubelet serves the pod; one whose node is off waits for it."""
        if living.node >= 0 and not self._state.nodes.up[living.node]:
            self._deferred[living.node][living.key] = living
        return self._state.runs(living)

    def _is_refused(self, living: ModelPod) -> bool:
        if self._faulty(living, REFUSE_RESIZES):
            return True
        downwards = any(lowers_resources(container, living.pod) for container in running_containers(living.pod.spec))
        return downwards and self._faulty(living, REFUSE_DOWNSIZES)

    def _faulty(self, living: ModelPod, kind: str) -> bool:
        state = self._state
        node = state.nodes.objects[living.node].metadata.name
        return state.faults.holds(kind, state.now, state.workload_name(living), node)

    def _postpone(self, living: ModelPod, reason: str, event: PodEvent) -> None:
        state = self._state
        status = with_condition(living.pod.status, RESIZE_PENDING, True, state.now, reason=reason)
        if status is not living.pod.status:
            state.put(living, msgspec.structs.replace(living.pod, status=status), resized=True)
            state.report(living, event)
            state.kick()

    def _accept(self, living: ModelPod, size: ResourceAmounts) -> None:
        state = self._state
        state.nodes.allocate(living, size)
        pod = living.pod
        for container in running_containers(pod.spec):
            pod = with_container(pod, container.name, allocated_resources=allocate_resources(container.resources))
        status = without_condition(pod.status, RESIZE_PENDING)
        status = with_condition(status, RESIZE_IN_PROGRESS, True, state.now)
        state.put(living, msgspec.structs.replace(pod, status=status), resized=True)
        self._later(living, _ENFORCED_AFTER, partial(self._enforce, living))

    def _enforce(self, living: ModelPod) -> None:
        state = self._state
        living.resize = None
        if not self._is_there(living):
            return
        if self._is_too_tight(living):
            status = with_condition(
                living.pod.status, RESIZE_IN_PROGRESS, True, state.now, reason="Error", message=_IN_USE
            )
            if status is not living.pod.status:
                state.put(living, msgspec.structs.replace(living.pod, status=status))
            self._later(living, _TRIED_AGAIN_AFTER, partial(self._enforce, living))
            return
        pod, restarted = living.pod, []
        changed = [unit.name for unit in living.units if needs_resize(living.container(unit.name), pod)]
        missed = living.down_when_asked.issuperset(changed)
        for unit in living.units:
            container = living.container(unit.name)
            if not needs_resize(container, pod):
                continue
            if needs_restart(container, pod):
                restarted.append(unit)
            resources = ResourceRequirements(limits=container.resources.limits, requests=container.resources.requests)
            pod = with_container(pod, unit.name, resources=resources)
        state.put(living, pod, resized=True)
        for unit in living.units:
            self._starting.give(unit, living.container(unit.name).resources, reaches_cgroup=not missed)
        self._settle(living)
        state.tally.resizes[living.workload] += 1
        state.report(living, PodEvent.RESIZED)
        for unit in restarted:
            self._ending.restart_for_resize(unit)
        self.retry_deferred(living.node)
        state.kick()

    def _settle(self, living: ModelPod) -> None:
        status = without_condition(without_condition(living.pod.status, RESIZE_PENDING), RESIZE_IN_PROGRESS)
        if status is not living.pod.status:
            self._state.put(living, msgspec.structs.replace(living.pod, status=status), resized=True)

    def _is_too_tight(self, living: ModelPod) -> bool:
        """Whether a memory limit would go below what its container uses, which is not restarted for it."""
        rows = self._state.rows
        for unit in living.units:
            container = living.container(unit.name)
            limit = parse_amounts(container.resources.limits).get("memory")
            had = float(rows.memory_limit[unit.row])
            if (
                limit is None
                or limit >= had
                or rows.stage[unit.row] == ContainerStage.DOWN
                or needs_restart(container, living.pod)
            ):
                continue
            if min(self._ending.memory_of(unit), had) > limit:
                return True
        return False
