"""Nodes that stay keep headroom for recommended growth, and for pods whose resizes do not fit on their nodes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from support.worlds.nodes import a_group
from support.worlds.scale_down import ShrinkingCluster, a_web_pod
from trellis.core.fit.resources import CPU
from trellis.core.nodes.settings import ScaleDownSettings

CORES = 4000
UNNEEDED = "NodeUnneeded"
KEPT = "NoHeadroomForRecommendations"


def a_cluster(nodes: int, *, headroom: bool = True, threshold: float = 0.5) -> ShrinkingCluster:
    down = ScaleDownSettings(scale_down_utilization_threshold=threshold, scale_down_recommendation_headroom=headroom)
    return ShrinkingCluster(a_group("small"), down=down).add_group_nodes("small", nodes)


def full_beside(moved: str, *, headroom: bool = True, **recommended: str) -> ShrinkingCluster:
    """A node of three cores in use, and one with a pod of one core that would fit there."""
    cluster = a_cluster(2, headroom=headroom).run("small-1", a_web_pod("stays", "3")).run("small-2", a_web_pod("moves"))
    cluster.recommend(moved, **recommended)  # type: ignore[arg-type]
    cluster.plan_removals()
    return cluster


def test_a_node_is_kept_if_its_pods_fit_only_without_the_growth_of_others() -> None:
    cluster = full_beside("stays", cpu="3500m")
    assert cluster.reason_code("small-2") == KEPT
    assert "1 pod of namespace default" in cluster.decisions["small-2"].reason.details


def test_without_headroom_such_a_node_is_removed() -> None:
    assert full_beside("stays", headroom=False, cpu="3500m").reason_code("small-2") == UNNEEDED


def test_growth_that_leaves_enough_space_keeps_no_node() -> None:
    assert full_beside("stays", cpu="3").reason_code("small-2") == UNNEEDED


def test_a_lower_recommendation_makes_no_space_before_it_is_applied() -> None:
    cluster = full_beside("stays", cpu="1")
    cluster.run("small-1", a_web_pod("more", "800m"))
    cluster.plan_removals()
    assert cluster.reason_code("small-2") == "NoPlaceForPods"


def test_a_moved_pod_counts_with_the_recommended_size_if_that_is_larger() -> None:
    assert full_beside("moves", cpu="1500m").reason_code("small-2") == "NoPlaceForPods"


def test_a_moved_pod_counts_with_the_recommended_size_if_that_is_smaller() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("stays", "3")).run("small-2", a_web_pod("moves", "2"))
    cluster.plan_removals()
    assert cluster.reason_code("small-2") == "NoPlaceForPods"
    cluster.recommend("moves", cpu="1")
    cluster.now += 600
    cluster.plan_removals()
    assert cluster.reason_code("small-2") == UNNEEDED


def test_an_empty_node_is_kept_for_a_pod_that_must_leave_its_node_to_grow() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("grows", "2"), a_web_pod("other", "2"))
    cluster.recommend("grows", cpu="3")
    cluster.plan_removals()
    assert cluster.reason_code("small-2") == KEPT
    assert "1 replacement" in cluster.decisions["small-2"].reason.details


def test_an_empty_node_is_not_kept_for_a_pod_that_is_never_evicted() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("grows", "2"), a_web_pod("other", "2"))
    cluster.recommend("grows", cpu="3", evictable=False)
    cluster.plan_removals()
    assert cluster.reason_code("small-2") == UNNEEDED


def test_only_as_many_pods_count_as_have_to_leave() -> None:
    cluster = a_cluster(3)
    cluster.run("small-1", a_web_pod("a", "2"), a_web_pod("b", "2"))
    for name in ("a", "b"):
        cluster.recommend(name, cpu="2500m")
    cluster.plan_removals()
    assert sorted(cluster.reason_code(f"small-{number}") for number in (2, 3)) == [KEPT, UNNEEDED]


def test_a_node_is_kept_for_the_replacement_of_a_deferred_resize() -> None:
    cluster = a_cluster(2, headroom=False).run("small-1", a_web_pod("web"), a_web_pod("other", "3"))
    cluster.recommend("web", cpu="3")
    cluster.resize("web", "3")
    cluster.plan_removals()
    assert cluster.reason_code("small-2") == "NoPlaceForResizes"
    cluster.recommend("web", cpu="3", evictable=False)
    cluster.now += 600
    cluster.plan_removals()
    assert cluster.reason_code("small-2") == UNNEEDED


def test_a_pod_with_a_deferred_resize_on_a_drained_node_needs_one_place_only() -> None:
    cluster = a_cluster(3, threshold=2.0).run("small-1", a_web_pod("web"), a_web_pod("other", "1500m"))
    cluster.run("small-2", a_web_pod("beside", "1")).run("small-3", a_web_pod("half", "2500m"))
    cluster.recommend("web", cpu="3")
    cluster.resize("web", "3")
    for name in ("small-2", "small-3"):
        cluster.annotate(name, **{"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"})
    # Space for it is held on the second node, where it goes.
    assert cluster.plan().resizes[0].on_ready == 1
    cluster.plan_removals()
    assert cluster.reason_code("small-1") == UNNEEDED


def test_pods_are_not_moved_into_the_space_that_a_deferred_resize_waits_for() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("web"), a_web_pod("other", "2")).run("small-2", a_web_pod("moves"))
    cluster.plan_removals()
    assert cluster.reason_code("small-2") == UNNEEDED
    # One core is free on the node, and the resize needs two: they are counted, so that nothing is left.
    cluster.resize("web", "3")
    cluster.plan_removals()
    assert cluster.reason_code("small-2") == "NoPlaceForPods"
    free = cluster.snapshot.running.used.free(CPU)[cluster.snapshot.table.find("small-1")]
    assert free == -1000


def test_a_removal_in_progress_goes_on_when_recommendations_rise() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("stays", "2")).run("small-2", a_web_pod("moves"))
    cluster.run_passes(610)
    assert cluster.tainted_nodes == ["small-2"]
    cluster.recommend("stays", cpu="3500m")
    cluster.run_passes(60)
    assert cluster.released == ["small-2"]


class Drawn(msgspec.Struct, frozen=True):
    """A pod on one of the nodes: its millicores, and those that a VPA recommends."""

    node: int
    cpu: int
    target: int
    evictable: bool


DRAWN = st.lists(
    st.builds(
        Drawn,
        node=st.integers(1, 3),
        cpu=st.sampled_from((250, 500, 1000, 1500, 2000)),
        target=st.sampled_from((0, 250, 750, 1500, 2500)),
        evictable=st.booleans(),
    ),
    max_size=7,
)


def a_world(drawn: Sequence[Drawn], *, headroom: bool) -> ShrinkingCluster:
    """Three nodes, of which only the first may be removed."""
    cluster = a_cluster(3, headroom=headroom, threshold=1.0)
    used = [0, 0, 0, 0]
    for at, pod in enumerate(drawn):
        if used[pod.node] + pod.cpu > CORES:
            continue
        used[pod.node] += pod.cpu
        cluster.run(f"small-{pod.node}", a_web_pod(f"p{at}", f"{pod.cpu}m", "1Mi"))
        if pod.target:
            cluster.recommend(f"p{at}", cpu=f"{pod.target}m", evictable=pod.evictable)
    for name in ("small-2", "small-3"):
        cluster.annotate(name, **{"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"})
    cluster.plan_removals()
    return cluster


@given(DRAWN)
@settings(max_examples=100, deadline=None)
def test_headroom_only_keeps_nodes_and_says_so(drawn: list[Drawn]) -> None:
    with_headroom, without = (a_world(drawn, headroom=headroom).reason_code("small-1") for headroom in (True, False))
    assert with_headroom in {without, KEPT}
    assert with_headroom != KEPT or without == UNNEEDED


@given(DRAWN)
@settings(max_examples=100, deadline=None)
def test_after_a_removal_the_moved_pods_fit_beside_all_growth(drawn: list[Drawn]) -> None:
    cluster = a_world(drawn, headroom=True)
    if cluster.reason_code("small-1") != UNNEEDED:
        return
    growth = cluster.snapshot.growth
    replacements, free = [], {"small-2": CORES, "small-3": CORES}
    for key, placed in cluster.snapshot.placed.items():
        own = placed.demand.requests[CPU]
        if placed.node in free:
            free[placed.node] -= own + dict(growth.get_amounts(key)).get(CPU, 0)
        else:
            replacements.append(growth.get_size(key).starting.get("app", {}).get(CPU, own))
    assert any(
        all(
            sum(cpu for cpu, name in zip(replacements, names, strict=True) if name == node) <= max(left, 0)
            for node, left in free.items()
        )
        for names in product(free, repeat=len(replacements))
    )
