"""Which containers ran out of memory, and how much had they asked for?

A kill shows in a pod's status from the moment it happens until the next end of that container: first as the state, then
as the last state. What shows now and did not show before is reported, whatever happened in between: a container that
restarted at once, one that waits in a back-off, or a pod seen for the first time after a start or a broken watch. The
same kill may therefore be reported again; (uid, container, time) tells who has seen it already.

A kubelet that evicts a pod because the node is short of memory tells it in an Event instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import msgspec

from trellis.api.kube.coordination import Event
from trellis.api.kube.observed_pods import OOM_KILLED, Ended, ObservedContainerStatus, ObservedPod
from trellis.core.model.pods import memory_bytes, memory_request

_EVICTED: Final = "Evicted"
_CONTAINERS: Final = "offending_containers"
_USAGE: Final = "offending_containers_usage"
_RESOURCE: Final = "starved_resource"


class OomKill(msgspec.Struct, frozen=True):
    """One container killed for its memory.

    `time` is seconds since the epoch; `memory` is bytes: the request at the time, or the usage an eviction reported;
    NaN if neither is known.
    """

    namespace: str
    pod: str
    uid: str
    container: str
    time: float
    memory: float = math.nan


def observed(old: ObservedPod | None, new: ObservedPod) -> tuple[OomKill, ...]:
    """Kills that the new version of a pod shows and the old one did not; all that show if there is no old one.

    A container that is down was killed with the request that the pod has now; one that runs again may have been resized
    since, so that the old version says what it had.
    """
    # A StatefulSet's new pod has the old one's name, and an interrupted watch shows it as a change.
    before = old if old is not None and old.metadata.uid == new.metadata.uid else None
    shown = list(_kills(new))
    told = {(name, time) for name, time, _ in _kills(before)} if before and shown else set()
    metadata = new.metadata
    kills: dict[tuple[str, float], OomKill] = {}
    for name, time, is_over in shown:
        if (name, time) not in told:
            memory = memory_request(before if before and is_over else new, name)
            kills.setdefault((name, time), OomKill(metadata.namespace, metadata.name, metadata.uid, name, time, memory))
    return tuple(kills.values())


def evicted(event: Event) -> tuple[OomKill, ...]:
    """The containers that used more memory than they asked for when the kubelet evicted their pod for it.

    The kubelet writes one resource for all containers; a list as long as that of the containers is read too.
    """
    about, annotations = event.involved_object, event.metadata.annotations
    # Only the first never changes when the same news is counted again.
    at = event.metadata.creation_timestamp or event.first_timestamp or event.event_time
    if event.reason != _EVICTED or about.kind != "Pod" or at is None:
        return ()
    names, usages, resources = (annotations.get(key, "").split(",") for key in (_CONTAINERS, _USAGE, _RESOURCE))
    if len(resources) == 1:
        resources *= len(names)
    if not len(names) == len(usages) == len(resources):
        return ()
    namespace = about.namespace or event.metadata.namespace
    return tuple(
        OomKill(namespace, about.name, about.uid, name, at.timestamp(), memory)
        for name, usage, resource in zip(names, usages, resources, strict=True)
        if name and resource == "memory" and (memory := memory_bytes(usage)) >= 0
    )


def _kills(pod: ObservedPod) -> Iterator[tuple[str, float, bool]]:
    """Container, time, and whether the container has been started again since."""
    for status in _statuses(pod):
        for ended, is_over in ((status.state.terminated, False), (status.last_state.terminated, True)):
            if ended is not None and (time := _killed_at(ended)) is not None:
                yield status.name, time, is_over


def _statuses(pod: ObservedPod) -> Iterator[ObservedContainerStatus]:
    yield from pod.status.container_statuses
    if pod.status.init_container_statuses:
        sidecars = {each.name for each in pod.spec.init_containers if each.is_sidecar}
        yield from (status for status in pod.status.init_container_statuses if status.name in sidecars)


def _killed_at(ended: Ended) -> float | None:
    """A kill without a time cannot be told from the last one, and the kubelet always writes one."""
    if ended.reason != OOM_KILLED or ended.finished_at is None:
        return None
    return ended.finished_at.timestamp()
