"""What has changed in the cluster since a plan was last made? Of each object what was last seen, and no more."""

from __future__ import annotations

import msgspec

from trellis.api.buffer import Buffer
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.slices import Labels
from trellis.api.kube.workloads import DaemonSet
from trellis.core.fit import Storage
from trellis.core.model.keys import Key
from trellis.core.nodes.snapshot import Snapshot


class News(msgspec.Struct):
    """What is new; None says that an object is gone."""

    namespaces: dict[str, Labels | None] = msgspec.field(default_factory=dict)
    nodes: dict[str, Node | None] = msgspec.field(default_factory=dict)
    pods: dict[Key, Pod | None] = msgspec.field(default_factory=dict)
    buffers: dict[Key, Buffer | None] = msgspec.field(default_factory=dict)
    daemon_sets: dict[Key, DaemonSet | None] = msgspec.field(default_factory=dict)
    storage: Storage | None = None

    def put_into(self, snapshot: Snapshot) -> None:
        """Have a snapshot show it. Volumes come before the pods that have them."""
        for name, labels in self.namespaces.items():
            snapshot.put_namespace(name, labels)
        if self.storage is not None:
            snapshot.put_storage(self.storage)
        for name, node in self.nodes.items():
            snapshot.put_node(name, node)
        for key, pod in self.pods.items():
            snapshot.put_pod(key, pod)
        for key, buffer in self.buffers.items():
            snapshot.put_buffer(key, buffer)
        for key, daemon_set in self.daemon_sets.items():
            snapshot.put_daemon_set(key, daemon_set)
