"""DaemonSet pods and expendable pods are evicted before a node is released, and never stop its removal."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.worlds.nodes import a_group
from support.worlds.scale_down import DOWN, ShrinkingCluster, a_budget, a_web_pod
from trellis.api.kube.pods import Pod
from trellis.core.nodes.scale_down.decisions import DrainPod, ReleaseNode, ScaleDownPlan

AGENT = {"app": "agent"}
EVERYTHING = [{"operator": "Exists"}]


def an_agent(name: str = "agent", evict: str | None = None, **fields: Any) -> Pod:
    """A pod of a DaemonSet."""
    annotations = {"cluster-autoscaler.kubernetes.io/enable-ds-eviction": evict} if evict is not None else {}
    return a_web_pod(name, "100m", owner=("DaemonSet", "agent"), labels=AGENT, annotations=annotations, **fields)


def a_draining_cluster(*pods: Pod, occupied: bool = True, **down: Any) -> ShrinkingCluster:
    """Two nodes, of which the second, with these pods, is about to be drained."""
    cluster = ShrinkingCluster(a_group("small"), down=msgspec.structs.replace(DOWN, **down))
    cluster.add_group_nodes("small", 2).run("small-1", a_web_pod("full", "2500m"))
    if occupied:
        cluster.run("small-2", a_web_pod("web", "500m"))
    cluster.run("small-2", *pods)
    cluster.run_pass(600)
    return cluster


def evictions(plan: ScaleDownPlan) -> list[str]:
    return [action.name for action in plan.actions if isinstance(action, DrainPod)]


def is_released(plan: ScaleDownPlan) -> bool:
    return any(isinstance(action, ReleaseNode) for action in plan.actions)


def plan_until_eviction(cluster: ShrinkingCluster, name: str) -> ScaleDownPlan:
    """The plan that evicts a pod, which is not executed."""
    for _ in range(20):
        plan = cluster.plan_removals()
        if name in evictions(plan):
            return plan
        cluster.execute(plan)
        cluster.plan()
        cluster.schedule()
        cluster.wait(10)
    raise AssertionError(f"{name} is not evicted")


def test_daemon_set_pods_of_an_occupied_node_are_evicted_after_all_others() -> None:
    cluster = a_draining_cluster(an_agent())
    cluster.run_passes(100)
    assert cluster.evicted == ["web", "agent"]
    assert cluster.released == ["small-2"]


def test_the_release_waits_for_an_evicted_daemon_set_pod_within_its_grace_period() -> None:
    cluster = a_draining_cluster(an_agent())
    plan = plan_until_eviction(cluster, "agent")
    assert not is_released(plan)
    assert str(cluster.decisions["small-2"].reason) == "1 pod is left, expendable or of DaemonSets"
    cluster.mark_terminating("agent", cluster.now + 60)
    for _ in range(8):
        cluster.wait(10)
        plan = cluster.plan_removals()
        assert (evictions(plan), is_released(plan)) == ([], False)
        assert cluster.reason_code("small-2") == "NodeDraining"
    cluster.wait(20)
    assert is_released(cluster.plan_removals()), "its kubelet is dead"


def test_a_refused_eviction_of_a_daemon_set_pod_does_not_stop_the_removal() -> None:
    cluster = a_draining_cluster(an_agent())
    plan = plan_until_eviction(cluster, "agent")
    assert plan.requeue_at is not None
    assert plan.requeue_at <= cluster.now + 5
    cluster.wait(5)
    assert is_released(cluster.plan_removals())


def test_a_disruption_budget_of_daemon_set_pods_does_not_stop_the_removal() -> None:
    cluster = a_draining_cluster(an_agent())
    cluster.budgets = [a_budget("agents", 0, AGENT)]
    cluster.run_passes(100)
    assert cluster.evicted == ["web"]
    assert cluster.released == ["small-2"]


def test_a_new_pod_of_the_daemon_set_is_neither_evicted_nor_waited_for() -> None:
    cluster = a_draining_cluster(an_agent(tolerations=EVERYTHING))
    cluster.execute(plan_until_eviction(cluster, "agent"))
    cluster.run("small-2", an_agent("agent-again", tolerations=EVERYTHING))
    cluster.wait(1)
    plan = cluster.plan_removals()
    assert (evictions(plan), is_released(plan)) == ([], True)


@pytest.mark.parametrize(
    ("occupied", "down", "evict", "evicted"),
    [
        (True, {}, None, True),
        (True, {}, "false", False),
        (True, {}, "no", True),
        (True, {"daemonset_eviction_for_occupied_nodes": False}, None, False),
        (True, {"daemonset_eviction_for_occupied_nodes": False}, "true", True),
        (False, {}, None, False),
        (False, {}, "true", True),
        (False, {"daemonset_eviction_for_empty_nodes": True}, None, True),
        (False, {"daemonset_eviction_for_empty_nodes": True}, "false", False),
    ],
)
def test_flags_and_the_annotation_decide_whether_daemon_set_pods_are_evicted(
    occupied: bool, down: dict[str, bool], evict: str | None, evicted: bool
) -> None:
    cluster = a_draining_cluster(an_agent(evict=evict), occupied=occupied, **down)
    cluster.run_passes(100)
    assert ("agent" in cluster.evicted) is evicted
    assert cluster.released == ["small-2"]


def test_mirror_pods_are_not_evicted() -> None:
    static = a_web_pod("static", "100m", annotations={"kubernetes.io/config.mirror": "x"}, owner=("Node", "small-2"))
    cluster = a_draining_cluster(static)
    cluster.run_passes(100)
    assert cluster.evicted == ["web"]
    assert cluster.released == ["small-2"]


def test_daemon_set_pods_of_a_node_that_is_not_ready_are_not_evicted() -> None:
    cluster = a_draining_cluster(an_agent(), occupied=False, daemonset_eviction_for_empty_nodes=True)
    cluster.mark_unready("small-2")
    cluster.run_passes(1500, every=30)
    assert cluster.evicted == []
    assert cluster.released == ["small-2"]


def test_a_long_grace_period_of_a_daemon_set_pod_is_shortened() -> None:
    cluster = a_draining_cluster(an_agent(terminationGracePeriodSeconds=7200))
    [eviction] = [action for action in plan_until_eviction(cluster, "agent").actions if isinstance(action, DrainPod)]
    assert eviction.grace_period_seconds == 600


def test_a_removal_stops_for_a_pod_that_arrives_while_daemon_set_pods_end() -> None:
    cluster = a_draining_cluster(an_agent())
    plan_until_eviction(cluster, "agent")
    cluster.mark_terminating("agent", cluster.now + 60)
    cluster.run("small-2", a_web_pod("late", "100m"))
    cluster.run_pass()
    assert cluster.reason_code("small-2") == "PodArrivedDuringRemoval"


CHEAP = {"app": "cheap"}


def test_an_expendable_pod_with_an_exhausted_budget_does_not_stop_the_removal() -> None:
    cluster = a_draining_cluster(a_web_pod("cheap", "100m", priority=-100, labels=CHEAP))
    cluster.budgets = [a_budget("cheap", 0, CHEAP)]
    cluster.run_passes(100)
    assert cluster.evicted == ["web"]
    assert cluster.released == ["small-2"]


def test_daemon_set_pods_are_evicted_after_expendable_pods() -> None:
    cluster = a_draining_cluster(an_agent(), a_web_pod("cheap", "100m", priority=-100))
    plan = plan_until_eviction(cluster, "cheap")
    assert evictions(plan) == ["cheap"]
    cluster.mark_terminating("cheap", cluster.now + 30)
    cluster.wait(10)
    assert evictions(cluster.plan_removals()) == []
    cluster.delete("cheap")
    cluster.wait(1)
    assert evictions(cluster.plan_removals()) == ["agent"]


def test_an_expendable_pod_is_evicted_from_a_node_without_other_pods() -> None:
    cluster = a_draining_cluster(a_web_pod("cheap", "100m", priority=-100), occupied=False)
    cluster.run_passes(100)
    assert cluster.evicted == ["cheap"]
    assert cluster.released == ["small-2"]


def test_an_expendable_pod_that_is_only_nominated_for_the_node_is_left_alone() -> None:
    cluster = a_draining_cluster(occupied=False)
    status = {"phase": "Pending", "nominatedNodeName": "small-2"}
    cluster.create(a_web_pod("cheap", "100m", priority=-100, status=status))
    cluster.run_passes(100)
    assert cluster.evicted == []
    assert cluster.released == ["small-2"]


def test_an_expendable_pod_that_arrives_does_not_stop_the_removal() -> None:
    cluster = a_draining_cluster(occupied=False)
    cluster.run_pass(1)
    assert cluster.tainted_nodes == ["small-2"]
    cluster.run("small-2", a_web_pod("cheap", "100m", priority=-100))
    cluster.run_passes(60)
    assert cluster.released == ["small-2"]
