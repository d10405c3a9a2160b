"""What an explanation tells of a node, and of nodes for whoever wants one: what the node autoscaler decides."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.builders.collected_node_groups import COMPONENTS, Pools, pools
from support.builders.device_claims import a_claim_template, a_request, of_template
from support.explanation_atoms import Atoms
from support.worlds.resizes import DAY, NOW, Document
from trellis.base.errors import InvalidInput
from trellis.cli.dump_reader import read_node_groups
from trellis.core.cluster.dump_format import NODE_GROUPS, NOT_SERVED, MissingData
from trellis.core.cluster.state import ClusterState
from trellis.core.explain import CollectedSettings, ObjectExplanation
from trellis.core.explain.explanation.node import NodePart, PlacementPart
from trellis.core.fit import Storage
from trellis.core.nodes import ScaleDownSettings
from trellis.core.nodes.autoscaler_pass import AutoscalerMemory, AutoscalerSettings, NodePlanner, PassInput, PassPlans
from trellis.core.nodes.scale_up.remembered_state import ScaleUpMemory
from trellis.core.nodes.state.snapshot import EXPENDABLE_PODS_PRIORITY_CUTOFF, ClusterSnapshotChanges

LEAVING = {"key": "trellis.x-k8s.io/leaving", "value": f"{NOW - 60:.0f}", "effect": "NoSchedule"}


def node(cluster: Pools, name: str, components: CollectedSettings = COMPONENTS) -> NodePart:
    part = cluster.node(name, components).node
    assert part is not None
    return part


def verdict(cluster: Pools, name: str, components: CollectedSettings = COMPONENTS) -> tuple[str, str]:
    part = node(cluster, name, components)
    assert part.decision is not None
    return part.outcome, part.decision.reason.code


def placing(explained: ObjectExplanation) -> PlacementPart:
    assert explained.placement is not None
    return explained.placement


def codes(explained: ObjectExplanation) -> set[str]:
    return {missing.reason.code for missing in explained.missing}


def pool(count: int = 2, **group: Any) -> Pools:
    """A group with so many empty nodes."""
    cluster = Pools()
    cluster.add_group("small", **group)
    for number in range(1, count + 1):
        cluster.add_member(f"small-{number}")
    return cluster


def test_a_node_in_use_is_kept_and_reports_its_requests() -> None:
    part = node(pools(), "small-1")
    assert (part.outcome, part.used, part.threshold) == ("Kept", 0.75, 0.5)
    assert {share.resource: (share.requested, share.offered) for share in part.shares}["cpu"] == ("3", "4")
    assert part.group is not None
    assert (part.group.name, part.group.size, part.group.least, part.group.most) == ("small", 3, 1, 4)


def test_a_removable_node_reports_the_decision_after_its_unneeded_time() -> None:
    part = node(pools(), "small-2")
    assert verdict(pools(), "small-2") == ("Unneeded", "NodeUnneeded")
    assert part.later_decision is not None
    assert (part.later_decision.reason.code, part.later_decision.details) == (
        "DisruptionBudgetExhausted",
        "shop/web-1-4: web",
    )
    assert part.chunks == {"shop/web": 1}


def test_an_empty_node_will_be_marked() -> None:
    cluster = pool()
    part = node(cluster, "small-1")
    assert part.later_decision is not None
    assert (part.outcome, part.later_decision.reason.code) == ("Unneeded", "NodeTainted")


def test_a_soft_taint_reports_since_when_its_node_is_unneeded() -> None:
    cluster = pool(1)
    soft = {"key": "trellis.x-k8s.io/unneeded", "value": f"{NOW - 580:.0f}", "effect": "PreferNoSchedule"}
    cluster.add_member("small-9", taints=[soft])
    part = node(cluster, "small-9")
    assert (part.outcome, part.since, part.next_check) == ("Unneeded", "2027-01-15T07:50:20Z", "2027-01-15T08:00:20Z")
    assert part.avoided
    assert not node(cluster, "small-1").avoided


def test_a_stale_soft_taint_does_not_make_a_node_unneeded() -> None:
    cluster = pool(1)
    soft = {"key": "trellis.x-k8s.io/unneeded", "value": "1", "effect": "PreferNoSchedule"}
    cluster.add_member("small-9", taints=[soft])
    cluster.run("web-1-1", "small-9", "3")
    assert verdict(cluster, "small-9") == ("Kept", "NodeInUse")


def test_pods_of_a_node_are_reported_with_their_fate() -> None:
    cluster = pool()
    cluster.run("web-1-1", "small-1", deletionTimestamp="2027-01-15T08:00:00Z")
    cluster.run("web-1-2", "small-1")
    cluster.run("alone", "small-1", ownerReferences=[])
    daemon = {"kind": "DaemonSet", "name": "logs", "uid": "d", "controller": True}
    cluster.run("logs-1", "small-1", ownerReferences=[daemon])
    fates = {pod.name: pod.fate for pod in node(cluster, "small-1").pods}
    assert fates == {"web-1-1": "going", "web-1-2": "moved", "alone": "stay", "logs-1": "fixed"}


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ({"ownerReferences": []}, "PodNotReplicated"),
        ({"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}, "PodNotSafeToEvict"),
        ({"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, "PodNotSafeToEvict"),
    ],
)
def test_a_pod_that_may_not_be_moved_holds_its_node(metadata: Document, code: str) -> None:
    cluster = pool()
    cluster.run("web-1-1", "small-1", **metadata)
    part = node(cluster, "small-1")
    assert verdict(cluster, "small-1") == ("Kept", code)
    assert [pod.held.reason.code for pod in part.pods if pod.held is not None] == [code]


def test_an_annotation_of_the_node_is_heeded() -> None:
    cluster = pool()
    cluster.add_member("kept", annotations={"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"})
    assert verdict(cluster, "kept") == ("Kept", "ScaleDownDisabled")


def test_a_node_that_the_group_needs_for_its_minimum_is_kept() -> None:
    assert verdict(pool(1, minSize=1), "small-1") == ("Kept", "GroupAtMinimum")


def test_chunks_hold_a_node_only_while_they_would_find_no_other() -> None:
    cluster = pool(1)
    cluster.keep("web", 1, "3")
    assert verdict(cluster, "small-1") == ("Kept", "NoPlaceForChunks")
    cluster.add_member("small-2")
    assert {verdict(cluster, name)[0] for name in ("small-1", "small-2")} == {"Kept", "Unneeded"}


def test_a_node_with_the_mark_is_taken_for_one_that_is_being_removed() -> None:
    cluster = pool()
    cluster.add_member("small-3", taints=[LEAVING])
    cluster.run("web-1-1", "small-3")
    part = node(cluster, "small-3")
    assert (part.outcome, part.decision and part.decision.reason.code) == ("Leaving", "NodeDraining")
    assert part.since == "2027-01-15T07:59:00Z"


def test_a_leaving_taint_without_a_time_counts_as_old() -> None:
    cluster = pool()
    cluster.add_member("small-3", taints=[{**LEAVING, "value": "soon"}])
    assert verdict(cluster, "small-3") == ("Leaving", "NodeReleased")
    assert node(cluster, "small-3").since == ""


def test_a_node_with_a_volume_claim_is_held_only_where_its_volume_cannot_follow() -> None:
    cluster = pool()
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    cluster.run("web-1-1", "small-1")
    cluster.objects["Pod", ("shop", "web-1-1")]["spec"]["volumes"] = [volume]
    assert verdict(cluster, "small-1") == ("Kept", "NoPlaceForPods")
    bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    claim = {"metadata": bound, "spec": {"volumeName": "pv-1"}, "status": {"phase": "Bound"}}
    cluster.put("PersistentVolumeClaim", "data", claim)
    cluster.put("PersistentVolume", "pv-1", {"spec": {}}, namespace="")
    assert verdict(cluster, "small-1") == ("Unneeded", "NodeUnneeded")


def test_a_node_that_others_come_before_is_tried_all_the_same() -> None:
    cluster = pool(4)
    for number in range(1, 5):
        cluster.run(f"web-1-{number}", f"small-{number}")
    few = msgspec.structs.replace(COMPONENTS, nodes_down=ScaleDownSettings(max_nodes_tried=1))
    assert {verdict(cluster, f"small-{number}", few)[0] for number in range(1, 5)} == {"Unneeded"}


def test_figures_of_the_autoscaler_count() -> None:
    off = msgspec.structs.replace(COMPONENTS, nodes_down=ScaleDownSettings(scale_down_enabled=False))
    assert verdict(pools(), "small-2", off) == ("Kept", "ScaleDownOff")


def test_an_unready_node_is_reported_as_unready() -> None:
    cluster = pool()
    cluster.add_member("small-3", conditions=[])
    assert (node(cluster, "small-3").ready, verdict(cluster, "small-3")) == (False, ("Unneeded", "NodeUnneeded"))


# What could not be seen


def test_a_complete_explanation_names_the_state_that_only_the_process_has() -> None:
    explanation = pools().node("small-1")
    assert (explanation.partial, codes(explanation)) == (False, {"RemovalsNotObserved"})


def test_without_groups_every_node_is_of_none() -> None:
    cluster = pools()
    del cluster.objects["ConfigMap", ("kube-system", "trellis-kwok-node-groups")]
    explanation = cluster.node("small-1")
    assert verdict(cluster, "small-1") == ("Kept", "NodeWithoutGroup")
    assert (explanation.partial, codes(explanation)) == (False, {"NodeGroupsNotObserved", "RemovalsNotObserved"})


def test_a_group_that_cannot_be_read_makes_the_answer_partial() -> None:
    cluster = pools()
    cluster.add_group("odd", maxSize=-1)
    explanation = cluster.node("small-1")
    assert (explanation.partial, "NodeGroupUnreadable" in codes(explanation)) == (True, True)


@pytest.mark.parametrize("what", ["PersistentVolume", "PodDisruptionBudget", NODE_GROUPS, "Buffer", "DaemonSet"])
def test_unreadable_objects_make_the_explanation_partial_and_are_named(what: str) -> None:
    cluster = pools()
    cluster.missing = [MissingData(what, "", "may not be read")]
    explanation = cluster.node("small-1")
    assert explanation.partial
    assert f"{what}: may not be read" in [missing.details for missing in explanation.missing]


def test_kinds_irrelevant_to_nodes_are_not_reported_as_missing() -> None:
    cluster = pools()
    cluster.missing = [MissingData("VerticalPodAutoscaler", "", "is not served by the cluster")]
    cluster.missing += [
        MissingData("Buffer", "", "is not served by the cluster"),
        MissingData("Lease x", "", "may not be read"),
    ]
    assert not cluster.node("small-1").partial


def test_without_all_pods_there_is_no_decision_about_a_node() -> None:
    cluster = pools()
    cluster.patterns = ("shop",)
    explanation = cluster.node("small-1")
    assert (explanation.partial, "NodesNotObserved" in codes(explanation)) == (True, True)
    assert node(cluster, "small-1") == NodePart("small-1", ready=True)


def test_kinds_relevant_to_nodes_alone_are_not_missing_in_other_explanations() -> None:
    cluster = pools()
    cluster.missing = [MissingData(kind, "", "may not be read") for kind in ("PersistentVolume", NODE_GROUPS)]
    cluster.run("web-1-9", "small-1")
    assert not cluster.pod("web-1-9").partial
    assert cluster.pod("import-1").partial


def test_a_node_that_does_not_exist_is_refused_with_a_guess() -> None:
    with pytest.raises(InvalidInput, match='there is no Node of that name \\(did you mean "small-1"'):
        pools().node("smal-1")
    cluster = pools()
    cluster.missing = [MissingData("Node", "", "may not be read")]
    with pytest.raises(InvalidInput, match="cannot be looked up as Node: may not be read"):
        cluster.node("elsewhere")


# Nodes for whoever wants one


def test_a_buffer_reports_where_its_chunks_have_headroom() -> None:
    placement = placing(pools().buffer("web"))
    assert (placement.decision.reason.code, placement.ready, placement.nodes) == (
        "BufferProvisioned",
        1,
        {"small-2": 1},
    )


def test_a_buffer_reports_what_would_be_ordered() -> None:
    placement = placing(pools().buffer("builds"))
    assert (placement.decision.reason.code, placement.ordered, placement.orders) == (
        "BufferNodesOrdered",
        {"large": 2},
        {"large": 2},
    )
    assert [(obstacle.reason.code, obstacle.nodes) for obstacle in placement.obstacles] == [("NodeTooSmall", 4)]


def test_a_pod_that_waits_reports_which_group_helps() -> None:
    placement = placing(pools().pod("import-1"))
    assert (placement.decision.reason.code, placement.ordered) == ("NodeOrdered", {"large": 1})


def with_devices(cluster: Pools) -> Pools:
    """Another group, with devices for claims of a template `one`; those of a template `picky` are not modelled."""
    cluster.add_group("gpu", devices=[{"deviceClass": "gpu.example.com", "count": 2}])
    picky = a_request(selectors=[{"cel": {"expression": "true"}}])
    for name, request in (("one", a_request()), ("picky", picky)):
        template = a_claim_template(name, request)
        cluster.put("ResourceClaimTemplate", name, {"spec": msgspec.to_builtins(template.spec)})
    return cluster


def test_a_pod_with_a_resource_claim_reports_the_group_with_devices_or_why_it_is_left_alone() -> None:
    cluster = with_devices(pools())
    cluster.want("train", "1", **of_template("one"))
    cluster.want("picky", "1", **of_template("picky"))
    placement = placing(cluster.pod("train"))
    assert (placement.decision.reason.code, placement.ordered) == ("NodeOrdered", {"gpu": 1})
    placement = placing(cluster.pod("picky"))
    assert placement.decision.reason.code == "ResourceClaimsNotModelled"
    assert "it has selectors" in placement.decision.details


def test_a_pod_with_a_resource_claim_is_left_alone_where_claims_could_not_be_read() -> None:
    cluster = with_devices(pools())
    cluster.want("train", "1", **of_template("one"))
    cluster.missing = [MissingData("ResourceSlice", "", "may not be read")]
    explained = cluster.pod("train")
    assert placing(explained).decision.reason.code == "ResourceClaimsNotModelled"
    assert "ObjectsNotObserved" in codes(explained)
    cluster.missing = [MissingData("ResourceSlice", "", NOT_SERVED)]
    assert "ObjectsNotObserved" not in codes(cluster.pod("train"))


def test_a_pod_that_no_node_fits_reports_why() -> None:
    placement = placing(pools().pod("import-2"))
    assert (placement.decision.reason.code, placement.unplaced) == ("NoGroupFits", 1)
    refused = [(refusal.reason.code, refusal.resource, set(refusal.groups)) for refusal in placement.refused]
    assert refused == [("NodeTooSmall", "cpu", {"small", "large"})]
    assert [(obstacle.reason.code, obstacle.nodes) for obstacle in placement.obstacles] == [("NodeTooSmall", 4)]


def test_a_group_that_may_not_grow_is_reported() -> None:
    cluster = pool(1, maxSize=1)
    cluster.run("web-1-1", "small-1", "3")
    cluster.want("web-1-2", "3")
    assert placing(cluster.pod("web-1-2")).decision.reason.code == "GroupsExhausted"


def test_a_pod_that_the_scheduler_has_not_tried_is_reported() -> None:
    cluster = pool()
    cluster.want("big", "32", examined=False)
    assert placing(cluster.pod("big")).decision.reason.code == "AwaitingScheduler"


def test_no_node_is_sought_for_a_pod_that_is_held_back() -> None:
    cluster = pool()
    cluster.want("gated", "1", schedulingGates=[{"name": "later"}])
    assert placing(cluster.pod("gated")).decision.reason.code == "ScaleUpNotNeeded"


def test_a_pod_on_a_node_needs_none() -> None:
    cluster = pools()
    assert cluster.pod("web-1-1").placement is None
    assert "PlacementNotObserved" not in codes(cluster.pod("web-1-1"))


# The same code decides


def changes(state: ClusterState) -> ClusterSnapshotChanges:
    return ClusterSnapshotChanges(
        namespaces={namespace.metadata.name: namespace.metadata.labels for namespace in state.namespaces},
        nodes={node.metadata.name: node for node in state.nodes},
        pods=dict(state.pods.objects),
        buffers=dict(state.buffers.objects),
        daemon_sets=dict(state.workloads["DaemonSet"].objects),  # type: ignore[arg-type]
        storage=Storage(),
    )


def planned(cluster: Pools) -> tuple[PassPlans, PassPlans]:
    """The plans of the autoscaler's first two passes."""
    state = cluster.collected()
    planning = NodePlanner(AutoscalerSettings(), EXPENDABLE_PODS_PRIORITY_CUTOFF)
    states, budgets = read_node_groups(state).states, tuple(state.pdbs)
    first = planning.plan(changes(state), PassInput(states, budgets, AutoscalerMemory(), state.time))
    memory = AutoscalerMemory(
        msgspec.structs.replace(AutoscalerMemory().up, chunk_nodes=first.up.memory.chunk_nodes), AutoscalerMemory().down
    )
    return first, planning.plan(ClusterSnapshotChanges(), PassInput(states, budgets, memory, state.time))


def test_a_removal_goes_on_as_a_pass_of_the_autoscaler_would_and_the_snapshot_stays() -> None:
    cluster = Pools()
    cluster.add_group("small", maxSize=5)
    cluster.add_member("small-1")
    cluster.add_member("small-2", taints=[LEAVING])
    # The pod needs the node that is being removed.
    cluster.run("web-1-1", "small-1", "3")
    cluster.want("new", "3")
    cluster.keep("web", 1, "2")
    noded = cluster.noded()
    state = cluster.collected()
    memory = AutoscalerMemory(ScaleUpMemory(chunk_nodes=noded.view.chunk_nodes), noded.memory)
    planner = NodePlanner(AutoscalerSettings(), EXPENDABLE_PODS_PRIORITY_CUTOFF)
    plans = planner.plan(
        changes(state), PassInput(read_node_groups(state).states, tuple(state.pdbs), memory, state.time)
    )
    assert [type(action).__name__ for action in plans.down.actions] == ["SetTaints"]
    assert (noded.down, noded.up.orders, noded.up.pods) == (plans.down, plans.up.orders, plans.up.pods)
    assert noded.snapshot.nodes == {node.metadata.name: node for node in state.nodes}


shapes = st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["250m", "1", "2", "6"]), st.booleans()), max_size=8)


@settings(max_examples=12, deadline=None)
@given(placed=shapes, waiting=st.lists(st.sampled_from(["1", "3", "12", "40"]), max_size=3), chunks=st.integers(0, 4))
def test_the_verdicts_are_those_of_the_autoscaler(
    placed: list[tuple[int, str, bool]], waiting: list[str], chunks: int
) -> None:
    cluster = Pools()
    cluster.add_group("small", maxSize=5)
    cluster.add_group("large", "16", "64Gi", maxSize=2, price=0.8)
    for number in range(1, 5):
        cluster.add_member(f"small-{number}", age=number * DAY)
    for number, (where, cpu, is_alone) in enumerate(placed):
        owners: dict[str, Any] = {"ownerReferences": []} if is_alone else {}
        cluster.run(f"web-1-{number}", f"small-{where}", cpu, **owners)
    for number, cpu in enumerate(waiting):
        cluster.want(f"new-{number}", cpu)
    if chunks:
        cluster.keep("web", chunks)
    first, second = planned(cluster)
    noded = cluster.noded()
    assert noded.up.orders == first.up.orders
    assert [msgspec.structs.replace(buffer, hits=0) for buffer in noded.up.buffers] == [
        msgspec.structs.replace(buffer, hits=0) for buffer in second.up.buffers
    ]
    for decision in second.down.nodes:
        part = node(cluster, decision.node)
        assert (part.outcome, part.used) == (decision.outcome.value, decision.utilization)
        assert part.decision is not None
        assert (part.decision.reason, part.decision.details) == (decision.reason.reason, decision.reason.details)


def test_explanations_use_only_codes_of_decisions() -> None:
    cluster = pools()
    known = Atoms()
    noded = cluster.noded()
    known.add([noded.down.nodes, noded.up.pods, noded.up.buffers, ["NodeTooSmall"]])
    known.codes |= {"NodeTooSmall", "DisruptionBudgetExhausted"}
    atoms = Atoms()
    for name in ("n1", "small-1", "small-2", "small-3"):
        atoms.add(cluster.node(name).node)
    for explanation in (
        cluster.buffer("web"),
        cluster.buffer("builds"),
        cluster.pod("import-1"),
        cluster.pod("import-2"),
    ):
        atoms.add(explanation.placement)
    assert atoms.codes <= known.codes


def test_a_node_that_is_kept_for_growth_and_a_pod_whose_resize_needs_a_node_are_explained() -> None:
    cluster = pool(2)
    cluster.add_workload("web", 0)
    cluster.add_vpa("web", {"app": {"cpu": "1500m", "memory": "64Mi"}}, mode="InPlaceOrRecreate")
    for number, where in enumerate(("small-1", "small-1", "small-2")):
        cluster.run(f"web-1-{number}", where, "1")
    cluster.run("base", "n1", "2", app="other")
    assert verdict(cluster, "small-2") == ("Kept", "NoHeadroomForRecommendations")
    off = msgspec.structs.replace(COMPONENTS, nodes_down=ScaleDownSettings(scale_down_recommendation_headroom=False))
    assert {verdict(cluster, name, off)[0] for name in ("small-1", "small-2")} == {"Kept", "Unneeded"}

    cluster.run("other", "small-1", "3", app="other")
    resizing = cluster.objects["Pod", ("shop", "web-1-0")]
    resizing["status"]["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]
    assert placing(cluster.pod("web-1-0")).decision.reason.code == "ResizeFitsElsewhere"
    assert cluster.pod("web-1-1").placement is None
