"""Nodes that are not needed go: after a time, after delays, a few at a time, and with nothing lost."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from support.worlds.nodes import a_buffer, a_group, a_node, a_pod, a_spec, apart
from support.worlds.scale_down import DOWN, ShrinkingCluster, a_budget, a_web_pod
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.storage import BIND_COMPLETED, PersistentVolume, PersistentVolumeClaim
from trellis.core.fit import Storage
from trellis.core.nodes.node_groups import InstanceState
from trellis.core.nodes.scale_down.decisions import NodeOutcome
from trellis.core.nodes.scale_down.remembered_state import ScaleDownMemory, record_added_nodes, record_failed_removal
from trellis.core.nodes.state.readiness import LEAVING_TAINT


def a_cluster(count: int = 3, **group: object) -> ShrinkingCluster:
    cluster = ShrinkingCluster(a_group("small", **group))  # type: ignore[arg-type]  # figures of the group
    cluster.add_group_nodes("small", count)
    return cluster


def test_an_empty_node_is_removed_after_ten_minutes() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("a", "3"))
    cluster.plan_removals()
    assert cluster.reason_code("small-1") == "NodeInUse"
    assert cluster.decisions["small-2"].outcome is NodeOutcome.UNNEEDED
    cluster.run_pass(590)
    assert not cluster.tainted_nodes
    cluster.run_passes(40)
    assert cluster.released == ["small-2"]
    assert list(cluster.snapshot.nodes) == ["small-1"]


def test_a_node_is_tainted_first_and_released_after_the_delay() -> None:
    cluster = a_cluster(1)
    cluster.run_pass(600)
    cluster.run_pass(1)
    assert cluster.tainted_nodes == ["small-1"]
    cluster.run_pass(1)
    assert cluster.reason_code("small-1") == "NodeDeleteDelayAfterTaint"
    cluster.wait(5)
    cluster.run_pass()
    assert cluster.released == ["small-1"]


def test_pods_of_an_underused_node_move_to_another() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("a", "2500m")).run("small-2", a_web_pod("b", "500m"))
    cluster.run_pass(600)
    cluster.run_passes(100)
    assert cluster.evicted == ["b"]
    assert cluster.released == ["small-2"]
    assert not cluster.pending
    assert {pod.node for pod in cluster.snapshot.placed.values()} == {"small-1"}


def test_a_node_whose_pods_fit_nowhere_else_is_kept_and_reported() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("a", "3")).run("small-2", a_web_pod("b", "1500m"))
    cluster.plan_removals()
    assert cluster.reason_code("small-2") == "NoPlaceForPods"
    cluster.run_passes(1500, every=30)
    assert cluster.released == []


def test_an_unremovable_node_is_not_tried_again_for_five_minutes() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("a", "3")).run("small-2", a_web_pod("b", "1500m"))
    cluster.run_pass()
    cluster.delete("a")
    cluster.run("small-1", a_web_pod("c", "2100m"))
    cluster.plan_removals()
    assert cluster.reason_code("small-2") == "NoPlaceForPods"
    cluster.wait(300)
    cluster.plan_removals()
    assert cluster.reason_code("small-2") == "NodeUnneeded"


def test_several_underused_nodes_are_consolidated_into_one() -> None:
    cluster = a_cluster(4)
    for number in range(1, 5):
        cluster.run(f"small-{number}", a_web_pod(f"pod-{number}", "500m"))
    cluster.run_passes(2400, every=30)
    assert len(cluster.snapshot.nodes) == 1
    assert len(cluster.snapshot.placed) == 4


def test_nodes_removed_together_do_not_take_pods_of_each_other() -> None:
    cluster = ShrinkingCluster(
        a_group("small"), down=msgspec.structs.replace(DOWN, max_drain_parallelism=5)
    ).add_group_nodes("small", 6)
    for number in range(1, 7):
        cluster.run(f"small-{number}", a_web_pod(f"pod-{number}", "500m"))
    cluster.run_passes(900, every=30)
    assert len(cluster.released) == 5
    assert sorted(cluster.evicted) == sorted({*cluster.evicted})
    assert not any("+" in name for name in cluster.evicted)


def test_a_group_never_falls_below_its_minimum_size() -> None:
    cluster = a_cluster(4, min_size=2)
    cluster.plan_removals()
    assert sorted(decision.outcome for decision in cluster.decisions.values()) == [
        "Kept",
        "Kept",
        "Unneeded",
        "Unneeded",
    ]
    cluster.run_passes(1500, every=30)
    assert len(cluster.snapshot.nodes) == 2
    assert {cluster.reason_code(name) for name in cluster.snapshot.nodes} == {"GroupAtMinimum"}


def test_nodes_outside_all_groups_are_kept() -> None:
    cluster = a_cluster(0)
    cluster.nodes(a_node("bare"))
    cluster.run_passes(1500, every=30)
    assert cluster.reason_code("bare") == "NodeWithoutGroup"


def test_at_most_ten_empty_nodes_and_one_with_pods_are_removed_at_a_time() -> None:
    cluster = a_cluster(20)
    for number in range(1, 6):
        cluster.run(f"small-{number}", a_web_pod(f"pod-{number}", "100m"))
    cluster.run("small-20", a_web_pod("large", "3"))
    cluster.run_pass(600)
    cluster.plan_removals()
    leaving = [name for name, decision in cluster.decisions.items() if decision.outcome is NodeOutcome.LEAVING]
    assert len(leaving) == 10
    assert sum(bool(cluster.snapshot.pods_on(name)) for name in leaving) <= 1
    assert "ScaleDownLimited" in {decision.reason.reason.code for decision in cluster.decisions.values()}


def test_only_one_node_with_pods_is_drained_at_a_time() -> None:
    cluster = a_cluster(5).run("small-5", a_web_pod("large", "3"))
    for number in range(1, 4):
        cluster.run(f"small-{number}", a_web_pod(f"pod-{number}", "100m"))
    cluster.run("small-4", a_web_pod("half", "2100m"))
    cluster.run_pass(600)
    cluster.run_pass()
    assert len(cluster.tainted_nodes) == 1


def test_a_node_that_takes_pods_of_a_drained_node_is_not_removed_with_it() -> None:
    cluster = ShrinkingCluster(a_group("a"), a_group("b"))
    cluster.add_group_nodes("a", 2).add_group_nodes("b", 1)
    cluster.run("a-1", a_web_pod("bound", "1", nodeSelector={"group": "a"})).run("a-2", a_web_pod("free", "1200m"))
    cluster.run("b-1", a_web_pod("full", "2500m"))
    cluster.plan_removals()
    assert (cluster.reason_code("a-1"), cluster.reason_code("a-2")) == ("NodeUnneeded", "NodeReceivesPods")


def test_a_failed_drain_simulation_takes_no_capacity_from_the_next() -> None:
    cluster = ShrinkingCluster(a_group("a"), a_group("b"))
    cluster.add_group_nodes("a", 2).add_group_nodes("b", 1)
    pinned = a_web_pod("pinned", "300m", nodeSelector={"kubernetes.io/hostname": "a-1"})
    cluster.run("a-1", a_web_pod("free", "600m"), pinned)
    cluster.run("a-2", a_web_pod("bound", "1200m", nodeSelector={"group": "b"}))
    cluster.run("b-1", a_web_pod("full", "2500m"))
    cluster.plan_removals()
    assert (cluster.reason_code("a-1"), cluster.reason_code("a-2")) == ("NoPlaceForPods", "NodeUnneeded")


def test_an_unready_node_is_removed_after_twenty_minutes() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("a", "3"))
    cluster.mark_unready("small-2")
    cluster.run_passes(1200, every=30)
    assert (cluster.tainted_nodes, cluster.released) == ([], [])
    cluster.run_passes(30)
    assert cluster.released == ["small-2"]


def test_a_setting_keeps_unready_nodes() -> None:
    cluster = a_cluster(1)
    cluster.down = msgspec.structs.replace(DOWN, scale_down_unready_enabled=False)
    cluster.mark_unready("small-1")
    cluster.plan_removals()
    assert cluster.reason_code("small-1") == "NodeUnreadyKept"


def test_no_node_is_removed_for_ten_minutes_after_an_order() -> None:
    cluster = a_cluster(1)
    cluster.run_pass(590)
    cluster.scale_down_memory = record_added_nodes(cluster.scale_down_memory, cluster.now)
    cluster.run_passes(600, every=60)
    assert cluster.reason_code("small-1") == "ScaleDownDelayed"
    assert cluster.released == []
    cluster.run_passes(40)
    assert cluster.released == ["small-1"]


def test_an_order_of_an_earlier_process_delays_removals() -> None:
    cluster = a_cluster(1)
    cluster.run_pass(595)
    cluster._order_instance("small", cluster.now)
    cluster.update_groups()
    cluster.wait(5)
    cluster.plan_removals()
    assert cluster.reason_code("small-1") == "ScaleDownDelayed"


def test_a_setting_delays_the_next_removal_after_the_last() -> None:
    cluster = a_cluster(2)
    cluster.down = msgspec.structs.replace(
        DOWN, max_scale_down_parallelism=1, scale_down_delay_after_delete_seconds=300.0
    )
    cluster.run_pass(600)
    cluster.run_passes(40)
    assert len(cluster.released) == 1
    cluster.run_pass()
    (remaining,) = cluster.snapshot.nodes
    assert cluster.reason_code(remaining) == "ScaleDownDelayed"
    cluster.run_passes(330)
    assert len(cluster.released) == 2


def test_a_refused_release_keeps_the_node_and_delays_the_next_removal() -> None:
    cluster = a_cluster(1)
    cluster.run_pass(600)
    cluster.run_pass()
    cluster.scale_down_memory = record_failed_removal(cluster.scale_down_memory, "small-1", cluster.now)
    cluster.run_pass()
    assert cluster.reason_code("small-1") == "StaleRemovalTaint"
    assert cluster.tainted_nodes == []
    cluster.scale_down_memory = msgspec.structs.replace(
        cluster.scale_down_memory, unneeded_since={"small-1": cluster.now - 1000}
    )
    cluster.plan_removals()
    assert cluster.reason_code("small-1") == "ScaleDownDelayed"


def test_leaving_taints_of_an_ended_process_are_removed() -> None:
    cluster = a_cluster(1)
    cluster.run_pass(600)
    cluster.run_pass(1)
    assert cluster.tainted_nodes == ["small-1"]
    cluster.scale_down_memory = ScaleDownMemory()
    cluster.run_pass()
    assert cluster.tainted_nodes == []
    assert cluster.reason_code("small-1") == "StaleRemovalTaint"
    cluster.plan_removals()
    assert cluster.reason_code("small-1") == "NodeUnneeded"


def test_a_node_that_gets_a_pod_during_its_removal_is_kept() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("a", "3"))
    cluster.run_pass(600)
    cluster.run_pass(1)
    assert cluster.tainted_nodes == ["small-2"]
    cluster.run("small-2", a_web_pod("late", "100m"))
    cluster.run_pass()
    assert cluster.reason_code("small-2") == "PodArrivedDuringRemoval"
    assert cluster.tainted_nodes == []
    assert cluster.released == []


def test_a_node_that_a_pending_pod_needs_is_kept() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("a", "3"))
    cluster.run_pass(600)
    cluster.run_pass(1)
    cluster.create(a_pod("waits", "3"))
    cluster.execute(cluster.plan_removals())
    assert cluster.reason_code("small-2") == "NodeNeededAgain"
    assert cluster.tainted_nodes == []
    assert cluster.plan().orders == ()


def test_a_node_without_its_taint_yet_is_kept_for_a_pending_pod() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("a", "3"))
    cluster.run_pass(600)
    cluster.plan_removals()
    assert cluster.reason_code("small-2") == "NodeTainted"
    cluster.create(a_pod("waits", "3"))
    assert cluster.plan_removals().actions == ()
    assert cluster.reason_code("small-2") == "NodeNeededAgain"


def test_a_leaving_taint_that_is_not_observed_is_written_again() -> None:
    cluster = a_cluster(1)
    cluster.run_pass(600)
    first = cluster.plan_removals()
    cluster.wait(10)
    repeated = cluster.plan_removals()
    assert first.actions == repeated.actions
    assert cluster.scale_down_memory.removals["small-1"].tainted_at is None


def test_a_node_that_never_shows_its_taint_is_kept_and_blocks_no_other_removal() -> None:
    cluster = a_cluster(1)
    cluster.run_pass(600)
    cluster.plan_removals()
    cluster.wait(120)
    assert cluster.plan_removals().memory.removals == {}
    assert cluster.reason_code("small-1") == "RemovalTaintNotObserved"
    assert cluster.scale_down_memory.last_failed_at == cluster.now


def test_an_unreadable_pod_keeps_only_its_own_node() -> None:
    cluster = a_cluster(3).run("small-1", a_web_pod("full", "2100m")).run("small-2", a_web_pod("odd", "100m", "lots"))
    cluster.plan_removals()
    assert (cluster.reason_code("small-2"), cluster.reason_code("small-3")) == ("PodDemandUnreadable", "NodeUnneeded")


def test_a_node_of_absurd_capacity_gets_the_same_decisions() -> None:
    cluster = a_cluster(1)
    amounts = {"cpu": "9e30", "memory": "none", "pods": "-5"}
    node = cluster.snapshot.nodes["small-1"]
    cluster.change(msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, allocatable=amounts)))
    cluster.run("small-1", a_web_pod("a", "1"))
    cluster.plan_removals()
    assert cluster.reason_code("small-1") == "NodeInUse"


def test_a_released_node_counts_until_its_group_shows_the_release() -> None:
    cluster = a_cluster(2, min_size=1)
    cluster.run_pass(600)
    cluster.run_pass(6)
    cluster.run_pass(6)
    cluster.plan_removals()
    assert sorted(decision.outcome for decision in cluster.decisions.values()) == ["Kept", "Leaving"]
    for _ in range(5):
        cluster.wait(10)
        cluster.plan_removals()
        assert sorted(decision.reason.reason.code for decision in cluster.decisions.values()) == [
            "GroupAtMinimum",
            "NodeReleased",
        ]


def test_a_new_node_with_the_name_of_a_removed_one_is_another_node() -> None:
    cluster = a_cluster(1)
    cluster.run_pass(600)
    cluster.run_pass(1)
    node = cluster.snapshot.nodes["small-1"]
    metadata = msgspec.structs.replace(node.metadata, uid="another")
    cluster.change(msgspec.structs.replace(node, metadata=metadata))
    plan = cluster.plan_removals()
    assert cluster.reason_code("small-1") == "StaleRemovalTaint"
    assert plan.memory.removals == {}
    assert plan.memory.last_deleted_at == cluster.now


def test_a_node_is_kept_if_its_pods_no_longer_fit_elsewhere() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("a", "2500m")).run("small-2", a_web_pod("b", "1"))
    cluster.run_pass(600)
    cluster.run_pass(1)
    assert cluster.tainted_nodes == ["small-2"]
    cluster.run("small-1", a_web_pod("c", "1"))
    cluster.run_pass()
    assert cluster.reason_code("small-2") == "NodeNeededAgain"
    assert cluster.tainted_nodes == []
    assert cluster.evicted == []


def test_a_node_whose_leaving_taint_is_removed_by_others_is_kept() -> None:
    cluster = a_cluster(1)
    cluster.run_pass(600)
    cluster.run_pass(1)
    cluster.run_pass(1)
    node = cluster.snapshot.nodes["small-1"]
    cluster.change(msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=())))
    cluster.run_pass()
    assert cluster.reason_code("small-1") == "RemovalTaintRemoved"
    assert cluster.released == []


def test_a_taint_on_a_node_outside_our_groups_is_removed_only_when_no_other_process_can_be_draining_it() -> None:
    cluster = a_cluster(0)
    cluster.nodes(
        a_node("theirs", taints=[{"key": LEAVING_TAINT, "value": f"{cluster.now:.0f}", "effect": "NoSchedule"}])
    )
    cluster.run_passes(1700, every=100)
    assert (cluster.reason_code("theirs"), cluster.tainted_nodes) == ("NodeWithoutGroup", ["theirs"])
    cluster.run_passes(200, every=100)
    assert cluster.tainted_nodes == []


def test_a_node_tainted_by_another_autoscaler_is_left_to_it() -> None:
    cluster = a_cluster(0)
    taints = [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]
    node = a_node("small-1", taints=taints)
    cluster._boot("small", cluster._order_instance("small", 0.0), 0.0)
    cluster.update_groups()
    cluster.change(node)
    plan = cluster.plan_removals()
    assert cluster.reason_code("small-1") == "NodeTerminating"
    assert plan.actions == ()


def test_the_taint_of_a_node_stays_while_its_instance_is_leaving() -> None:
    cluster = a_cluster(1)
    cluster.run_pass(600)
    cluster.run_pass(6)
    cluster.run_pass(6)
    plan = cluster.plan_removals()
    assert cluster.reason_code("small-1") == "NodeReleased"
    cluster.mark_leaving("small-1", "small")
    for _ in range(100):
        cluster.wait(10)
        plan = cluster.plan_removals()
        assert plan.actions == ()
        assert cluster.reason_code("small-1") == "NodeTerminating"


def test_a_released_node_that_the_provider_keeps_is_kept_after_a_while() -> None:
    cluster = a_cluster(1)
    cluster.run_pass(600)
    cluster.run_pass(6)
    cluster.run_pass(6)
    cluster.plan_removals()
    cluster.wait(60)
    cluster.plan_removals()
    assert cluster.reason_code("small-1") == "NodeReleased"
    cluster.wait(60)
    cluster.execute(cluster.plan_removals())
    assert cluster.reason_code("small-1") == "DeletionNotObserved"
    assert cluster.tainted_nodes == []


def test_removals_stop_when_scale_down_is_disabled() -> None:
    cluster = a_cluster(1)
    cluster.run_pass(600)
    cluster.run_pass(1)
    cluster.down = msgspec.structs.replace(DOWN, scale_down_enabled=False)
    cluster.run_pass()
    assert cluster.reason_code("small-1") == "ScaleDownOff"
    assert cluster.tainted_nodes == []


@pytest.mark.parametrize(
    "annotation", ["cluster_autoscaler.kubernetes.io__scale_down_disabled", "karpenter.sh__do_not_disrupt"]
)
def test_a_scale_down_disabled_annotation_keeps_a_node(annotation: str) -> None:
    cluster = a_cluster(1)
    cluster.annotate("small-1", **{annotation: "true"})
    cluster.run_passes(1000, every=30)
    assert cluster.reason_code("small-1") == "ScaleDownDisabled"
    assert not cluster.tainted_nodes


def test_a_starting_node_is_no_candidate() -> None:
    cluster = a_cluster(0)
    cluster._order_instance("small", cluster.now)
    cluster.update_groups()
    cluster.nodes(a_node("small-1", ready=False))
    cluster.instances["small"] = [msgspec.structs.replace(cluster.instances["small"][0], node="small-1")]
    cluster.update_groups()
    cluster.plan_removals()
    assert cluster.reason_code("small-1") == "NodeStarting"


def test_a_drain_evicts_pods_as_fast_as_budgets_allow() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("full", "2"))
    cluster.run("small-2", *(a_web_pod(f"pod-{at}", "100m", labels={"app": "web"}) for at in range(3)))
    cluster.budgets = [a_budget("web", 1, {"app": "web"})]
    cluster.run_pass(600)
    cluster.run_pass(6)
    cluster.run_pass(6)
    cluster.run_pass(1)
    assert len(cluster.evicted) == 1
    cluster.budgets = [a_budget("web", 0, {"app": "web"})]
    cluster.run_passes(60)
    assert len(cluster.evicted) == 1
    cluster.budgets = [a_budget("web", 2, {"app": "web"})]
    cluster.run_passes(30)
    assert len(cluster.evicted) == 3
    assert cluster.released == ["small-2"]


def test_a_drain_that_budgets_block_is_given_up() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("full", "2"))
    cluster.run("small-2", a_web_pod("a", "100m", labels={"app": "web"}))
    cluster.budgets = [a_budget("web", 1, {"app": "web"})]
    cluster.run_pass(600)
    cluster.run_pass(6)
    cluster.budgets = [a_budget("web", 0, {"app": "web"})]
    cluster.run_passes(130)
    assert cluster.evicted == []
    assert cluster.tainted_nodes == []
    assert cluster.scale_down_memory.last_failed_at > 0


def test_a_node_whose_pods_no_budget_lets_go_is_not_tainted() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("full", "2"))
    cluster.run("small-2", a_web_pod("a", "100m", labels={"app": "web"}))
    cluster.budgets = [a_budget("web", 0, {"app": "web"})]
    cluster.run_pass(600)
    cluster.run_passes(100)
    assert cluster.reason_code("small-2") == "DisruptionBudgetExhausted"
    assert cluster.tainted_nodes == []


def test_a_drain_waits_for_terminating_pods_for_their_grace_period() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("full", "3")).run("small-2", a_web_pod("a", "100m"))
    cluster.mark_terminating("a", cluster.now + 900)
    cluster.run_pass(600)
    cluster.run_passes(200)
    assert cluster.tainted_nodes == ["small-2"]
    assert cluster.evicted == []
    cluster.run_passes(160)
    assert cluster.released == ["small-2"]


def test_expendable_pods_need_no_other_node() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("full", "4"))
    cluster.run("small-2", a_web_pod("cheap", "4", priority=-100))
    cluster.run_pass(600)
    cluster.run_passes(50)
    assert cluster.evicted == ["cheap"]
    assert cluster.released == ["small-2"]


def test_daemon_set_pods_are_removed_with_their_node() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("full", "3"))
    cluster.run("small-2", a_web_pod("agent", "500m", owner=("DaemonSet", "agent")))
    cluster.run_pass(600)
    cluster.run_passes(30)
    assert cluster.evicted == []
    assert cluster.released == ["small-2"]


def test_inter_pod_rules_hold_in_the_drain_simulation() -> None:
    cluster = a_cluster(2)
    for number in (1, 2):
        cluster.run(f"small-{number}", a_web_pod(f"p{number}", "100m", labels={"app": "db"}, **apart({"app": "db"})))
    cluster.run_pass(600)
    cluster.run_passes(100)
    assert cluster.released == []
    assert {cluster.reason_code(name) for name in cluster.snapshot.nodes} == {"NoPlaceForPods"}


def test_a_pod_that_would_be_boosted_again_needs_capacity_for_the_boost() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("full", "2500m")).run("small-2", a_web_pod("slow", "500m"))
    cluster.recommend("slow", starting="2")
    cluster.run_pass(600)
    cluster.run_passes(100)
    assert cluster.reason_code("small-2") == "NoPlaceForPods"
    assert cluster.released == []
    cluster.recommend("slow", starting="1500m")
    cluster.run_passes(1000, every=30)
    assert cluster.released == ["small-2"]


def test_a_drained_pod_moves_only_to_nodes_that_reach_its_volumes() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("full", "2500m"))
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    cluster.run("small-2", a_web_pod("db", "500m", volumes=[volume], owner=("StatefulSet", "db")))
    cluster.plan_removals()
    assert cluster.reason_code("small-2") == "NoPlaceForPods"
    bound = {"namespace": "default", "name": "data", "annotations": {BIND_COMPLETED: "yes"}}
    claim = convert_object({"metadata": bound, "spec": {"volumeName": "v"}}, PersistentVolumeClaim)
    cluster.snapshot.put_storage(Storage({("default", "data"): claim}, {"v": PersistentVolume()}))
    cluster.wait(300)
    cluster.plan_removals()
    assert cluster.reason_code("small-2") == "NodeUnneeded"


@pytest.mark.req("BF-34")
def test_chunks_keep_a_node_only_if_they_fit_on_no_other() -> None:
    cluster = a_cluster(3).run("small-1", a_web_pod("a", "3"))
    cluster.buffers(a_buffer("spare", 4))
    cluster.run_passes(1500, every=30)
    assert len(cluster.snapshot.nodes) == 2
    assert cluster.plan().buffers[0].is_provisioned
    assert cluster.plan().orders == ()
    held = {cluster.reason_code(name) for name in cluster.snapshot.nodes}
    assert held == {"NodeInUse", "NoPlaceForChunks"}


def test_a_node_with_only_chunks_is_removed_like_an_empty_one() -> None:
    cluster = a_cluster(6)
    cluster.down = msgspec.structs.replace(DOWN, max_drain_parallelism=0)
    cluster.buffers(a_buffer("spare", 6, a_spec("1")))
    cluster.run_pass(600)
    cluster.run_passes(100)
    assert len(cluster.snapshot.nodes) == 2
    assert cluster.plan().buffers[0].is_provisioned


@pytest.mark.req("BF-35")
def test_a_keep_minimum_buffer_keeps_its_nodes_used_or_not() -> None:
    cluster = a_cluster(3).run("small-1", a_web_pod("a", "3"))
    cluster.buffers(a_buffer("floor", 8, recreationStrategy="KeepMinimum"))
    cluster.run_passes(1500, every=30)
    assert len(cluster.snapshot.nodes) == 2
    assert cluster.plan().buffers[0].is_provisioned


@pytest.mark.req("BF-36")
def test_nodes_of_two_groups_together_meet_a_keep_minimum_buffer() -> None:
    cluster = ShrinkingCluster(a_group("a"), a_group("b"))
    cluster.add_group_nodes("a", 2).add_group_nodes("b", 2).run("a-1", a_web_pod("x", "3")).run(
        "b-1", a_web_pod("y", "3")
    )
    cluster.buffers(a_buffer("floor", 8, recreationStrategy="KeepMinimum"))
    cluster.run_passes(1500, every=30)
    assert sorted(cluster.snapshot.nodes) == ["a-1", "b-1"]
    assert cluster.plan().buffers[0].is_provisioned
    assert cluster.plan().orders == ()


def test_a_node_needed_by_chunks_again_is_kept() -> None:
    cluster = a_cluster(2).run("small-1", a_web_pod("a", "3"))
    cluster.run_pass(600)
    cluster.run_pass(1)
    assert cluster.tainted_nodes == ["small-2"]
    cluster.buffers(a_buffer("spare", 3))
    cluster.execute(cluster.plan_removals())
    assert cluster.reason_code("small-2") == "NodeNeededAgain"
    assert cluster.tainted_nodes == []
    assert cluster.plan().orders == ()


def test_of_two_empty_nodes_the_more_expensive_is_removed() -> None:
    cluster = ShrinkingCluster(a_group("a-cheap", price=1.0), a_group("b-dear", price=2.0))
    cluster.add_group_nodes("a-cheap", 1).add_group_nodes("b-dear", 1).buffers(a_buffer("spare", 4))
    cluster.run_pass(600)
    cluster.run_passes(30)
    assert list(cluster.snapshot.nodes) == ["a-cheap-1"]
    assert cluster.plan().buffers[0].is_provisioned


def test_a_plan_simulates_a_bounded_number_of_drains_and_later_plans_the_others() -> None:
    cluster = a_cluster(7).run("small-7", a_web_pod("large", "2100m"))
    cluster.down = msgspec.structs.replace(DOWN, max_nodes_tried=2)
    for number in range(1, 7):
        cluster.run(f"small-{number}", a_web_pod(f"pod-{number}", "100m"))
    cluster.plan_removals()
    codes = Counter(decision.reason.reason.code for decision in cluster.decisions.values())
    assert codes == {"NodeInUse": 1, "NodeUnneeded": 2, "NodeNotSimulated": 4}
    for _ in range(3):
        cluster.run_pass()
    assert Counter(decision.outcome for decision in cluster.decisions.values()) == {
        NodeOutcome.KEPT: 1,
        NodeOutcome.UNNEEDED: 6,
    }
    cluster.run_passes(2400, every=30)
    assert list(cluster.snapshot.nodes) == ["small-7"]


def test_nodes_blocked_by_a_budget_do_not_block_other_removals() -> None:
    cluster = a_cluster(3).run("small-1", a_web_pod("large", "2100m"))
    cluster.down = msgspec.structs.replace(DOWN, max_nodes_tried=1)
    cluster.run("small-2", a_web_pod("held", "100m", labels={"app": "web"})).run("small-3", a_web_pod("free", "200m"))
    cluster.budgets = [a_budget("web", 0, {"app": "web"})]
    cluster.run_passes(900, every=30)
    assert cluster.released == ["small-3"]
    assert cluster.reason_code("small-2") == "DisruptionBudgetExhausted"
    cluster.budgets = []
    cluster.run_passes(420, every=30)
    assert cluster.released == ["small-3", "small-2"]


def test_a_node_that_a_pending_pod_would_get_is_kept() -> None:
    cluster = a_cluster(1)
    cluster.create(a_pod("soon", "1"))
    cluster.plan_removals()
    assert cluster.reason_code("small-1") == "PendingPodFits"


def test_a_plan_leaves_the_snapshot_as_it_was() -> None:
    cluster = a_cluster(4, min_size=1).run("small-1", a_web_pod("a", "1")).run("small-2", a_web_pod("b", "1"))
    cluster.buffers(a_buffer("spare", 2))
    before = cluster.snapshot.running.used.amounts.copy()
    cluster.run_pass(600)
    cluster.plan_removals()
    fresh = cluster.snapshot.running.used.amounts
    assert fresh.sum() == before.sum()
    assert all(instance.state is InstanceState.RUNNING for instance in cluster.instances["small"])
    first, repeated = cluster.plan_removals(), cluster.plan_removals()
    assert first.nodes == repeated.nodes


def test_the_requeue_time_is_when_a_decision_may_change() -> None:
    cluster = a_cluster(1)
    assert cluster.plan_removals().requeue_at == cluster.now + 30, "its soft taint is due"
    cluster.run_pass(30)
    assert cluster.run_pass(0).requeue_at == cluster.now + 570
    cluster.wait(600)
    assert cluster.plan_removals().requeue_at is None
