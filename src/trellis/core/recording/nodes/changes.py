"""Lines of a recording with the changes of the cluster, and the changes read back from such lines, in order.

A line has some objects, and only what no line before has: an object is written as it is, or with its resource version
alone where nothing else has changed. Of a Buffer only the part that decisions read is written: no environments, no
commands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from trellis.api.kinds.buffer import Buffer, BufferSpec, BufferStatus
from trellis.api.kube.machines.devices import DeviceClaim, DeviceClaimTemplate, ResourceSlice
from trellis.api.kube.meta import KubeObject, ObjectMeta
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod, PodTemplate
from trellis.api.kube.provisioning.pod_groups import PodGroup
from trellis.api.kube.provisioning.requests import ProvisioningRequest
from trellis.api.kube.slices import Labels
from trellis.api.kube.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from trellis.api.kube.workloads import DaemonSet
from trellis.base.errors import InvalidRecording
from trellis.core.cluster.store import ObjectKey, ObjectStore
from trellis.core.fit import Storage
from trellis.core.fit.constraints.device_claims import UNKNOWN_DEVICES, DeviceObjects
from trellis.core.nodes.state.snapshot import ClusterSnapshotChanges
from trellis.core.recording.buffers import select_read_fields
from trellis.core.recording.format import ObjectChanges, apply_changes, diff_objects

# The lines with changes of the cluster.
CHANGES: Final = "changes"


T = TypeVar("T", Node, Pod, Buffer, DaemonSet, PodTemplate, ProvisioningRequest, PodGroup)


class ObjectLine(msgspec.Struct, Generic[T], frozen=True, omit_defaults=True):
    """An object as it is `now`. A `version` alone means that only the version changed; neither, that it was deleted."""

    key: ObjectKey
    now: T | None = None
    version: str = ""


class RecordedObjects(Generic[T]):
    """Objects of one kind, as they were last written or read."""

    def __init__(self) -> None:
        self._objects: dict[ObjectKey, T] = {}

    def build_line(self, key: ObjectKey, now: T | None) -> ObjectLine[T]:
        """The line of an object, against the object last written."""
        if now is None:
            self._objects.pop(key, None)
            return ObjectLine(key)
        before, version = self._objects.get(key), now.metadata.resource_version
        self._objects[key] = now
        if before is not None and version and _with_version(before, version) == now:
            return ObjectLine(key, version=version)
        return ObjectLine(key, now)

    def apply_line(self, line: ObjectLine[T]) -> T | None:
        """The object of a line; None if it is gone."""
        now = line.now
        if now is None and line.version:
            before = self._objects.get(line.key)
            if before is None:
                raise InvalidRecording("/".join(line.key), "is referenced, but no line before declares it")
            now = _with_version(before, line.version)
        if now is None:
            self._objects.pop(line.key, None)
        else:
            self._objects[line.key] = now
        return now


def _with_version(before: T, version: str) -> T:
    return replace(before, metadata=replace(before.metadata, resource_version=version))


def trim_buffer(buffer: Buffer | None) -> Buffer | None:
    """The fields of a Buffer that plans read."""
    if buffer is None:
        return None
    spec, status = buffer.spec, buffer.status
    pods = status.pod_based_buffer_spec if status is not None else None
    if pods is not None and pods.pod_spec is not None:
        pods = replace(pods, pod_spec=select_read_fields(pods.pod_spec))
    return Buffer(
        metadata=_trim_metadata(buffer.metadata),
        spec=BufferSpec(type=spec.type, recreation_strategy=spec.recreation_strategy, pod_selector=spec.pod_selector),
        status=BufferStatus(pod_based_buffer_spec=pods),
    )


def trim_daemon_set(daemon_set: DaemonSet | None) -> DaemonSet | None:
    """The fields of a DaemonSet that plans read, without annotations, which may hold its applied manifest."""
    return DaemonSet(_trim_metadata(daemon_set.metadata), daemon_set.spec) if daemon_set is not None else None


def trim_template(template: PodTemplate | None) -> PodTemplate | None:
    """The fields of a PodTemplate that plans read, without annotations."""
    return PodTemplate(_trim_metadata(template.metadata), template.template) if template is not None else None


def trim_request(request: ProvisioningRequest | None) -> ProvisioningRequest | None:
    """The fields of a ProvisioningRequest that plans read, without labels and annotations."""
    if request is None:
        return None
    metadata = replace(_trim_metadata(request.metadata), creation_timestamp=request.metadata.creation_timestamp)
    return ProvisioningRequest(metadata, request.spec, request.status)


def trim_pod_group(group: PodGroup | None) -> PodGroup | None:
    """The fields of a PodGroup that plans read."""
    return PodGroup(_trim_metadata(group.metadata), group.spec) if group is not None else None


def _trim_metadata(metadata: ObjectMeta) -> ObjectMeta:
    return ObjectMeta(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        deletion_timestamp=metadata.deletion_timestamp,
    )


K = TypeVar("K", bound=KubeObject)

# Objects in a line: all pods of a large cluster in one would be in memory several times.
_MOST: Final = 500


class StorageLine(msgspec.Struct, frozen=True):
    """Changes of claims, volumes and storage classes."""

    claims: ObjectChanges[PersistentVolumeClaim]
    volumes: ObjectChanges[PersistentVolume]
    classes: ObjectChanges[StorageClass]


class DevicesLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """Changes of resource claims, templates and published devices; without `known`, they are not known any more."""

    claims: ObjectChanges[DeviceClaim]
    templates: ObjectChanges[DeviceClaimTemplate]
    slices: ObjectChanges[ResourceSlice]
    known: bool = True


class ChangesLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of the changes of a cluster snapshot."""

    namespaces: dict[str, Labels | None] = {}
    storage: StorageLine | None = None
    devices: DevicesLine | None = None
    nodes: tuple[ObjectLine[Node], ...] = ()
    pods: tuple[ObjectLine[Pod], ...] = ()
    buffers: tuple[ObjectLine[Buffer], ...] = ()
    daemon_sets: tuple[ObjectLine[DaemonSet], ...] = ()
    pod_templates: tuple[ObjectLine[PodTemplate], ...] = ()
    provisioning_requests: tuple[ObjectLine[ProvisioningRequest], ...] = ()
    pod_groups: tuple[ObjectLine[PodGroup], ...] = ()


class ChangesWriter:
    """Builds the lines of changes, against the objects last written."""

    def __init__(self) -> None:
        self._nodes: RecordedObjects[Node] = RecordedObjects()
        self._pods: RecordedObjects[Pod] = RecordedObjects()
        self._buffers: RecordedObjects[Buffer] = RecordedObjects()
        self._daemon_sets: RecordedObjects[DaemonSet] = RecordedObjects()
        self._templates: RecordedObjects[PodTemplate] = RecordedObjects()
        self._requests: RecordedObjects[ProvisioningRequest] = RecordedObjects()
        self._pod_groups: RecordedObjects[PodGroup] = RecordedObjects()
        self._storage = Storage()
        self._devices = UNKNOWN_DEVICES

    def build_lines(self, changes: ClusterSnapshotChanges) -> Iterator[ChangesLine]:
        """The lines of changes, in the order in which a snapshot applies them."""
        if changes.namespaces or changes.storage is not None:
            yield ChangesLine(
                changes.namespaces, self._diff_storage(changes.storage) if changes.storage is not None else None
            )
        if changes.devices is not None and changes.devices != self._devices:
            yield ChangesLine(devices=self._diff_devices(changes.devices))
        for nodes in _split(self._nodes.build_line(("", name), node) for name, node in changes.nodes.items()):
            yield ChangesLine(nodes=nodes)
        for pods in _split(self._pods.build_line(key, pod) for key, pod in changes.pods.items()):
            yield ChangesLine(pods=pods)
        for buffers in _split(
            self._buffers.build_line(key, trim_buffer(buffer)) for key, buffer in changes.buffers.items()
        ):
            yield ChangesLine(buffers=buffers)
        for sets in _split(
            self._daemon_sets.build_line(key, trim_daemon_set(daemon_set))
            for key, daemon_set in changes.daemon_sets.items()
        ):
            yield ChangesLine(daemon_sets=sets)
        for templates in _split(
            self._templates.build_line(key, trim_template(template)) for key, template in changes.pod_templates.items()
        ):
            yield ChangesLine(pod_templates=templates)
        for requests in _split(
            self._requests.build_line(key, trim_request(request))
            for key, request in changes.provisioning_requests.items()
        ):
            yield ChangesLine(provisioning_requests=requests)
        for groups in _split(
            self._pod_groups.build_line(key, trim_pod_group(group)) for key, group in changes.pod_groups.items()
        ):
            yield ChangesLine(pod_groups=groups)

    def _diff_storage(self, now: Storage) -> StorageLine:
        before, self._storage = self._storage, now
        return StorageLine(
            diff_objects(before.claims, now.claims),
            diff_objects(_by_key(before.volumes), _by_key(now.volumes)),
            diff_objects(_by_key(before.classes), _by_key(now.classes)),
        )

    def _diff_devices(self, now: DeviceObjects) -> DevicesLine:
        before, self._devices = self._devices, now
        return DevicesLine(
            diff_objects(before.claims, now.claims),
            diff_objects(before.templates, now.templates),
            diff_objects(_by_key(before.slices), _by_key(now.slices)),
            now.known,
        )


class ChangesReader:
    """Reads the lines of changes, against the objects last read."""

    def __init__(self) -> None:
        self._nodes: RecordedObjects[Node] = RecordedObjects()
        self._pods: RecordedObjects[Pod] = RecordedObjects()
        self._buffers: RecordedObjects[Buffer] = RecordedObjects()
        self._daemon_sets: RecordedObjects[DaemonSet] = RecordedObjects()
        self._templates: RecordedObjects[PodTemplate] = RecordedObjects()
        self._requests: RecordedObjects[ProvisioningRequest] = RecordedObjects()
        self._pod_groups: RecordedObjects[PodGroup] = RecordedObjects()
        self._claims: ObjectStore[PersistentVolumeClaim] = ObjectStore()
        self._volumes: ObjectStore[PersistentVolume] = ObjectStore()
        self._classes: ObjectStore[StorageClass] = ObjectStore()
        self._device_claims: ObjectStore[DeviceClaim] = ObjectStore()
        self._device_claim_templates: ObjectStore[DeviceClaimTemplate] = ObjectStore()
        self._resource_slices: ObjectStore[ResourceSlice] = ObjectStore()

    def read_changes(self, line: ChangesLine) -> ClusterSnapshotChanges:
        """The changes of a line; raises `InvalidRecording`."""
        return ClusterSnapshotChanges(
            namespaces=line.namespaces,
            nodes={item.key[1]: self._nodes.apply_line(item) for item in line.nodes},
            pods={item.key: self._pods.apply_line(item) for item in line.pods},
            buffers={item.key: self._buffers.apply_line(item) for item in line.buffers},
            daemon_sets={item.key: self._daemon_sets.apply_line(item) for item in line.daemon_sets},
            storage=self._apply_storage(line.storage) if line.storage is not None else None,
            pod_templates={item.key: self._templates.apply_line(item) for item in line.pod_templates},
            provisioning_requests={item.key: self._requests.apply_line(item) for item in line.provisioning_requests},
            pod_groups={item.key: self._pod_groups.apply_line(item) for item in line.pod_groups},
            devices=self._apply_devices(line.devices) if line.devices is not None else None,
        )

    def _apply_devices(self, line: DevicesLine) -> DeviceObjects:
        apply_changes(self._device_claims, line.claims.removed, line.claims.put)
        apply_changes(self._device_claim_templates, line.templates.removed, line.templates.put)
        apply_changes(self._resource_slices, line.slices.removed, line.slices.put)
        return DeviceObjects(
            line.known,
            self._device_claims.snapshot().objects,
            self._device_claim_templates.snapshot().objects,
            {slice_.metadata.name: slice_ for slice_ in self._resource_slices.snapshot()},
        )

    def _apply_storage(self, line: StorageLine) -> Storage:
        apply_changes(self._claims, line.claims.removed, line.claims.put)
        apply_changes(self._volumes, line.volumes.removed, line.volumes.put)
        apply_changes(self._classes, line.classes.removed, line.classes.put)
        return Storage(
            claims=self._claims.snapshot().objects,
            volumes={volume.metadata.name: volume for volume in self._volumes.snapshot()},
            classes={storage_class.metadata.name: storage_class for storage_class in self._classes.snapshot()},
        )


def _by_key(named: Mapping[str, K]) -> dict[ObjectKey, K]:
    return {("", name): value for name, value in named.items()}


def _split(lines: Iterable[ObjectLine[Any]]) -> Iterator[tuple[ObjectLine[Any], ...]]:
    rest = iter(lines)
    while piece := tuple(islice(rest, _MOST)):
        yield piece
