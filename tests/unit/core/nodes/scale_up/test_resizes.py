"""A pod whose resize does not fit on its node is demand for its replacement, if the updater evicts it."""

from __future__ import annotations

import msgspec

from support.worlds.nodes import SETTINGS, Cluster, a_buffer, a_group, a_node, a_pod, a_spec
from trellis.core.nodes.scale_up.decisions import PendingPodsDecision


def resizing(reason: str = "Deferred", *, evictable: bool = True, cpu: str = "3") -> Cluster:
    """A full node of four cores, on which a pod of one core asks for more."""
    cluster = Cluster(a_group("small")).add_group_nodes("small", 1)
    cluster.place(a_pod("web"), "small-1").place(a_pod("other", "3"), "small-1")
    cluster.recommend("web", cpu=cpu, evictable=evictable)
    cluster.resize("web", cpu, reason)
    return cluster


def decision(cluster: Cluster, name: str = "web") -> PendingPodsDecision | None:
    assert cluster.last is not None
    return next((one for one in cluster.last.resizes if ("default", name) in one.pods), None)


def code(cluster: Cluster, name: str = "web") -> str:
    found = decision(cluster, name)
    return found.reason.reason.code if found is not None else ""


def test_a_node_is_ordered_for_the_whole_pod_and_only_once() -> None:
    cluster = resizing()
    assert cluster.ordered() == {"small": 1}
    assert code(cluster) == "ResizeAwaitsNode"
    cluster.execute_orders().wait(10)
    assert cluster.ordered() == {}
    assert code(cluster) == "ResizeAwaitsNode"
    cluster.wait(120)
    assert cluster.ordered() == {}
    assert code(cluster) == "ResizeFitsElsewhere"


def test_a_node_that_could_never_give_the_size_counts_too() -> None:
    cluster = Cluster(a_group("large", "16")).nodes(a_node("old", "2"))
    cluster.place(a_pod("web"), "old")
    cluster.recommend("web", cpu="3")
    cluster.resize("web", "3", "Infeasible", "Node didn't have enough capacity: cpu, requested: 3000, capacity: 2000")
    assert cluster.ordered() == {"large": 1}


def test_an_infeasible_resize_that_is_not_for_lack_of_capacity_gets_no_node() -> None:
    cluster = Cluster(a_group("small")).add_group_nodes("small", 1)
    cluster.place(a_pod("web"), "small-1")
    cluster.recommend("web", cpu="3")
    cluster.resize("web", "3", "Infeasible", "resizing containers with swap is not supported")
    assert cluster.ordered() == {}
    assert code(cluster) == ""


def test_a_resize_that_fits_on_its_node_once_the_kubelet_tries_again_gets_no_node() -> None:
    cluster = resizing()
    cluster.delete("other")
    assert cluster.ordered() == {}
    assert code(cluster) == ""


def test_existing_headroom_is_used_before_a_node_is_ordered() -> None:
    cluster = resizing().add_group_nodes("small", 1)
    assert cluster.ordered() == {}
    assert code(cluster) == "ResizeFitsElsewhere"


def test_a_pod_that_is_never_evicted_gets_no_node_and_the_reason() -> None:
    cluster = resizing(evictable=False)
    assert cluster.ordered() == {}
    assert code(cluster) == "ResizeWithoutEviction"


def test_a_pod_that_no_vpa_governs_gets_no_node_and_the_reason() -> None:
    cluster = resizing()
    cluster.snapshot.put_recommended_size(("default", "web"), None)
    assert cluster.ordered() == {}
    assert code(cluster) == "ResizeWithoutEviction"


def test_demand_ends_when_the_resize_is_withdrawn_or_the_pod_is_gone() -> None:
    withdrawn = resizing()
    withdrawn.place(a_pod("web"), "small-1")
    assert withdrawn.ordered() == {}
    gone = resizing()
    gone.delete("web")
    assert gone.ordered() == {}


def test_of_two_resizes_on_a_node_only_the_one_that_has_to_leave_counts() -> None:
    cluster = Cluster(a_group("small")).add_group_nodes("small", 1)
    for name in ("a", "b"):
        cluster.place(a_pod(name), "small-1")
    cluster.place(a_pod("other", "2"), "small-1")
    for name in ("a", "b"):
        cluster.recommend(name, cpu="1500m")
        cluster.resize(name, "1500m")
    assert cluster.ordered() == {"small": 1}
    assert (code(cluster, "a"), code(cluster, "b")) == ("ResizeAwaitsNode", "")


def test_pending_pods_are_placed_before_replacements() -> None:
    cluster = resizing().add_group_nodes("small", 1)
    cluster.create(a_pod("new", "2"))
    plan = cluster.plan()
    assert [order.count for order in plan.orders] == [1]
    assert [one.reason.reason.code for one in plan.pods] == ["PodFits"]
    assert code(cluster) == "ResizeAwaitsNode"


def test_a_replacement_has_the_size_that_admission_gives_with_its_boost() -> None:
    cluster = resizing().add_group_nodes("small", 1)
    cluster.recommend("web", cpu="3", starting="5")
    assert cluster.ordered() == {}
    assert code(cluster) == "NoGroupFits"


def test_a_replacement_counts_as_no_miss_of_a_buffer() -> None:
    cluster = resizing()
    cluster.buffers(a_buffer("spare", 1, a_spec("3")))
    assert cluster.plan().buffers[0].misses == 0


def test_no_node_is_ordered_where_the_setting_is_off() -> None:
    cluster = resizing()
    cluster.settings = msgspec.structs.replace(SETTINGS, scale_up_for_resizes=False)
    assert cluster.ordered() == {}
    assert code(cluster) == ""
