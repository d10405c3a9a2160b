"""Resizes on the model cluster: what the API server takes, and what the kubelets make of it."""

from __future__ import annotations

import pytest

from support.worlds.simulated_cluster import (
    GIB,
    World,
    container,
    container_demand,
    fault,
    fleet,
    in_force,
    is_ready,
    ref,
    resize_conditions,
    shape,
    workload,
)
from trellis.core.cluster.json_patches import PatchOp
from trellis.core.cluster.write_results import WriteResult
from trellis.core.resize.view import PodView, ResizeState
from trellis.sim.cluster import PodEvent
from trellis.sim.fleet import SimulatedWorkload

MINUTE = 60.0


def build_world(*containers: dict[str, object], **more: object) -> World:
    return World(fleet(workload("web", 1, *containers), **more)).run(30)  # type: ignore[arg-type]


def test_a_resize_is_requested_then_in_progress_then_in_force() -> None:
    world = build_world()
    assert world.resize(world.get_pod(), cpu="1") == (WriteResult.APPLIED, "")
    states = [PodView.from_pod(world.get_pod()).resize.state]
    for _ in range(40):
        world.run(0.001)
        state = PodView.from_pod(world.get_pod()).resize.state
        if state is not states[-1]:
            states.append(state)
    assert states == [ResizeState.PROPOSED, ResizeState.IN_PROGRESS, ResizeState.NONE]
    assert in_force(world.get_pod()) == {"cpu": "1", "memory": "1Gi"}
    assert world.cluster.rows.cpu_request[world.cluster.rows.numbers()].tolist() == [1.0]
    assert is_ready(world.get_pod())
    assert world.cluster.counters.resizes.tolist() == [1]
    assert world.cluster.counters.restarts.tolist() == [0]


def test_a_node_without_headroom_defers_a_resize_until_there_is_some() -> None:
    world = World(fleet(workload("web", 1), workload("other", 1, container(cpu="3")))).run(30)
    world.resize(world.get_pod(), cpu="2")
    world.run(5)
    assert resize_conditions(world.get_pod()) == {"PodResizePending": "Deferred"}
    since = PodView.from_pod(world.get_pod()).resize.since
    world.run(10 * MINUTE)
    assert in_force(world.get_pod())["cpu"] == "500m"
    assert PodView.from_pod(world.get_pod()).resize.since == since
    assert world.resize(world.get_pod("other"), cpu="1")[0] is WriteResult.APPLIED
    world.run(5)
    assert in_force(world.get_pod())["cpu"] == "2"
    assert not resize_conditions(world.get_pod())
    assert world.count(PodEvent.RESIZE_DEFERRED) == 1


def test_the_scheduler_reserves_the_request_of_a_deferred_resize() -> None:
    late: SimulatedWorkload = workload("late", 1, container(cpu="1"), kind="Job", runs=((1_800_000_060.0, 300.0),))
    world = World(fleet(workload("web", 1), workload("other", 1, container(cpu="2500m")), late)).run(30)
    world.resize(world.get_pod(), cpu="2")
    world.run(60)
    assert resize_conditions(world.get_pod()) == {"PodResizePending": "Deferred"}
    assert world.get_pod("late").status.phase == "Pending"


def test_the_api_server_refuses_a_resize_beyond_the_node_and_takes_a_smaller_one() -> None:
    """As Kubernetes 1.36 does: `NodeCapacity`, before a kubelet sees the resize."""
    world = build_world()
    result, message = world.resize(world.get_pod(), cpu="5")
    assert result is WriteResult.INFEASIBLE
    assert "NodeCapacity" in message
    world.run(10 * MINUTE)
    assert not resize_conditions(world.get_pod())
    assert world.get_pod().spec.containers[0].resources.requests["cpu"] == "500m"
    assert world.count(PodEvent.RESIZE_INFEASIBLE) == 1
    world.resize(world.get_pod(), cpu="3")
    world.run(5)
    assert in_force(world.get_pod())["cpu"] == "3"
    assert not resize_conditions(world.get_pod())


def test_requesting_the_size_in_force_ends_a_pending_resize() -> None:
    world = build_world()
    world.resize(world.get_pod(), cpu="5")
    world.run(5)
    world.resize(world.get_pod(), cpu="500m")
    world.run(5)
    assert not resize_conditions(world.get_pod())
    assert PodView.from_pod(world.get_pod()).resize.state is ResizeState.NONE


def test_a_policy_restarts_the_container_for_the_resource_it_names() -> None:
    world = build_world(container(restarts=("memory",)))
    world.resize(world.get_pod(), cpu="1")
    world.run(5)
    assert world.get_pod().status.container_statuses[0].restart_count == 0
    world.resize(world.get_pod(), memory="2Gi")
    world.run(5)
    assert not is_ready(world.get_pod())
    world.run(10)
    assert is_ready(world.get_pod())
    assert world.get_pod().status.container_statuses[0].restart_count == 1
    assert in_force(world.get_pod()) == {"cpu": "1", "memory": "2Gi"}
    assert not PodView.from_pod(world.get_pod()).oom_kills


def test_a_memory_limit_below_what_is_used_fails_until_less_is_used() -> None:
    memory = [1.5 * GIB] * 10 + [0.5 * GIB] * 50
    app = container(memory="2Gi", limits={"memory": "2Gi"})
    world = World(fleet(workload("web", 1, app, demand=(container_demand(0.1, memory),)))).run(2 * MINUTE)
    world.resize(world.get_pod(), memory="1Gi", limits={"memory": "1Gi"})
    world.run(MINUTE)
    assert resize_conditions(world.get_pod()) == {"PodResizeInProgress": "Error"}
    assert PodView.from_pod(world.get_pod()).resize.state is ResizeState.FAILING
    world.run(10 * MINUTE)
    assert in_force(world.get_pod())["memory"] == "1Gi"
    assert world.cluster.counters.oom_kills.tolist() == [0]


@pytest.mark.parametrize(
    ("kind", "cpu", "expected"),
    [
        ("refuse-resizes", "1", {"PodResizePending": "Infeasible"}),
        ("refuse-resizes", "250m", {"PodResizePending": "Infeasible"}),
        ("refuse-downsizes", "1", {}),
        ("refuse-downsizes", "250m", {"PodResizePending": "Infeasible"}),
        ("defer-resizes", "250m", {"PodResizePending": "Deferred"}),
    ],
)
def test_faults_have_kubelets_refuse_or_put_off(kind: str, cpu: str, expected: dict[str, str]) -> None:
    for about in ("web", "node-1"):
        world = build_world(faults=(fault(kind, about=about),))
        assert world.resize(world.get_pod(), cpu=cpu)[0] is WriteResult.APPLIED
        world.run(10)
        assert resize_conditions(world.get_pod()) == expected
    world = build_world(faults=(fault(kind, about="other"),))
    world.resize(world.get_pod(), cpu=cpu)
    world.run(10)
    assert in_force(world.get_pod())["cpu"] == cpu


def test_resizes_deferred_by_a_fault_are_executed_when_it_ends() -> None:
    world = build_world(faults=(fault("defer-resizes", 0, 300),))
    world.resize(world.get_pod(), cpu="1")
    world.run(200)
    assert in_force(world.get_pod())["cpu"] == "500m"
    world.run(100)
    assert in_force(world.get_pod())["cpu"] == "1"


def test_a_resize_waits_for_a_node_that_is_off() -> None:
    world = build_world(faults=(fault("node-down", 30, 60),))
    world.resize(world.get_pod(), cpu="1")
    world.run(30)
    assert in_force(world.get_pod())["cpu"] == "500m"
    world.run(60)
    assert in_force(world.get_pod())["cpu"] == "1"


def test_a_pod_that_waits_for_a_node_is_placed_once_it_is_resized_to_fit() -> None:
    world = build_world(container(cpu="5"))
    assert world.get_pod().status.phase == "Pending"
    assert world.resize(world.get_pod(), cpu="2")[0] is WriteResult.APPLIED
    world.run(10)
    assert is_ready(world.get_pod())
    assert in_force(world.get_pod())["cpu"] == "2"


def test_a_pod_that_is_resized_before_it_runs_gets_there_in_the_end() -> None:
    world = World(fleet(workload("web", 1))).run(0.5)
    assert world.resize(world.get_pod(), cpu="1")[0] is WriteResult.APPLIED
    world.run(1)
    assert in_force(world.get_pod())["cpu"] == "500m"
    world.run(5)
    assert in_force(world.get_pod())["cpu"] == "1"


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ([PatchOp("test", "/metadata/uid", "another")], "is not 'another'"),
        ([PatchOp("test", "/spec/containers/0/resources/requests/cpu", "1")], "is not '1'"),
        ([PatchOp("add", "/spec/containers/1/resources", {})], 'the path has no "1"'),
        ([PatchOp("add", "/spec/containers/0/name", "b")], "only container resources"),
        ([PatchOp("add", "/metadata/labels/app", "b")], "only container resources"),
        ([PatchOp("remove", "/spec/containers/0/resources/requests/cpu")], "only container resources"),
        ([PatchOp("add", "/spec/containers/0/resources/requests/cpu", "3")], "above its limit"),
        (
            [
                PatchOp("add", "/spec/containers/0/resources/requests/cpu", "1"),
                PatchOp("add", "/spec/containers/0/resources/requests/memory", "2Gi"),
            ],
            "class of the pod",
        ),
        ([PatchOp("move", "/spec/containers/0/name", "b")], "is not possible"),
        ([PatchOp("add", "/spec/containers", 5)], "not a valid pod"),
    ],
)
def test_the_api_server_refuses_invalid_resizes_with_a_reason(patch: list[PatchOp], why: str) -> None:
    world = build_world(container(limits={"cpu": "1", "memory": "2Gi"}))
    before = world.get_pod()
    result, message = world.cluster.resize(ref(before), tuple(patch))
    assert result is WriteResult.INVALID
    assert why in message
    assert world.run(10).get_pod() == before


def test_a_deleted_pod_is_neither_resized_nor_annotated() -> None:
    world = build_world()
    old = world.get_pod()
    world.cluster.evict(ref(old))
    world.run(10)
    assert world.resize(old, cpu="1")[0] is WriteResult.GONE
    assert world.cluster.annotate(ref(old), ()) is WriteResult.GONE


def test_annotations_are_set_and_removed_by_patches_with_tests() -> None:
    world = build_world()
    pod = world.get_pod()
    setting = (
        PatchOp("test", "/metadata/uid", pod.metadata.uid),
        PatchOp("add", "/metadata/annotations", {}),
        PatchOp("add", "/metadata/annotations/a~1b", "yes"),
    )
    assert world.cluster.annotate(ref(pod), setting) is WriteResult.APPLIED
    assert world.get_pod().metadata.annotations == {"a/b": "yes"}
    removing = (PatchOp("remove", "/metadata/annotations/a~1b"),)
    assert world.cluster.annotate(ref(pod), removing) is WriteResult.APPLIED
    assert not world.get_pod().metadata.annotations
    assert world.cluster.annotate(ref(pod), removing) is WriteResult.INVALID
    assert world.cluster.annotate(ref(pod), (PatchOp("add", "/spec/nodeName", "x"),)) is WriteResult.INVALID


def test_each_container_is_resized_by_itself() -> None:
    world = build_world(container(), container("proxy", "100m", "128Mi"), nodes=(shape(),))
    world.resize(world.get_pod(), cpu="200m", at=1)
    world.run(5)
    assert in_force(world.get_pod(), "proxy")["cpu"] == "200m"
    assert in_force(world.get_pod())["cpu"] == "500m"
