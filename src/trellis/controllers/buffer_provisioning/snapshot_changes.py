"""Accumulates changes between passes, of each object the last one, and triggers the next pass.

Changes arrive on the event loop, and plans are made in a thread that owns the snapshot and gets changes as a value.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

import msgspec

from trellis.api.kinds.buffer import Buffer
from trellis.api.kube.machines.devices import DeviceClaim, DeviceClaimTemplate, ResourceSlice
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod, PodTemplate
from trellis.api.kube.provisioning.pod_groups import PodGroup
from trellis.api.kube.provisioning.requests import ProvisioningRequest
from trellis.api.kube.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from trellis.api.kube.workloads import DaemonSet
from trellis.core.fit import Storage
from trellis.core.fit.constraints.device_claims import DeviceObjects
from trellis.core.nodes.state.pods import is_daemon_or_mirror_pod, is_unschedulable
from trellis.core.nodes.state.snapshot import ClusterSnapshotChanges
from trellis.kube.watch.cache import ObjectChange
from trellis.kube.watch.informer import Informer
from trellis.runtime.passes import Periodic

# Pods are created in numbers: seconds from the first until a pass starts, unless the last pass took longer.
_DEBOUNCE_SECONDS: Final = 0.25


class PassTrigger:
    """Wakes a loop at the earliest of all given moments. `now` is the clock of those moments."""

    def __init__(self, loop: Periodic, now: Callable[[], float]) -> None:
        self._loop = loop
        self._now = now
        self._timer: asyncio.TimerHandle | None = None

    def soon(self) -> None:
        """Wake the loop soon, because something has changed."""
        last = self._loop.last
        self._wake_in(max(_DEBOUNCE_SECONDS, last.seconds if last is not None else 0.0))

    def at(self, moments: Iterable[float | None]) -> None:
        """Wake the loop at the earliest of these moments."""
        first = min((moment for moment in moments if moment is not None), default=None)
        if first is not None:
            self._wake_in(max(_DEBOUNCE_SECONDS, first - self._now()))

    def _wake_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        when = loop.time() + seconds
        if self._timer is not None and loop.time() < self._timer.when():
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = loop.call_at(when, self._loop.wake)


class ClusterInformers(Protocol):
    """The informers whose changes update a snapshot. Without `daemon_sets` no new node is planned.

    Without those of devices, resource claims are not known.
    """

    nodes: Informer[Node]
    pods: Informer[Pod]
    buffers: Informer[Buffer]
    namespaces: Informer[KubeObject]
    claims: Informer[PersistentVolumeClaim]
    volumes: Informer[PersistentVolume]
    classes: Informer[StorageClass]

    @property
    def daemon_sets(self) -> Informer[DaemonSet] | None:
        """All DaemonSets, if they count."""

    @property
    def device_claims(self) -> Informer[DeviceClaim] | None:
        """All resource claims."""

    @property
    def device_claim_templates(self) -> Informer[DeviceClaimTemplate] | None:
        """All templates of resource claims."""

    @property
    def resource_slices(self) -> Informer[ResourceSlice] | None:
        """All published devices."""

    def storage(self) -> Storage:
        """All claims, volumes and classes as they are now."""

    @property
    def are_devices_known(self) -> bool:
        """Whether these can be followed."""

    def devices(self) -> DeviceObjects:
        """All resource claims, templates and published devices as they are now."""


class RequestInformers(msgspec.Struct, frozen=True):
    """The informers of ProvisioningRequests and of the PodTemplates that they name."""

    requests: Informer[ProvisioningRequest]
    templates: Informer[PodTemplate]


class ChangeAccumulator:
    """Accumulates changes between passes. `covers` says which namespaces' Buffers are accumulated."""

    def __init__(
        self,
        informers: ClusterInformers,
        covers: Callable[[str], bool],
        requests: RequestInformers | None = None,
        pod_groups: Informer[PodGroup] | None = None,
    ) -> None:
        self._informers = informers
        self._pod_groups = pod_groups
        self._requests = requests
        self._covers = covers
        self._wake: Callable[[], None] = lambda: None
        # When a pod was last bound to a node, on the loop's clock.
        self.last_arrival = -math.inf
        # Whether a change may affect the provisioning of a Buffer.
        self.affects_buffers = False
        self._changes = ClusterSnapshotChanges()
        self._has_new_storage = True
        self._has_new_devices = True
        self._were_devices_known = False
        self._subscriptions: list[Callable[[], None]] = []

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Subscribe to all informers; every existing object counts as a change.

        `wake` is called for changes that cannot wait for the next interval.
        """
        informers, self._wake = self._informers, wake
        self._subscriptions += (
            informers.namespaces.subscribe(self._namespace_changed),
            informers.nodes.subscribe(self._node_changed),
            informers.pods.subscribe(self._pod_changed),
            informers.buffers.subscribe(self._buffer_changed),
            *(
                informer.subscribe(self._storage_changed)
                for informer in (informers.claims, informers.volumes, informers.classes)
            ),
        )
        if informers.daemon_sets is not None:
            self._subscriptions.append(informers.daemon_sets.subscribe(self._daemon_set_changed))
        if self._pod_groups is not None:
            self._subscriptions.append(self._pod_groups.subscribe(self._pod_group_changed))
        if self._requests is not None:
            self._subscriptions += (
                self._requests.requests.subscribe(self._request_changed),
                self._requests.templates.subscribe(self._template_changed),
            )
        for informer in (informers.device_claims, informers.device_claim_templates, informers.resource_slices):
            if informer is not None:
                self._subscriptions.append(informer.subscribe(self._devices_changed))

    def unsubscribe(self) -> None:
        """Unsubscribe from all informers, which other components may share."""
        for unsubscribe in self._subscriptions:
            unsubscribe()
        self._subscriptions.clear()

    def take_changes(self) -> ClusterSnapshotChanges:
        """The changes since the last call."""
        changes, self._changes, self.affects_buffers = self._changes, ClusterSnapshotChanges(), False
        if self._has_new_storage:
            changes.storage, self._has_new_storage = self._informers.storage(), False
        # Whether they can be followed changes without an event.
        if self._has_new_devices or self._informers.are_devices_known != self._were_devices_known:
            changes.devices = self._take_devices()
        return changes

    def take_everything(self) -> ClusterSnapshotChanges:
        """All objects, for a new snapshot."""
        informers = self._informers
        self._changes, self._has_new_storage, self.affects_buffers = ClusterSnapshotChanges(), False, False
        return ClusterSnapshotChanges(
            namespaces={
                namespace.metadata.name: namespace.metadata.labels for namespace in informers.namespaces.snapshot()
            },
            nodes={node.metadata.name: node for node in informers.nodes.snapshot()},
            pods=dict(informers.pods.snapshot().objects),
            buffers={
                key: buffer for key, buffer in informers.buffers.snapshot().objects.items() if self._covers(key[0])
            },
            daemon_sets=dict(informers.daemon_sets.snapshot().objects) if informers.daemon_sets is not None else {},
            storage=informers.storage(),
            pod_groups=dict(self._pod_groups.snapshot().objects) if self._pod_groups is not None else {},
            pod_templates=dict(self._requests.templates.snapshot().objects) if self._requests is not None else {},
            provisioning_requests=dict(self._requests.requests.snapshot().objects)
            if self._requests is not None
            else {},
            devices=self._take_devices(),
        )

    def reread_node(self, node: str) -> None:
        """Count a node as changed, because a planned write of it was not applied."""
        self._changes.nodes[node] = self._informers.nodes.get("", node)

    def _namespace_changed(self, change: ObjectChange[KubeObject]) -> None:
        self._changes.namespaces[change.key[1]] = change.new.metadata.labels if change.new is not None else None

    def _node_changed(self, change: ObjectChange[Node]) -> None:
        self._changes.nodes[change.key[1]] = change.new
        if _is_relevant_change(change.old, change.new):
            # A new node belongs to an order that is in flight.
            self.affects_buffers |= change.old is not None
            self._wake()

    def _pod_changed(self, change: ObjectChange[Pod]) -> None:
        self._changes.pods[change.key] = change.new
        if change.new is None or is_daemon_or_mirror_pod(change.new):
            return
        if _is_newly_scheduled(change.old, change.new):
            self.last_arrival = asyncio.get_running_loop().time()
            self.affects_buffers = True
            self._wake()
        elif _needs_node(change.new) and (change.old is None or not _needs_node(change.old)):
            self._wake()

    def _buffer_changed(self, change: ObjectChange[Buffer]) -> None:
        if not self._covers(change.key[0]):
            return
        self._changes.buffers[change.key] = change.new
        if _buffer_key(change.old) != _buffer_key(change.new):
            self.affects_buffers = True
            self._wake()

    def _daemon_set_changed(self, change: ObjectChange[DaemonSet]) -> None:
        # Its status changes with each of its pods.
        before = change.old.spec if change.old is not None else None
        if change.new is None or change.new.spec != before:
            self._changes.daemon_sets[change.key] = change.new

    def _request_changed(self, change: ObjectChange[ProvisioningRequest]) -> None:
        self._changes.provisioning_requests[change.key] = change.new
        # The status changes with the decisions of this process.
        if change.old is None or change.new is None:
            self._wake()

    def _pod_group_changed(self, change: ObjectChange[PodGroup]) -> None:
        self._changes.pod_groups[change.key] = change.new

    def _template_changed(self, change: ObjectChange[PodTemplate]) -> None:
        self._changes.pod_templates[change.key] = change.new
        if change.old is None:
            self._wake()

    def _storage_changed(self, _change: ObjectChange[Any]) -> None:
        self._has_new_storage = True

    def _devices_changed(self, _change: ObjectChange[Any]) -> None:
        self._has_new_devices = True

    def _take_devices(self) -> DeviceObjects:
        devices = self._informers.devices()
        self._has_new_devices, self._were_devices_known = False, devices.known
        return devices


def _is_relevant_change(old: Node | None, new: Node | None) -> bool:
    """Whether a node is new, deleted, or differs in fields that scheduling reads; most changes are heartbeats."""
    return old is None or new is None or _node_key(old) != _node_key(new)


def _node_key(node: Node) -> tuple[object, ...]:
    metadata, ready = (
        node.metadata,
        tuple(condition.status for condition in node.status.conditions if condition.type == "Ready"),
    )
    is_deleted = metadata.deletion_timestamp is not None
    return metadata.uid, metadata.labels, metadata.annotations, is_deleted, node.spec, node.status.allocatable, ready


def _is_newly_scheduled(old: Pod | None, new: Pod) -> bool:
    """Whether a pod has just been bound to a node, perhaps in place of a chunk."""
    return bool(new.spec.node_name) and (old is None or not old.spec.node_name)


def _needs_node(pod: Pod) -> bool:
    """Whether a pod is unschedulable, and not nominated to a node by preemption."""
    return is_unschedulable(pod) and not pod.status.nominated_node_name


def _buffer_key(buffer: Buffer | None) -> tuple[object, ...]:
    """All fields of a Buffer that plans read."""
    if buffer is None:
        return ()
    pods = buffer.status.pod_based_buffer_spec if buffer.status is not None else None
    return buffer.metadata.uid, buffer.metadata.deletion_timestamp, buffer.spec, pods
