"""How much CPU could a pod have? As much as the best node offers that would take it, if nothing else ran there."""

from __future__ import annotations

from trellis.api.kube.pods import Pod
from trellis.base.errors import InvalidInput
from trellis.core.boost.raising import CpuCeiling
from trellis.core.fit import Demand, NodeTable, most_of


def cpu_ceiling(table: NodeTable, pod: Pod, *, must_fit: bool) -> CpuCeiling | None:
    """The most that this pod could request; None if no node takes it, whatever it requests: then CPU is not why.

    With `must_fit` a boost is cut to what fits, else that is only mentioned.
    """
    try:
        demand = Demand.of(pod.spec)
    except InvalidInput:
        # It has an amount that is none, which the API server refuses in its own words.
        return None
    found = most_of(table, demand, "cpu")
    return None if found is None else CpuCeiling(found, must_fit)
