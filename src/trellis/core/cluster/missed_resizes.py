"""Resizes in place that were written while a container was down, and so never reached the pod's cgroup.

Kubelet 1.36 applies a resize to the cgroup of a pod only while the container that changes runs (kubernetes#138760). A
container that waits in its crash back-off is started with the new limit later, in a pod that still has the old one.
The status of the pod reports the resize as done. The times tell: the resize was written between the last `finishedAt`
of a container and its next `startedAt`. The API server keeps the time of the write in `managedFields`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from trellis.api.kube.observed_pods import OOM_KILLED, ObservedContainerStatus, ObservedPod
from trellis.api.kube.pods import ContainerStatus, Pod

# A kubelet applies a resize within a fifth of a second, unless it is busy.
APPLIED_WITHIN: Final = timedelta(seconds=5)


def read_resize_time(pod: Pod | ObservedPod) -> datetime | None:
    """When `pods/resize` was last written, to the second; None for a pod that was never resized."""
    entries = pod.metadata.managed_fields
    return entries[0].time if entries else None


def is_missed(pod: Pod | ObservedPod) -> bool | None:
    """Whether the last resize was written while a container was down; None while that container is still down.

    All times are whole seconds. A container that runs out of memory within seconds of a resize may have done so before
    the kubelet applied it. One that ends otherwise was probably restarted for it (`RestartContainer`).
    """
    written = read_resize_time(pod)
    if written is None:
        return False
    results = {_is_missed_by(status, written) for status in _lasting_statuses(pod)}
    return True if True in results else None if None in results else False


class MissedResizes:
    """Remembers missed resizes by uid of the pod: its status shows only the last two runs of a container."""

    def __init__(self) -> None:
        self._written: dict[str, datetime] = {}

    def __contains__(self, uid: object) -> bool:
        return uid in self._written

    def put(self, pod: Pod | ObservedPod) -> None:
        """Read the newest version of a pod. A resize while its containers run makes up for one that was missed."""
        uid, written = pod.metadata.uid, read_resize_time(pod)
        if written is None:
            return
        missed = is_missed(pod)
        if missed:
            self._written[uid] = written
        elif missed is False and uid in self._written and self._written[uid] != written:
            del self._written[uid]

    def forget(self, uid: str) -> None:
        """Remove a pod that is gone."""
        self._written.pop(uid, None)


def _is_missed_by(status: ContainerStatus | ObservedContainerStatus, written: datetime) -> bool | None:
    state, before = status.state, status.last_state.terminated
    started = state.running.started_at if state.running else state.terminated.started_at if state.terminated else None
    if before is not None and _ended_by(before.finished_at, before.reason, written):
        if started is None:
            return None
        if written <= started:
            return True
    if state.terminated is not None and _ended_by(state.terminated.finished_at, state.terminated.reason, written):
        return None
    return False


def _ended_by(finished: datetime | None, reason: str, written: datetime) -> bool:
    if finished is None:
        return False
    return finished < written or (reason == OOM_KILLED and finished <= written + APPLIED_WITHIN)


def _lasting_statuses(pod: Pod | ObservedPod) -> Iterator[ContainerStatus | ObservedContainerStatus]:
    """The statuses of containers and native sidecars."""
    yield from pod.status.container_statuses
    if pod.status.init_container_statuses:
        sidecars = {container.name for container in pod.spec.init_containers if container.is_sidecar}
        yield from (status for status in pod.status.init_container_statuses if status.name in sidecars)
