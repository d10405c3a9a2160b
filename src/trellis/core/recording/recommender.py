"""The recording of a recommender: the input of its passes, in parts, and what was decided.

A line of kind `decided` has what the step of the line before it decided. Replaying the input must give the same lines.
A snapshot of the cluster is written as the changes since the snapshot before: `SnapshotRecorder` turns snapshots into
lines, `SnapshotReplayer` turns the lines into the same snapshots.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from trellis.api.feature_gates import FeatureGates
from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.observed_pods import ObservedPod
from trellis.api.kube.observed_workloads import ObservedCronJob, ObservedReplicationController, ObservedWorkload
from trellis.base.json_lines import decode_payload, encode_payload
from trellis.base.replica_assignment import NamespaceShard
from trellis.core.cluster.oom_kill_detection import OomKill
from trellis.core.cluster.owners import ScaleInfo, TargetRef
from trellis.core.cluster.store import BY_NAMESPACE, ObjectKey, ObjectStore, Snapshot, index_by_namespace
from trellis.core.recommend.publish.hvpa_totals import HvpaTotals
from trellis.core.recommend.recommendation_pass import PassResult
from trellis.core.recommend.settings import DefaultSettings, PipelineSettings
from trellis.core.recommend.state.snapshot import (
    PendingHistory,
    PodOomKill,
    RecommenderScope,
    RecommenderSnapshot,
    SnapshotChanges,
)
from trellis.core.recording.format import apply_changes, diff_objects
from trellis.core.recording.usage_rows import UsageRowLine
from trellis.core.usage.columns import FloatColumn, RowKey
from trellis.core.usage.samples import Samples
from trellis.core.usage.settings import UsageSettings

SETUP: Final = "setup"
HOSTS: Final = "hosts"
SNAPSHOT: Final = "snapshot"
VPAS: Final = "vpas"
RESTORE: Final = "restore"
PODS: Final = "pods"
USAGE: Final = "usage"
COLLECT: Final = "collect"
RECOMMEND: Final = "recommend"
PUBLISH: Final = "publish"
TOTALS: Final = "totals"
DUE: Final = "due"
SAVE: Final = "save"
DECIDED: Final = "decision"

# Replaces the reason of a recommender that is installed separately, and so cannot be replayed.
INSTALLED: Final = "installed"


class RecommenderSetup(msgspec.Struct, frozen=True):
    """What a recommender starts with; the presets are by recommender and parameter."""

    usage: UsageSettings
    pipeline: PipelineSettings
    default: DefaultSettings
    gates: FeatureGates
    names: tuple[str, ...]
    presets: dict[str, dict[str, str]] = {}


class HostedRecommendersLine(msgspec.Struct, frozen=True):
    """Names that no recommender of Trellis serves, with the reason, or `INSTALLED`."""

    others: dict[str, str]


class VpasLine(msgspec.Struct, frozen=True):
    """VPAs are read."""

    recommenders: tuple[str, ...]
    namespace: str
    ignored: tuple[str, ...]
    is_new_scope: bool
    can_boost: bool
    totals: bool = False
    shard: NamespaceShard | None = None

    @property
    def scope(self) -> RecommenderScope:
        namespaces = frozenset(filter(None, self.namespace.split(",")))
        names, ignored = frozenset(self.recommenders), frozenset(self.ignored)
        return RecommenderScope(names, namespaces, ignored, self.totals, self.shard)


class PodsLine(msgspec.Struct, frozen=True):
    """Pods are read. Without `scales` they are those of the line before."""

    now: float
    fetching: tuple[ObjectKey, ...]
    without: tuple[ObjectKey, ...]
    problem: str
    scales: tuple[tuple[TargetRef, ScaleInfo], ...] | None

    @property
    def pending_history(self) -> PendingHistory:
        return PendingHistory(frozenset(self.fetching), frozenset(self.without), self.problem)


class RestoreLine(msgspec.Struct, frozen=True):
    """History is restored."""

    now: float
    stored: bool
    rows: tuple[UsageRowLine, ...]


class UsageLine(msgspec.Struct, frozen=True):
    """Usage is ingested, and the kills of the observed pods."""

    now: float
    namespaces: list[str]
    pods: list[str]
    containers: list[str]
    times: FloatColumn
    cpu: FloatColumn
    memory: FloatColumn

    @classmethod
    def of(cls, samples: Samples, now: float) -> UsageLine:
        columns = (samples.times, samples.cpu, samples.memory)
        return cls(now, samples.namespaces, samples.pods, samples.containers, *columns)

    def to_samples(self) -> Samples:
        return Samples(self.namespaces, self.pods, self.containers, self.times, self.cpu, self.memory)


class TimeLine(msgspec.Struct, frozen=True):
    """A step whose only input is the time."""

    now: float


class PublishLine(msgspec.Struct, frozen=True):
    """Which of the statuses were written, by their place among those that were decided, and the version of each."""

    now: float
    written: tuple[tuple[int, str], ...]


class DueLine(msgspec.Struct, frozen=True):
    """The number of checkpoints that may be written."""

    now: float
    limit: int


class SaveLine(msgspec.Struct, frozen=True):
    """Checkpoints were written."""

    now: float
    keys: tuple[RowKey, ...]


class DecidedStatus(msgspec.Struct, frozen=True):
    """A status that is to be written, and why."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    status: dict[str, Any]
    first: bool
    reasons: tuple[str, ...]


class DecidedTotals(msgspec.Struct, frozen=True):
    """The totals of a workload that are published for its Hvpa."""

    namespace: str
    name: str
    cpu: str | None
    memory: str | None


def list_decided_statuses(result: PassResult) -> list[DecidedStatus]:
    """The statuses of a pass, as a replay compares them."""
    return [
        DecidedStatus(
            write.namespace,
            write.name,
            write.uid,
            write.resource_version,
            write.status,
            write.is_first,
            tuple(reason.code for reason in write.reasons),
        )
        for write in result.writes
    ]


def list_decided_totals(totals: Sequence[HvpaTotals]) -> list[DecidedTotals]:
    """The totals of a pass, as a replay compares them."""
    return [
        DecidedTotals(
            hvpa_totals.hvpa.metadata.namespace, hvpa_totals.hvpa.metadata.name, hvpa_totals.cpu, hvpa_totals.memory
        )
        for hvpa_totals in totals
    ]


def build_pods_line(
    now: float,
    pending_history: PendingHistory,
    scales: Mapping[TargetRef, ScaleInfo],
    written: Mapping[TargetRef, ScaleInfo] | None,
) -> PodsLine:
    """Build the line of pods, without scales if they are as last written."""
    changed_scales = None if scales == written else tuple(scales.items())
    return PodsLine(
        now,
        tuple(sorted(pending_history.fetching)),
        tuple(sorted(pending_history.unavailable)),
        pending_history.problem,
        changed_scales,
    )


_VPA: Final = "VerticalPodAutoscaler"
_POD: Final = "Pod"
_HVPA: Final = "Hvpa"
_WORKLOADS: Final[Mapping[str, type[Any]]] = {
    "Deployment": ObservedWorkload,
    "ReplicaSet": ObservedWorkload,
    "StatefulSet": ObservedWorkload,
    "DaemonSet": ObservedWorkload,
    "Job": ObservedWorkload,
    "CronJob": ObservedCronJob,
    "ReplicationController": ObservedReplicationController,
}
_KINDS: Final[Mapping[str, type[Any]]] = {_VPA: VerticalPodAutoscaler, _POD: ObservedPod, _HVPA: Hvpa, **_WORKLOADS}


class KindChangesLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """Changes of the objects of one kind."""

    removed: tuple[ObjectKey, ...] = ()
    put: tuple[msgspec.Raw, ...] = ()


class KillLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One container killed for its memory; without bytes where they are unknown."""

    namespace: str
    pod: str
    uid: str
    container: str
    time: float
    memory: float | None = None
    shown: ObservedPod | None = None
    old_limit: bool = False

    @classmethod
    def of(cls, kill: PodOomKill) -> KillLine:
        oom = kill.kill
        memory = None if math.isnan(oom.memory) else oom.memory
        return cls(oom.namespace, oom.pod, oom.uid, oom.container, oom.time, memory, kill.pod, oom.old_limit)

    def to_kill(self) -> PodOomKill:
        memory = math.nan if self.memory is None else self.memory
        oom = OomKill(self.namespace, self.pod, self.uid, self.container, self.time, memory, self.old_limit)
        return PodOomKill(oom, self.shown)


class SnapshotLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """The changes of each kind since the line before, and what they concern."""

    objects: dict[str, KindChangesLine] = {}
    vpas: tuple[ObjectKey, ...] = ()
    namespaces: tuple[str, ...] = ()
    kills: tuple[KillLine, ...] = ()


class SnapshotRecorder:
    """Turns snapshots into lines with the changes since the snapshot before."""

    def __init__(self) -> None:
        self._written: dict[str, Mapping[ObjectKey, Any]] = {}

    def build_line(self, observed: RecommenderSnapshot) -> SnapshotLine:
        """The changes since the last snapshot."""
        kinds: dict[str, Snapshot[Any]] = {
            _VPA: observed.vpas,
            _POD: observed.pods,
            _HVPA: observed.hvpas,
            **observed.workloads,
        }
        steps = {kind: diff_objects(self._written.get(kind, {}), snapshot.objects) for kind, snapshot in kinds.items()}
        self._written = {kind: snapshot.objects for kind, snapshot in kinds.items()}
        changes = observed.changes
        return SnapshotLine(
            {
                kind: KindChangesLine(change.removed, tuple(msgspec.Raw(encode_payload(item)) for item in change.put))
                for kind, change in steps.items()
                if change
            },
            tuple(sorted(changes.vpas)),
            tuple(sorted(changes.namespaces)),
            tuple(map(KillLine.of, changes.kills)),
        )


class SnapshotReplayer:
    """Turns lines into the snapshots that they were written from."""

    def __init__(self) -> None:
        self._stores: dict[str, ObjectStore[Any]] = {
            kind: ObjectStore({BY_NAMESPACE: index_by_namespace}) for kind in _KINDS
        }

    def apply_line(self, line: SnapshotLine) -> RecommenderSnapshot:
        """The snapshot of a line; raises `InvalidRecording`."""
        for kind, change in line.objects.items():
            apply_changes(
                self._stores[kind], change.removed, (decode_payload(item, _KINDS[kind]) for item in change.put)
            )
        return RecommenderSnapshot(
            vpas=self._stores[_VPA].snapshot(),
            pods=self._stores[_POD].snapshot(),
            hvpas=self._stores[_HVPA].snapshot(),
            workloads={kind: self._stores[kind].snapshot() for kind in _WORKLOADS},
            changes=SnapshotChanges(
                frozenset(line.vpas), frozenset(line.namespaces), tuple(kill.to_kill() for kill in line.kills)
            ),
        )
