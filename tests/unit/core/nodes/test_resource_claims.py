"""Pods with resource claims: which nodes they get, when they are left alone, and when they keep their nodes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders.device_claims import (
    GPU_CLASS,
    GPU_DRIVER,
    a_claim,
    a_claim_template,
    a_request,
    a_slice,
    collect_devices,
    named,
    of_template,
)
from support.worlds.nodes import Cluster, a_buffer, a_group, a_node, a_pod, a_spec
from support.worlds.scale_down import ShrinkingCluster, a_web_pod
from trellis.core.fit.constraints.device_claims import UNKNOWN_DEVICES
from trellis.core.nodes.node_groups import GroupDevices, GroupState, find_group_problem
from trellis.core.nodes.scale_up.decisions import PendingPodsDecision
from trellis.core.nodes.settings import ScaleUpSettings

FOUR = (GroupDevices(GPU_CLASS, GPU_DRIVER, 4),)
ONE = a_claim_template("one")
TWO = a_claim_template("two", a_request(2))
NEVER = a_claim_template("never", a_request(selectors=[{"cel": {"expression": "true"}}]))


def a_device_group(name: str = "gpu", **fields: Any) -> Any:
    return a_group(name, **{"cpu": "16", "devices": FOUR, **fields})


def decide(cluster: Cluster, pod: str) -> PendingPodsDecision:
    """The decision about a pod in the last plan."""
    assert cluster.last is not None
    return next(decision for decision in cluster.last.pods if ("default", pod) in decision.pods)


def code(cluster: Cluster, pod: str) -> str:
    return decide(cluster, pod).reason.reason.code


def build_cluster(*groups: Any) -> Cluster:
    cluster = Cluster(*(groups or (a_device_group(),)))
    cluster.snapshot.put_devices(collect_devices(ONE, TWO, NEVER))
    return cluster


# Scale-up


def test_as_many_nodes_are_ordered_as_have_the_devices() -> None:
    cluster = build_cluster().create_pods(5, **of_template("two"))
    assert cluster.ordered() == {"gpu": 3}


def test_groups_without_the_devices_are_no_option() -> None:
    cluster = build_cluster(a_group("plain", price=0.1), a_device_group(price=9.0)).create_pods(4, **of_template("one"))
    assert cluster.ordered() == {"gpu": 1}


def test_nodes_with_devices_are_no_option_for_pods_without_claims_while_others_fit() -> None:
    cluster = build_cluster(a_group("plain", price=9.0), a_device_group(price=0.1)).create_pods(4)
    assert cluster.ordered() == {"plain": 1}


def test_pods_are_placed_on_devices_that_no_claim_has() -> None:
    cluster = build_cluster().add_group_nodes("gpu", 1)
    taken = a_claim("taken", devices={"gpu-1": ["gpu-0", "gpu-1"]})
    cluster.snapshot.put_devices(collect_devices(ONE, a_slice("gpu-1", 4), taken))
    cluster.create_pods(5, **of_template("one"))
    assert cluster.ordered() == {"gpu": 1}
    assert [decision.on_ready for decision in cluster.plan().pods] == [2]


def test_a_claim_that_is_released_makes_room() -> None:
    cluster = build_cluster(a_device_group(most=0)).nodes(a_node("n1", cpu="16"))
    published = a_slice("n1", 1)
    cluster.snapshot.put_devices(collect_devices(ONE, published, a_claim("taken", devices={"n1": ["gpu-0"]})))
    cluster.create(a_pod("web", **of_template("one"))).plan()
    assert code(cluster, "web") == "GroupsExhausted"
    cluster.snapshot.put_devices(collect_devices(ONE, published))
    cluster.plan()
    assert code(cluster, "web") == "PodFits"


def test_a_node_is_starting_until_its_driver_has_published_the_devices() -> None:
    cluster = build_cluster().create(a_pod("web", **of_template("one")))
    assert cluster.ordered() == {"gpu": 1}
    cluster.execute_orders().wait(120)
    assert cluster.ordered() == {}
    assert code(cluster, "web") == "PodAwaitsNode"
    cluster.snapshot.put_devices(collect_devices(ONE, a_slice("gpu-1", 4)))
    assert cluster.ordered() == {}
    assert code(cluster, "web") == "PodFits"


def test_nodes_whose_devices_are_never_published_are_not_ordered_again() -> None:
    cluster = build_cluster().create(a_pod("web", **of_template("one")))
    cluster.plan()
    cluster.execute_orders().wait(120)
    cluster.now += ScaleUpSettings().max_node_provision_seconds
    assert cluster.ordered() == {}
    assert cluster.last is not None
    assert str(cluster.last.notes["gpu"]) == "gpu-1 has resource.k8s.io/gpu.example.com 0 instead of 4"


def test_devices_beyond_those_of_the_group_are_of_other_classes() -> None:
    """A driver may publish the parts of a GPU beside it."""
    cluster = build_cluster(a_device_group(most=1)).add_group_nodes("gpu", 1)
    cluster.snapshot.put_devices(collect_devices(ONE, a_slice("gpu-1", 32)))
    cluster.create_pods(5, **of_template("one")).plan()
    assert cluster.last is not None
    assert (cluster.last.pods[0].on_ready, cluster.last.pods[0].unplaced) == (4, 1)


def test_a_pod_whose_claim_is_allocated_fits_its_node_alone() -> None:
    cluster = build_cluster().nodes(a_node("n1", cpu="16"), a_node("n2", cpu="16"))
    mine = a_claim("mine", devices={"n1": ["gpu-0"]})
    cluster.snapshot.put_devices(collect_devices(a_slice("n1", 1), mine))
    cluster.create(a_pod("web", **named("mine"))).plan()
    assert code(cluster, "web") == "PodFits"
    cluster.place(a_pod("full", cpu="16"), "n1")
    assert cluster.ordered() == {}
    assert [str(refusal) for refusal in decide(cluster, "web").refused] == ["DevicesNotReachable: gpu"]


# What is left alone


def test_a_pod_with_a_claim_that_is_not_modelled_is_left_alone_with_the_reason() -> None:
    cluster = build_cluster().create(a_pod("web", **of_template("never")), a_pod("other", **of_template("never")))
    assert cluster.ordered() == {}
    decision = decide(cluster, "web")
    assert decision.pods == (("default", "other"), ("default", "web"))
    assert decision.unplaced == 2
    assert str(decision.reason) == "claim gpu: request gpu: it has selectors, which are not evaluated"


def test_a_pod_that_the_scheduler_has_not_tried_yet_gets_no_decision() -> None:
    cluster = build_cluster().create(a_pod("web", **of_template("never"), status={"phase": "Pending"}))
    assert cluster.plan().pods == ()


def test_pods_with_claims_are_left_alone_where_the_api_is_not_served() -> None:
    cluster = Cluster(a_device_group()).create(a_pod("web", **of_template("one")))
    assert cluster.ordered() == {}
    assert "is not served or was not read" in str(decide(cluster, "web").reason)
    cluster.snapshot.put_devices(collect_devices(ONE))
    cluster.update_groups()
    assert cluster.ordered() == {"gpu": 1}
    cluster.snapshot.put_devices(UNKNOWN_DEVICES)
    assert cluster.ordered() == {}


def test_devices_of_groups_do_not_count_where_the_api_is_not_served() -> None:
    cluster = Cluster(a_device_group()).add_group_nodes("gpu", 1).create_pods(1)
    assert cluster.ordered() == {}
    assert cluster.last is not None
    assert cluster.last.pods[0].on_ready == 1


def test_a_pod_gets_a_node_once_a_group_declares_its_class() -> None:
    cluster = build_cluster(a_group("plain")).create(a_pod("web", **of_template("one")))
    assert cluster.ordered() == {}
    assert "no node group declares devices of the class" in str(decide(cluster, "web").reason)
    cluster.groups["gpu"], cluster.instances["gpu"] = a_device_group(), []
    cluster.update_groups()
    assert cluster.ordered() == {"gpu": 1}


def test_a_claim_is_left_alone_while_several_pods_name_it() -> None:
    cluster = build_cluster()
    cluster.snapshot.put_devices(collect_devices(a_claim("ours")))
    cluster.create(a_pod("a", **named("ours")))
    assert cluster.ordered() == {"gpu": 1}
    cluster.create(a_pod("b", **named("ours"))).plan()
    assert {code(cluster, name) for name in ("a", "b")} == {"ResourceClaimsNotModelled"}
    cluster.delete("a")
    cluster.execute_orders().plan()
    assert code(cluster, "b") == "PodAwaitsNode"


def test_a_class_of_two_drivers_is_not_counted() -> None:
    other = a_device_group("other", devices=(GroupDevices(GPU_CLASS, "other.example.com", 4),))
    cluster = build_cluster(a_device_group(), other).create(a_pod("web", **of_template("one")))
    assert cluster.ordered() == {}
    assert "with several drivers" in str(decide(cluster, "web").reason)


def test_an_impossible_number_of_devices_is_a_problem_of_its_group() -> None:
    group = a_device_group(devices=(GroupDevices(GPU_CLASS, GPU_DRIVER, -1),))
    assert "devices is -1" in str(find_group_problem(GroupState(group, 0)))


# Buffers


def test_chunks_with_claims_of_templates_get_nodes_with_the_devices() -> None:
    cluster = build_cluster().buffers(a_buffer("spare", 3, a_spec(**of_template("two"))))
    assert cluster.ordered() == {"gpu": 2}


@pytest.mark.parametrize("claims", [of_template("never"), named("ours")])
def test_a_buffer_whose_chunks_have_other_claims_gets_no_node_and_the_reason(claims: dict[str, Any]) -> None:
    cluster = build_cluster().buffers(a_buffer("spare", 3, a_spec(**claims)))
    assert cluster.ordered() == {}
    problem = cluster.snapshot.problems["Buffer", ("default", "spare")]
    assert problem.reason.code == "ResourceClaimsNotModelled"


# Scale-down


def build_shrinking(*objects: Any) -> ShrinkingCluster:
    """Two nodes with four devices, the first with a pod that has a claim of one."""
    cluster = ShrinkingCluster(a_device_group())
    slices = (a_slice("gpu-1", 4), a_slice("gpu-2", 4))
    cluster.snapshot.put_devices(collect_devices(ONE, NEVER, *slices, *objects))
    cluster.add_group_nodes("gpu", 2).update_groups()
    return cluster


def running(template: str = "one") -> Any:
    status = {"phase": "Running", "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "web-1"}]}
    return a_web_pod("web", **of_template(template), status=status)


def with_pod_on_first(cluster: ShrinkingCluster, pod: Any) -> ShrinkingCluster:
    status = pod.status
    cluster.run("gpu-1", pod)
    cluster.create(type(pod)(cluster.pods["web"].metadata, cluster.pods["web"].spec, status))
    return cluster


def test_utilization_is_the_share_of_devices_that_claims_have() -> None:
    cluster = build_shrinking(a_claim("a", devices={"gpu-1": ["gpu-0", "gpu-1", "gpu-2"]}))
    cluster.plan_removals()
    assert (cluster.reason_code("gpu-1"), cluster.decisions["gpu-1"].utilization) == ("NodeInUse", 0.75)


def test_a_pod_moves_to_a_node_with_devices_left() -> None:
    cluster = build_shrinking(
        a_claim("web-1", devices={"gpu-1": ["gpu-0"]}), a_claim("b", devices={"gpu-2": ["gpu-0", "gpu-1", "gpu-2"]})
    )
    with_pod_on_first(cluster, running()).plan_removals()
    assert cluster.reason_code("gpu-1") == "NodeUnneeded"


def test_a_pod_keeps_its_node_where_no_other_has_devices_left() -> None:
    cluster = build_shrinking(
        a_claim("web-1", devices={"gpu-1": ["gpu-0"]}),
        a_claim("b", devices={"gpu-2": ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]}),
    )
    with_pod_on_first(cluster, running()).plan_removals()
    assert cluster.reason_code("gpu-1") == "NoPlaceForPods"


def test_a_pod_whose_claims_are_not_modelled_keeps_its_node() -> None:
    cluster = build_shrinking(a_claim("web-1", devices={"gpu-1": ["gpu-0"]}))
    with_pod_on_first(cluster, running("never")).plan_removals()
    assert cluster.reason_code("gpu-1") == "ResourceClaimsNotModelled"
    assert str(cluster.decisions["gpu-1"].reason).startswith("default/web: claim gpu: request gpu: it has selectors")


def test_a_pod_with_a_claim_of_its_own_name_keeps_its_node() -> None:
    cluster = build_shrinking(a_claim("mine", devices={"gpu-1": ["gpu-0"]}))
    cluster.run("gpu-1", a_web_pod("web", **named("mine"))).plan_removals()
    assert cluster.reason_code("gpu-1") == "ResourceClaimsNotModelled"


# Invariants


@given(
    published=st.lists(st.integers(0, 6), max_size=4),
    allocated=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=8),
    wanted=st.lists(st.integers(1, 5), min_size=1, max_size=12),
    declared=st.integers(1, 6),
)
def test_no_node_is_promised_more_devices_than_it_has(
    published: list[int], allocated: list[tuple[int, int]], wanted: list[int], declared: int
) -> None:
    names = [f"n{number}" for number in range(len(published))]
    group = a_device_group(cpu="64", devices=(GroupDevices(GPU_CLASS, GPU_DRIVER, declared),))
    cluster = Cluster(group).nodes(*(a_node(name, cpu="64") for name in names))
    taken = {(number, device) for number, device in allocated if number < len(published) and device < published[number]}
    cluster.snapshot.put_devices(
        collect_devices(
            *(a_slice(name, count) for name, count in zip(names, published, strict=True)),
            *(a_claim(f"c{number}-{device}", devices={names[number]: [f"gpu-{device}"]}) for number, device in taken),
            *(a_claim_template(f"of-{count}", a_request(count)) for count in set(wanted)),
        )
    )
    cluster.update_groups()
    for number, count in enumerate(wanted):
        cluster.create(a_pod(f"pod-{number}", cpu="1", **of_template(f"of-{count}")))
    plan = cluster.plan()
    promised: Counter[str] = Counter(names[number] for number, _ in taken)
    placed = 0
    for number, count in enumerate(wanted):
        node = plan.memory.pod_nodes.get(f"pod-{number}", "")
        promised[node] += count if node else 0
        placed += bool(node)
    has = dict(zip(names, published, strict=True))
    assert all(count <= has.get(node, declared) for node, count in promised.items())
    # Every pod that a new node could hold gets a place.
    assert placed >= sum(count <= declared for count in wanted)
    # Nothing of the plan is left in the snapshot.
    free = cluster.snapshot.running.used.free(f"resource.k8s.io/{GPU_DRIVER}")
    for number, (name, count) in enumerate(has.items()):
        assert free[cluster.snapshot.table.find(name)] == count - sum(at == number for at, _ in taken)
