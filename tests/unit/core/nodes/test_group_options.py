"""What a provider says of one group: settings of its own, and why its size cannot change now."""

from __future__ import annotations

import pytest

from support.worlds.nodes import Cluster, a_group, a_node
from support.worlds.scale_down import ShrinkingCluster, a_web_pod
from trellis.api.kube.nodes import Node
from trellis.base.prices import EXAMPLE_PRICES
from trellis.base.reasons import DetailedReason, Reason
from trellis.core.nodes.node_groups import (
    GroupOptions,
    GroupState,
    Instance,
    InstanceState,
    estimate_price,
    find_group_problem,
    find_order_problem,
    find_release_problems,
)
from trellis.core.nodes.settings import ScaleDownSettings, ScaleUpSettings, apply_options

PAUSED = DetailedReason(Reason("GroupPaused", "The node group is paused."), "small is paused")


def build_two_groups(**options: float) -> ShrinkingCluster:
    """Two groups with two nodes each, the first of which has options."""
    cluster = ShrinkingCluster(a_group("own", options=GroupOptions(**options)), a_group("usual"))
    cluster.add_group_nodes("own", 2)
    return cluster.add_group_nodes("usual", 2)


def test_a_group_without_options_has_the_settings_of_the_autoscaler() -> None:
    settings = ScaleDownSettings()
    assert apply_options(settings, GroupOptions()) is settings


def test_an_option_replaces_the_setting_of_its_name_in_both_directions() -> None:
    options = GroupOptions(scale_down_unneeded_seconds=0.0, max_node_provision_seconds=60.0)
    down, up = apply_options(ScaleDownSettings(), options), apply_options(ScaleUpSettings(), options)
    assert (down.scale_down_unneeded_seconds, down.max_node_provision_seconds) == (0.0, 60.0)
    assert (up.max_node_provision_seconds, up.max_nodes_total) == (60.0, 0)
    assert down.scale_down_utilization_threshold == ScaleDownSettings().scale_down_utilization_threshold


def test_the_nodes_of_a_group_wait_as_long_as_its_own_option_says() -> None:
    cluster = build_two_groups(scale_down_unneeded_seconds=60.0).run_passes(120)
    assert sorted(set(cluster.released)) == ["own-1", "own-2"]
    cluster.run_passes(700)
    assert sorted(cluster.released) == ["own-1", "own-2", "usual-1", "usual-2"]


def test_the_threshold_of_a_group_decides_about_its_nodes_alone() -> None:
    cluster = build_two_groups(scale_down_utilization_threshold=0.2)
    for node in ("own-1", "usual-1"):
        cluster.run(node, a_web_pod(f"on-{node}", "1200m"))
    cluster.plan_removals()
    assert cluster.reason_code("own-1") == "NodeInUse"
    assert cluster.reason_code("usual-1") == "NodeUnneeded"


def test_unready_nodes_of_a_group_wait_as_long_as_its_own_option_says() -> None:
    cluster = build_two_groups(scale_down_unready_seconds=30.0)
    for name in ("own-1", "usual-1"):
        cluster.run(name.replace("1", "2"), a_web_pod(f"beside-{name}", "3"))
        cluster.mark_unready(name)
    cluster.run_passes(120)
    assert cluster.released == ["own-1"]


def test_an_order_is_overdue_after_the_time_of_its_group() -> None:
    cluster = Cluster(a_group("own", options=GroupOptions(max_node_provision_seconds=60.0))).create_pods(1)
    assert cluster.ordered() == {"own": 1}
    cluster.execute_orders()
    cluster.now += 59
    assert not cluster.plan().releases
    cluster.now += 2
    assert [release.group for release in cluster.plan().releases] == ["own"]


def test_nothing_is_ordered_from_a_suspended_group_and_its_reason_is_reported() -> None:
    cluster = Cluster(a_group("small"))
    cluster.suspend("small", PAUSED)
    cluster.create_pods(1)
    assert cluster.ordered() == {}
    assert cluster.last is not None
    assert cluster.last.pods[0].refused[0].reason == PAUSED.reason
    cluster.suspend("small", None)
    assert cluster.ordered() == {"small": 1}


def test_pods_get_nodes_of_another_group_while_the_cheaper_one_is_suspended() -> None:
    cluster = Cluster(a_group("small"), a_group("dear", price=3.0))
    cluster.suspend("small", PAUSED)
    assert cluster.create_pods(4).ordered() == {"dear": 1}


def test_pods_count_on_the_nodes_of_a_suspended_group() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("bare", cpu="100m"))
    cluster.add_group_nodes("small", 1)
    cluster.suspend("small", PAUSED)
    cluster.create_pods(1)
    assert cluster.ordered() == {}
    assert cluster.last is not None
    assert cluster.last.pods[0].on_ready == 1


def test_no_node_of_a_suspended_group_is_removed_and_a_removal_in_progress_ends() -> None:
    cluster = ShrinkingCluster(a_group("small")).add_group_nodes("small", 2)
    cluster.run_pass(600)
    cluster.run_pass(1)
    assert cluster.tainted_nodes
    cluster.suspend("small", PAUSED)
    cluster.run_passes(1500)
    assert (cluster.tainted_nodes, cluster.released) == ([], [])
    assert {cluster.reason_code(name) for name in cluster.snapshot.nodes} == {"GroupPaused"}
    cluster.suspend("small", None)
    cluster.run_passes(1500)
    assert len(cluster.released) == 2


def test_providers_refuse_orders_and_releases_of_a_suspended_group_by_the_same_checks() -> None:
    instances = (Instance("a", InstanceState.RUNNING, 0.0), Instance("b", InstanceState.LEAVING, 0.0))
    state = GroupState(a_group("small"), 1, instances, PAUSED)
    assert find_order_problem(state, 2) is PAUSED
    assert find_order_problem(state, 1) is None, "repeating an order changes nothing"
    assert find_release_problems(state, ["a", "b"]) == {"a": PAUSED}, "what is leaving may be released again"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (GroupOptions(scale_down_utilization_threshold=1.5), "is 1.5, but must be 0 to 1"),
        (GroupOptions(scale_down_unneeded_seconds=float("nan")), "is nan, but must be 0 to"),
        (GroupOptions(max_node_provision_seconds=-1.0), "is -1.0, but must be 0 to"),
    ],
)
def test_an_impossible_option_is_a_problem_of_its_group(options: GroupOptions, problem: str) -> None:
    found = find_group_problem(GroupState(a_group("small", options=options), 0))
    assert problem in str(found)


def test_a_node_without_a_price_costs_its_resources_at_the_example_prices() -> None:
    template = a_group("small", cpu="4", memory="16Gi").template
    assert estimate_price(template) == pytest.approx(EXAMPLE_PRICES.cost_per_hour(4.0, 16 * 2.0**30))
    assert estimate_price(Node()) == 0.0
