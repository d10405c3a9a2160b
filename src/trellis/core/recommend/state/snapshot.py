"""The input of a pass: one snapshot of the cluster, and what has changed since the pass before.

Changes are kept as names of namespaces, not as objects: a pass looks again at the namespaces in which something
changed, and takes everything else as it was. Out-of-memory kills are read from each change as it comes, because the
pod may be gone, or restarted again, before the next pass.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.coordination import Event
from trellis.api.kube.observed_pods import ObservedPod
from trellis.core.cluster.oom_kills import OomKill, OomKillReader, read_eviction
from trellis.core.cluster.store import ObjectKey, Snapshot

# Kills that wait for a pass. A pass takes all of them, so that this many within a minute would be a cluster on fire.
_MOST_KILLS: Final = 5_000


class PodOomKill(msgspec.Struct, frozen=True):
    """A container killed for its memory, and its pod as it was then, if that is known: it may be gone by now."""

    what: OomKill
    pod: ObservedPod | None


class SnapshotChanges(msgspec.Struct, frozen=True):
    """What has changed since somebody last asked."""

    vpas: frozenset[ObjectKey] = frozenset()
    namespaces: frozenset[str] = frozenset()
    kills: tuple[PodOomKill, ...] = ()


class RecommenderSnapshot(msgspec.Struct, frozen=True):
    """One state of the cluster, and what has changed since the one before."""

    vpas: Snapshot[VerticalPodAutoscaler]
    pods: Snapshot[ObservedPod]
    hvpas: Snapshot[Hvpa]
    workloads: Mapping[str, Snapshot[Any]]
    news: SnapshotChanges


class SnapshotChangeCollector:
    """Told of every change, it says once what of it matters to a pass."""

    def __init__(self) -> None:
        self._vpas: set[ObjectKey] = set()
        self._namespaces: set[str] = set()
        self._kills: deque[PodOomKill] = deque(maxlen=_MOST_KILLS)
        self._pod_kills = OomKillReader()

    def take(self) -> SnapshotChanges:
        """Everything since the last time."""
        news = SnapshotChanges(frozenset(self._vpas), frozenset(self._namespaces), tuple(self._kills))
        self._vpas.clear()
        self._namespaces.clear()
        self._kills.clear()
        return news

    def give_back(self, news: SnapshotChanges) -> None:
        """Tell once more what was told: the pass that it was told to has failed."""
        self._vpas |= news.vpas
        self._namespaces |= news.namespaces
        self._kills.extendleft(reversed(news.kills))

    def vpa(self, key: ObjectKey, old: VerticalPodAutoscaler | None, new: VerticalPodAutoscaler | None) -> None:
        """A VPA has come, changed or gone."""
        self._vpas.add(key)
        # Our own writes come back as changes of status, which say nothing about whose pods are whose.
        if old is None or new is None or old.spec != new.spec:
            self._namespaces.add(key[0])

    def pod(self, key: ObjectKey, old: ObservedPod | None, new: ObservedPod | None) -> None:
        """A pod has."""
        self._namespaces.add(key[0])
        if new is not None:
            self._kills.extend(PodOomKill(kill, new) for kill in self._pod_kills.read(old, new))
        elif old is not None:
            # The last word on a pod that is gone may be the only one that shows its kill. The model counts each once.
            self._kills.extend(PodOomKill(kill, old) for kill in self._pod_kills.read(None, old))
            self._pod_kills.forget(old.metadata.uid)

    def event(self, event: Event, pods: Snapshot[ObservedPod]) -> None:
        """A kubelet has evicted a pod."""
        for kill in read_eviction(event):
            self._kills.append(PodOomKill(kill, pods.get(kill.namespace, kill.pod)))

    def hvpa(self, key: ObjectKey) -> None:
        """An Hvpa has come, changed or gone."""
        self._namespaces.add(key[0])

    def workload(self, key: ObjectKey, old: Any, new: Any) -> None:
        """A controller has."""
        # A rollout changes a status many times a second; only selectors and owners are of interest.
        if old is None or new is None or old.spec != new.spec or old.metadata.controller != new.metadata.controller:
            self._namespaces.add(key[0])
