"""The state of a cluster, or of a part of it, at one time: objects of all kinds that decide, and usage.

It is read from the lines of a dump, whether they come from a file or straight from a cluster: `explain` and the
simulator cannot tell the difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from trellis.api.kinds.buffer import Buffer
from trellis.api.kinds.checkpoint import VerticalPodAutoscalerCheckpoint
from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.coordination import ConfigMap, Event, Lease, Namespace
from trellis.api.kube.decoder import decode_object
from trellis.api.kube.machines.devices import DeviceClaim, DeviceClaimTemplate, ResourceSlice
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.observed_pods import ObservedPod
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRange, PodDisruptionBudget, ResourceQuota
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.kube.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from trellis.api.registry import BUFFER, CHECKPOINT, HVPA, VPA
from trellis.base.errors import InvalidRecording, UnreadableObject
from trellis.base.json_lines import HEADER, decode_payload, read_header, read_lines
from trellis.core.cluster import dump_format
from trellis.core.cluster.dump_format import (
    DUMPED_KINDS,
    FREEZE_CONFIG_MAP,
    WORKLOAD_KINDS,
    ContainerHistory,
    DumpedComponent,
    DumpedScale,
    DumpInfo,
    MissingData,
    UsageColumns,
)
from trellis.core.cluster.owners import Owners, ScaleInfo, TargetRef
from trellis.core.cluster.store import (
    BY_NAMESPACE,
    BY_NODE,
    BY_OWNER,
    ObjectKey,
    ObjectStore,
    Snapshot,
    index_by_namespace,
    index_by_node,
    index_by_owner,
    key_of,
)


class ClusterState(msgspec.Struct, frozen=True):
    """One state. Snapshots are indexed `BY_NAMESPACE` and `BY_OWNER`, pods also `BY_NODE`.

    `observed_pods` are the same pods as `pods`, read as the recommender reads them. `freeze` is what the ConfigMap
    says that stops all changes; None if there is none. `node_groups` is the ConfigMap that declares node groups, if
    it was requested. `reported_groups` is the line with the groups that providers reported, if they were asked;
    `read_reported_groups` of the explanations reads it. An object that cannot be read is named in its snapshot.
    `replicas` has those of Buffers' targets whose kinds are not well known, from their scales.
    """

    about: DumpInfo
    release: str
    missing: tuple[MissingData, ...]
    vpas: Snapshot[VerticalPodAutoscaler]
    checkpoints: Snapshot[VerticalPodAutoscalerCheckpoint]
    hvpas: Snapshot[Hvpa]
    buffers: Snapshot[Buffer]
    pods: Snapshot[Pod]
    observed_pods: Snapshot[ObservedPod]
    workloads: Mapping[str, Snapshot[KubeObject]]
    scales: Mapping[TargetRef, ScaleInfo]
    replicas: Mapping[TargetRef, int]
    limit_ranges: Snapshot[LimitRange]
    quotas: Snapshot[ResourceQuota]
    hpas: Snapshot[HorizontalPodAutoscaler]
    pdbs: Snapshot[PodDisruptionBudget]
    nodes: Snapshot[Node]
    claims: Snapshot[PersistentVolumeClaim]
    volumes: Snapshot[PersistentVolume]
    storage_classes: Snapshot[StorageClass]
    device_claims: Snapshot[DeviceClaim]
    device_claim_templates: Snapshot[DeviceClaimTemplate]
    resource_slices: Snapshot[ResourceSlice]
    namespaces: Snapshot[Namespace]
    leases: Snapshot[Lease]
    events: Snapshot[Event]
    freeze: Mapping[str, str] | None
    node_groups: ConfigMap | None
    reported_groups: msgspec.Raw | None
    components: tuple[DumpedComponent, ...]
    usage: UsageColumns
    history: tuple[ContainerHistory, ...]
    is_complete: bool = True
    """Whether its last line is there: it was written and copied to the end."""

    @classmethod
    def from_dump(cls, lines: bytes | Iterable[bytes]) -> ClusterState:
        """The state that the lines of a dump hold; raises `InvalidRecording` if they are no dump."""
        reader = _DumpReader()
        for number, (kind, data) in enumerate(read_lines(lines)):
            if number == 0:
                reader.begin(data)
            else:
                reader.read_line(kind, data)
        return reader.build_state()

    @property
    def time(self) -> float:
        """When it was collected, in seconds since 1970."""
        return self.about.time

    @property
    def owners(self) -> Owners:
        """The controllers of objects."""
        return Owners({kind: snapshot.get for kind, snapshot in self.workloads.items()}, self.scales)

    def component(self, name: str) -> DumpedComponent | None:
        """The `recommender`, `updater` or `admission-controller`, if its Deployment could be seen."""
        return next((component for component in self.components if component.component == name), None)

    def missing_in(self, namespace: str) -> tuple[MissingData, ...]:
        """Missing data that matters for a namespace."""
        return tuple(missing for missing in self.missing if missing.where in ("", namespace))


class _ObjectHeader(msgspec.Struct):
    """The kind and the name of an object's document."""

    class _Name(msgspec.Struct):
        name: str = ""
        namespace: str = ""

    kind: str = ""
    metadata: _Name = msgspec.field(default_factory=_Name)

    @property
    def key(self) -> ObjectKey:
        return self.metadata.namespace, self.metadata.name


class _DumpReader:
    """Builds a state from the lines of a dump."""

    def __init__(self) -> None:
        indexes = {BY_NAMESPACE: index_by_namespace, BY_OWNER: index_by_owner}
        with_nodes: dict[str, Any] = {**indexes, BY_NODE: index_by_node}
        self._stores: dict[str, ObjectStore[Any]] = {
            kind: ObjectStore(with_nodes if struct is Pod else indexes) for kind, struct in DUMPED_KINDS.items()
        }
        self._observed: ObjectStore[ObservedPod] = ObjectStore(indexes)
        self._release = ""
        self._about: DumpInfo | None = None
        self._missing: list[MissingData] = []
        self._scales: dict[TargetRef, ScaleInfo] = {}
        self._replicas: dict[TargetRef, int] = {}
        self._components: list[DumpedComponent] = []
        self._usage: list[UsageColumns] = []
        self._history: list[ContainerHistory] = []
        self._reported_groups: msgspec.Raw | None = None
        self._ended = False

    def begin(self, data: msgspec.Raw) -> None:
        header = read_header(HEADER, data)
        if header.component != dump_format.DUMP:
            raise InvalidRecording(header.component, "recorded this; only a file of `trellis dump` is a dump")
        self._release = header.release

    def read_line(self, kind: str, data: msgspec.Raw) -> None:
        """One line. A kind that a later release added is no reason to refuse all the others."""
        match kind:
            case dump_format.ABOUT:
                self._about = decode_payload(data, DumpInfo)
            case dump_format.OBJECT:
                self._read_object(data)
            case dump_format.SCALE:
                line = decode_payload(data, DumpedScale)
                self._scales[line.target] = line.scale
                if line.replicas is not None:
                    self._replicas[line.target] = line.replicas
            case dump_format.COMPONENT:
                self._components.append(decode_payload(data, DumpedComponent))
            case dump_format.MISSING:
                self._missing.append(decode_payload(data, MissingData))
            case dump_format.USAGE:
                self._usage.append(decode_payload(data, UsageColumns))
            case dump_format.HISTORY:
                self._history.append(decode_payload(data, ContainerHistory))
            case dump_format.REPORTED_GROUPS:
                self._reported_groups = data.copy()
            case dump_format.END:
                self._ended = True

    def _read_object(self, data: msgspec.Raw) -> None:
        header = decode_payload(data, _ObjectHeader)
        struct = DUMPED_KINDS.get(header.kind)
        if struct is None:
            return
        store = self._stores[header.kind]
        try:
            decoded = decode_object(data, struct)
            store.put(key_of(decoded), decoded)
            if struct is Pod:
                self._observed.put(key_of(decoded), decode_object(data, ObservedPod))
        except UnreadableObject as error:
            store.reject(header.key, str(error))

    def build_state(self) -> ClusterState:
        if self._about is None:
            raise InvalidRecording("", "has no scope line: the dump was stopped before it")
        snapshots = {kind: store.snapshot() for kind, store in self._stores.items()}
        maps: Snapshot[ConfigMap] = snapshots[ConfigMap.__name__]
        return ClusterState(
            about=self._about,
            release=self._release,
            missing=tuple(self._missing),
            vpas=snapshots[VPA.name],
            checkpoints=snapshots[CHECKPOINT.name],
            hvpas=snapshots[HVPA.name],
            buffers=snapshots[BUFFER.name],
            pods=snapshots[Pod.__name__],
            observed_pods=self._observed.snapshot(),
            workloads={kind_type.__name__: snapshots[kind_type.__name__] for kind_type in WORKLOAD_KINDS},
            scales=self._scales,
            replicas=self._replicas,
            limit_ranges=snapshots[LimitRange.__name__],
            quotas=snapshots[ResourceQuota.__name__],
            hpas=snapshots[HorizontalPodAutoscaler.__name__],
            pdbs=snapshots[PodDisruptionBudget.__name__],
            nodes=snapshots[Node.__name__],
            claims=snapshots[PersistentVolumeClaim.__name__],
            volumes=snapshots[PersistentVolume.__name__],
            storage_classes=snapshots[StorageClass.__name__],
            device_claims=snapshots["ResourceClaim"],
            device_claim_templates=snapshots["ResourceClaimTemplate"],
            resource_slices=snapshots["ResourceSlice"],
            namespaces=snapshots[Namespace.__name__],
            leases=snapshots[Lease.__name__],
            events=snapshots[Event.__name__],
            freeze=next(
                (config_map.data for config_map in maps if config_map.metadata.name == FREEZE_CONFIG_MAP), None
            ),
            node_groups=next(
                (config_map for config_map in maps if config_map.metadata.name != FREEZE_CONFIG_MAP), None
            ),
            reported_groups=self._reported_groups,
            components=tuple(self._components),
            usage=UsageColumns.concatenate(self._usage),
            history=tuple(self._history),
            is_complete=self._ended,
        )
