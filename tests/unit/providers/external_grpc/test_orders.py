"""Absolute orders through relative increases: nothing is ordered twice, whatever becomes of a request."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from support import virtual_time
from support.worlds.providers.external_grpc import After, Before, Fault, GroupOfMachines, Hang, Late, MachineWorld
from trellis.core.nodes.node_groups import GROUP_AT_MAXIMUM
from trellis.providers.external_grpc.group_reader import ORDER_UNSETTLED
from trellis.providers.external_grpc.provider import CHANGE_FAILED, CHANGE_NOT_SENT
from trellis.providers.external_grpc.rpcs import CallFailed, CallStatus
from trellis.providers.external_grpc.unsettled_changes import HOLD_SECONDS

INCREASE = "NodeGroupIncreaseSize"
TARGET = "NodeGroupTargetSize"
UNANSWERED = [CallStatus.DEADLINE_EXCEEDED, CallStatus.UNAVAILABLE, CallStatus.CANCELLED, CallStatus.INTERNAL]


def play(story: Coroutine[Any, Any, None]) -> None:
    virtual_time.run(story)


def wanted(world: MachineWorld) -> int:
    return world.server.groups["pool"].wanted


@pytest.mark.parametrize("status", [status for status in CallStatus if status is not CallStatus.OK])
def test_an_increase_that_was_done_and_not_answered_is_an_order(status: CallStatus) -> None:
    async def story() -> None:
        world = MachineWorld()
        world.server.fail(INCREASE, After(status))
        assert await world.order(3) is None
        assert await world.order(3) is None
        assert (wanted(world), world.server.count(INCREASE)) == (3, 1)
        assert (await world.state()).suspended is None

    play(story())


@pytest.mark.parametrize("status", UNANSWERED)
def test_an_increase_without_an_answer_is_not_repeated_while_it_may_still_be_carried_out(status: CallStatus) -> None:
    async def story() -> None:
        world = MachineWorld()
        world.server.fail(INCREASE, Late(status))
        refused = await world.order(3)
        assert refused is not None
        assert refused.reason is CHANGE_FAILED

        suspended = (await world.state()).suspended
        assert suspended is not None
        assert suspended.reason is ORDER_UNSETTLED
        again = await world.order(3)
        assert again is not None
        assert again.reason is ORDER_UNSETTLED

        world.server.carry_out_late()
        state = await world.state()
        assert (state.target, state.suspended) == (3, None)
        assert await world.order(3) is None
        assert (wanted(world), world.server.count(INCREASE)) == (3, 1)

    play(story())


def test_a_lost_increase_may_be_sent_again_after_the_hold() -> None:
    async def story() -> None:
        world = MachineWorld()
        world.server.fail(INCREASE, Before(CallStatus.DEADLINE_EXCEEDED))
        assert await world.order(3) is not None
        await world.wait(HOLD_SECONDS - 1)
        assert await world.order(3) is not None
        await world.wait(2)
        assert await world.order(3) is None
        assert (wanted(world), world.server.count(INCREASE)) == (3, 2)

    play(story())


def test_an_increase_that_the_server_refuses_may_be_tried_again_at_once() -> None:
    async def story() -> None:
        world = MachineWorld()
        world.server.fail(INCREASE, Before(CallStatus.RESOURCE_EXHAUSTED))
        refused = await world.order(2)
        assert refused is not None
        assert "0 of 2 nodes of pool were ordered: NodeGroupIncreaseSize: RESOURCE_EXHAUSTED" in str(refused)
        assert (await world.state()).suspended is None
        assert await world.order(2) is None

    play(story())


def test_a_part_of_an_increase_counts() -> None:
    async def story() -> None:
        world = MachineWorld()

        pool = world.server.groups["pool"]
        grow = pool.grow
        pool.grow = lambda delta, now: grow(min(delta, 1), now)  # type: ignore[method-assign]
        world.server.fail(INCREASE, After(CallStatus.DEADLINE_EXCEEDED))
        refused = await world.order(3)
        assert refused is not None
        assert "1 of 3 nodes" in str(refused)
        pool.grow = grow  # type: ignore[method-assign]
        assert await world.order(3) is None
        assert wanted(world) == 3

    play(story())


def test_a_call_that_is_cancelled_leaves_the_order_unsettled() -> None:
    async def story() -> None:
        world = MachineWorld()
        world.server.fail(INCREASE, Hang())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(world.order(3), 30)
        again = await world.order(3)
        assert again is not None
        assert again.reason is ORDER_UNSETTLED
        assert world.server.count(INCREASE) == 1

    play(story())


def test_a_size_that_cannot_be_read_again_leaves_the_order_unsettled() -> None:
    async def story() -> None:
        world = MachineWorld()
        world.server.fail(INCREASE, After(CallStatus.UNAVAILABLE))
        # The read before the increase succeeds, the one after it does not: the server is down.
        pool = world.server.groups["pool"]
        grow = pool.grow

        def grow_and_go_down(delta: int, now: float) -> None:
            grow(delta, now)
            world.server.fail(TARGET, Before(CallStatus.UNAVAILABLE))

        pool.grow = grow_and_go_down  # type: ignore[method-assign]
        assert await world.order(3) is not None
        assert await world.order(3) is None
        assert (wanted(world), world.server.count(INCREASE)) == (3, 1)

    play(story())


def test_nothing_is_sent_where_the_size_cannot_be_read_first() -> None:
    async def story() -> None:
        world = MachineWorld()
        world.server.fail(TARGET, Before(CallStatus.UNAVAILABLE))
        refused = await world.order(3)
        assert refused is not None
        assert "nothing was ordered" in str(refused)
        assert world.server.count(INCREASE) == 0

    play(story())


def test_concurrent_orders_of_one_process_do_not_add_up() -> None:
    async def story() -> None:
        world = MachineWorld()
        results = await asyncio.gather(world.order(2), world.order(4), world.order(3), world.order(4))
        assert [result for result in results if result is not None] == []
        assert wanted(world) == 4

    play(story())


@pytest.mark.parametrize("fault", [None, Before(CallStatus.UNAVAILABLE), After(CallStatus.DEADLINE_EXCEEDED)])
def test_a_process_that_follows_another_one_orders_only_the_difference(fault: Fault | None) -> None:
    """It knows nothing of what was sent; the size that it reads counts."""

    async def story() -> None:
        world = MachineWorld()
        if fault is not None:
            world.server.fail(INCREASE, fault)
        await world.order(3)
        world.provider = world.restarted_provider()
        assert await world.order(4) is None
        assert wanted(world) == 4

    play(story())


def test_what_the_protocol_cannot_give() -> None:
    """Two processes that both read the size before either sends: both increases count. Only the leader may send."""

    async def story() -> None:
        world = MachineWorld()
        one, other = world.restarted_provider(), world.restarted_provider()
        await asyncio.gather(one.order("pool", 2, world.now), other.order("pool", 2, world.now))
        assert wanted(world) == 4
        # The excess shows at once, and nothing is added for it later.
        assert (await world.state()).target == 4
        assert await world.order(4) is None

    play(story())


def test_two_processes_do_not_add_up_at_a_server_that_compares_the_size() -> None:
    async def story() -> None:
        world = MachineWorld()
        world.server.knows_expected = True
        one, other = world.restarted_provider(), world.restarted_provider()
        results = await asyncio.gather(one.order("pool", 2, world.now), other.order("pool", 3, world.now))
        assert [result.error for result in results if result.error is not None] == []
        assert wanted(world) == 3

    play(story())


def test_a_late_increase_is_refused_by_a_server_that_compares_the_size() -> None:
    """The process that sent it was killed, and another one has ordered the same meanwhile."""

    async def story() -> None:
        world = MachineWorld()
        world.server.knows_expected = True
        world.server.fail(INCREASE, Late(CallStatus.DEADLINE_EXCEEDED))
        await world.order(3)
        world.provider = world.restarted_provider()
        assert await world.order(3) is None
        with pytest.raises(CallFailed, match="the size is 3"):
            world.server.carry_out_late()
        assert wanted(world) == 3

    play(story())


def test_a_size_that_changes_all_the_time_ends_an_order() -> None:
    async def story() -> None:
        world = MachineWorld(GroupOfMachines(most=20))
        pool = world.server.groups["pool"]
        grow = pool.grow

        def grow_for_another_client(delta: int, now: float) -> None:
            grow(1, now)
            raise CallFailed("", CallStatus.ABORTED, "the size is another one")

        pool.grow = grow_for_another_client  # type: ignore[method-assign]
        refused = await world.order(9)
        assert refused is not None
        assert "changes all the time" in str(refused)
        assert (wanted(world), world.server.count(INCREASE)) == (3, 3)

    play(story())


def test_an_increase_that_was_aborted_without_a_change_is_not_sent_again_at_once() -> None:
    async def story() -> None:
        world = MachineWorld()
        world.server.fail(INCREASE, Before(CallStatus.ABORTED))
        refused = await world.order(3)
        assert refused is not None
        assert refused.reason is CHANGE_FAILED
        assert world.server.count(INCREASE) == 1

    play(story())


@pytest.mark.parametrize("why", ["the process is read-only", "the process does not lead"])
def test_a_process_that_may_not_act_sends_no_change(why: str) -> None:
    async def story() -> None:
        world = MachineWorld()
        await world.order(2)
        [first, _] = (await world.state()).instances
        world.send_problem = why
        world.server.calls.clear()
        refused = await world.order(3)
        assert refused is not None
        assert (refused.reason, why in str(refused)) == (CHANGE_NOT_SENT, True)
        released = await world.provider.release("pool", [first.id], world.now)
        assert released.refused[first.id].reason is CHANGE_NOT_SENT
        assert not {INCREASE, "NodeGroupDeleteNodes", "NodeGroupDecreaseTargetSize"} & set(world.server.calls)

    play(story())


def test_the_client_keeps_the_maximum_even_if_the_server_does_not() -> None:
    async def story() -> None:
        world = MachineWorld(GroupOfMachines(most=2))
        world.server.enforces_sizes = False
        refused = await world.order(3)
        assert refused is not None
        assert refused.reason is GROUP_AT_MAXIMUM
        assert wanted(world) == 0

    play(story())


def test_one_node_in_the_cluster_costs_no_call() -> None:
    """NodeGroupForNode is a call for each node of the cluster and pass; the instances of the groups say the same."""

    async def story() -> None:
        world = MachineWorld(GroupOfMachines(most=50))
        await world.order(50)
        await world.wait(100)
        world.server.calls.clear()
        await world.provider.groups(world.now)
        assert world.server.count("NodeGroupForNode") == 0
        first = len(world.server.calls)
        world.server.calls.clear()
        await world.wait(10)
        await world.provider.groups(world.now)
        # The template and the options of a group are read once a minute.
        assert sorted(world.server.calls) == ["NodeGroupNodes", "NodeGroupTargetSize", "NodeGroups", "Refresh"]
        assert first <= 7

    play(story())
