"""Unneeded nodes get a taint by which the scheduler prefers other nodes, and lose it when they are needed again."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.worlds.nodes import a_group, a_node, a_pod
from support.worlds.scale_down import DOWN, ShrinkingCluster, a_web_pod
from trellis.api.kube.nodes import Taint
from trellis.core.nodes.scale_down.decisions import NodeOutcome, ScaleDownPlan, SetTaints
from trellis.core.nodes.scale_down.remembered_state import ScaleDownMemory
from trellis.core.nodes.scale_down.removal_steps import has_leaving_taint
from trellis.core.nodes.scale_down.soft_taints import has_soft_taint
from trellis.core.nodes.state.readiness import LEAVING_TAINT, UNNEEDED_TAINT


def a_cluster(count: int = 3, **group: object) -> ShrinkingCluster:
    cluster = ShrinkingCluster(a_group("small", **group))  # type: ignore[arg-type]  # figures of the group
    return cluster.add_group_nodes("small", count)


def soft_tainted(cluster: ShrinkingCluster) -> list[str]:
    return [name for name, node in cluster.snapshot.nodes.items() if has_soft_taint(node)]


def written(plan: ScaleDownPlan) -> list[str]:
    return [action.node for action in plan.actions if isinstance(action, SetTaints)]


def set_taints(cluster: ShrinkingCluster, name: str, *taints: Taint) -> None:
    node = cluster.snapshot.nodes[name]
    cluster.change(msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=taints)))


def soft(since: float = 0.0) -> Taint:
    return Taint(UNNEEDED_TAINT, f"{since:.0f}", "PreferNoSchedule")


def test_a_node_that_stays_unneeded_is_softly_tainted_with_the_time_since_when() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("a", "3"))
    since = cluster.now
    assert cluster.run_pass(30).requeue_at == since + 30
    assert soft_tainted(cluster) == []
    cluster.run_pass()
    assert cluster.snapshot.nodes["small-2"].spec.taints == (soft(since),)
    assert soft_tainted(cluster) == ["small-2"]


def test_nothing_is_written_while_nothing_changes() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("a", "3")).run_passes(60)
    assert soft_tainted(cluster) == ["small-2"]
    assert [written(cluster.run_pass()) for _ in range(20)] == [[]] * 20


def test_a_node_that_is_needed_again_loses_the_taint_in_the_next_pass() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("a", "3")).run_passes(60)
    cluster.run("small-2", a_web_pod("b", "3"))
    assert written(cluster.run_pass()) == ["small-2"]
    assert cluster.snapshot.nodes["small-2"].spec.taints == ()


def test_a_node_that_is_unneeded_for_a_pass_now_and_then_is_never_tainted() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("full", "3"))
    for number in range(20):
        assert written(cluster.run_pass()) == []
        assert cluster.decisions["small-2"].outcome is NodeOutcome.UNNEEDED
        cluster.run("small-2", a_web_pod(f"short-{number}", "3"))
        assert written(cluster.run_pass()) == []
        cluster.delete(f"short-{number}")


def test_other_taints_of_the_node_stay() -> None:
    cluster, other = a_cluster(1), Taint("dedicated", "batch", "NoSchedule")
    set_taints(cluster, "small-1", other)
    cluster.run_passes(60)
    assert [taint.key for taint in cluster.snapshot.nodes["small-1"].spec.taints] == ["dedicated", UNNEEDED_TAINT]
    cluster.run("small-1", a_web_pod("a", "3")).run_pass()
    assert cluster.snapshot.nodes["small-1"].spec.taints == (other,)


def test_a_limited_number_of_nodes_is_tainted_in_a_pass_the_longest_unneeded_first() -> None:
    cluster = a_cluster(12)
    cluster.down = msgspec.structs.replace(DOWN, max_bulk_soft_taint_count=5)
    for number in range(1, 13):
        cluster.run(f"small-{number}", a_web_pod(f"p{number}", "3"))
    cluster.run_pass()
    cluster.delete("p7")
    cluster.run_pass()
    cluster.delete(*(f"p{number}" for number in range(1, 13) if number != 7))
    cluster.run_pass(30)
    assert written(cluster.run_pass(0)) == ["small-7", "small-1", "small-10", "small-11", "small-12"]
    assert [len(written(cluster.run_pass())) for _ in range(3)] == [5, 2, 0]
    assert len(soft_tainted(cluster)) == 12

    cluster.run("small-3", a_web_pod("again", "3"))
    set_taints(cluster, "small-9")
    cluster.down = msgspec.structs.replace(DOWN, max_bulk_soft_taint_count=1)
    assert written(cluster.run_pass()) == ["small-3"], "a taint is removed before another is set"
    assert written(cluster.run_pass()) == ["small-9"]


def test_without_a_number_of_nodes_none_is_tainted_and_existing_taints_are_removed_ten_at_a_time() -> None:
    cluster = a_cluster(12).run_passes(80)
    assert len(soft_tainted(cluster)) == 12
    cluster.down = msgspec.structs.replace(DOWN, max_bulk_soft_taint_count=0)
    assert [len(written(cluster.run_pass())) for _ in range(3)] == [10, 2, 0]
    assert soft_tainted(cluster) == []


def test_disabling_scale_down_removes_the_taints() -> None:
    cluster = a_cluster(2).run_passes(60)
    assert len(soft_tainted(cluster)) == 2
    cluster.down = msgspec.structs.replace(DOWN, scale_down_enabled=False)
    cluster.run_pass()
    assert soft_tainted(cluster) == []


def test_the_leaving_taint_replaces_the_soft_one_and_a_stopped_removal_leaves_neither() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("a", "3")).run_passes(600)
    assert soft_tainted(cluster) == ["small-2"]
    cluster.run_pass(1)
    assert [taint.key for taint in cluster.snapshot.nodes["small-2"].spec.taints] == [LEAVING_TAINT]
    cluster.run("small-2", a_web_pod("late", "3"))
    cluster.run_pass()
    assert cluster.reason_code("small-2") == "PodArrivedDuringRemoval"
    assert cluster.snapshot.nodes["small-2"].spec.taints == ()


def test_taints_of_an_earlier_process_stay_on_unneeded_nodes_and_are_removed_from_others() -> None:
    cluster = a_cluster(3).run("small-1", a_web_pod("a", "3")).run("small-3", a_web_pod("b", "3"))
    set_taints(cluster, "small-2", soft(cluster.now - 300))
    set_taints(cluster, "small-3", soft(cluster.now - 300))
    assert cluster.scale_down_memory == ScaleDownMemory()
    assert written(cluster.run_pass()) == ["small-3"]
    cluster.run_passes(100)
    assert soft_tainted(cluster) == ["small-2"]
    assert cluster.snapshot.nodes["small-2"].spec.taints == (soft(cluster.now - 110 - 300),), "it is not written anew"


def test_a_taint_on_a_node_outside_all_groups_is_left_to_the_process_that_set_it() -> None:
    cluster = a_cluster(0)
    cluster.nodes(a_node("theirs", taints=[{"key": UNNEEDED_TAINT, "value": "1", "effect": "PreferNoSchedule"}]))
    for _ in range(10):
        assert written(cluster.run_pass(3600)) == []
    assert soft_tainted(cluster) == ["theirs"]


def test_a_taint_of_ours_is_removed_when_the_group_of_its_node_is_gone() -> None:
    cluster = a_cluster(12).run_passes(80)
    cluster.groups = {}
    cluster.update_groups()
    assert [len(written(cluster.run_pass())) for _ in range(3)] == [10, 2, 0]
    assert soft_tainted(cluster) == []


@pytest.mark.parametrize("key", ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"])
def test_a_node_that_another_autoscaler_removes_is_not_changed(key: str) -> None:
    cluster = a_cluster(1).run_passes(60)
    set_taints(cluster, "small-1", soft(), Taint(key, "", "NoSchedule"))
    assert [written(cluster.run_pass()) for _ in range(10)] == [[]] * 10


def test_a_node_that_is_not_ready_is_not_tainted() -> None:
    cluster = a_cluster(1)
    cluster.mark_unready("small-1")
    cluster.run_passes(120)
    assert cluster.decisions["small-1"].outcome is NodeOutcome.UNNEEDED
    assert soft_tainted(cluster) == []


def test_a_node_whose_drain_is_not_simulated_stays_as_it_is() -> None:
    cluster = a_cluster(4).run("small-4", a_web_pod("full", "3"))
    cluster.down = msgspec.structs.replace(DOWN, max_nodes_tried=1)
    for number in range(1, 4):
        cluster.run(f"small-{number}", a_web_pod(f"p{number}", "100m"))
    set_taints(cluster, "small-2", soft())
    set_taints(cluster, "small-3", soft())
    cluster.run_pass()
    not_simulated = [name for name in cluster.decisions if cluster.reason_code(name) == "NodeNotSimulated"]
    assert not_simulated
    assert {*not_simulated} & {*soft_tainted(cluster)} == {*not_simulated} & {"small-2", "small-3"}


def test_a_pod_that_fits_only_on_a_softly_tainted_node_triggers_no_scale_up() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("a", "3")).run_passes(60)
    assert soft_tainted(cluster) == ["small-2"]
    cluster.create(a_pod("new", "3"))
    assert cluster.ordered() == {}
    cluster.schedule()
    assert cluster.snapshot.placed["default", "new"].node == "small-2"


STEPS = st.lists(st.tuples(st.sampled_from(["run", "end", "pass"]), st.integers(1, 6)), min_size=5, max_size=60)


@given(STEPS, st.integers(0, 3))
def test_each_write_changes_something_and_no_node_has_both_taints(steps: list[tuple[str, int]], most: int) -> None:
    cluster = a_cluster(6)
    cluster.down = msgspec.structs.replace(
        DOWN, max_bulk_soft_taint_count=most, scale_down_unneeded_seconds=120.0, unremovable_node_recheck_seconds=20.0
    )
    running: dict[int, list[str]] = {}
    serial = 0
    for step, number in steps:
        name = f"small-{number}"
        if step == "run" and name in cluster.snapshot.nodes and not has_leaving_taint(cluster.snapshot.nodes[name]):
            serial += 1
            cluster.run(name, a_web_pod(f"p{serial}", "700m"))
            running.setdefault(number, []).append(f"p{serial}")
        elif step == "end" and running.get(number):
            pod = running[number].pop()
            if pod in cluster.pods:
                cluster.delete(pod)
        before = {name: node.spec.taints for name, node in cluster.snapshot.nodes.items()}
        plan = cluster.plan_removals()
        actions = [action for action in plan.actions if isinstance(action, SetTaints)]
        assert len({action.node for action in actions}) == len(actions)
        assert all(action.taints != before[action.node] for action in actions)
        changes = [
            action.node
            for action in actions
            if LEAVING_TAINT not in {taint.key for taint in (*action.taints, *before[action.node])}
        ]
        assert len(changes) <= (most or 10)
        cluster.execute(plan)
        for node in cluster.snapshot.nodes.values():
            assert not (has_leaving_taint(node) and has_soft_taint(node))
        cluster.plan()
        cluster.schedule()
        cluster.wait(10 * number)
    assert {*soft_tainted(cluster)} == cluster.scale_down_memory.soft_tainted & {*cluster.snapshot.nodes}
