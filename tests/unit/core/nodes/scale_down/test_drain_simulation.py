"""Drains are simulated in order: a failed one changes nothing, and pods count with the demand of their replacements."""

from __future__ import annotations

from typing import Any

import pytest

from support.worlds.nodes import HOST, a_group
from support.worlds.scale_down import ShrinkingCluster, a_web_pod
from trellis.api.kube.pods import Pod
from trellis.core.fit import Storage
from trellis.core.fit.resources import CPU
from trellis.core.nodes.scale_down.drainability import ReplacementDemands
from trellis.core.nodes.settings import ScaleDownSettings
from trellis.core.nodes.state.devices import DeviceClaims


def test_after_a_failed_drain_simulation_the_node_still_has_its_pods_for_the_next() -> None:
    cluster = ShrinkingCluster(
        a_group("small"), down=ScaleDownSettings(scale_down_utilization_threshold=0.9)
    ).add_group_nodes("small", 2)
    cluster.run("small-1", a_web_pod("bound", "2500m", nodeSelector={HOST: "small-1"}))
    cluster.run("small-2", a_web_pod("free", "3"))
    cluster.plan_removals()
    assert (cluster.reason_code("small-1"), cluster.reason_code("small-2")) == ("NoPlaceForPods", "NoPlaceForPods")


def storing(name: str, cpu: str, storage: str, **fields: Any) -> Pod:
    """A pod with files of its own."""
    requests = {"cpu": cpu, "memory": "1Gi", "ephemeral-storage": storage}
    return a_web_pod(name, containers=[{"name": "app", "resources": {"requests": requests}}], **fields)


def test_a_rolled_back_placement_takes_no_capacity_from_the_next() -> None:
    cluster = ShrinkingCluster(a_group("small", amounts={"ephemeral-storage": "10Gi"})).add_group_nodes("small", 3)
    cluster.run("small-1", storing("full", "3", "10Gi"))
    # The larger of the two finds a place, and the other none.
    cluster.run("small-2", a_web_pod("large", "1"), storing("files", "100m", "5Gi"))
    cluster.run("small-3", storing("agent", "100m", "8Gi", owner=("DaemonSet", "agent")))
    elsewhere = {"matchExpressions": [{"key": HOST, "operator": "NotIn", "values": ["small-2"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [elsewhere]}}}
    cluster.run("small-3", a_web_pod("next", "1", "6Gi", affinity=affinity))
    cluster.plan_removals()
    assert (cluster.reason_code("small-2"), cluster.reason_code("small-3")) == ("NoPlaceForPods", "NodeUnneeded")


def test_a_node_nominated_for_a_pod_is_kept() -> None:
    cluster = ShrinkingCluster(a_group("small")).add_group_nodes("small", 2)
    status = {"phase": "Pending", "nominatedNodeName": "small-2"}
    cluster.create(a_web_pod("important", "1", status=status))
    cluster.plan_removals()
    assert (cluster.reason_code("small-1"), cluster.reason_code("small-2")) == ("NodeUnneeded", "PendingPodFits")


@pytest.mark.parametrize(("boosted", "asked"), [(500, 1000), (3000, 3000)])
def test_a_boosted_pod_is_moved_with_its_present_requests(boosted: int, asked: int) -> None:
    successors = ReplacementDemands(Storage(), lambda _pod: {"app": boosted}, DeviceClaims())
    assert successors.build_demand(a_web_pod("web", "1")).requests[CPU] == asked
