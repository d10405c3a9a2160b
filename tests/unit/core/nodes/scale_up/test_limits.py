"""How many nodes may be ordered, and what becomes of groups that fail, hang or do not keep what they promise."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from support.worlds.nodes import START, Cluster, a_buffer, a_group, a_node, a_pod
from trellis.core.nodes.node_groups import GroupState, Instance, InstanceState
from trellis.core.nodes.scale_up.decisions import PendingPodsDecision
from trellis.core.nodes.scale_up.expanders import balance_nodes
from trellis.core.nodes.scale_up.remembered_state import GroupBackoff, back_off, record_failed_order
from trellis.core.nodes.settings import ScaleUpSettings
from trellis.core.nodes.state.readiness import LEAVING_TAINT

SETTINGS = ScaleUpSettings()
GIB = 2**30


def refusals(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """Why groups cannot help, of the pods of the last plan that got nothing."""
    assert cluster.last is not None
    verdicts: list[PendingPodsDecision] = [pod for pod in cluster.last.pods if pod.unplaced]
    return {str(refusal.reason): refusal.groups for verdict in verdicts for refusal in verdict.refused}


def test_a_group_never_exceeds_its_maximum_size() -> None:
    cluster = Cluster(a_group("small", most=2)).create_pods(20)
    assert cluster.ordered() == {"small": 2}
    assert cluster.last is not None
    assert cluster.last.pods[0].reason.reason.code == "GroupsExhausted"
    assert refusals(cluster) == {"GroupAtMaximum": ("small",)}


def test_nodes_beyond_the_maximum_of_a_group_are_ordered_from_the_next() -> None:
    cluster = Cluster(a_group("cheap", most=2), a_group("dear", price=3.0)).create_pods(20)
    assert cluster.ordered() == {"cheap": 2, "dear": 3}


@pytest.mark.parametrize(
    ("limit", "ordered"), [({"max_nodes_total": 3}, 2), ({"cores_total": 12}, 2), ({"memory_total": 64 * GIB}, 3)]
)
def test_the_cluster_never_exceeds_its_limits(limit: dict[str, int], ordered: int) -> None:
    settings = msgspec.structs.replace(SETTINGS, **limit)
    cluster = Cluster(a_group("small"), settings=settings).nodes(a_node("there"))
    cluster.place(a_pod("full", cpu="4"), "there")
    assert cluster.create_pods(20).ordered() == {"small": ordered}
    assert refusals(cluster) == {"ClusterAtLimit": ("small",)}


def test_limits_of_the_cluster_count_upcoming_nodes() -> None:
    cluster = Cluster(a_group("small"), settings=ScaleUpSettings(max_nodes_total=3)).create_pods(8)
    assert cluster.ordered() == {"small": 2}
    cluster.execute_orders()
    assert cluster.create_pods(20, prefix="more").ordered() == {"small": 1}
    cluster.execute_orders()
    assert cluster.ordered() == {}


def test_similar_groups_share_the_limit_of_the_cluster() -> None:
    groups = [a_group(f"g-{at}", labels={"topology.kubernetes.io/zone": f"z{at}"}) for at in range(3)]
    cluster = Cluster(*groups, settings=ScaleUpSettings(max_nodes_total=2)).create_pods(40)
    assert sum(cluster.ordered().values()) == 2


def test_one_scale_up_orders_a_bounded_number_and_the_rest_follows() -> None:
    cluster = Cluster(a_group("small"), settings=ScaleUpSettings(max_nodes_per_scaleup=2)).create_pods(20)
    assert cluster.ordered() == {"small": 2}
    assert refusals(cluster) == {"ScaleUpLimited": ("small",)}
    cluster.execute_orders()
    assert cluster.ordered() == {"small": 2}


def test_a_group_above_its_maximum_gets_no_order() -> None:
    cluster = Cluster(a_group("small", most=1)).add_group_nodes("small", 3)
    for node in list(cluster.snapshot.nodes):
        cluster.place(a_pod(f"on-{node}", cpu="4"), node)
    assert cluster.create_pods(4).ordered() == {}


def test_a_failed_instance_is_released_and_its_group_backed_off() -> None:
    cluster = Cluster(a_group("bad"), a_group("good", price=3.0)).create_pods(4)
    assert cluster.ordered() == {"bad": 1}
    cluster.execute_orders().fail("bad")
    plan = cluster.plan()
    assert {order.group: order.count for order in plan.orders} == {"good": 1}
    assert [(release.instance, release.reason.reason.code) for release in plan.releases] == [
        ("bad-1", "InstanceFailed")
    ]
    assert cluster.memory.backoffs["bad"].until == START + 300
    assert plan.requeue_at == START + 300


def test_a_group_is_tried_again_after_its_backoff_which_doubles() -> None:
    cluster = Cluster(a_group("bad", boot_seconds=1e6)).create_pods(4)
    for expected in (300.0, 600.0, 1200.0, 1800.0, 1800.0):
        assert cluster.ordered() == {"bad": 1}
        cluster.execute_orders().fail("bad")
        cluster.plan()
        assert cluster.memory.backoffs["bad"].seconds == expected
        assert refusals(cluster) == {"GroupBackedOff": ("bad",)}
        cluster.execute_orders().wait(expected)


def test_the_backoff_of_a_group_without_failures_is_reset() -> None:
    first = back_off(None, START, "one", SETTINGS)
    repeated = back_off(first, first.until + 1, "two", SETTINGS)
    assert (first.seconds, repeated.seconds) == (300.0, 600.0)
    assert (
        back_off(repeated, repeated.until + SETTINGS.node_group_backoff_reset_seconds, "three", SETTINGS).seconds
        == 300.0
    )


def test_several_failures_of_one_order_count_once() -> None:
    first = back_off(None, START, "one", SETTINGS)
    assert back_off(back_off(first, START, "two", SETTINGS), START + 5, "three", SETTINGS) == GroupBackoff(
        START, 300.0, "one"
    )


def test_a_node_that_never_comes_up_is_released_after_the_provision_time() -> None:
    cluster = Cluster(a_group("slow", boot_seconds=1e6)).create_pods(4)
    cluster.plan()
    plan = cluster.execute_orders().plan()
    assert plan.requeue_at == START + 900
    cluster.wait(899)
    assert (cluster.ordered(), cluster.plan().releases) == ({}, ())
    plan = cluster.wait(1).plan()
    assert [(release.instance, release.reason.reason.code) for release in plan.releases] == [
        ("slow-1", "InstanceOverdue")
    ]
    assert not plan.orders
    cluster.execute_orders().wait(300)
    assert cluster.ordered() == {"slow": 1}


def test_a_confirmed_order_without_nodes_is_lost_after_the_provision_time() -> None:
    cluster = Cluster(a_group("liar")).create_pods(4)
    assert cluster.ordered() == {"liar": 1}
    cluster.wait(899)
    assert cluster.ordered() == {}
    plan = cluster.wait(2).plan()
    assert not plan.orders
    assert str(plan.notes["liar"]) == cluster.memory.backoffs["liar"].reason == "1 node of liar never appeared"
    assert not cluster.plan().notes
    cluster.wait(300)
    assert cluster.ordered() == {"liar": 1}


def test_a_target_without_instances_counts_until_the_provision_time() -> None:
    cluster = Cluster(a_group("liar"), a_group("other", price=3.0)).create_pods(4)
    cluster.extra["liar"] = 1
    cluster.update_groups()
    assert cluster.ordered() == {}
    cluster.wait(901)
    assert cluster.ordered() == {"other": 1}


class Claiming(Cluster):
    """Of one group the machines are up at once, and become no nodes."""

    def _order_instance(self, group: str, at: float) -> Instance:
        instance = super()._order_instance(group, at)
        if group == "liar":
            self.instances[group][-1] = instance = Instance(instance.id, InstanceState.RUNNING, at)
        return instance


def test_a_group_whose_machines_become_no_nodes_is_backed_off_for_another() -> None:
    cluster = Claiming(a_group("liar"), a_group("other", price=3.0)).create_pods(4)
    assert cluster.ordered() == {"liar": 1}
    cluster.execute_orders().wait(899)
    assert cluster.ordered() == {}
    plan = cluster.wait(2).plan()
    assert [order.group for order in plan.orders] == ["other"]
    assert str(plan.notes["liar"]) == cluster.memory.backoffs["liar"].reason == "liar-1 has not registered as a node"
    assert not plan.releases


def test_a_machine_that_lost_its_node_later_is_no_failure() -> None:
    cluster = Cluster(a_group("small")).add_group_nodes("small", 1)
    cluster.snapshot.put_node("small-1", None)
    assert not cluster.plan().notes
    assert not cluster.memory.backoffs


def test_a_refused_order_is_not_upcoming() -> None:
    cluster = Cluster(a_group("refuses"), a_group("other", price=3.0)).create_pods(4)
    assert cluster.ordered() == {"refuses": 1}
    cluster.memory = record_failed_order(cluster.memory, "refuses", "no machines", cluster.now, SETTINGS)
    assert cluster.ordered() == {"other": 1}
    assert cluster.memory.backoffs["refuses"].reason == "no machines"


def test_a_process_that_lost_its_memory_orders_no_node_twice() -> None:
    cluster = Cluster(a_group("small", boot_seconds=300)).create_pods(10).buffers(a_buffer("spare", 4))
    plan = cluster.plan()
    assert plan.orders
    cluster.execute_orders()
    cluster.memory = type(cluster.memory)()
    assert cluster.ordered() == {}


def test_a_group_is_estimated_by_the_smaller_nodes_that_it_delivers() -> None:
    cluster = Cluster(a_group("liar", boot_seconds=10)).create(a_pod("big", cpu="4"))
    assert cluster.ordered() == {"liar": 1}
    cluster.execute_orders().wait(10)
    cluster.nodes(a_node("liar-1", cpu="2", labels={"group": "liar"}))
    plan = cluster.plan()
    assert not plan.orders
    assert [str(refusal) for refusal in plan.pods[0].refused] == ["NodeTooSmall (cpu): liar"]
    assert str(plan.notes["liar"]) == "liar-1 has cpu 2 instead of 4"


def test_a_leaving_node_is_not_upcoming() -> None:
    cluster = Cluster(a_group("small")).create_pods(4)
    cluster.plan()
    cluster.execute_orders()
    listed = Instance("small-1", InstanceState.RUNNING, START, "small-1")
    cluster.instances["small"] = [listed]
    cluster.update_groups()
    taints = [{"key": LEAVING_TAINT, "effect": "NoSchedule"}]
    assert cluster.nodes(a_node("small-1", ready=False, taints=taints)).ordered() == {"small": 1}


def test_instances_are_matched_with_nodes_by_provider_id() -> None:
    cluster = Cluster(a_group("cloud")).create_pods(4)
    node = a_node("ip-10-0-0-1", labels={"group": "cloud"})
    ready = msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, provider_id="cloud://1"))
    cluster.nodes(ready)
    instance = Instance("cloud://1", InstanceState.RUNNING, START - 10)
    cluster.snapshot.put_groups([GroupState(cluster.groups["cloud"], 1, (instance,))])
    assert cluster.ordered() == {}
    state = cluster.snapshot.find_group("ip-10-0-0-1")
    assert state is not None
    assert state.group.name == "cloud"


def test_nodes_with_absurd_capacity_do_not_break_a_plan() -> None:
    absurd = a_node("absurd", cpu="-5", memory="9999999999999999Ei")
    cluster = Cluster(a_group("small"), a_group("none", cpu="0", memory="0")).nodes(absurd).create_pods(4)
    assert cluster.ordered() == {"small": 1}


def test_a_limit_does_not_apply_to_groups_without_the_resource() -> None:
    limited = ScaleUpSettings(memory_total=10**16)
    cluster = Cluster(a_group("none", memory="0"), settings=limited).create(a_pod("frugal", memory="0"))
    assert cluster.ordered() == {"none": 1}


@pytest.mark.parametrize(
    ("count", "sizes", "allowed", "expected"),
    [
        (6, (0, 0, 0), (9, 9, 9), (2, 2, 2)),
        (4, (3, 0, 1), (9, 9, 9), (0, 3, 1)),
        (5, (0, 0), (1, 9), (1, 4)),
        (9, (0, 0), (2, 2), (2, 2)),
        (1, (1, 1, 1), (9, 9, 9), (1, 0, 0)),
        (3, (0, 0), (0, 0), (0, 0)),
    ],
)
def test_balanced_nodes_go_to_the_smallest_group_first(
    count: int, sizes: tuple[int, ...], allowed: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert tuple(balance_nodes(count, np.array(sizes), np.array(allowed)).tolist()) == expected
