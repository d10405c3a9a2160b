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


def test_pods_that_wait_get_as_many_nodes_as_they_fill() -> None:
    cluster = Cluster(a_group("small")).create_pods(10)
    assert cluster.ordered() == {"small": 3}
    assert cluster.last is not None
    (verdict,) = cluster.last.pods
    assert (verdict.reason.reason.code, verdict.ordered, verdict.unplaced) == ("NodeOrdered", {"small": 10}, 0)


def test_orders_say_how_many_there_are_to_be_in_all() -> None:
    cluster = Cluster(a_group("small")).add_group_nodes("small", 2)
    for node in cluster.snapshot.nodes:
        cluster.place(a_pod(f"on-{node}", cpu="4"), node)
    (order,) = cluster.create_pods(4).plan().orders
    assert (order.count, order.target) == (1, 3)


def test_nothing_is_ordered_for_pods_that_fit_on_nodes_there_are() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("there")).create_pods(4)
    assert cluster.ordered() == {}
    assert cluster.last is not None
    assert cluster.last.pods[0].reason.reason.code == "PodHasRoom"


def test_nothing_is_ordered_twice_while_nodes_are_on_their_way() -> None:
    cluster = Cluster(a_group("small", boot_seconds=300)).create_pods(10)
    cluster.plan()
    cluster.execute_orders()
    for _ in range(5):
        cluster.wait(30)
        assert cluster.ordered() == {}
    assert cluster.last is not None
    assert cluster.last.pods[0].reason.reason.code == "PodAwaitsNode"


def test_an_order_that_the_provider_does_not_show_yet_counts_as_on_its_way() -> None:
    cluster = Cluster(a_group("small")).create_pods(10)
    assert cluster.ordered() == {"small": 3}
    assert cluster.ordered() == {}


def test_a_node_of_its_group_that_is_not_ready_yet_is_on_its_way() -> None:
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
def test_a_node_is_on_its_way_until_the_control_plane_lets_pods_come(key: str, ordered: dict[str, int]) -> None:
    """Its taint goes a moment after the node says that it is Ready: who orders in between orders twice."""
    cluster = Cluster(a_group("small")).create_pods(4)
    up = Instance("small-1", InstanceState.RUNNING, cluster.now - 1, "small-1")
    cluster.snapshot.put_groups([GroupState(cluster.groups["small"], 1, (up,))])
    cluster.nodes(a_node("small-1", labels={"group": "small"}, taints=[{"key": key, "effect": "NoSchedule"}]))
    assert cluster.ordered() == ordered


def test_only_what_does_not_fit_on_nodes_on_their_way_is_ordered() -> None:
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
def test_no_node_is_ordered_for_pods_that_do_not_wait_for_one(pod: object) -> None:
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


def test_capacity_for_a_pod_that_the_scheduler_has_not_tried_is_not_given_to_another() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("there"))
    cluster.create(a_pod("unseen", cpu="3", status={"phase": "Pending"}), a_pod("other", cpu="2"))
    assert cluster.ordered() == {"small": 1}


def test_a_pod_that_was_promised_a_node_counts_as_there() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("there"))
    promised = a_pod("promised", cpu="3", status={"phase": "Pending", "nominatedNodeName": "there"})
    assert cluster.create(promised, a_pod("other", cpu="2")).ordered() == {"small": 1}


def test_no_node_is_ordered_for_a_pod_for_which_others_make_way() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("there")).place(a_pod("running", cpu="4"), "there")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    status = {"phase": "Pending", "conditions": [condition], "nominatedNodeName": "there"}
    assert cluster.create(a_pod("important", cpu="4", priority=1000, status=status)).ordered() == {}
    # The scheduler has thought better of it.
    del status["nominatedNodeName"]
    assert cluster.create(a_pod("important", cpu="4", priority=1000, status=status)).ordered() == {"small": 1}


def test_a_node_is_ordered_for_an_important_pod_as_long_as_the_scheduler_promises_it_none() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("there")).place(a_pod("running", cpu="4"), "there")
    assert cluster.create(a_pod("important", cpu="4", priority=1000)).ordered() == {"small": 1}


def test_a_nominated_node_that_is_gone_does_not_count_until_it_is_back() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("there"))
    cluster.create(a_pod("promised", status={"phase": "Pending", "nominatedNodeName": "there"}))
    cluster.snapshot.put_node("there", None)
    assert cluster.snapshot.pending.keys() == {("default", "promised")}
    cluster.nodes(a_node("there"))
    assert not cluster.snapshot.pending
    assert cluster.snapshot.pods_on("there").keys() == {("default", "promised")}


def test_new_nodes_are_taken_to_have_the_pods_of_daemon_sets_on_them() -> None:
    cluster = Cluster(a_group("small")).create_pods(4)
    cluster.snapshot.put_daemon_set(("kube-system", "agent"), a_daemon_set("agent", "500m"))
    assert cluster.ordered() == {"small": 2}


def test_a_daemon_set_that_does_not_want_the_node_takes_nothing_there() -> None:
    cluster = Cluster(a_group("small")).create_pods(4)
    elsewhere = a_daemon_set("agent", "500m", nodeSelector={"group": "other"})
    cluster.snapshot.put_daemon_set(("kube-system", "agent"), elsewhere)
    assert cluster.ordered() == {"small": 1}


def test_what_would_be_left_idle_decides_first() -> None:
    cluster = Cluster(a_group("large", cpu="16", memory="64Gi"), a_group("small")).create_pods(3)
    assert cluster.ordered() == {"small": 1}


def test_the_cheaper_of_two_groups_is_taken() -> None:
    cluster = Cluster(a_group("a", price=2.0), a_group("b", price=1.0)).create_pods(3)
    assert cluster.ordered() == {"b": 1}


def test_priority_comes_before_price() -> None:
    cluster = Cluster(a_group("a", price=2.0, priority=10), a_group("b", price=1.0)).create_pods(3)
    assert cluster.ordered() == {"a": 1}


@pytest.mark.parametrize(
    ("expander", "chosen"),
    [("least-nodes", "large"), ("least-waste", "small"), ("price", "small"), ("most-pods", "any")],
)
def test_each_expander_chooses_by_its_own(expander: str, chosen: str) -> None:
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
    with pytest.raises(InvalidInput, match="the expanders are least-waste"):
        get_expanders(["random"])


def test_pods_that_need_different_nodes_get_them_at_once() -> None:
    cluster = Cluster(a_group("plain"), a_group("gpu", amounts={"example.com/gpu": "1"})).create_pods(2)
    container = {"name": "app", "resources": {"requests": {"cpu": "1", "example.com/gpu": "1"}}}
    cluster.create(a_pod("gpu", containers=[container]))
    assert set(cluster.ordered()) == {"plain", "gpu"}


def test_groups_that_are_alike_grow_evenly() -> None:
    cluster = Cluster(*three_zones()).create_pods(24)
    assert cluster.ordered() == {"zone-a": 2, "zone-b": 2, "zone-c": 2}


def test_the_smallest_of_groups_that_are_alike_grows_first() -> None:
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


def test_pods_that_keep_apart_get_a_node_each() -> None:
    cluster = Cluster(a_group("small")).create_pods(5, labels=WEB, **apart(WEB))
    assert cluster.ordered() == {"small": 5}


def test_pods_spread_over_hosts_get_one_node_each_beside_nodes_that_are_full() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("full", cpu="0"))
    cluster.create_pods(4, cpu="100m", labels=WEB, **spread(WEB, HOST))
    assert cluster.ordered() == {"small": 4}


def test_pods_that_keep_together_stay_in_the_zone_of_the_first() -> None:
    cluster = Cluster(*three_zones()).create_pods(12, labels=WEB, **near(WEB))
    ordered = cluster.ordered()
    assert (len(ordered), sum(ordered.values())) == (1, 3)


def test_pods_that_wait_for_the_same_nodes_as_their_company_get_them_together() -> None:
    cluster = Cluster(*three_zones()).create(a_pod("web", cpu="2", **near({"app": "db"})))
    plan = cluster.create(a_pod("db", labels={"app": "db"})).plan()
    assert [verdict.unplaced for verdict in plan.pods] == [0, 0]


def test_pods_that_must_be_near_others_get_a_node_where_those_are() -> None:
    cluster = Cluster(*three_zones()).nodes(a_node("there", cpu="1", labels={ZONE: "b"}))
    cluster.place(a_pod("db", labels={"app": "db"}), "there")
    assert cluster.create_pods(2, **near({"app": "db"})).ordered() == {"zone-b": 1}


def test_the_more_important_pods_come_first_where_not_all_can_be_served() -> None:
    cluster = Cluster(a_group("small", most=1)).create_pods(4, prefix="low").create_pods(4, prefix="top", priority=100)
    plan = cluster.plan()
    assert {verdict.pods[0][1]: verdict.unplaced for verdict in plan.pods} == {"top-0000": 0, "low-0000": 4}


def test_a_pod_that_no_group_could_hold_is_told_why_of_each_group() -> None:
    tainted = a_group("tainted", taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}])
    cluster = Cluster(a_group("small"), a_group("tiny", memory="1Gi"), tainted)
    plan = cluster.create(a_pod("huge", cpu="5", memory="2Gi")).plan()
    (verdict,) = plan.pods
    assert verdict.reason.reason.code == "NoGroupFits"
    assert {(str(each.reason), each.resource): each.groups for each in verdict.refused} == {
        ("TaintNotTolerated", ""): ("tainted",),
        ("NodeTooSmall", "cpu"): ("small", "tiny"),
    }
    assert not plan.orders


def test_a_pod_that_only_daemon_sets_leave_no_headroom_for_is_reported() -> None:
    cluster = Cluster(a_group("small")).create(a_pod("exact", cpu="4"))
    cluster.snapshot.put_daemon_set(("kube-system", "agent"), a_daemon_set("agent", "500m"))
    (verdict,) = cluster.plan().pods
    assert [str(each) for each in verdict.refused] == ["NodeFull (cpu): small"]


def test_a_pod_whose_company_is_nowhere_is_told_that_others_keep_it() -> None:
    cluster = Cluster(*three_zones()).create(a_pod("lonely", **near({"app": "db"})))
    (verdict,) = cluster.plan().pods
    assert verdict.reason.reason.code == "NotBesideOthers"


def test_without_groups_pods_are_told_that_none_fits() -> None:
    (verdict,) = Cluster().create(a_pod("one")).plan().pods
    assert (verdict.reason.reason.code, verdict.refused) == ("NoGroupFits", ())


def test_one_pod_that_cannot_be_read_stops_no_other() -> None:
    cluster = Cluster(a_group("small")).create(a_pod("bad", cpu="many"), a_pod("good"))
    assert cluster.ordered() == {"small": 1}
    assert "many" in str(cluster.snapshot.problems["Pod", ("default", "bad")])


def test_pods_of_one_workload_are_one_group_whatever_their_own_labels_say() -> None:
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


def test_a_node_object_that_starts_and_its_row_are_one_node() -> None:
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
