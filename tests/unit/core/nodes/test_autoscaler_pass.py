"""Observations of Buffers between plans: they order nothing and do not change the next plan."""

from __future__ import annotations

from support.worlds.nodes import START, Cluster, a_buffer, a_group, a_node, a_pod, a_spec
from trellis.core.nodes.autoscaler_pass import AutoscalerMemory, AutoscalerSettings, NodePlanner, PassInput, PassPlans
from trellis.core.nodes.state.snapshot import ClusterSnapshotChanges

KEY = ("default", "spare")


def a_planning(cluster: Cluster) -> tuple[NodePlanner, AutoscalerMemory]:
    """After a first plan, with pods on the only node and three nodes on their way."""
    for _ in range(3):
        cluster._order_instance("small", START)
    planning = NodePlanner(AutoscalerSettings(), -10)
    pods = {("default", f"p{at}"): a_pod(f"p{at}", nodeName="old", status={"phase": "Running"}) for at in range(2)}
    news = ClusterSnapshotChanges(
        nodes={"old": a_node("old")}, pods=dict(pods), buffers={KEY: a_buffer("spare", 2, a_spec("1"))}
    )
    plans = planning.plan(news, pass_input(cluster, AutoscalerMemory()))
    return planning, AutoscalerMemory(plans.up.memory, plans.down.memory)


def pass_input(cluster: Cluster, memory: AutoscalerMemory) -> PassInput:
    return PassInput([cluster.state("small")], (), memory, cluster.now)


def plan_after(observations: int) -> PassPlans:
    cluster = Cluster(a_group("small"))
    planning, memory = a_planning(cluster)
    for _ in range(observations):
        planning.observe_buffers(ClusterSnapshotChanges(), memory.up, cluster.now)
    # A pod has come to where a chunk was, and three nodes that are alike have come up.
    pods = {("default", "new"): a_pod("new", nodeName="old", status={"phase": "Running"})}
    if observations:
        planning.observe_buffers(ClusterSnapshotChanges(pods=dict(pods)), memory.up, cluster.now)
    cluster.wait(120)
    nodes = {instance.id: cluster.snapshot.nodes[instance.id] for instance in cluster.instances["small"]}
    return planning.plan(ClusterSnapshotChanges(nodes=dict(nodes), pods=dict(pods)), pass_input(cluster, memory))


def test_observing_buffers_does_not_change_the_next_plan() -> None:
    plans = plan_after(0)
    assert plans.up.buffers[0].hits == 1
    assert plan_after(1) == plan_after(2) == plans


def test_an_observation_orders_nothing_and_reports_the_present_state() -> None:
    cluster = Cluster(a_group("small"))
    planning, memory = a_planning(cluster)
    fields = a_buffer("spare", 20, a_spec("1"))
    observed = planning.observe_buffers(ClusterSnapshotChanges(buffers={KEY: fields}), memory.up, cluster.now)
    [verdict] = observed.buffers
    assert (verdict.on_ready, verdict.on_upcoming, verdict.unplaced) == (2, 12, 6)
    assert not verdict.ordered
    assert [str(refusal) for refusal in verdict.refused] == ["ScaleUpLimited: small"]
