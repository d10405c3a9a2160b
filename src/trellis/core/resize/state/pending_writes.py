"""Pending writes: evictions and changes of pods whose echo the watch has not delivered yet.

A plan that is made a moment after an eviction must not count the evicted pod, or it would evict its neighbour as well.
And a resize must have been observed before the pod is planned for again, or it would be written twice.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime

import msgspec

from trellis.api.kube.pods import Pod


class PendingPodWrites:
    """By uid of the pod. Times are seconds since 1970."""

    def __init__(self) -> None:
        self._evicted: dict[str, float] = {}
        self._written: dict[str, str] = {}

    def expect_eviction(self, uid: str, until: float = math.inf) -> None:
        """A pod was evicted; with `until`, perhaps it was, and by then its end has been seen or will not come."""
        self._evicted[uid] = until

    def expect_write(self, uid: str, resource_version: str) -> None:
        """A pod was changed, and has this version since."""
        self._written[uid] = resource_version

    def is_awaited(self, pod: Pod) -> bool:
        """Whether what we wrote to the pod is still to come."""
        version = self._written.get(pod.metadata.uid)
        return version is not None and _is_older(pod.metadata.resource_version, version)

    def apply_to(self, pod: Pod, now: float) -> Pod:
        """The pod; one that we have evicted is on its way out."""
        until = self._evicted.get(pod.metadata.uid, -math.inf)
        if until <= now or pod.metadata.deletion_timestamp is not None:
            return pod
        going = msgspec.structs.replace(pod.metadata, deletion_timestamp=datetime.fromtimestamp(now, UTC))
        return msgspec.structs.replace(pod, metadata=going)

    def observe(self, pod: Pod) -> None:
        """The pod has changed: what it shows needs no memory."""
        if not self.is_awaited(pod):
            self._written.pop(pod.metadata.uid, None)
        if pod.metadata.deletion_timestamp is not None:
            self._evicted.pop(pod.metadata.uid, None)

    def forget(self, uid: str) -> None:
        """The pod does not exist any more."""
        self._evicted.pop(uid, None)
        self._written.pop(uid, None)


def _is_older(observed: str, written: str) -> bool:
    """Whether a version comes before another. They are numbers (Kubernetes 1.35 says so); others cannot be compared."""
    if observed.isdecimal() and written.isdecimal():
        return int(observed) < int(written)
    return False
