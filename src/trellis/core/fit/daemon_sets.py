"""The DaemonSet pods that a new node runs before any other pod.

A DaemonSet's pods go where `NodeShouldRunDaemonPod` in Kubernetes 1.36 puts them: they tolerate the taints of node
conditions and of unschedulable nodes, and no other taints.
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
from trellis.core.fit.filters import fits
from trellis.core.fit.node_table import NodeTable
from trellis.core.fit.occupancy import Occupancy
from trellis.core.usage.columns import BoolColumn

_TOLERATED: Final = tuple(
    Toleration(f"node.kubernetes.io/{what}", "Exists", effect=effect)
    for what, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
_ON_HOST_NETWORK: Final = Toleration("node.kubernetes.io/network-unavailable", "Exists", effect="NoSchedule")


def daemon_demand(daemon_set: DaemonSet) -> Demand:
    """What each pod of a DaemonSet asks of its node, as its controller makes it."""
    return Demand.of(daemon_pod_spec(daemon_set.spec.template.spec))


def daemon_pod_spec(template: PodSpec) -> PodSpec:
    """The spec of the pods of a DaemonSet: that of its template, with the tolerations that its controller adds."""
    added = (*_TOLERATED, _ON_HOST_NETWORK) if template.host_network else _TOLERATED
    return msgspec.structs.replace(template, tolerations=(*template.tolerations, *added))


def place_daemon_pods(
    table: NodeTable, used: Occupancy, daemons: Iterable[Demand], among: BoolColumn | None = None
) -> list[BoolColumn]:
    """Put one pod of each on every node that takes it, in their order: of each the nodes it is on now.

    `among` are the nodes that have none yet. One that a node has no room for beside those before it is not put there.
    """
    return [_place_daemon_pod(table, used, demand, among) for demand in daemons]


def _place_daemon_pod(table: NodeTable, used: Occupancy, demand: Demand, among: BoolColumn | None) -> BoolColumn:
    mask = fits(table, demand, used)
    if among is not None:
        mask &= among
    where = np.flatnonzero(mask)
    used.add_many(where, demand, np.ones(len(where), dtype=np.int64))
    return mask
