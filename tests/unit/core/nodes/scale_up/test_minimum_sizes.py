"""Groups below their minimum size are filled up within limits, where that is enforced."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.worlds.nodes import Cluster, a_buffer, a_group, a_node, a_pod, a_spec
from trellis.core.nodes.scale_up.remembered_state import record_failed_order
from trellis.core.nodes.settings import ScaleUpSettings

ENFORCED = ScaleUpSettings(enforce_node_group_min_size=True)


def whys(cluster: Cluster) -> dict[str, str]:
    assert cluster.last is not None
    return {order.group: order.reason.reason.code for order in cluster.last.orders}


def notes(cluster: Cluster) -> dict[str, str]:
    assert cluster.last is not None
    return {group: str(reason) for group, reason in cluster.last.notes.items()}


def test_a_minimum_size_only_keeps_nodes_unless_it_is_enforced() -> None:
    assert Cluster(a_group("small", min_size=3)).ordered() == {}


def test_a_group_below_its_minimum_is_ordered_up_to_it_once() -> None:
    cluster = Cluster(a_group("small", min_size=3), a_group("free"), settings=ENFORCED).add_group_nodes("small", 1)
    plan = cluster.plan()
    assert whys(cluster) == {"small": "OrderedForMinimum"}
    # Also while they are on their way, and before the provider shows them.
    assert cluster.ordered() == {}
    assert cluster.execute_orders(plan).ordered() == {}
    assert cluster.wait(600).ordered() == {}
    assert cluster.size == 3


def test_nodes_ordered_for_pods_and_chunks_count_for_the_minimum_size() -> None:
    pods, chunks = {"for": "pods"}, {"for": "chunks"}
    groups = a_group("pods", min_size=2, labels=pods), a_group("chunks", min_size=1, labels=chunks)
    cluster = Cluster(*groups, settings=ENFORCED)
    cluster.create(a_pod("web", cpu="3", nodeSelector=pods))
    cluster.buffers(a_buffer("spare", 1, a_spec(cpu="3", nodeSelector=chunks)))
    assert cluster.ordered() == {"pods": 2, "chunks": 1}
    assert whys(cluster) == {"pods": "OrderedForPods", "chunks": "OrderedForBuffers"}


def test_pending_pods_come_before_a_minimum_size() -> None:
    settings = ScaleUpSettings(enforce_node_group_min_size=True, max_nodes_total=2)
    groups = a_group("kept", min_size=5), a_group("wanted", labels={"for": "pods"}, price=9.0)
    cluster = Cluster(*groups, settings=settings).create(a_pod("web", nodeSelector={"for": "pods"}))
    assert cluster.ordered() == {"kept": 1, "wanted": 1}
    assert notes(cluster) == {
        "kept": "kept has a minimum of 5 nodes and lacks 4: "
        "another node of kept would exceed the cluster's limit of nodes"
    }


def test_limits_of_one_scale_up_hold_and_the_rest_follows() -> None:
    settings = ScaleUpSettings(enforce_node_group_min_size=True, max_nodes_per_scaleup=2)
    cluster = Cluster(a_group("small", min_size=3), settings=settings)
    assert cluster.ordered() == {"small": 2}
    assert "ordered at once" in notes(cluster)["small"]
    assert cluster.execute_orders().ordered() == {"small": 1}
    assert notes(cluster) == {}


def test_a_group_that_failed_is_backed_off_and_tried_again() -> None:
    cluster = Cluster(a_group("small", min_size=1), settings=ENFORCED)
    assert cluster.ordered() == {"small": 1}
    cluster.memory = record_failed_order(cluster.memory, "small", "no machine", cluster.now, ENFORCED)
    assert cluster.ordered() == {}
    assert notes(cluster) == {"small": "small has a minimum of 1 node and lacks 1: small backs off: no machine"}
    plan = cluster.plan()
    assert plan.requeue_at == cluster.now + ENFORCED.initial_node_group_backoff_seconds
    assert cluster.wait(301).ordered() == {"small": 1}


def test_pods_use_upcoming_nodes_of_a_minimum_size() -> None:
    cluster = Cluster(a_group("small", min_size=1), settings=ENFORCED)
    cluster.plan()
    cluster.execute_orders().create(a_pod("web"))
    assert cluster.ordered() == {}


@given(
    least=st.integers(0, 6),
    most=st.integers(0, 6),
    have=st.integers(0, 6),
    pods=st.integers(0, 12),
    total=st.integers(0, 8),
)
def test_minimum_sizes_are_reached_within_all_limits(least: int, most: int, have: int, pods: int, total: int) -> None:
    settings = ScaleUpSettings(enforce_node_group_min_size=True, max_nodes_total=total)
    cluster = Cluster(a_group("small", min_size=min(least, most), most=most), settings=settings)
    cluster.nodes(a_node("other", cpu="1")).add_group_nodes("small", min(have, most)).create_pods(pods)
    ordered = cluster.ordered().get("small", 0)
    size = min(have, most) + ordered
    assert size <= most
    assert not total or not ordered or size + 1 <= total
    assert size >= min(least, most) or (total and size + 1 >= total)
