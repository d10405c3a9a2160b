"""Nodes and VPAs in the whole simulator: consolidation with and without headroom, and nodes for deferred resizes."""

from __future__ import annotations

import pytest

from support.worlds.simulated_cluster import fault
from support.worlds.simulated_nodes import BOOT, SimulatedNodesRun, idle_workload, on_nodes, pool
from support.worlds.simulated_workloads import fixed, vpa
from trellis.sim.cluster import PodEvent
from trellis.sim.faults import UPDATER_DOWN

# The updater is away for half an hour, and then brings pods of 1 core to the 1.6 that their VPA recommends.
UPDATER_BACK = 1_800.0
END = 3_600.0
POLICY = vpa("InPlaceOrRecreate", resourcePolicy=fixed("1600m", "64Mi"))


def lived(**settings: str) -> SimulatedNodesRun:
    """Two nodes of 4 cores; three pods fit on one of them now, and on both when they have grown."""
    fleet = on_nodes(
        idle_workload(replicas=3, max_unavailable=1),
        pools=(pool(count=2),),
        steps=120,
        faults=(fault(UPDATER_DOWN, 0.0, UPDATER_BACK),),
    )
    return SimulatedNodesRun(fleet, POLICY, **settings).run_until(END)


def test_without_headroom_a_node_is_removed_and_ordered_again() -> None:
    run = lived(**{"scale-down-recommendation-headroom": "false", "scale-up-for-resizes": "false"})
    assert (run.figures.removed, run.figures.ordered) == (1, 1)
    assert len(run.times(PodEvent.RESIZE_DEFERRED)) >= 1
    # The pod whose resize did not fit is evicted, and waits until its node has booted.
    assert run.longest_wait(UPDATER_BACK) >= BOOT
    assert run.groups() == {"pool": 2}


def test_with_headroom_no_node_comes_or_goes() -> None:
    run = lived()
    assert (run.figures.removed, run.figures.ordered) == (0, 0)
    assert run.longest_wait(UPDATER_BACK) < 10
    assert run.control_plane.verdicts["NoHeadroomForRecommendations"] > 0


def test_a_node_for_a_deferred_resize_is_there_when_the_pod_is_evicted() -> None:
    run = lived(**{"scale-down-recommendation-headroom": "false"})
    assert (run.figures.removed, run.figures.ordered) == (1, 1)
    assert run.longest_wait(UPDATER_BACK) < 10
    assert run.control_plane.verdicts["ResizeAwaitsNode"] > 0


@pytest.mark.parametrize("mode", ["InPlace"])
def test_no_node_is_ordered_for_a_pod_that_is_never_evicted(mode: str) -> None:
    fleet = on_nodes(idle_workload(replicas=4), pools=(pool(count=1),), steps=60)
    run = SimulatedNodesRun(fleet, vpa(mode, resourcePolicy=fixed("1600m", "64Mi"))).run_until(1800)
    assert run.figures.ordered == 0
    assert run.control_plane.verdicts["ResizeWithoutEviction"] > 0
