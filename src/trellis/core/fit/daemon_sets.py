"""The DaemonSet pods that a new node runs before any other pod.

The rules are those of `NodeShouldRunDaemonPod` in Kubernetes 1.36: the pods tolerate the taints of node conditions and
of unschedulable nodes, and no other taints.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
import numpy as np

from trellis.api.kube.placement import Toleration
from trellis.api.kube.pods import PodSpec
from trellis.api.kube.workloads import DaemonSet
from trellis.core.fit.demand import Demand
from trellis.core.fit.filters import find_fitting_nodes
from trellis.core.fit.node_table import NodeTable
from trellis.core.fit.occupancy import Occupancy
from trellis.core.usage.columns import BoolColumn

_TOLERATIONS: Final = tuple(
    Toleration(f"node.kubernetes.io/{condition}", "Exists", effect=effect)
    for condition, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
_ON_HOST_NETWORK: Final = Toleration("node.kubernetes.io/network-unavailable", "Exists", effect="NoSchedule")


def build_daemon_demand(daemon_set: DaemonSet) -> Demand:
    """The demand of each pod of a DaemonSet, as its controller creates it."""
    return Demand.of(build_daemon_pod_spec(daemon_set.spec.template.spec))


def build_daemon_pod_spec(template: PodSpec) -> PodSpec:
    """The spec of the pods of a DaemonSet: that of its template, with the tolerations its controller adds."""
    added = (*_TOLERATIONS, _ON_HOST_NETWORK) if template.host_network else _TOLERATIONS
    return msgspec.structs.replace(template, tolerations=(*template.tolerations, *added))


def place_daemon_pods(
    table: NodeTable, used: Occupancy, daemons: Iterable[Demand], candidates: BoolColumn | None = None
) -> list[BoolColumn]:
    """Place one pod of each DaemonSet on every node that it fits on, in their order. Returns the nodes of each.

    `candidates` restricts the nodes. A pod that does not fit beside the pods before it is not placed.
    """
    return [_place_daemon_pod(table, used, demand, candidates) for demand in daemons]


def _place_daemon_pod(table: NodeTable, used: Occupancy, demand: Demand, candidates: BoolColumn | None) -> BoolColumn:
    mask = find_fitting_nodes(table, demand, used)
    if candidates is not None:
        mask &= candidates
    numbers = np.flatnonzero(mask)
    used.add_many(numbers, demand, np.ones(len(numbers), dtype=np.int64))
    return mask
