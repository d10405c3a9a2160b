"""Pod objects of the model cluster: created from a workload's template, and replaced when something happens to them.

Times are cut to whole seconds, as the API server writes them. A template is read once, as the API server stores it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from trellis.api.kube.decoder import convert_object
from trellis.api.kube.meta import Condition, LabelSelector, ObjectMeta, PodMeta
from trellis.api.kube.pods import (
    POD_SCHEDULED,
    READY,
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
    ResourceRequirements,
)
from trellis.core.buffers.template_defaults import with_default_requests
from trellis.core.recommend.amounts import RESOURCES
from trellis.sim.fleet import SimulatedWorkload

PENDING = "Pending"
RUNNING = "Running"
SUCCEEDED = "Succeeded"
FAILED = "Failed"

_UNSCHEDULABLE = "Unschedulable"


# Pods of one workload are created together, and the same second is formatted many times.
@lru_cache(maxsize=1024)
def api_time(time: float) -> datetime:
    """A time as objects have it."""
    return datetime.fromtimestamp(math.floor(time), UTC)


def running_containers(spec: PodSpec) -> tuple[Container, ...]:
    """The containers that run as long as the pod does: the containers, then the native sidecars."""
    if not spec.init_containers:
        return spec.containers
    return (*spec.containers, *(container for container in spec.init_containers if container.is_sidecar))


def new_pod(metadata: PodMeta, spec: PodSpec) -> Pod:
    """A pod before admission."""
    return Pod(metadata, spec, PodStatus(phase=PENDING))


def with_node(pod: Pod, node: str, now: float) -> Pod:
    """The pod, bound to a node."""
    spec = msgspec.structs.replace(pod.spec, node_name=node)
    status = with_condition(pod.status, POD_SCHEDULED, True, now)
    return msgspec.structs.replace(pod, spec=spec, status=msgspec.structs.replace(status, start_time=api_time(now)))


def with_unschedulable(pod: Pod, now: float) -> Pod:
    """The pod, marked unschedulable; the same pod if it is already."""
    status = with_condition(pod.status, POD_SCHEDULED, False, now, reason=_UNSCHEDULABLE)
    return pod if status is pod.status else msgspec.structs.replace(pod, status=status)


def with_nominated_node(pod: Pod, node: str) -> Pod:
    """The pod, nominated to a node from which others are preempted first."""
    if pod.status.nominated_node_name == node:
        return pod
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, nominated_node_name=node))


def with_started_containers(pod: Pod, resources: Mapping[str, ResourceRequirements], now: float) -> Pod:
    """The pod with all containers running, with the resources that they were given."""
    state = ContainerState(running=ContainerStateRunning(api_time(now)))
    spec, status = pod.spec, with_condition(pod.status, READY, False, now)
    changed = msgspec.structs.replace(
        status,
        phase=RUNNING,
        container_statuses=tuple(
            _started_status(container.name, resources[container.name], state) for container in spec.containers
        ),
        init_container_statuses=tuple(
            _started_status(container.name, resources[container.name], state)
            for container in spec.init_containers
            if container.is_sidecar
        ),
    )
    return msgspec.structs.replace(pod, status=changed)


def _started_status(name: str, resources: ResourceRequirements, state: ContainerState) -> ContainerStatus:
    return ContainerStatus(
        name=name,
        state=state,
        started=True,
        allocated_resources=allocate_resources(resources),
        resources=ResourceRequirements(limits=resources.limits, requests=resources.requests),
    )


def allocate_resources(resources: ResourceRequirements) -> dict[str, str]:
    """The resources that the node allocates to a container."""
    return {name: text for name, text in resources.requests.items() if name in RESOURCES}


def with_ready(pod: Pod, ready: bool, now: float) -> Pod:
    """The pod, Ready or not; the same pod if it is already."""
    status = with_condition(pod.status, READY, ready, now)
    return pod if status is pod.status else msgspec.structs.replace(pod, status=status)


def with_container(pod: Pod, name: str, **changes: Any) -> Pod:
    """The pod with changes to the status of a container."""
    status = pod.status

    def changed(statuses: tuple[ContainerStatus, ...]) -> tuple[ContainerStatus, ...]:
        return tuple(
            msgspec.structs.replace(status, **changes) if status.name == name else status for status in statuses
        )

    return msgspec.structs.replace(
        pod,
        status=msgspec.structs.replace(
            status,
            container_statuses=changed(status.container_statuses),
            init_container_statuses=changed(status.init_container_statuses),
        ),
    )


def find_container_status(pod: Pod, name: str) -> ContainerStatus | None:
    """The status of a container, if there is one."""
    status = pod.status
    statuses = (*status.container_statuses, *status.init_container_statuses)
    return next((status for status in statuses if status.name == name), None)


def terminated_state(started: float, now: float, reason: str, exit_code: int) -> ContainerState:
    """The state of a container that has ended."""
    return ContainerState(terminated=ContainerStateTerminated(exit_code, reason, api_time(started), api_time(now)))


def as_finished(pod: Pod, phase: str, reason: str, now: float) -> Pod:
    """The pod, ended as a whole."""
    status = msgspec.structs.replace(with_condition(pod.status, READY, False, now), phase=phase, reason=reason)
    return msgspec.structs.replace(pod, status=status)


def as_terminating(pod: Pod, now: float) -> Pod:
    """The pod with a deletion timestamp."""
    return msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(pod.metadata, deletion_timestamp=api_time(now))
    )


def with_condition(
    status: PodStatus, type_: str, value: bool, now: float, *, reason: str = "", message: str = ""
) -> PodStatus:
    """A status with a condition, whose time changes only with its value or its reason."""
    text = "True" if value else "False"
    previous = status.find_condition(type_)
    since = api_time(now)
    if previous is not None and (previous.status, previous.reason) == (text, reason):
        since = previous.last_transition_time or since
    new = Condition(type_, 0, text, since, reason, message)
    if new == previous:
        return status
    remaining = tuple(condition for condition in status.conditions if condition.type != type_)
    return msgspec.structs.replace(status, conditions=(*remaining, new))


def without_condition(status: PodStatus, type_: str) -> PodStatus:
    """A status without a condition."""
    if status.find_condition(type_) is None:
        return status
    return msgspec.structs.replace(
        status, conditions=tuple(condition for condition in status.conditions if condition.type != type_)
    )


# Kubernetes draws suffixes of names from these, which spell no words.
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


# Kinds whose pods run to completion.
BATCH_KINDS: Final = ("Job", "CronJob")


class WorkloadTemplate(msgspec.Struct, frozen=True):
    """What all pods of a workload have in common. `containers` are those that run as long as the pod."""

    metadata: ObjectMeta
    spec: PodSpec
    selector: LabelSelector
    containers: tuple[str, ...]

    @classmethod
    def of(cls, workload: SimulatedWorkload) -> WorkloadTemplate:
        """The template of a workload; without labels its pods are labelled with its name."""
        read = convert_object(workload.template, PodTemplateSpec)
        labels: Mapping[str, str] = read.metadata.labels or {"app": workload.name}
        metadata = ObjectMeta(labels=labels, annotations=read.metadata.annotations)
        spec = with_default_requests(read.spec)
        if workload.kind in BATCH_KINDS and not spec.restart_policy:
            spec = msgspec.structs.replace(spec, restart_policy="OnFailure")
        return cls(
            metadata,
            spec,
            LabelSelector(match_labels=labels),
            tuple(container.name for container in running_containers(spec)),
        )


def name_suffix(number: int, length: int) -> str:
    """A suffix for a name, another for each number."""
    name_suffix = ""
    for _ in range(length):
        number, rest = divmod(number, len(_LETTERS))
        name_suffix = _LETTERS[rest] + name_suffix
    return name_suffix
