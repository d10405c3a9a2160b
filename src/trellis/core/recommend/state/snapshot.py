"""The input of a pass: the observed state of the cluster, and fetched usage and history.

Changes are names of namespaces, not objects: a pass evaluates the changed namespaces again. Out-of-memory kills are
read from each change at once, because the pod may be deleted, or restarted again, before the next pass.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.coordination import Event
from trellis.api.kube.observed_pods import ObservedPod
from trellis.api.resolve import DEFAULT_RECOMMENDER
from trellis.base.replica_assignment import NamespaceShard
from trellis.core.cluster.oom_kill_detection import OomKill, OomKillReader, read_eviction
from trellis.core.cluster.owners import ScaleInfo, TargetRef
from trellis.core.cluster.store import ObjectKey, Snapshot
from trellis.core.recommend.protocol import Recommender
from trellis.core.usage.checkpoints.format import SavedRow
from trellis.core.usage.samples import Measurements, Samples

# Kills that wait for a pass. A pass takes all of them, so that this many within a minute would be a cluster on fire.
_MOST_KILLS: Final = 5_000


class PodOomKill(msgspec.Struct, frozen=True):
    """A container killed for its memory, and its pod as it was then, if that is known: it may be gone by now."""

    kill: OomKill
    pod: ObservedPod | None


class SnapshotChanges(msgspec.Struct, frozen=True):
    """The changes since the previous snapshot."""

    vpas: frozenset[ObjectKey] = frozenset()
    namespaces: frozenset[str] = frozenset()
    kills: tuple[PodOomKill, ...] = ()


class RecommenderSnapshot(msgspec.Struct, frozen=True):
    """A snapshot of the cluster, and the changes since the previous one."""

    vpas: Snapshot[VerticalPodAutoscaler]
    pods: Snapshot[ObservedPod]
    hvpas: Snapshot[Hvpa]
    workloads: Mapping[str, Snapshot[Any]]
    changes: SnapshotChanges


class RecommenderScope(msgspec.Struct, frozen=True):
    """The VPAs that a process serves: those of its recommenders, in its namespaces.

    `totals` is set where it keeps the histories of whole workloads for Hvpas although it does not serve `default`.
    `shard` has the namespaces of a process that shares them with others.
    """

    recommenders: frozenset[str]
    namespaces: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    totals: bool = False
    shard: NamespaceShard | None = None

    @property
    def keeps_totals(self) -> bool:
        """Whether histories of whole workloads are kept and published here: only one process can write them."""
        return self.totals or DEFAULT_RECOMMENDER in self.recommenders

    def covers(self, namespace: str) -> bool:
        is_own = namespace in self.namespaces if self.namespaces else namespace not in self.ignored
        return is_own and (self.shard is None or self.shard.covers(namespace))


class ClusterObservation(msgspec.Struct, frozen=True):
    """The observed input of a pass.

    `scales` has the scale subresources of targets that are no well-known controllers. `recommenders` are by the names
    that they are served under. `can_resize` is whether the API server resizes pods in place, and so ends a boost.
    """

    snapshot: RecommenderSnapshot
    scope: RecommenderScope
    recommenders: Mapping[str, Recommender]
    scales: Mapping[TargetRef, ScaleInfo] = {}
    can_resize: bool = True


class PendingHistory(msgspec.Struct, frozen=True):
    """VPAs whose history is being fetched, and those whose history could not be, with the problem."""

    fetching: frozenset[ObjectKey] = frozenset()
    unavailable: frozenset[ObjectKey] = frozenset()
    problem: str = ""


class FetchedHistory(msgspec.Struct, frozen=True):
    """History of VPAs; `from_checkpoints` says that it is what checkpoints hold."""

    rows: Sequence[SavedRow]
    from_checkpoints: bool


class StepSamples(msgspec.Struct, frozen=True):
    """Samples of one step of a simulation: the columns of namespaces, pods and containers, and their usage.

    Steps of the same containers share their names.
    """

    names: tuple[list[str], list[str], list[str]]
    measured: Measurements


class FetchedUsage(msgspec.Struct, frozen=True):
    """The fetched input of a pass: usage, history, and the history that is still missing.

    `past` are batches of samples from before those of now, oldest first; `steps` those of a simulation.
    """

    samples: Samples = msgspec.field(default_factory=Samples.empty)
    history: Sequence[FetchedHistory] = ()
    pending: PendingHistory = PendingHistory()
    past: Sequence[Samples] = ()
    steps: Sequence[StepSamples] = ()


class SnapshotChangeCollector:
    """Collects the changes of watched objects that matter to a pass, until the next snapshot."""

    def __init__(self) -> None:
        self._vpas: set[ObjectKey] = set()
        self._namespaces: set[str] = set()
        self._kills: deque[PodOomKill] = deque(maxlen=_MOST_KILLS)
        self._pod_kills = OomKillReader()

    def pop_changes(self) -> SnapshotChanges:
        """The changes since the last call."""
        changes = SnapshotChanges(frozenset(self._vpas), frozenset(self._namespaces), tuple(self._kills))
        self._vpas.clear()
        self._namespaces.clear()
        self._kills.clear()
        return changes

    def restore(self, changes: SnapshotChanges) -> None:
        """Add changes again whose pass failed."""
        self._vpas |= changes.vpas
        self._namespaces |= changes.namespaces
        self._kills.extendleft(reversed(changes.kills))

    def add_vpa(self, key: ObjectKey, old: VerticalPodAutoscaler | None, new: VerticalPodAutoscaler | None) -> None:
        self._vpas.add(key)
        # Our own writes come back as changes of status, which change no pod's governor.
        if old is None or new is None or old.spec != new.spec:
            self._namespaces.add(key[0])

    def add_pod(self, key: ObjectKey, old: ObservedPod | None, new: ObservedPod | None) -> None:
        self._namespaces.add(key[0])
        if new is not None:
            self._kills.extend(PodOomKill(kill, new) for kill in self._pod_kills.read(old, new))
        elif old is not None:
            # The last state of a pod that is gone may be the only one that shows its kill. The model counts each once.
            self._kills.extend(PodOomKill(kill, old) for kill in self._pod_kills.read(None, old))
            self._pod_kills.forget(old.metadata.uid)

    def add_eviction(self, event: Event, pods: Snapshot[ObservedPod]) -> None:
        """An event of a kubelet that evicted a pod."""
        for kill in read_eviction(event):
            self._kills.append(PodOomKill(kill, pods.get(kill.namespace, kill.pod)))

    def add_hvpa(self, key: ObjectKey) -> None:
        self._namespaces.add(key[0])

    def add_workload(self, key: ObjectKey, old: Any, new: Any) -> None:
        # A rollout changes a status many times a second; only selectors and owners are of interest.
        if old is None or new is None or old.spec != new.spec or old.metadata.controller != new.metadata.controller:
            self._namespaces.add(key[0])
