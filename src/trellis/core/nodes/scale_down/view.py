"""The view that a scale-down is planned on.

A node's utilization is the largest requested share of CPU, memory and extended resources. That of a node with GPUs or
other devices is the requested share of its devices alone, as in Cluster Autoscaler: such a node exists for them, and
costs too much to be kept for pods that fit elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec
import numpy as np

from trellis.api.kube.policies import PodDisruptionBudget
from trellis.core.fit import NodeTable, Occupancy
from trellis.core.fit.devices import find_device_nodes, is_device_resource
from trellis.core.fit.resources import CPU, MEMORY
from trellis.core.nodes.node_groups import InstanceState
from trellis.core.nodes.provisioning.lifecycle import RequestMemory
from trellis.core.nodes.scale_down.drainability import DisruptionBudgets
from trellis.core.nodes.scale_down.remembered_state import ScaleDownMemory
from trellis.core.nodes.settings import ScaleDownSettings, apply_options
from trellis.core.nodes.state.readiness import NodeReadiness
from trellis.core.nodes.state.snapshot import ClusterSnapshot
from trellis.core.usage.columns import BoolColumn, FloatColumn


def compute_node_utilization(table: NodeTable, used: Occupancy) -> FloatColumn:
    """The utilization by node number; a node that has none of a requested resource counts as full.

    Chunks of Buffers do not count: they keep a node only if they fit on no other.
    """
    utilization = np.zeros(table.numbers_end)
    amounts = used.amounts
    has_devices = find_device_nodes(table)
    for name, row in table.resources.items():
        if name not in (CPU, MEMORY) and "/" not in name:
            continue
        offered, requested = table.allocatable[row], amounts[row]
        share = np.divide(requested, offered, out=np.where(requested > 0, 1.0, 0.0), where=offered > 0)
        if not is_device_resource(name):
            share[has_devices] = 0.0
        np.maximum(utilization, share, out=utilization)
    return utilization


def get_utilization_threshold(settings: ScaleDownSettings, *, has_devices: bool) -> float:
    """The utilization above which a node is in use."""
    if has_devices:
        return settings.scale_down_gpu_utilization_threshold
    return settings.scale_down_utilization_threshold


class ScaleDownView(msgspec.Struct, frozen=True):
    """The snapshot, the readiness and utilization of its nodes, disruption budgets, memory and settings.

    `has_devices` are the nodes with GPUs or other devices.
    """

    snapshot: ClusterSnapshot
    readiness: NodeReadiness
    utilization: FloatColumn
    has_devices: BoolColumn
    budgets: DisruptionBudgets
    memory: ScaleDownMemory
    now: float
    settings: ScaleDownSettings

    def get_group(self, name: str) -> str:
        """The name of the group of a node; empty if it has none, or its instance is leaving."""
        member = self.snapshot.node_instances.instances.get(name)
        return member[0] if member is not None and member[1].state is not InstanceState.LEAVING else ""

    def get_group_settings(self, group: str) -> ScaleDownSettings:
        """The settings that apply to a group: its own options before those of the autoscaler."""
        return apply_options(self.settings, self.snapshot.groups[group].group.options)

    def is_being_deleted(self, name: str) -> bool:
        """Whether a node is deleted, or its instance released."""
        member = self.snapshot.node_instances.instances.get(name)
        is_released = member is not None and member[1].state is InstanceState.LEAVING
        return is_released or self.snapshot.nodes[name].metadata.deletion_timestamp is not None


class ScaleDownInput(msgspec.Struct, frozen=True):
    """The input of a scale-down plan.

    `chunk_nodes` and `requests` are those of the last scale-up plan. With `holds_resizes` nodes are kept for the
    replacements of pods whose resizes do not fit, as nodes are ordered for them.
    """

    snapshot: ClusterSnapshot
    budgets: Sequence[PodDisruptionBudget] = ()
    chunk_nodes: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    requests: Mapping[str, RequestMemory] = MappingProxyType({})
    holds_resizes: bool = True
