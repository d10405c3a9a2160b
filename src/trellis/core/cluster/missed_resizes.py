"""Resizes in place that were written while a container was down, and so never reached the pod's cgroup.

Kubelet 1.36 applies a resize to the cgroup of a pod only while the container that changes runs (kubernetes#138760). A
container that waits in its crash back-off is started with the new limit later, in a pod that still has the old one.
The status of the pod reports the resize as done. The times tell: the resize was written between the last `finishedAt`
of a container and its next `startedAt`. The API server keeps the time of the write in `managedFields`.

A container that runs out of memory within seconds of a resize may have done so before or after the kubelet applied it.
The status tells: if a version of the pod from before the end shows the new limit in a container that ran when the
resize was written, then the cgroup of the pod has it. (For up to a second kubelets report a dead container as running.
A resize then reaches the cgroup of the pod as well, and the status shows it.)
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from trellis.api.kube.observed_pods import (
    OOM_KILLED,
    ObservedAmounts,
    ObservedContainerStatus,
    ObservedPod,
    ObservedResources,
)
from trellis.api.kube.pods import ContainerStatus, Pod, ResourceRequirements
from trellis.core.cluster.pod_resources import parse_memory_bytes

# A kubelet applies a resize within a fifth of a second, unless it is busy.
APPLIED_WITHIN: Final = timedelta(seconds=5)


def read_resize_time(pod: Pod | ObservedPod) -> datetime | None:
    """When `pods/resize` was last written, to the second; None for a pod that was never resized."""
    entries = pod.metadata.managed_fields
    return entries[0].time if entries else None


def is_missed(pod: Pod | ObservedPod, *, was_in_force: bool = False) -> bool | None:
    """Whether the last resize was written while a container was down; None while that container is still down.

    All times are whole seconds. A container that runs out of memory within seconds of a resize may have done so before
    the kubelet applied it, unless a status showed that it `was_in_force`. One that ends otherwise was probably
    restarted for it (`RestartContainer`).
    """
    written = read_resize_time(pod)
    if written is None:
        return False
    applied_by = None if was_in_force else written + APPLIED_WITHIN
    results = {_is_missed_by(status, written, applied_by) for status in _lasting_statuses(pod)}
    return True if True in results else None if None in results else False


class MissedResizes:
    """Remembers missed resizes by uid of the pod: its status shows only the last two runs of a container.

    Of a resize that was in force when a container ended it is remembered too: no later status says so.
    """

    def __init__(self) -> None:
        self._written: dict[str, datetime] = {}
        self._in_force: dict[str, datetime] = {}

    def __contains__(self, uid: object) -> bool:
        return uid in self._written

    def put(self, old: Pod | ObservedPod | None, new: Pod | ObservedPod) -> None:
        """Read the newest version of a pod. A resize while its containers run makes up for one that was missed."""
        uid, written = new.metadata.uid, read_resize_time(new)
        if written is None:
            return
        if self._in_force.get(uid) != written:
            self._in_force.pop(uid, None)
            if old is not None and read_resize_time(old) == written and _is_in_force(old) and not _is_in_force(new):
                self._in_force[uid] = written
        missed = is_missed(new, was_in_force=self.was_in_force(new))
        if missed:
            self._written[uid] = written
        elif missed is False and uid in self._written and self._written[uid] != written:
            del self._written[uid]

    def was_in_force(self, pod: Pod | ObservedPod) -> bool:
        """Whether the last resize of a pod was in force when a container ended."""
        written = read_resize_time(pod)
        return written is not None and self._in_force.get(pod.metadata.uid) == written

    def forget(self, uid: str) -> None:
        """Remove a pod that is gone."""
        self._written.pop(uid, None)
        self._in_force.pop(uid, None)


def _is_missed_by(
    status: ContainerStatus | ObservedContainerStatus, written: datetime, applied_by: datetime | None
) -> bool | None:
    state, before = status.state, status.last_state.terminated
    started = state.running.started_at if state.running else state.terminated.started_at if state.terminated else None
    if before is not None and _ended_by(before.finished_at, before.reason, written, applied_by):
        if started is None:
            return None
        if written <= started:
            return True
    if state.terminated is not None and _ended_by(
        state.terminated.finished_at, state.terminated.reason, written, applied_by
    ):
        return None
    return False


def _ended_by(finished: datetime | None, reason: str, written: datetime, applied_by: datetime | None) -> bool:
    """Whether a run ended before a resize was written or, if it ran out of memory, may have before it was applied."""
    if finished is None:
        return False
    return finished < written or (reason == OOM_KILLED and applied_by is not None and finished <= applied_by)


def _is_in_force(pod: Pod | ObservedPod) -> bool:
    """Whether all containers have run since before the last resize, and their status shows its memory limits."""
    written = read_resize_time(pod)
    if written is None:
        return False
    limits = {
        container.name: _read_memory_limit(container.resources)
        for container in (*pod.spec.containers, *pod.spec.init_containers)
    }
    return all(
        _has_run_since(status, written)
        and status.resources is not None
        and _is_same_amount(_read_memory_limit(status.resources), limits.get(status.name, ""))
        for status in _lasting_statuses(pod)
    )


def _has_run_since(status: ContainerStatus | ObservedContainerStatus, written: datetime) -> bool:
    """Whether a container has run since before this time. An observed pod has no time of a first start."""
    state = status.state
    if state.running is None or state.running.started_at is None:
        return state.terminated is None and status.last_state.terminated is None
    return state.running.started_at < written


def _read_memory_limit(resources: ResourceRequirements | ObservedResources) -> str:
    limits = resources.limits
    return limits.memory if isinstance(limits, ObservedAmounts) else limits.get("memory", "")


def _is_same_amount(first: str, second: str) -> bool:
    return first == second or parse_memory_bytes(first) == parse_memory_bytes(second)


def _lasting_statuses(pod: Pod | ObservedPod) -> Iterator[ContainerStatus | ObservedContainerStatus]:
    """The statuses of containers and native sidecars."""
    yield from pod.status.container_statuses
    if pod.status.init_container_statuses:
        sidecars = {container.name for container in pod.spec.init_containers if container.is_sidecar}
        yield from (status for status in pod.status.init_container_statuses if status.name in sidecars)
