"""Resizes of running pods, as a kubelet carries them out.

The kubelet syncs the pod a moment later. A size that exceeds the node, which the API server refuses while it knows the
node, is infeasible, and stays so until another resize is requested. A size for which the node has no capacity now is
deferred, and retried when capacity appears. Otherwise the new size is allocated at once and in force soon after;
containers whose policy says so are restarted for it. A memory limit below what is in use is not enforced: nothing of
the pod changes, the kubelet reports an error some seconds later, and tries again.

A resize that is written while every container that changes is down never reaches the pod's cgroup, as on kubelet 1.36:
the status says that it is done, and the limits in force are the lower of the old and the new ones. Each container is
modelled by itself: it cannot use the share of the pod's cgroup that other containers leave.
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


def compute_allocation(pod: Pod) -> ResourceAmounts:
    """What a node allocates to a pod of this spec."""
    requested = Demand.of(pod.spec).requests
    return {name: requested.get(name, 0) for name in ALLOCATED_RESOURCES}


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


# Measured on kubelet 1.36.3. Seconds until a kubelet syncs a changed pod, drawn between these, and from its consent
# until the new size is in force.
_MIN_SYNC_SECONDS: Final = 0.01
_MAX_SYNC_SECONDS: Final = 0.03
_ENFORCE_SECONDS: Final = 0.01
# Until it reports a memory limit below the usage, and between its attempts, both drawn.
_ERROR_SECONDS: Final = (10.0, 14.0)
_RETRY_SECONDS: Final = (12.0, 26.0)
# A pod whose containers have not been started yet is asked about again.
_START_CHECK_SECONDS: Final = 1.0
_IN_USE: Final = "the memory limit would be below the memory in use"


class PodResizes:
    """Resizes pods, for the kubelets of all nodes."""

    def __init__(self, state: ModelState, starts: PodStarts, terminations: Terminations) -> None:
        self._state = state
        self._starts = starts
        self._terminations = terminations
        self._deferred: defaultdict[int, dict[tuple[str, str], ModelPod]] = defaultdict(dict)
        for fault in state.faults.list_faults(DEFER_RESIZES):
            state.kernel.at(max(fault.end, state.now), self._retry_all_deferred)

    def resize(self, model_pod: ModelPod) -> None:
        """Handle a pod whose spec has another size."""
        rows = self._state.rows
        down = (container for container in model_pod.containers if rows.stage[container.row] == ContainerStage.DOWN)
        model_pod.down_at_resize = frozenset(
            container.name for container in down if not math.isnan(rows.started[container.row])
        )
        delay = float(self._state.rng.uniform(_MIN_SYNC_SECONDS, _MAX_SYNC_SECONDS))
        self._schedule(model_pod, delay, partial(self._sync, model_pod))

    def retry_deferred(self, node: int) -> None:
        """Retry the deferred resizes of a node, in their order."""
        deferred = self._deferred[node]
        for model_pod in list(deferred.values()):
            if model_pod.node == node:
                self._schedule(model_pod, 0.0, partial(self._sync, model_pod))
            else:
                del deferred[model_pod.key]

    def _retry_all_deferred(self) -> None:
        for node in sorted(self._deferred):
            self.retry_deferred(node)

    def _schedule(self, model_pod: ModelPod, delay: float, do: partial[None]) -> None:
        if model_pod.resize is not None:
            model_pod.resize.cancel()
        model_pod.resize = self._state.kernel.after(delay, do)

    def _sync(self, model_pod: ModelPod) -> None:
        state = self._state
        model_pod.resize = None
        if not self._is_served(model_pod):
            return
        self._deferred[model_pod.node].pop(model_pod.key, None)
        if model_pod.pod.status.phase == PENDING:
            self._schedule(model_pod, _START_CHECK_SECONDS, partial(self._sync, model_pod))
            return
        pod = model_pod.pod
        if not any(needs_resize(container, pod) for container in running_containers(pod.spec)):
            self._remove_resize_conditions(model_pod)
            return
        size = compute_allocation(pod)
        if self._is_refused(model_pod) or not state.nodes.has_capacity(model_pod.node, size):
            self._postpone(model_pod, "Infeasible", PodEvent.RESIZE_INFEASIBLE)
        elif self._has_fault(model_pod, DEFER_RESIZES) or not state.nodes.can_allocate(model_pod.node, model_pod, size):
            self._deferred[model_pod.node][model_pod.key] = model_pod
            model_pod.down_at_resize = frozenset()
            self._postpone(model_pod, "Deferred", PodEvent.RESIZE_DEFERRED)
        else:
            self._accept(model_pod, size)

    def _is_served(self, model_pod: ModelPod) -> bool:
        """Whether a kubelet serves the pod; one whose node is off waits for it."""
        if model_pod.node >= 0 and not self._state.nodes.up[model_pod.node]:
            self._deferred[model_pod.node][model_pod.key] = model_pod
        return self._state.should_run(model_pod)

    def _is_refused(self, model_pod: ModelPod) -> bool:
        if self._has_fault(model_pod, REFUSE_RESIZES):
            return True
        downwards = any(
            lowers_resources(container, model_pod.pod) for container in running_containers(model_pod.pod.spec)
        )
        return downwards and self._has_fault(model_pod, REFUSE_DOWNSIZES)

    def _has_fault(self, model_pod: ModelPod, kind: str) -> bool:
        state = self._state
        node = state.nodes.objects[model_pod.node].metadata.name
        return state.faults.is_active(kind, state.now, state.workload_name(model_pod), node)

    def _postpone(self, model_pod: ModelPod, reason: str, event: PodEvent) -> None:
        state = self._state
        status = with_condition(model_pod.pod.status, RESIZE_PENDING, True, state.now, reason=reason)
        if status is not model_pod.pod.status:
            state.put(model_pod, msgspec.structs.replace(model_pod.pod, status=status), resized=True)
            state.report(model_pod, event)
            state.kick_scheduler()

    def _accept(self, model_pod: ModelPod, size: ResourceAmounts) -> None:
        state = self._state
        state.nodes.allocate(model_pod, size)
        pod = model_pod.pod
        for container in running_containers(pod.spec):
            pod = with_container(pod, container.name, allocated_resources=allocate_resources(container.resources))
        status = without_condition(pod.status, RESIZE_PENDING)
        status = with_condition(status, RESIZE_IN_PROGRESS, True, state.now)
        state.put(model_pod, msgspec.structs.replace(pod, status=status), resized=True)
        self._schedule(model_pod, _ENFORCE_SECONDS, partial(self._enforce, model_pod))

    def _enforce(self, model_pod: ModelPod) -> None:
        state = self._state
        model_pod.resize = None
        if not self._is_served(model_pod):
            return
        if self._is_limit_below_usage(model_pod):
            delay = float(state.rng.uniform(*_ERROR_SECONDS))
            self._schedule(model_pod, delay, partial(self._fail, model_pod))
            return
        pod, restarted = model_pod.pod, []
        changed = [
            container.name
            for container in model_pod.containers
            if needs_resize(model_pod.container_spec(container.name), pod)
        ]
        missed = model_pod.down_at_resize.issuperset(changed)
        for container in model_pod.containers:
            spec = model_pod.container_spec(container.name)
            if not needs_resize(spec, pod):
                continue
            if needs_restart(spec, pod):
                restarted.append(container)
            resources = ResourceRequirements(limits=spec.resources.limits, requests=spec.resources.requests)
            pod = with_container(pod, container.name, resources=resources)
        state.put(model_pod, pod, resized=True)
        for container in model_pod.containers:
            spec = model_pod.container_spec(container.name)
            self._starts.apply_resources(container, spec.resources, reaches_cgroup=not missed)
        self._remove_resize_conditions(model_pod)
        state.counters.resizes[model_pod.workload] += 1
        state.report(model_pod, PodEvent.RESIZED)
        for container in restarted:
            self._terminations.restart_for_resize(container)
        self.retry_deferred(model_pod.node)
        state.kick_scheduler()

    def _fail(self, model_pod: ModelPod) -> None:
        """Report that a memory limit is below the usage, and try again later."""
        state = self._state
        model_pod.resize = None
        if not self._is_served(model_pod):
            return
        if self._is_limit_below_usage(model_pod):
            status = with_condition(
                model_pod.pod.status, RESIZE_IN_PROGRESS, True, state.now, reason="Error", message=_IN_USE
            )
            if status is not model_pod.pod.status:
                state.put(model_pod, msgspec.structs.replace(model_pod.pod, status=status))
        delay = float(state.rng.uniform(*_RETRY_SECONDS))
        self._schedule(model_pod, delay, partial(self._enforce, model_pod))

    def _remove_resize_conditions(self, model_pod: ModelPod) -> None:
        status = without_condition(without_condition(model_pod.pod.status, RESIZE_PENDING), RESIZE_IN_PROGRESS)
        if status is not model_pod.pod.status:
            self._state.put(model_pod, msgspec.structs.replace(model_pod.pod, status=status), resized=True)

    def _is_limit_below_usage(self, model_pod: ModelPod) -> bool:
        """Whether a new memory limit is below the usage of a container that the resize does not restart."""
        rows = self._state.rows
        for container in model_pod.containers:
            spec = model_pod.container_spec(container.name)
            limit = parse_amounts(spec.resources.limits).get("memory")
            had = float(rows.memory_limit[container.row])
            if (
                limit is None
                or limit >= had
                or rows.stage[container.row] == ContainerStage.DOWN
                or needs_restart(spec, model_pod.pod)
            ):
                continue
            if min(self._terminations.get_memory_demand(container), had) > limit:
                return True
        return False
