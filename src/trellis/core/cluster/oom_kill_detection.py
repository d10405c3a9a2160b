"""Finds containers that ran out of memory, and how much they had requested.

A kill shows in a pod's status from the moment it happens until the next end of that container: first as the state, then
as the last state. What shows now and did not show before is reported, whatever happened in between: a container that
restarted at once, one that waits in a back-off, or a pod seen for the first time after a start or a broken watch. The
same kill may therefore be reported again; (uid, container, time) identifies it.

A kubelet that evicts a pod because the node is short of memory reports it in an Event instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from trellis.api.kube.coordination import Event
from trellis.api.kube.observed_pods import OOM_KILLED, ObservedContainerStatus, ObservedPod, ObservedTermination
from trellis.core.cluster.missed_resizes import APPLIED_WITHIN, MissedResizes, is_missed, read_resize_time
from trellis.core.cluster.pod_resources import parse_memory_bytes, read_memory_request

_EVICTED: Final = "Evicted"
_CONTAINERS: Final = "offending_containers"
_USAGE: Final = "offending_containers_usage"
_RESOURCE: Final = "starved_resource"


class OomKill(msgspec.Struct, frozen=True):
    """One container killed for its memory.

    `time` is seconds since the epoch; `memory` is bytes: the request at the time, or the usage an eviction reported;
    NaN if neither is known. With `old_limit` the pod still had the limit from before its last resize, and what the
    container requested then is not known.
    """

    namespace: str
    pod: str
    uid: str
    container: str
    time: float
    memory: float = math.nan
    old_limit: bool = False


class OomKillReader:
    """Reads kills from the versions of pods, and remembers which pods missed a resize.

    A kill after a missed resize happened under the limit from before it, and so may one within seconds of any resize,
    unless the container was started after it: they count with the request from before. A process that is killed needs
    time to end, so that the time of the kill does not say which limit it hit. Only resized pods with a container that
    ended are remembered.
    """

    def __init__(self) -> None:
        self._missed = MissedResizes()
        # What containers requested before a resize that may not have been applied.
        self._before: dict[str, Mapping[str, float]] = {}

    def read(self, old: ObservedPod | None, new: ObservedPod) -> tuple[OomKill, ...]:
        """Kills that the new version of a pod shows and the old one did not."""
        uid = new.metadata.uid
        if old is not None and old.metadata.uid != uid:
            self.forget(old.metadata.uid)
            old = None
        if old is not None and read_resize_time(old) != read_resize_time(new):
            self._note_requests(old, new)
        self._missed.put(old, new)
        return find_oom_kills(
            old,
            new,
            missed=uid in self._missed,
            was_in_force=self._missed.was_in_force(new),
            before=self._before.get(uid),
        )

    def forget(self, uid: str) -> None:
        """Remove a pod that is gone."""
        self._missed.forget(uid)
        self._before.pop(uid, None)

    def _note_requests(self, old: ObservedPod, new: ObservedPod) -> None:
        """The pod was resized: record its requests from before, unless the last resize was not applied."""
        uid = new.metadata.uid
        applied = uid not in self._missed and is_missed(old, was_in_force=self._missed.was_in_force(old)) is False
        if _has_ended(new) and (applied or uid not in self._before):
            self._before[uid] = {
                container.name: read_memory_request(old, container.name) for container in old.spec.running
            }


def find_oom_kills(
    old: ObservedPod | None,
    new: ObservedPod,
    *,
    missed: bool = False,
    was_in_force: bool = False,
    before: Mapping[str, float] | None = None,
) -> tuple[OomKill, ...]:
    """Kills that the new version of a pod shows and the old one did not; all that show if there is no old one.

    A container that is down was killed with the request that the pod has now; one that runs again may have been resized
    since, so that the old version says what it had. If the pod `missed` its last resize, as its status may show too,
    later kills happened with what containers requested `before` it. One that `was_in_force` before a container ended
    was not missed.
    """
    # A StatefulSet's new pod has the old one's name, and an interrupted watch shows it as a change.
    last = old if old is not None and old.metadata.uid == new.metadata.uid else None
    shown = list(_killed_runs(new))
    if not shown:
        return ()
    earlier = {(run.container, run.time) for run in _killed_runs(last)} if last else set()
    missed = missed or is_missed(new, was_in_force=was_in_force) is True
    metadata = new.metadata
    kills: dict[tuple[str, float], OomKill] = {}
    for run in shown:
        name, time = run.container, run.time
        if (name, time) not in earlier:
            memory = read_memory_request(last if last and run.is_over else new, name)
            is_old = _is_under_old_limit(
                new, run, missed=missed, was_in_force=was_in_force, has_before=before is not None
            )
            if is_old:
                memory = (before or {}).get(name, math.nan)
            kill = OomKill(metadata.namespace, metadata.name, metadata.uid, name, time, memory)
            kills.setdefault((name, time), msgspec.structs.replace(kill, old_limit=is_old and math.isnan(memory)))
    return tuple(kills.values())


def _is_under_old_limit(
    pod: ObservedPod, ended: _KilledRun, *, missed: bool, was_in_force: bool, has_before: bool
) -> bool:
    """Whether a kill happened, or may have happened, under the limit from before the last resize."""
    resized = read_resize_time(pod)
    if resized is None:
        return False
    since = ended.time - resized.timestamp()
    if missed and since > 0:
        return True
    if was_in_force and ended.started >= resized.timestamp():
        return False
    return (has_before or was_in_force) and since <= APPLIED_WITHIN.total_seconds()


def read_eviction(event: Event) -> tuple[OomKill, ...]:
    """The containers that used more memory than they requested when the kubelet evicted their pod for it.

    The kubelet writes one resource for all containers; a list as long as that of the containers is read too.
    """
    about, annotations = event.involved_object, event.metadata.annotations
    # Only the first time stays the same when the Event is repeated.
    time = event.metadata.creation_timestamp or event.first_timestamp or event.event_time
    if event.reason != _EVICTED or about.kind != "Pod" or time is None:
        return ()
    names, usages, resources = (annotations.get(key, "").split(",") for key in (_CONTAINERS, _USAGE, _RESOURCE))
    if len(resources) == 1:
        resources *= len(names)
    if not len(names) == len(usages) == len(resources):
        return ()
    namespace = about.namespace or event.metadata.namespace
    return tuple(
        OomKill(namespace, about.name, about.uid, name, time.timestamp(), memory)
        for name, usage, resource in zip(names, usages, resources, strict=True)
        if name and resource == "memory" and (memory := parse_memory_bytes(usage)) >= 0
    )


def _has_ended(pod: ObservedPod) -> bool:
    return any(status.state.terminated or status.last_state.terminated for status in _statuses(pod))


class _KilledRun(NamedTuple):
    """A run of a container that was killed for its memory, and whether the container has been started again since."""

    container: str
    started: float
    time: float
    is_over: bool


def _killed_runs(pod: ObservedPod) -> Iterator[_KilledRun]:
    for status in _statuses(pod):
        for ended, is_over in ((status.state.terminated, False), (status.last_state.terminated, True)):
            if ended is not None and (time := _killed_at(ended)) is not None:
                started = ended.started_at.timestamp() if ended.started_at is not None else -math.inf
                yield _KilledRun(status.name, started, time, is_over)


def _statuses(pod: ObservedPod) -> Iterator[ObservedContainerStatus]:
    yield from pod.status.container_statuses
    if pod.status.init_container_statuses:
        sidecars = {container.name for container in pod.spec.init_containers if container.is_sidecar}
        yield from (status for status in pod.status.init_container_statuses if status.name in sidecars)


def _killed_at(ended: ObservedTermination) -> float | None:
    """The time of a kill. The kubelet always writes one; without it kills cannot be distinguished."""
    if ended.reason != OOM_KILLED or ended.finished_at is None:
        return None
    return ended.finished_at.timestamp()
