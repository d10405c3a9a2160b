"""Orders and releases by Cluster API: no Machine twice, and none removed that was not released."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.virtual_time import run
from support.worlds.providers.cluster_api import BOOT, DELETE, DEPLOYMENT, LIMITS, MIN_SIZE, SIZE, ClusterApiWorld
from trellis.core.nodes.node_groups import GROUP_AT_MINIMUM
from trellis.kube.write.actions import PatchScale
from trellis.kube.write.outcomes import Result
from trellis.providers.cluster_api.declarations import MACHINE_GROUP_INVALID
from trellis.providers.cluster_api.objects import ClusterApiObjects
from trellis.providers.cluster_api.replicas import RELEASED, WANTED
from trellis.providers.cluster_api.states import (
    MACHINE_FAILED,
    MACHINE_GROUP_PAUSED,
    MACHINES_ROLLING_OUT,
    POOL_WITHOUT_MACHINES,
    TOPOLOGY_SETS_REPLICAS,
)

NEW_TEMPLATE = {"template": {"spec": {"failureDomain": "zone-b"}}}


def played(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """A test on virtual time."""

    @wraps(test)
    def play() -> None:
        async def main() -> None:
            await test()

        run(main())

    return play


@played
async def test_an_order_raises_the_scale_and_its_machines_become_nodes() -> None:
    world = ClusterApiWorld()
    ordered = await world.provider.order(DEPLOYMENT, 2, world.now)
    [[action]] = ordered.steps
    assert isinstance(action, PatchScale)
    assert (action.replicas, action.target.resource_version != "") == (2, True)
    await world.execute(ordered.steps)
    assert set((await world.instances()).values()) == {"Ordered"}
    await world.wait(BOOT)
    assert set((await world.instances()).values()) == {"Running"}
    assert (await world.state()).target == 2


@played
async def test_a_node_is_on_its_way_until_its_labels_and_taints_are_complete() -> None:
    world = ClusterApiWorld()
    [first] = await world.bring_up(1)
    taint = {"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"}
    world.change("nodes", first, spec={"taints": [taint]})
    [instance] = (await world.state()).instances
    assert (str(instance.state), instance.node) == ("Ordered", first)
    world.change("nodes", first, spec={"taints": []})
    assert await world.instances() == {first: "Running"}


@played
async def test_an_order_whose_answer_is_lost_is_not_given_twice() -> None:
    world = ClusterApiWorld()
    world.server.responses_to_drop = 1
    ordered = await world.provider.order(DEPLOYMENT, 2, world.now)
    assert not await world.write(ordered.steps)
    assert world.outcomes[-1].uncertain
    again = await world.restarted_provider().order(DEPLOYMENT, 2, world.now)
    assert not again.steps
    assert (await world.state()).target == world.replicas() == 2


@played
async def test_an_order_on_a_stale_cache_is_refused() -> None:
    world = ClusterApiWorld()
    world.snapshot = world.objects()
    await world.order(2)
    again = await world.provider.order(DEPLOYMENT, 3, world.now)
    assert not await world.write(again.steps)
    assert world.outcomes[-1].result is Result.CONFLICT
    assert world.replicas() == 2


@played
async def test_a_release_marks_the_machine_and_tending_removes_exactly_it() -> None:
    world = ClusterApiWorld()
    first, second, third = await world.bring_up(3)
    assert not await world.release(second)
    assert world.replicas() == 3
    assert (await world.instances())[second] == "Leaving"
    assert (await world.state()).target == 2

    assert await world.tend()
    assert DELETE in world.documents("machines")[second]["metadata"]["annotations"]
    assert world.replicas() == 3, "it is named first"
    assert await world.tend()
    assert world.replicas() == 2
    assert world.machines(live=True) == [first, third]
    assert (await world.state()).target == 2
    world.end_deletions()
    assert not await world.tend()
    assert not world.wrong


@played
async def test_machines_that_are_released_at_the_same_time_go_in_one_decrease() -> None:
    world = ClusterApiWorld()
    machines = await world.bring_up(5)
    releases = [await world.provider.release(DEPLOYMENT, [f"fleet/{name}"], world.now) for name in machines[:3]]
    for release in releases:
        await world.execute(release.steps)
    assert (await world.state()).target == 2
    await world.tend()
    await world.tend()
    assert world.replicas() == 2
    assert world.machines(live=True) == machines[3:]


@played
async def test_a_release_below_the_minimum_is_refused() -> None:
    world = ClusterApiWorld(own={**LIMITS, **SIZE, MIN_SIZE: "2"})
    machines = await world.bring_up(2)
    refused = await world.release(machines[0])
    assert refused[f"fleet/{machines[0]}"].reason is GROUP_AT_MINIMUM


@played
async def test_a_machine_is_named_while_another_one_deletes_that_has_left_the_replicas() -> None:
    world = ClusterApiWorld()
    first, second, third = await world.bring_up(3)
    world.held.add(first)
    await world.release(first)
    for _ in range(3):
        await world.tend()
    assert world.machines(live=True) == [second, third]
    await world.release(third)
    for _ in range(3):
        await world.tend()
    assert world.machines(live=True) == [second]
    assert not world.wrong


@played
async def test_no_machine_is_named_while_another_one_deletes_that_is_still_a_replica() -> None:
    world = ClusterApiWorld()
    first, second, third = await world.bring_up(3)
    world.held.add(first)
    world.delete_machine(first)
    await world.release(third)
    assert not await world.tend()
    assert DELETE not in world.documents("machines")[third]["metadata"]["annotations"]
    assert world.replicas() == 3
    world.held.clear()
    await world.wait(1)
    # Its successor is there by now, and the decrease removes the Machine that is named.
    assert third not in world.machines()
    assert second in world.machines()
    assert len(world.machines(live=True)) == 2
    assert not world.wrong


@played
async def test_an_order_is_not_blocked_by_a_drain_that_takes_the_place_of_a_machine() -> None:
    world = ClusterApiWorld()
    first, second = await world.bring_up(2)
    world.held.add(first)
    world.delete_machine(first)
    world.settle()
    assert len(world.machines()) == 2, "Cluster API makes no successor yet"
    assert (await world.state()).target == 1, "what is blocked is not under way"

    await world.order(2)
    assert (await world.state()).target == 2
    assert len(world.machines(live=True)) == 2
    assert world.documents("machinedeployments")["pool"]["metadata"]["annotations"][WANTED] == "2"
    assert world.replicas() == 3
    await world.tend()
    assert world.replicas() == 2
    assert WANTED not in world.documents("machinedeployments")["pool"]["metadata"]["annotations"]
    world.held.clear()
    await world.wait(BOOT)
    assert len(world.machines()) == 2
    assert second in world.machines()
    assert not world.wrong


@played
async def test_a_drain_that_ends_before_the_replicas_go_back_leaves_no_machine_too_many() -> None:
    world = ClusterApiWorld()
    first, second = await world.bring_up(2)
    world.held.add(first)
    world.delete_machine(first)
    await world.order(3)
    world.held.clear()
    world.end_deletions()
    world.settle()
    assert len(world.machines(live=True)) == 4, "Cluster API made one in its place"
    assert (await world.state()).target == 3
    for _ in range(5):
        await world.tend()
        world.end_deletions()
    assert len(world.machines()) == world.replicas() == 3
    assert second in world.machines()
    assert not world.wrong


@played
async def test_an_order_during_a_release_cancels_neither() -> None:
    world = ClusterApiWorld()
    machines = await world.bring_up(3)
    await world.release(machines[0])
    await world.order(4)
    assert (await world.state()).target == 4
    await world.wait(BOOT)
    assert machines[0] not in world.machines()
    assert len(world.machines()) == world.replicas() == 4
    assert not world.wrong


@played
async def test_annotations_of_others_are_taken_off_before_a_decrease() -> None:
    world = ClusterApiWorld()
    first, second, third = await world.bring_up(3)
    world.annotate("machines", first, **{DELETE: "2026-01-01 00:00:00 +0000 UTC"})
    assert not await world.tend(), "it does no harm while nothing is removed"
    await world.release(third)
    for _ in range(4):
        await world.tend()
    assert world.machines(live=True) == [first, second]
    assert DELETE not in world.documents("machines")[first]["metadata"].get("annotations", {})


@played
async def test_a_name_without_a_release_is_taken_off() -> None:
    world = ClusterApiWorld()
    [first] = await world.bring_up(1)
    world.annotate("machines", first, **{DELETE: "trellis"})
    assert await world.tend()
    assert DELETE not in world.documents("machines")[first]["metadata"]["annotations"]
    assert not await world.tend()


@played
async def test_during_a_rollout_machines_can_be_ordered_and_none_released() -> None:
    world = ClusterApiWorld()
    machines = await world.bring_up(3)
    world.change("machinedeployments", "pool", spec=NEW_TEMPLATE)
    world.reconcile()
    state = await world.state()
    assert state.removals_suspended is not None
    assert state.removals_suspended.reason is MACHINES_ROLLING_OUT
    refused = await world.release(machines[0])
    assert refused[f"fleet/{machines[0]}"].reason is MACHINES_ROLLING_OUT
    await world.order(4)
    for _ in range(12):
        await world.wait(BOOT)
    assert (await world.state()).removals_suspended is None
    assert len(world.machines()) == world.replicas() == 4
    assert not set(machines) & set(world.machines())


@played
async def test_a_release_before_a_rollout_waits_and_costs_no_new_machine() -> None:
    world = ClusterApiWorld()
    machines = await world.bring_up(3)
    await world.release(machines[0])
    await world.tend()
    world.change("machinedeployments", "pool", spec=NEW_TEMPLATE)
    assert not await world.tend(), "the change has not been taken over yet"
    world.reconcile()
    made = set(world.machines()) - set(machines)
    world.wrong.clear()
    for _ in range(15):
        await world.wait(BOOT)
    assert not (set(world.wrong) - set(machines)) & made
    assert machines[0] not in world.machines()
    assert len(world.machines()) == world.replicas()


@played
async def test_a_machine_set_of_its_own_is_a_group_and_that_of_a_deployment_is_none() -> None:
    world = ClusterApiWorld()
    world.add_set("loose")
    names = [state.group.name for state in (await world.provider.groups(world.now)).states]
    assert names == [DEPLOYMENT, "MachineSet/fleet/loose"]
    await world.order(2, "MachineSet/fleet/loose")
    await world.wait(BOOT)
    state = await world.state("MachineSet/fleet/loose")
    assert [str(instance.state) for instance in state.instances] == ["Running", "Running"]
    victim = state.instances[0].id.removeprefix("fleet/")
    await world.release(victim, name="MachineSet/fleet/loose")
    await world.wait(1)
    assert victim not in world.machines()
    assert world.replicas("loose", "machinesets") == 1


@played
async def test_one_group_that_cannot_be_used_stops_no_other() -> None:
    world = ClusterApiWorld()
    world.add_deployment("broken", own={**LIMITS, **SIZE, MIN_SIZE: "two"})
    [first] = await world.bring_up(1)
    groups = await world.provider.groups(world.now)
    assert [state.group.name for state in groups.states] == [DEPLOYMENT]
    [problem] = groups.problems
    assert problem.group == "MachineDeployment/fleet/broken"
    assert problem.reason.reason is MACHINE_GROUP_INVALID
    assert f'annotation {MIN_SIZE}: must be a number of machines, but is "two"' in str(problem.reason)
    ordered = await world.provider.order("MachineDeployment/fleet/broken", 1, world.now)
    assert ordered.error == problem.reason
    released = await world.provider.release("MachineDeployment/fleet/broken", ["fleet/x"], world.now)
    assert released.refused == {"fleet/x": problem.reason}
    await world.release(first)
    await world.wait(1)
    assert not world.machines()


@played
async def test_a_refused_write_of_one_group_keeps_back_none_of_another() -> None:
    world = ClusterApiWorld()
    world.add_deployment("other")
    [first] = await world.bring_up(1)
    [second] = set(await world.bring_up(1, "MachineDeployment/fleet/other")) - {first}
    await world.release(first)
    await world.release(second, name="MachineDeployment/fleet/other")
    await world.tend()
    tended = await world.provider.tend(world.now)
    world.annotate("machinedeployments", "pool", somebody="was faster")
    assert not await world.write(tended.steps)
    assert (world.replicas(), world.replicas("other")) == (1, 0)
    await world.wait(1)
    assert (world.replicas(), world.machines()) == (0, [])


@pytest.mark.parametrize("where", ["group", "annotation", "cluster"])
def test_a_paused_group_keeps_its_size(where: str) -> None:
    async def main() -> None:
        world = ClusterApiWorld()
        [first] = await world.bring_up(1)
        await world.release(first)
        if where == "group":
            world.annotate("machinedeployments", "pool", **{"cluster.x-k8s.io/paused": "true"})
        elif where == "annotation":
            world.annotate("clusters", "bed", **{"cluster.x-k8s.io/paused": "true"})
        else:
            world.change("clusters", "bed", spec={"paused": True})
        state = await world.state()
        assert state.suspended is not None
        assert state.suspended.reason is MACHINE_GROUP_PAUSED
        ordered = await world.provider.order(DEPLOYMENT, 3, world.now)
        assert ordered.error == state.suspended
        assert not await world.tend(), "the release waits"

    run(main())


@played
async def test_a_group_that_is_being_deleted_keeps_its_size() -> None:
    world = ClusterApiWorld()
    world.change("machinedeployments", "pool", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    suspended = (await world.state()).suspended
    assert suspended is not None
    assert str(suspended) == f"{DEPLOYMENT} is being deleted"


@played
async def test_replicas_that_a_topology_sets_are_not_fought() -> None:
    labels = {"topology.cluster.x-k8s.io/owned": "", "topology.cluster.x-k8s.io/deployment-name": "workers"}
    world = ClusterApiWorld(labels=labels)
    workers = {"topology": {"workers": {"machineDeployments": [{"name": "workers", "replicas": 3}]}}}
    world.change("clusters", "bed", spec=workers)
    suspended = (await world.state()).suspended
    assert suspended is not None
    assert suspended.reason is TOPOLOGY_SETS_REPLICAS
    assert "machineDeployments[workers].replicas of the Cluster bed must be unset" in str(suspended)
    workers = {"topology": {"workers": {"machineDeployments": [{"name": "workers"}]}}}
    world.change("clusters", "bed", spec=workers)
    assert (await world.state()).suspended is None


@played
async def test_a_pool_without_machines_grows_and_no_node_of_it_is_removed() -> None:
    world = ClusterApiWorld(empty=True)
    pool = "MachinePool/fleet/vms"
    spec = {"replicas": 2, "clusterName": "bed", "providerIDList": ["testbed://vm-1", "testbed://vm-2"]}
    world.put("machinepools", "vms", spec, annotations={**LIMITS, **SIZE})
    world.change("machinepools", "vms", status={"observedGeneration": 1})
    world.add_node("vm-1")
    state = await world.state(pool)
    assert state.target == 2
    assert [(instance.id, instance.node) for instance in state.instances] == [("testbed://vm-1", "vm-1")]
    refused = await world.release("unused", name=pool)
    assert refused
    released = await world.provider.release(pool, ["testbed://vm-1"], world.now)
    assert released.refused["testbed://vm-1"].reason is POOL_WITHOUT_MACHINES
    await world.order(3, pool)
    assert world.replicas("vms", "machinepools") == 3
    assert not await world.tend()


@played
async def test_a_machine_of_a_pool_is_removed_by_its_name() -> None:
    world = ClusterApiWorld(empty=True)
    pool = "MachinePool/fleet/vms"
    world.put("machinepools", "vms", {"replicas": 2, "clusterName": "bed"}, annotations={**LIMITS, **SIZE})
    world.change("machinepools", "vms", status={"observedGeneration": 1})
    for name in ("vm-1", "vm-2"):
        world.put("machines", name, {}, labels={"cluster.x-k8s.io/pool-name": "vms"})
    await world.release("vm-2", name=pool)
    await world.tend()
    await world.tend()
    assert world.replicas("vms", "machinepools") == 1
    assert DELETE in world.documents("machines")["vm-2"]["metadata"]["annotations"]


@played
async def test_a_machine_that_failed_is_released_with_its_reason() -> None:
    world = ClusterApiWorld()
    await world.order(1)
    [first] = world.machines()
    failure = {"v1beta1": {"failureReason": "CreateError", "failureMessage": "no capacity in zone-a"}}
    world.change("machines", first, status={"phase": "Failed", "deprecated": failure})
    [instance] = (await world.state()).instances
    assert instance.state == "Failed"
    assert instance.error is not None
    assert (instance.error.reason, str(instance.error)) == (MACHINE_FAILED, "CreateError: no capacity in zone-a")
    await world.release(first)
    await world.wait(1)
    assert first not in world.machines()
    assert not world.machines()


@played
async def test_replicas_that_are_not_set_are_a_problem() -> None:
    world = ClusterApiWorld(replicas=None)
    [problem] = (await world.provider.groups(world.now)).problems
    assert "spec.replicas: must be set" in str(problem.reason)
    assert not await world.tend()


@played
async def test_groups_of_several_clusters_are_refused_unless_one_is_named() -> None:
    world = ClusterApiWorld()
    world.add_deployment("foreign", cluster="other")
    groups = await world.provider.groups(world.now)
    assert not groups.states
    assert all("name one with --cluster-api-cluster-name" in str(problem.reason) for problem in groups.problems)


STEP = st.one_of(
    st.tuples(st.just("order"), st.integers(1, 3)),
    st.tuples(st.just("release"), st.integers(0, 9)),
    st.tuples(st.just("user deletes"), st.integers(0, 9)),
    st.tuples(st.just("hold"), st.integers(0, 9)),
    st.tuples(st.just("let go"), st.just(0)),
    st.tuples(st.just("time"), st.just(0)),
    st.tuples(st.just("cluster api"), st.just(0)),
    st.tuples(st.just("tend"), st.integers(0, 2)),
    st.tuples(st.just("stale tend"), st.just(0)),
)


async def play_step(world: ClusterApiWorld, kind: str, number: int, old: ClusterApiObjects) -> None:
    """One thing that happens: by the autoscaler, by Cluster API, by a user, or by the passing of time."""
    machines = world.machines(live=True) or [""]
    machine = machines[number % len(machines)]
    match kind:
        case "order":
            await world.order(min(10, (await world.state()).target + number))
        case "release" if machine:
            await world.release(machine)
        case "user deletes" if machine:
            world.delete_machine(machine)
        case "hold" if machine:
            world.held.add(machine)
        case "let go":
            world.held.clear()
        case "time":
            world.now += BOOT
            world.boot()
            world.end_deletions()
        case "cluster api":
            world.reconcile()
        case "tend":
            # The process is killed after some of the writes.
            for step in (await world.provider.tend(world.now)).steps:
                await world.write((step[: number + 1],))
        case "stale tend":
            world.snapshot = old
            await world.write((await world.provider.tend(world.now)).steps)
            world.snapshot = None


@given(st.lists(STEP, max_size=30))
def test_whatever_happens_no_machine_goes_that_was_not_released_and_the_target_is_reached(
    steps: list[tuple[str, int]],
) -> None:
    async def main() -> None:
        world = ClusterApiWorld()
        await world.bring_up(3)
        old = world.objects()
        for kind, number in steps:
            before = world.objects()
            await play_step(world, kind, number, old)
            old = before
        world.held.clear()
        target = (await world.state()).target
        for _ in range(6):
            await world.wait(BOOT)
        state = await world.state()
        machines = world.documents("machines").values()
        assert not world.wrong
        assert state.target == len(machines) == world.replicas()
        assert state.target >= target
        assert WANTED not in world.documents("machinedeployments")["pool"]["metadata"]["annotations"]
        assert not any(RELEASED in own["metadata"].get("annotations", {}) for own in machines)

    run(main())
