"""Registered nodes that are not up yet: their pods, and how they count."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.worlds.nodes import Cluster, a_buffer, a_group, a_node, a_pod, a_spec
from trellis.core.nodes.node_groups import GroupState, Instance, InstanceState
from trellis.core.nodes.settings import ScaleUpSettings
from trellis.core.nodes.state.snapshot import match_instances

MINIMUM: dict[str, Any] = {"recreationStrategy": "KeepMinimum"}


def starting(cluster: Cluster, state: InstanceState = InstanceState.ORDERED) -> Cluster:
    """A node of the group whose Node is there, and is not ready."""
    cluster.nodes(a_node("small-1", ready=False, labels={"group": "small"}))
    cluster.instances["small"].append(Instance("small-1", state, cluster.now, "small-1"))
    cluster.update_groups()
    return cluster


def test_a_starting_node_counts_once_for_the_limits_of_the_cluster() -> None:
    cluster = starting(Cluster(a_group("small"), settings=ScaleUpSettings(max_nodes_total=2))).create_pods(8)
    assert cluster.ordered() == {"small": 1}


@pytest.mark.parametrize("state", [InstanceState.ORDERED, InstanceState.RUNNING])
def test_a_pod_placed_on_a_starting_node_uses_its_capacity(state: InstanceState) -> None:
    cluster = starting(Cluster(a_group("small")), state).place(a_pod("early", cpu="3"), "small-1")
    assert cluster.create(a_pod("late", cpu="3")).ordered() == {"small": 1}


def test_daemon_set_pods_of_a_starting_node_are_counted_once() -> None:
    cluster = starting(Cluster(a_group("small")))
    cluster.place(a_pod("agent", cpu="2", owner=("DaemonSet", "agent")), "small-1")
    # As every node of the group has it: there is room for the rest, and the template says how much.
    assert cluster.create(a_pod("late", cpu="4")).ordered() == {}


def test_the_buffer_of_higher_priority_gets_the_existing_headroom() -> None:
    cluster = Cluster().nodes(a_node("only"))
    cluster.buffers(a_buffer("a", 1, a_spec("3")), a_buffer("b", 1, a_spec("3", priority=5)))
    cluster.plan()
    assert [cluster.buffer(name).is_provisioned for name in "ab"] == [False, True]


def test_a_keep_minimum_buffer_counts_nodes_ordered_for_pods() -> None:
    cluster = Cluster(a_group("small")).buffers(a_buffer("floor", 1, a_spec("4"), **MINIMUM))
    assert cluster.create(a_pod("web", cpu="4")).ordered() == {"small": 1}


def test_arrivals_on_deleted_nodes_are_forgotten() -> None:
    cluster = Cluster().nodes(a_node("gone"), a_node("there"))
    cluster.place(a_pod("a"), "gone").place(a_pod("b"), "there")
    cluster.snapshot.put_node("gone", None)
    assert cluster.snapshot.pop_arrivals() == {"there": 1}


def test_a_chunk_keeps_the_node_that_was_ordered_for_it() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("old")).place(a_pod("web", cpu="4"), "old")
    cluster.buffers(a_buffer("spare", 1, a_spec("3")))
    assert cluster.ordered() == {"small": 1}
    cluster.execute_orders().wait(120).delete("web")
    cluster.plan()
    assert cluster.buffer("spare").nodes == ("small-1",)


def test_a_node_belongs_to_the_group_whose_instance_names_it() -> None:
    group, other = a_group("small"), a_group("other")
    node = a_node("n")
    node = msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, provider_id="theirs"))
    by_id = GroupState(other, 1, (Instance("theirs", InstanceState.RUNNING, 0.0),))
    by_name = GroupState(group, 1, (Instance("ours", InstanceState.RUNNING, 0.0, "n"),))
    matches = match_instances((by_id, by_name), {"n": node})
    assert (matches.instances["n"][0], matches.nodes) == ("small", {("small", "ours"): "n"})


SPECIAL: dict[str, Any] = {"nodeSelector": {"group": "special"}}


def test_a_place_on_an_upcoming_node_stays_whatever_the_priority_of_other_buffers() -> None:
    cluster = Cluster(a_group("special", most=1), a_group("usual", price=9.0))
    cluster.buffers(a_buffer("bound", 1, a_spec("3", **SPECIAL)))
    assert cluster.ordered() == {"special": 1}
    cluster.execute_orders().buffers(a_buffer("new", 1, a_spec("3", priority=5)))
    assert cluster.ordered() == {"usual": 1}
    assert cluster.buffer("bound").on_upcoming == 1
    cluster.execute_orders().wait(120).plan()
    assert [cluster.buffer(name).nodes for name in ("bound", "new")] == [("special-1",), ("usual-1",)]


def test_a_chunk_prefers_a_ready_node_to_its_upcoming_one() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("old")).place(a_pod("web", cpu="4"), "old")
    cluster.buffers(a_buffer("spare", 1, a_spec("3")))
    assert cluster.ordered() == {"small": 1}
    cluster.execute_orders().delete("web").plan()
    assert cluster.buffer("spare").nodes == ("old",)
