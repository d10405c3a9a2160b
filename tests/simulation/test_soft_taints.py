"""Soft taints of unneeded nodes in the whole simulator: pods are moved once, to nodes that stay."""

from __future__ import annotations

from collections import Counter
from functools import cache

from support.worlds.simulated_nodes import SimulatedNodesRun, idle_workload, job, on_nodes, pool
from trellis.core.nodes.scale_down.soft_taints import has_soft_taint
from trellis.sim.cluster import PodEvent

SERVICES = {"a": "250m", "b": "500m", "c": "750m", "d": "1"}
# As installed.
USUAL = {"scale-down-unneeded-time": "10m", "scale-down-delay-after-add": "10m"}


@cache
def after_batches(count: int) -> SimulatedNodesRun:
    """120 pods of services among two batches of 240 pods that end after 20 minutes, and the five hours around them."""
    # Pods of StatefulSets keep their names, so that a pod that is moved again is recognised.
    services = [idle_workload(name, 30, cpu, kind="StatefulSet") for name, cpu in SERVICES.items()]
    batches = job("batch", [0.0, 7200.0], 1200.0, pods=240)
    simulated = on_nodes(batches, *services, pools=(pool(max_size=400),), steps=300)
    run = SimulatedNodesRun(simulated, **USUAL, **{"max-bulk-soft-taint-count": str(count)})
    return run.run_until(5 * 3600.0)


def moves(run: SimulatedNodesRun) -> Counter[str]:
    return Counter(name for _, event, name in run.log if event is PodEvent.MOVED)


def test_no_pod_is_moved_twice_with_soft_taints_and_fewer_are_moved() -> None:
    without, with_taints = moves(after_batches(0)), moves(after_batches(10))
    assert (without.total(), sum(times > 1 for times in without.values())) == (74, 16)
    assert (with_taints.total(), max(with_taints.values())) == (45, 1)


def test_as_many_pods_run_on_fewer_nodes_with_soft_taints() -> None:
    without, with_taints = after_batches(0), after_batches(10)
    assert len(with_taints.placed()) == len(without.placed()) == 120
    assert len(with_taints.nodes) < len(without.nodes)


def test_no_node_keeps_a_taint_once_all_are_needed() -> None:
    assert not any(has_soft_taint(node) for node in after_batches(10).nodes.values())
