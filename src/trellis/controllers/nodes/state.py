"""Accumulates changes between passes, of each object the last one, and triggers the next pass.

Changes arrive on the event loop, and plans are made in a thread that owns the snapshot; what is handed over is a value.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from trellis.api.kinds.buffer import Buffer
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from trellis.api.kube.workloads import DaemonSet
from trellis.core.fit import Storage
from trellis.core.nodes.state.pods import is_daemon_or_mirror_pod, is_unschedulable
from trellis.core.nodes.state.snapshot import ClusterSnapshotChanges
from trellis.kube.watch.cache import ObjectChange
from trellis.kube.watch.informer import Informer
from trellis.runtime.passes import Periodic

# Pods come in numbers: so long the rest of them is waited for. A pass that takes longer is given as long a rest.
_DEBOUNCE_SECONDS: Final = 0.25


class PassTrigger:
    """Wakes a loop, by the earliest of all moments that it is told. `now` is the clock of those moments."""

    def __init__(self, loop: Periodic, now: Callable[[], float]) -> None:
        self._loop = loop
        self._now = now
        self._timer: asyncio.TimerHandle | None = None

    def soon(self) -> None:
        """Something has changed."""
        last = self._loop.last
        self._wake_in(max(_DEBOUNCE_SECONDS, last.seconds if last is not None else 0.0))

    def at(self, moments: Iterable[float | None]) -> None:
        """Something is due at these moments."""
        first = min((each for each in moments if each is not None), default=None)
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
    """The informers whose changes make up the news of a snapshot. Without `daemon_sets` no new node is planned for."""

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

    def storage(self) -> Storage:
        """All claims, volumes and classes as they are now."""


class ChangeAccumulator:
    """Notes all changes; `wake` is called for those that cannot wait for the next interval.

    `covers` says of which namespaces Buffers are kept.
    """

    def __init__(self, watching: ClusterInformers, covers: Callable[[str], bool], wake: Callable[[], None]) -> None:
        self._watching = watching
        self._covers = covers
        self._wake = wake
        # When a pod last came to a node, on the loop's clock.
        self.last_arrival = -math.inf
        # Whether something has happened that may change what is true of a Buffer's room.
        self.matters_to_buffers = False
        self._news = ClusterSnapshotChanges()
        self._stored = True
        self._subscriptions: list[Callable[[], None]] = []

    def subscribe(self) -> None:
        """Begin: everything there is counts as new."""
        watching = self._watching
        self._subscriptions += (
            watching.namespaces.subscribe(self._namespace_changed),
            watching.nodes.subscribe(self._node_changed),
            watching.pods.subscribe(self._pod_changed),
            watching.buffers.subscribe(self._buffer_changed),
            *(each.subscribe(self._storage_changed) for each in (watching.claims, watching.volumes, watching.classes)),
        )
        if watching.daemon_sets is not None:
            self._subscriptions.append(watching.daemon_sets.subscribe(self._daemon_set_changed))

    def unsubscribe(self) -> None:
        """End: an informer that others follow as well goes on, and calls this one no longer."""
        for unsubscribe in self._subscriptions:
            unsubscribe()
        self._subscriptions.clear()

    def take(self) -> ClusterSnapshotChanges:
        """What is new since this was last asked."""
        news, self._news, self.matters_to_buffers = self._news, ClusterSnapshotChanges(), False
        if self._stored:
            news.storage, self._stored = self._watching.storage(), False
        return news

    def take_all(self) -> ClusterSnapshotChanges:
        """Everything there is, for a snapshot that begins anew."""
        watching = self._watching
        self._news, self._stored, self.matters_to_buffers = ClusterSnapshotChanges(), False, False
        return ClusterSnapshotChanges(
            namespaces={each.metadata.name: each.metadata.labels for each in watching.namespaces.snapshot()},
            nodes={each.metadata.name: each for each in watching.nodes.snapshot()},
            pods=dict(watching.pods.snapshot().objects),
            buffers={key: each for key, each in watching.buffers.snapshot().objects.items() if self._covers(key[0])},
            daemon_sets=dict(watching.daemon_sets.snapshot().objects) if watching.daemon_sets is not None else {},
            storage=watching.storage(),
        )

    def look_again(self, node: str) -> None:
        """A node may be another than the snapshot shows, because something that was planned did not happen."""
        self._news.nodes[node] = self._watching.nodes.get("", node)

    def _namespace_changed(self, change: ObjectChange[KubeObject]) -> None:
        self._news.namespaces[change.key[1]] = change.new.metadata.labels if change.new is not None else None

    def _node_changed(self, change: ObjectChange[Node]) -> None:
        self._news.nodes[change.key[1]] = change.new
        if _node_matters(change.old, change.new):
            # One that comes belongs to an order that is under way.
            self.matters_to_buffers |= change.old is not None
            self._wake()

    def _pod_changed(self, change: ObjectChange[Pod]) -> None:
        self._news.pods[change.key] = change.new
        if change.new is None or is_daemon_or_mirror_pod(change.new):
            return
        if _is_newly_scheduled(change.old, change.new):
            self.last_arrival = asyncio.get_running_loop().time()
            self.matters_to_buffers = True
            self._wake()
        elif _needs_node(change.new) and (change.old is None or not _needs_node(change.old)):
            self._wake()

    def _buffer_changed(self, change: ObjectChange[Buffer]) -> None:
        if not self._covers(change.key[0]):
            return
        self._news.buffers[change.key] = change.new
        if _buffer_key(change.old) != _buffer_key(change.new):
            self.matters_to_buffers = True
            self._wake()

    def _daemon_set_changed(self, change: ObjectChange[DaemonSet]) -> None:
        # Its status changes with each of its pods.
        before = change.old.spec if change.old is not None else None
        if change.new is None or change.new.spec != before:
            self._news.daemon_sets[change.key] = change.new

    def _storage_changed(self, _change: ObjectChange[Any]) -> None:
        self._stored = True


def _node_matters(old: Node | None, new: Node | None) -> bool:
    """Whether a node came, went, or can be used otherwise than before; most changes say that it is still there."""
    return old is None or new is None or _node_key(old) != _node_key(new)


def _node_key(node: Node) -> tuple[object, ...]:
    metadata, ready = node.metadata, tuple(each.status for each in node.status.conditions if each.type == "Ready")
    gone = metadata.deletion_timestamp is not None
    return metadata.uid, metadata.labels, metadata.annotations, gone, node.spec, node.status.allocatable, ready


def _is_newly_scheduled(old: Pod | None, new: Pod) -> bool:
    """Whether a pod has come to a node, where a chunk may have been."""
    return bool(new.spec.node_name) and (old is None or not old.spec.node_name)


def _needs_node(pod: Pod) -> bool:
    """Whether the scheduler has no node for a pod, and none in view that others make way on."""
    return is_unschedulable(pod) and not pod.status.nominated_node_name


def _buffer_key(buffer: Buffer | None) -> tuple[object, ...]:
    """All that is read of a Buffer; the rest of its status is what is said about it."""
    if buffer is None:
        return ()
    pods = buffer.status.pod_based_buffer_spec if buffer.status is not None else None
    return buffer.metadata.uid, buffer.metadata.deletion_timestamp, buffer.spec, pods
