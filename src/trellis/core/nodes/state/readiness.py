"""Readiness of nodes: ready, starting, leaving or unready.

A node whose group has GPUs or other devices is up when it has them: until its device plugin has registered, a node may
be Ready without them, and no pod that needs them fits there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from trellis.api.kube.nodes import Node
from trellis.core.fit import NodeTable
from trellis.core.fit.devices import is_device_resource
from trellis.core.fit.resources import parse_nanos_or_zero
from trellis.core.nodes.node_groups import InstanceState, NodeGroup
from trellis.core.nodes.settings import ScaleDownSettings, ScaleUpSettings, apply_options
from trellis.core.nodes.state.snapshot import ClusterSnapshot
from trellis.core.nodes.state.transient_taints import TransientTaints
from trellis.core.usage.columns import BoolColumn

# Keeps pods away from a node that this autoscaler is about to remove.
LEAVING_TAINT: Final = "trellis.x-k8s.io/leaving"
# Makes the scheduler prefer other nodes to one that is unneeded; it keeps no pod away.
UNNEEDED_TAINT: Final = "trellis.x-k8s.io/unneeded"
# Taints of nodes that this or another autoscaler is about to remove.
_LEAVING_TAINTS: Final = frozenset({LEAVING_TAINT, "ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"})
# Taints that a control plane removes a moment after a node is Ready; until then no pod is placed on it.
_NOT_READY_TAINTS: Final = frozenset(
    f"node.kubernetes.io/{suffix}" for suffix in ("not-ready", "unreachable", "network-unavailable")
)
_NOT_UP: Final = (InstanceState.ORDERED, InstanceState.FAILED)


class NodeReadiness(msgspec.Struct, frozen=True):
    """Masks over the table; every node is in one of them.

    A node that is `starting` belongs to an instance that is not up yet: the template of its group counts, and not what
    the node reports. A node that is `leaving` is deleted, or tainted because it will be. Of the nodes that are
    `unready`, those `without_devices` lack nothing but all of a device of their group.
    """

    ready: BoolColumn
    starting: BoolColumn
    leaving: BoolColumn
    unready: BoolColumn
    without_devices: BoolColumn


def classify_nodes(
    snapshot: ClusterSnapshot, now: float, settings: ScaleUpSettings | ScaleDownSettings
) -> NodeReadiness:
    """Classify all nodes. Until its instance is too old for it, a node that is not ready is starting."""
    provision_seconds = {
        name: apply_options(settings, state.group.options).max_node_provision_seconds
        for name, state in snapshot.groups.items()
    }
    table, instances = snapshot.table, snapshot.node_instances.instances
    starting, leaving, without_devices = (np.zeros(table.numbers_end, dtype=np.bool_) for _ in range(3))
    devices = {name: rows for name, state in snapshot.groups.items() if (rows := find_device_rows(table, state.group))}
    is_up = table.ready[: table.numbers_end].copy()
    for name, node in snapshot.nodes.items():
        number, member = table.find(name), instances.get(name)
        instance = member[1] if member is not None else None
        is_up[number] &= not has_not_ready_taint(node, settings.transient_taints)
        if member is not None and member[0] in devices and is_up[number]:
            without_devices[number] = lacks_devices(table, number, devices[member[0]])
            is_up[number] = not without_devices[number]
        if is_leaving(node) or (instance is not None and instance.state is InstanceState.LEAVING):
            leaving[number] = True
        elif member is not None and instance is not None:
            starting[number] = instance.state in _NOT_UP or (
                not is_up[number] and now - instance.since < provision_seconds[member[0]]
            )
    remaining = table.exists & ~starting & ~leaving
    ready = remaining & is_up
    unready = remaining & ~ready
    return NodeReadiness(ready, starting, leaving, unready, unready & without_devices)


def find_device_rows(table: NodeTable, group: NodeGroup) -> list[int]:
    """The rows of the devices that nodes of a group should have."""
    allocatable = group.template.status.allocatable
    return [
        table.row(name) for name, text in allocatable.items() if is_device_resource(name) and parse_nanos_or_zero(text)
    ]


def lacks_devices(table: NodeTable, number: int, device_rows: Sequence[int]) -> bool:
    """Whether a node has none of one of the devices."""
    return any(not table.allocatable[row, number] for row in device_rows)


def has_not_ready_taint(node: Node, transient_taints: TransientTaints) -> bool:
    """Whether a control plane or a startup taint keeps pods away from a node, although its condition may be Ready."""
    return any(taint.key in _NOT_READY_TAINTS or transient_taints.is_startup(taint) for taint in node.spec.taints)


def is_leaving(node: Node) -> bool:
    """Whether a node is deleted, or marked as one that will be."""
    if node.metadata.deletion_timestamp is not None:
        return True
    return any(taint.key in _LEAVING_TAINTS for taint in node.spec.taints)
