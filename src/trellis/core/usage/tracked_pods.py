"""The pods whose usage is tracked, and the slot of each of their containers.

Containers and native sidecars are tracked, each with its requests. Init containers are not: they end before the pod
runs. Pod-level resources are ignored too, because they bound the pod as a whole: a container without a request of its
own has none here, whatever its pod has.

A pod is known by namespace and name, and samples name no more than that; another UID under the same name is another
pod. A pod that is no longer tracked keeps its slots for a while: the report that it ran out of memory may come late,
and one that comes back (its target was missing for a moment) must not have its peaks counted twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import islice, repeat
from typing import TypeAlias

import msgspec
import numpy as np

from trellis.api.kube.observed_pods import ObservedAmounts, ObservedPod
from trellis.core.cluster.pod_resources import parse_cpu_millicores, parse_memory_bytes, read_current_resources
from trellis.core.usage.columns import IntColumn
from trellis.core.usage.state import SlotTable


class TrackedContainer(msgspec.Struct, frozen=True, gc=False):
    """A container whose usage is recorded, and what it requests, in bytes and millicores; NaN if it does not."""

    name: str
    memory_request: float = math.nan
    cpu_request: float = math.nan


class TrackedPod(msgspec.Struct, frozen=True, gc=False):
    """A pod, and the autoscaler whose rows its usage feeds. `started` is in seconds since the epoch, NaN if unknown."""

    namespace: str
    name: str
    uid: str
    vpa: str
    ready: bool
    containers: tuple[TrackedContainer, ...]
    started: float = math.nan


def track_pod(pod: ObservedPod, vpa: str) -> TrackedPod:
    """The pod in the form in which the usage model tracks it."""
    metadata = pod.metadata
    containers = tuple(
        _track_container(container.name, read_current_resources(pod, container.name).requests)
        for container in pod.spec.running
    )
    # A pod that waits for a node is created long before its containers run.
    started = pod.status.start_time or metadata.creation_timestamp
    return TrackedPod(
        metadata.namespace,
        metadata.name,
        metadata.uid,
        vpa,
        pod.status.ready,
        containers,
        started.timestamp() if started is not None else math.nan,
    )


def _track_container(name: str, requests: ObservedAmounts) -> TrackedContainer:
    return TrackedContainer(name, parse_memory_bytes(requests.memory), parse_cpu_millicores(requests.cpu))


Slots: TypeAlias = tuple[int, ...]
_SlotKey: TypeAlias = tuple[str, str, str]  # namespace, pod, container
_PodKey: TypeAlias = tuple[str, str, str]  # namespace, name, UID

# Names are looked up in one go, without a line of Python in between at which another thread would have its turn.
_LOOKUP_BATCH = 8_192


class _TrackedSlots(msgspec.Struct, frozen=True, gc=False):
    pod: TrackedPod
    slots: Slots

    def can_serve(self, pod: TrackedPod) -> bool:
        """Whether these slots fit a pod: it is the same pod and feeds the same rows."""
        tracked = self.pod
        return (
            tracked.uid == pod.uid
            and tracked.vpa == pod.vpa
            and [container.name for container in tracked.containers] == [container.name for container in pod.containers]
        )


class TrackedPods:
    """The tracked pods and their slots."""

    def __init__(self, table: SlotTable) -> None:
        self._table = table
        self._slots: dict[_SlotKey, int] = {}
        self._live: dict[str, dict[str, _TrackedSlots]] = {}
        self._departed: dict[_PodKey, _TrackedSlots] = {}  # in the order in which they went
        self._replaced: list[int] = []
        self._newly_departed: list[int] = []

    @property
    def namespaces(self) -> list[str]:
        """The namespaces with tracked pods."""
        return list(self._live)

    @property
    def size(self) -> int:
        """The number of names of tracked and departed pods."""
        return len(self._slots) + len(self._departed) + sum(map(len, self._live.values()))

    def find_slots(self, namespaces: Sequence[str], pods: Sequence[str], containers: Sequence[str]) -> IntColumn:
        """The slot of each sample; -1 for a container that is not tracked."""
        names = zip(namespaces, pods, containers, strict=True)
        slots = np.empty(len(pods), dtype=np.int64)
        for begin in range(0, len(slots), _LOOKUP_BATCH):
            part = slots[begin : begin + _LOOKUP_BATCH]
            part[:] = np.fromiter(map(self._slots.get, islice(names, len(part)), repeat(-1)), np.int64, len(part))
        return slots

    def find_slot(self, namespace: str, pod: str, uid: str, container: str) -> int:
        """The slot of one container, also if its pod has departed; -1 if there is none."""
        tracked = self._live.get(namespace, {}).get(pod)
        if tracked is None or (uid and tracked.pod.uid != uid):
            tracked = self._departed.get((namespace, pod, uid))
        if tracked is None:
            return -1
        for candidate, slot in zip(tracked.pod.containers, tracked.slots, strict=True):
            if candidate.name == container:
                return slot
        return -1

    def track(self, namespace: str, pods: Iterable[TrackedPod], now: float) -> list[tuple[TrackedPod, Slots]]:
        """Track exactly these pods of a namespace; returns those with new slots, which feed no row yet."""
        pods_by_name = {pod.name: pod for pod in pods}
        live = self._live.setdefault(namespace, {})
        for name in [name for name in live if name not in pods_by_name]:
            self._remove_pod(namespace, live.pop(name), now)
        changed = [
            pod
            for name, pod in pods_by_name.items()
            if (tracked := live.get(name)) is None or (tracked.pod is not pod and tracked.pod != pod)
        ]
        new = [pod for pod in changed if not self._reuse_slots(live, namespace, pod, now)]
        numbers = iter(self._table.allocate(sum(len(pod.containers) for pod in new)).tolist())
        for pod in new:
            self._add_pod(live, namespace, _TrackedSlots(pod, tuple(next(numbers) for _ in pod.containers)))
        self._update_columns([live[pod.name] for pod in changed])
        if not live:
            del self._live[namespace]
        return [(pod, live[pod.name].slots) for pod in new]

    def pop_departed_slots(self) -> IntColumn:
        """The slots of pods that departed since the last call."""
        slots, self._newly_departed = np.array(self._newly_departed, dtype=np.int64), []
        return slots

    def release(self, before: float) -> IntColumn:
        """Remove the pods that departed up to a time, and return their released slots."""
        freed, self._replaced = self._replaced, []
        for key, tracked in list(self._departed.items()):
            if tracked.slots and self._table.departed_at[tracked.slots[0]] > before:
                break
            del self._departed[key]
            freed.extend(tracked.slots)
        slots = np.array(freed, dtype=np.int64)
        self._table.release(slots)
        return slots

    def _reuse_slots(self, live: dict[str, _TrackedSlots], namespace: str, pod: TrackedPod, now: float) -> bool:
        """Give a pod the slots that it has, or had until it departed; returns whether there are any."""
        tracked = live.get(pod.name)
        if tracked is not None and tracked.can_serve(pod):
            live[pod.name] = _TrackedSlots(pod, tracked.slots)
            return True
        earlier = self._departed.get((namespace, pod.name, pod.uid))
        returned = earlier is not None and earlier.can_serve(pod)
        if returned:
            del self._departed[namespace, pod.name, pod.uid]
        if tracked is not None:
            self._remove_pod(namespace, live.pop(pod.name), now)
        if earlier is not None and returned:
            self._add_pod(live, namespace, _TrackedSlots(pod, earlier.slots))
        return returned

    def _add_pod(self, live: dict[str, _TrackedSlots], namespace: str, tracked: _TrackedSlots) -> None:
        pod = tracked.pod
        live[pod.name] = tracked
        for container, slot in zip(pod.containers, tracked.slots, strict=True):
            self._slots[namespace, pod.name, container.name] = slot

    def _remove_pod(self, namespace: str, tracked: _TrackedSlots, now: float) -> None:
        pod, slots = tracked.pod, tracked.slots
        for container in pod.containers:
            self._slots.pop((namespace, pod.name, container.name), None)
        self._table.departed_at[list(slots)] = now
        self._newly_departed.extend(slots)
        self._table.ready[list(slots)] = False
        key = (namespace, pod.name, pod.uid)
        replaced = self._departed.pop(key, None)
        if replaced is not None:  # the same pod, that had gone from one VPA to another before
            self._replaced.extend(replaced.slots)
        self._departed[key] = tracked

    def _update_columns(self, changed: Sequence[_TrackedSlots]) -> None:
        """Write readiness, requests and start times of pods into the columns."""
        slots = [slot for tracked in changed for slot in tracked.slots]
        self._table.departed_at[slots] = np.nan
        self._table.leader[slots] = [tracked.slots[0] for tracked in changed for _ in tracked.slots]
        self._table.ready[slots] = [tracked.pod.ready for tracked in changed for _ in tracked.slots]
        self._table.memory_request[slots] = [
            container.memory_request for tracked in changed for container in tracked.pod.containers
        ]
        self._table.cpu_request[slots] = [
            container.cpu_request for tracked in changed for container in tracked.pod.containers
        ]
        self._table.started[slots] = [tracked.pod.started for tracked in changed for _ in tracked.slots]
