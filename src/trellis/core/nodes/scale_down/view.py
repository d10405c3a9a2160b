"""The view that a scale-down is planned on: snapshot, readiness, utilization, disruption budgets and memory.

A node's utilization is the largest requested share of CPU, memory and extended resources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec
import numpy as np

from trellis.api.kube.policies import PodDisruptionBudget
from trellis.core.fit import NodeTable, Occupancy
from trellis.core.fit.resources import CPU, MEMORY
from trellis.core.nodes.node_groups import InstanceState
from trellis.core.nodes.scale_down.disruption_budgets import DisruptionBudgets
from trellis.core.nodes.scale_down.memory import ScaleDownMemory
from trellis.core.nodes.scale_down.replacement_pods import StartupBoosts, no_boosts
from trellis.core.nodes.settings import ScaleDownSettings
from trellis.core.nodes.state.readiness import NodeReadiness
from trellis.core.nodes.state.snapshot import ClusterSnapshot
from trellis.core.usage.columns import FloatColumn


def node_utilization(table: NodeTable, used: Occupancy) -> FloatColumn:
    """Of each number of the table; a node that offers nothing of what is asked for counts as full.

    Chunks of Buffers are not in it: they hold a node only if they would find no other.
    """
    utilization = np.zeros(table.reach)
    amounts = used.amounts
    for name, row in table.resources.items():
        if name not in (CPU, MEMORY) and "/" not in name:
            continue
        offered, requested = table.allocatable[row], amounts[row]
        share = np.divide(requested, offered, out=np.where(requested > 0, 1.0, 0.0), where=offered > 0)
        np.maximum(utilization, share, out=utilization)
    return utilization


class ScaleDownView(msgspec.Struct, frozen=True):
    """The cluster, how its nodes stand and how much of each is `used`, what is remembered, and by which figures."""

    snapshot: ClusterSnapshot
    readiness: NodeReadiness
    utilization: FloatColumn
    budgets: DisruptionBudgets
    memory: ScaleDownMemory
    now: float
    settings: ScaleDownSettings

    def group_of(self, name: str) -> str:
        """The group that counts a node as one of its own, empty if none does."""
        member = self.snapshot.node_instances.instances.get(name)
        return member[0] if member is not None and member[1].state is not InstanceState.LEAVING else ""

    def is_being_deleted(self, name: str) -> bool:
        """Whether a node is deleted, or given back to its group."""
        member = self.snapshot.node_instances.instances.get(name)
        is_given_back = member is not None and member[1].state is InstanceState.LEAVING
        return is_given_back or self.snapshot.nodes[name].metadata.deletion_timestamp is not None


class ScaleDownInput(msgspec.Struct, frozen=True):
    """What a plan is made from.

    `seats` are those that the last plan for more nodes remembered; `starts` says with how much CPU the successor of a
    pod would start.
    """

    snapshot: ClusterSnapshot
    budgets: Sequence[PodDisruptionBudget] = ()
    chunk_nodes: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    startup_boosts: StartupBoosts = no_boosts
