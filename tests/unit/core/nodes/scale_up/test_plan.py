"""Which nodes are ordered for pods that wait."""

from __future__ import annotations

import msgspec
import pytest

from support.worlds.nodes import HOST, ZONE, Cluster, a_daemon_set, a_group, a_node, a_pod, apart, near, spread
from trellis.base.errors import InvalidInput
from trellis.core.nodes.node_groups import GroupState, Instance, InstanceState, NodeGroup
from trellis.core.nodes.scale_up.expanders import get_expanders
from trellis.core.nodes.settings import ScaleUpSettings
from trellis.core.nodes.state.placement import build_equivalence_groups

WEB = {"app": "web"}


def three_zones(*, most: int = 100) -> list[NodeGroup]:
    return [a_group(f"zone-{zone}", most=most, labels={ZONE: zone}) for zone in "abc"]


def test_pending_pods_get_as_many_nodes_as_they_fill() -> None:
    cluster = Cluster(a_group("small")).create_pods(10)
    assert cluster.ordered() == {"small": 3}
    assert cluster.last is not None
    (verdict,) = cluster.last.pods
    assert (verdict.reason.reason.code, verdict.ordered, verdict.unplaced) == ("NodeOrdered", {"small": 10}, 0)


def test_an_order_has_the_target_of_the_group() -> None:
    cluster = Cluster(a_group("small")).add_group_nodes("small", 2)
    for node in cluster.snapshot.nodes:
        cluster.place(a_pod(f"on-{node}", cpu="4"), node)
    (order,) = cluster.create_pods(4).plan().orders
    assert (order.count, order.target) == (1, 3)


def test_no_node_is_ordered_for_pods_that_fit_on_existing_nodes() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("there")).create_pods(4)
    assert cluster.ordered() == {}
    assert cluster.last is not None
    assert cluster.last.pods[0].reason.reason.code == "PodFits"


def test_no_node_is_ordered_twice_while_nodes_are_upcoming() -> None:
    cluster = Cluster(a_group("small", boot_seconds=300)).create_pods(10)
    cluster.plan()
    cluster.execute_orders()
    for _ in range(5):
        cluster.wait(30)
        assert cluster.ordered() == {}
    assert cluster.last is not None
    assert cluster.last.pods[0].reason.reason.code == "PodAwaitsNode"


def test_an_unconfirmed_order_counts_as_upcoming() -> None:
    cluster = Cluster(a_group("small")).create_pods(10)
    assert cluster.ordered() == {"small": 3}
    assert cluster.ordered() == {}


def test_an_unready_new_node_of_a_group_is_upcoming() -> None:
    group = a_group("small")
    cluster = Cluster(group).create_pods(4)
    cluster.plan()
    cluster.execute_orders()
    starting = a_node("small-1", labels={"group": "small"}, ready=False)
    cluster.nodes(starting)
    assert cluster.ordered() == {}


@pytest.mark.parametrize(
    ("key", "ordered"),
    [("node.kubernetes.io/not-ready", {}), ("node.kubernetes.io/unreachable", {}), ("of-our-own", {"small": 1})],
)
def test_a_node_is_upcoming_until_its_not_ready_taints_are_removed(key: str, ordered: dict[str, int]) -> None:
    """The not-ready taint is removed a moment after the node is Ready; an order in between would order twice."""
    cluster = Cluster(a_group("small")).create_pods(4)
    up = Instance("small-1", InstanceState.RUNNING, cluster.now - 1, "small-1")
    cluster.snapshot.put_groups([GroupState(cluster.groups["small"], 1, (up,))])
    cluster.nodes(a_node("small-1", labels={"group": "small"}, taints=[{"key": key, "effect": "NoSchedule"}]))
    assert cluster.ordered() == ordered


def test_nodes_are_ordered_only_for_pods_that_fit_on_no_upcoming_node() -> None:
    cluster = Cluster(a_group("small", boot_seconds=300)).create_pods(4)
    cluster.plan()
    cluster.execute_orders()
    cluster.create_pods(4, prefix="late")
    assert cluster.ordered() == {"small": 1}


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("gated", schedulingGates=[{"name": "wait"}]),
        a_pod("daemon", owner=("DaemonSet", "agent")),
        a_pod("expendable", priority=-11),
        a_pod("unseen", status={"phase": "Pending"}),
        a_pod("done", status={"phase": "Succeeded"}),
    ],
    ids=lambda pod: pod.metadata.name,
)
def test_no_node_is_ordered_for_pods_that_need_none(pod: object) -> None:
    cluster = Cluster(a_group("small"))
    cluster.create(pod)  # type: ignore[arg-type]
    assert cluster.ordered() == {}


@pytest.mark.parametrize(("priority", "ordered"), [(-11, {"small": 1}), (-10, {"small": 2}), (None, {"small": 2})])
def test_a_pod_below_the_cutoff_takes_no_capacity_and_one_at_it_does(
    priority: int | None, ordered: dict[str, int]
) -> None:
    """A pod without a priority has priority 0."""
    cluster = Cluster(a_group("small")).nodes(a_node("there"))
    cluster.place(a_pod("low", cpu="4", priority=priority), "there").create_pods(4)
    cluster.create(a_pod("waiting", cpu="4", priority=-10))
    assert cluster.ordered() == ordered


def test_a_pod_that_the_scheduler_has_not_tried_keeps_its_capacity() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("there"))
    cluster.create(a_pod("unseen", cpu="3", status={"phase": "Pending"}), a_pod("other", cpu="2"))
    assert cluster.ordered() == {"small": 1}


def test_a_nominated_pod_counts_as_placed() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("there"))
    promised = a_pod("promised", cpu="3", status={"phase": "Pending", "nominatedNodeName": "there"})
    assert cluster.create(promised, a_pod("other", cpu="2")).ordered() == {"small": 1}


def test_no_node_is_ordered_for_a_pod_that_preempts_others() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("there")).place(a_pod("running", cpu="4"), "there")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    status = {"phase": "Pending", "conditions": [condition], "nominatedNodeName": "there"}
    assert cluster.create(a_pod("important", cpu="4", priority=1000, status=status)).ordered() == {}
    # The scheduler has thought better of it.
    del status["nominatedNodeName"]
    assert cluster.create(a_pod("important", cpu="4", priority=1000, status=status)).ordered() == {"small": 1}


def test_a_node_is_ordered_for_a_high_priority_pod_without_a_nomination() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("there")).place(a_pod("running", cpu="4"), "there")
    assert cluster.create(a_pod("important", cpu="4", priority=1000)).ordered() == {"small": 1}


def test_a_deleted_nominated_node_does_not_count_until_it_is_back() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("there"))
    cluster.create(a_pod("promised", status={"phase": "Pending", "nominatedNodeName": "there"}))
    cluster.snapshot.put_node("there", None)
    assert cluster.snapshot.pending.keys() == {("default", "promised")}
    cluster.nodes(a_node("there"))
    assert not cluster.snapshot.pending
    assert cluster.snapshot.pods_on("there").keys() == {("default", "promised")}


def test_new_nodes_are_estimated_with_their_daemon_set_pods() -> None:
    cluster = Cluster(a_group("small")).create_pods(4)
    cluster.snapshot.put_daemon_set(("kube-system", "agent"), a_daemon_set("agent", "500m"))
    assert cluster.ordered() == {"small": 2}


def test_a_daemon_set_that_does_not_match_a_node_uses_nothing_on_it() -> None:
    cluster = Cluster(a_group("small")).create_pods(4)
    elsewhere = a_daemon_set("agent", "500m", nodeSelector={"group": "other"})
    cluster.snapshot.put_daemon_set(("kube-system", "agent"), elsewhere)
    assert cluster.ordered() == {"small": 1}


def test_least_waste_decides_first() -> None:
    cluster = Cluster(a_group("large", cpu="16", memory="64Gi"), a_group("small")).create_pods(3)
    assert cluster.ordered() == {"small": 1}


def test_the_cheaper_of_two_groups_is_chosen() -> None:
    cluster = Cluster(a_group("a", price=2.0), a_group("b", price=1.0)).create_pods(3)
    assert cluster.ordered() == {"b": 1}


def test_priority_comes_before_price() -> None:
    cluster = Cluster(a_group("a", price=2.0, priority=10), a_group("b", price=1.0)).create_pods(3)
    assert cluster.ordered() == {"a": 1}


@pytest.mark.parametrize(
    ("expander", "chosen"),
    [("least-nodes", "large"), ("least-waste", "small"), ("price", "small"), ("most-pods", "any")],
)
def test_each_expander_chooses_by_its_own_score(expander: str, chosen: str) -> None:
    groups = (
        a_group("any", cpu="8", memory="32Gi", price=9.0),
        a_group("large", cpu="16", memory="64Gi", price=9.0, taints=[{"key": "large", "effect": "NoSchedule"}]),
        a_group("small", price=1.0, taints=[{"key": "large", "effect": "NoSchedule"}]),
    )
    cluster = Cluster(*groups, settings=ScaleUpSettings(expanders=(expander,)))
    tolerations = [{"key": "large", "operator": "Exists"}]
    cluster.create_pods(12, tolerations=tolerations).create_pods(1, prefix="picky", cpu="100m")
    plan = cluster.plan()
    assert chosen in {order.group for order in plan.orders}


def test_an_unknown_expander_is_refused() -> None:
    with pytest.raises(InvalidInput, match="available: least-waste"):
        get_expanders(["random"])


def test_pods_that_need_different_groups_get_nodes_of_both_in_one_plan() -> None:
    cluster = Cluster(a_group("plain"), a_group("gpu", amounts={"example.com/gpu": "1"})).create_pods(2)
    container = {"name": "app", "resources": {"requests": {"cpu": "1", "example.com/gpu": "1"}}}
    cluster.create(a_pod("gpu", containers=[container]))
    assert set(cluster.ordered()) == {"plain", "gpu"}


def test_similar_groups_grow_evenly() -> None:
    cluster = Cluster(*three_zones()).create_pods(24)
    assert cluster.ordered() == {"zone-a": 2, "zone-b": 2, "zone-c": 2}


def test_the_smallest_of_similar_groups_grows_first() -> None:
    cluster = Cluster(*three_zones()).add_group_nodes("zone-a", 2)
    for node in cluster.snapshot.nodes:
        cluster.place(a_pod(f"on-{node}", cpu="4"), node)
    assert cluster.create_pods(16).ordered() == {"zone-b": 2, "zone-c": 2}


def test_pods_spread_over_zones_get_nodes_in_every_zone() -> None:
    groups = [a_group(f"{zone}-{cpu}", cpu=cpu, labels={ZONE: zone}) for zone in "abc" for cpu in ("4", "8")]
    cluster = Cluster(*groups).nodes(*(a_node(f"full-{zone}", cpu="0", labels={ZONE: zone}) for zone in "abc"))
    cluster.create_pods(12, labels=WEB, **spread(WEB))
    plan = cluster.plan()
    zones = {order.group[0] for order in plan.orders}
    assert (zones, plan.pods[0].unplaced) == (set("abc"), 0)
    assert sum(order.count for order in plan.orders) <= 6


def test_pods_with_anti_affinity_get_a_node_each() -> None:
    cluster = Cluster(a_group("small")).create_pods(5, labels=WEB, **apart(WEB))
    assert cluster.ordered() == {"small": 5}


def test_pods_spread_over_hosts_get_one_node_each_beside_nodes_that_are_full() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("full", cpu="0"))
    cluster.create_pods(4, cpu="100m", labels=WEB, **spread(WEB, HOST))
    assert cluster.ordered() == {"small": 4}


def test_pods_with_affinity_stay_in_the_zone_of_the_first() -> None:
    cluster = Cluster(*three_zones()).create_pods(12, labels=WEB, **near(WEB))
    ordered = cluster.ordered()
    assert (len(ordered), sum(ordered.values())) == (1, 3)


def test_pending_pods_with_affinity_to_each_other_get_nodes_together() -> None:
    cluster = Cluster(*three_zones()).create(a_pod("web", cpu="2", **near({"app": "db"})))
    plan = cluster.create(a_pod("db", labels={"app": "db"})).plan()
    assert [verdict.unplaced for verdict in plan.pods] == [0, 0]


def test_pods_with_affinity_get_a_node_in_the_domain_of_the_others() -> None:
    cluster = Cluster(*three_zones()).nodes(a_node("there", cpu="1", labels={ZONE: "b"}))
    cluster.place(a_pod("db", labels={"app": "db"}), "there")
    assert cluster.create_pods(2, **near({"app": "db"})).ordered() == {"zone-b": 1}


def test_pods_of_higher_priority_get_limited_nodes_first() -> None:
    cluster = Cluster(a_group("small", most=1)).create_pods(4, prefix="low").create_pods(4, prefix="top", priority=100)
    plan = cluster.plan()
    assert {verdict.pods[0][1]: verdict.unplaced for verdict in plan.pods} == {"top-0000": 0, "low-0000": 4}


def test_a_pod_that_fits_no_group_gets_the_refusal_of_each_group() -> None:
    tainted = a_group("tainted", taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}])
    cluster = Cluster(a_group("small"), a_group("tiny", memory="1Gi"), tainted)
    plan = cluster.create(a_pod("huge", cpu="5", memory="2Gi")).plan()
    (verdict,) = plan.pods
    assert verdict.reason.reason.code == "NoGroupFits"
    assert {(str(refusal.reason), refusal.resource): refusal.groups for refusal in verdict.refused} == {
        ("TaintNotTolerated", ""): ("tainted",),
        ("NodeTooSmall", "cpu"): ("small", "tiny"),
    }
    assert not plan.orders


def test_a_pod_that_only_daemon_sets_leave_no_headroom_for_is_reported() -> None:
    cluster = Cluster(a_group("small")).create(a_pod("exact", cpu="4"))
    cluster.snapshot.put_daemon_set(("kube-system", "agent"), a_daemon_set("agent", "500m"))
    (verdict,) = cluster.plan().pods
    assert [str(refusal) for refusal in verdict.refused] == ["NodeFull (cpu): small"]


def test_a_pod_with_unmet_affinity_is_reported_with_that_reason() -> None:
    cluster = Cluster(*three_zones()).create(a_pod("lonely", **near({"app": "db"})))
    (verdict,) = cluster.plan().pods
    assert verdict.reason.reason.code == "InterPodRulesUnsatisfiable"


def test_without_groups_the_reason_is_that_none_fits() -> None:
    (verdict,) = Cluster().create(a_pod("one")).plan().pods
    assert (verdict.reason.reason.code, verdict.refused) == ("NoGroupFits", ())


def test_an_unreadable_pod_affects_no_other() -> None:
    cluster = Cluster(a_group("small")).create(a_pod("bad", cpu="many"), a_pod("good"))
    assert cluster.ordered() == {"small": 1}
    assert "many" in str(cluster.snapshot.problems["Pod", ("default", "bad")])


def test_pods_of_one_workload_are_one_equivalence_group_whatever_their_own_labels() -> None:
    cluster = Cluster(a_group("small"))
    for number in range(3):
        own = {"statefulset.kubernetes.io/pod-name": f"db-{number}", **WEB}
        cluster.create(a_pod(f"db-{number}", labels=own, owner=("StatefulSet", "db")))
    assert len(build_equivalence_groups(cluster.snapshot.pending.values(), (4000.0, 2.0**34))) == 1


def test_a_plan_leaves_the_snapshot_as_it_was() -> None:
    cluster = Cluster(a_group("small"), *three_zones()).nodes(a_node("there")).create_pods(9, labels=WEB, **apart(WEB))
    before = cluster.snapshot.table.size, cluster.snapshot.running.used.amounts.sum()
    cluster.plan()
    assert (cluster.snapshot.table.size, cluster.snapshot.running.used.amounts.sum()) == before


def test_a_registered_starting_node_and_its_row_are_one_node() -> None:
    cluster = Cluster(a_group("small", boot_seconds=300)).create_pods(3, cpu="100m", labels=WEB, **spread(WEB, HOST))
    assert cluster.ordered() == {"small": 1}
    cluster.execute_orders()
    # As a provider shows it that makes the Node with the order: tainted, not ready, and known by name.
    instance = msgspec.structs.replace(cluster.instances["small"][0], node="small-1")
    cluster.instances["small"] = [instance]
    cluster.update_groups()
    taint = {"key": "trellis.x-k8s.io/starting", "effect": "NoSchedule"}
    starting = a_node("small-1", ready=False, taints=[taint])
    assert cluster.nodes(starting).ordered() == {}
    assert cluster.snapshot.nodes["small-1"] == starting
    assert not cluster.snapshot.table.tolerated(()).any()
