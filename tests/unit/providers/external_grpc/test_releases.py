"""Machines deleted by name, and orders cancelled that the server lists no machine for."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest

from support import virtual_time
from support.worlds.providers.external_grpc import BOOT, After, Before, GroupOfMachines, Late, MachineWorld, Sound
from trellis.core.nodes.node_groups import InstanceState
from trellis.providers.external_grpc.rpcs import CallStatus
from trellis.providers.external_grpc.unsettled_changes import HOLD_SECONDS

DELETE = "NodeGroupDeleteNodes"
DECREASE = "NodeGroupDecreaseTargetSize"


def play(story: Coroutine[Any, Any, None]) -> None:
    virtual_time.run(story)


async def running(world: MachineWorld, count: int) -> list[str]:
    assert await world.order(count) is None
    await world.wait(BOOT + 1)
    return [instance.id for instance in (await world.state()).instances]


def test_a_node_is_named_by_its_provider_id_with_its_labels() -> None:
    async def story() -> None:
        world = MachineWorld()
        [first, second] = await running(world, 2)
        released = await world.provider.release("pool", [first], world.now)
        assert (released.instances, released.refused) == ((first,), {})
        assert world.server.deleted == [first]
        assert [instance.id for instance in (await world.state()).instances] == [second]

    play(story())


@pytest.mark.parametrize("status", [CallStatus.DEADLINE_EXCEEDED, CallStatus.UNKNOWN])
def test_a_deletion_that_was_done_and_not_answered_counts(status: CallStatus) -> None:
    async def story() -> None:
        world = MachineWorld()
        [first, _] = await running(world, 2)
        world.server.fail(DELETE, After(status))
        released = await world.provider.release("pool", [first], world.now)
        assert released.instances == (first,)
        assert world.server.groups["pool"].wanted == 1

    play(story())


def test_a_deletion_that_may_still_be_carried_out_is_not_repeated() -> None:
    """A simple server takes one off the size for each request, even if the machine is gone."""

    async def story() -> None:
        world = MachineWorld()
        [first, _] = await running(world, 2)
        world.server.fail(DELETE, Late(CallStatus.DEADLINE_EXCEEDED))
        assert first in (await world.provider.release("pool", [first], world.now)).refused
        leaving = (await world.state()).index_by_id()[first]
        assert leaving.state is InstanceState.LEAVING
        assert (await world.provider.release("pool", [first], world.now)).instances == (first,)
        assert world.server.count(DELETE) == 1
        world.server.carry_out_late()
        assert world.server.groups["pool"].wanted == 1

    play(story())


def test_a_lost_deletion_may_be_sent_again_after_the_hold() -> None:
    async def story() -> None:
        world = MachineWorld()
        [first, _] = await running(world, 2)
        world.server.fail(DELETE, Before(CallStatus.UNAVAILABLE))
        await world.provider.release("pool", [first], world.now)
        await world.wait(HOLD_SECONDS)
        assert (await world.provider.release("pool", [first], world.now)).instances == (first,)
        assert world.server.deleted == [first]

    play(story())


def test_a_refused_deletion_leaves_the_instance_running() -> None:
    async def story() -> None:
        world = MachineWorld()
        [first, _] = await running(world, 2)
        world.server.fail(DELETE, Before(CallStatus.FAILED_PRECONDITION))
        refused = (await world.provider.release("pool", [first], world.now)).refused
        assert "FAILED_PRECONDITION" in str(refused[first])
        assert (await world.state()).index_by_id()[first].state is InstanceState.RUNNING

    play(story())


def test_a_deletion_without_any_answer_is_refused_with_all_its_instances() -> None:
    async def story() -> None:
        world = MachineWorld()
        machines = await running(world, 3)
        world.server.fail(DELETE, Before(CallStatus.UNAVAILABLE))
        # The read of the state before succeeds, the one after the deletion does not.
        world.server.fail("NodeGroupNodes", Sound(), Before(CallStatus.UNAVAILABLE))
        refused = (await world.provider.release("pool", machines[:2], world.now)).refused
        assert sorted(refused) == sorted(machines[:2])
        assert DELETE in str(refused[machines[0]])

    play(story())


def test_an_order_without_a_machine_is_cancelled_by_the_target_size() -> None:
    async def story() -> None:
        world = MachineWorld(GroupOfMachines(listed_early=False))
        [first] = await running(world, 1)
        await world.order(3)
        waiting = [each.id for each in (await world.state()).instances if each.state is InstanceState.ORDERED]
        assert len(waiting) == 2
        released = await world.provider.release("pool", waiting[:1], world.now)
        assert released.instances == (waiting[0],)
        assert (world.server.count(DELETE), world.server.count(DECREASE)) == (0, 1)
        state = await world.state()
        assert (state.target, len(state.instances)) == (2, 2)
        assert first in state.index_by_id()

    play(story())


def test_a_cancellation_never_deletes_a_machine_that_came_meanwhile() -> None:
    async def story() -> None:
        world = MachineWorld(GroupOfMachines(listed_early=False))
        await world.order(2)
        [one, other] = [each.id for each in (await world.state()).instances]
        await world.wait(BOOT + 1)
        released = await world.provider.release("pool", [one, other], world.now)
        assert sorted(released.refused) == sorted([one, other])
        assert world.server.groups["pool"].wanted == 2

    play(story())


@pytest.mark.parametrize(("fault", "kept"), [(After(CallStatus.DEADLINE_EXCEEDED), 0), (Before(CallStatus.UNKNOWN), 1)])
def test_what_came_of_a_cancellation_is_read(fault: After | Before, kept: int) -> None:
    async def story() -> None:
        world = MachineWorld(GroupOfMachines(listed_early=False))
        await world.order(1)
        [waiting] = (await world.state()).instances
        world.server.fail(DECREASE, fault)
        released = await world.provider.release("pool", [waiting.id], world.now)
        assert (len(released.refused), world.server.groups["pool"].wanted) == (kept, kept)

    play(story())


def test_an_instance_is_as_old_as_the_first_pass_that_saw_it() -> None:
    """The protocol has no times: without this no instance would ever be overdue."""

    async def story() -> None:
        world = MachineWorld(GroupOfMachines(listed_early=False))
        await world.order(1)
        begin = world.now
        await world.state()
        await world.provider.tend(world.now)
        await world.wait(20)
        await world.provider.tend(world.now)
        [waiting] = (await world.state()).instances
        assert waiting.since == begin

    play(story())
