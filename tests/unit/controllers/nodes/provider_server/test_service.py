"""What our server answers, by Cluster Autoscaler's rules."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from support import virtual_time
from support.worlds.providers.external_grpc import KwokServerWorld
from support.worlds.providers.kwok_nodes import failing, group
from trellis.core.nodes.node_groups import GroupOptions, GroupState
from trellis.providers.external_grpc import rpcs
from trellis.providers.external_grpc.messages import (
    DeleteRequest,
    DeltaRequest,
    Empty,
    ExpectedSize,
    GroupRequest,
    InstanceStateNumber,
    NamedNode,
    NodePriceRequest,
    NodeRequest,
    OptionsMessage,
    OptionsRequest,
    build_duration,
    build_kube_duration,
)
from trellis.providers.external_grpc.node_messages import TimeMessage, decode_node
from trellis.providers.external_grpc.protobuf import Message
from trellis.providers.external_grpc.rpcs import CallFailed, CallStatus, Rpc


def play(story: Coroutine[Any, Any, None]) -> None:
    virtual_time.run(story)


async def refused(world: KwokServerWorld, rpc: Rpc[Any, Any], request: Message) -> CallFailed:
    with pytest.raises(CallFailed) as failed:
        await world.caller.call(rpc, request)
    return failed.value


async def target(world: KwokServerWorld, name: str = "small") -> int:
    return (await world.caller.call(rpcs.TARGET_SIZE, GroupRequest(name))).size


def test_an_increase_is_shown_at_once_and_two_add_up() -> None:
    async def story() -> None:
        world = KwokServerWorld()
        await asyncio.gather(
            world.caller.call(rpcs.INCREASE_SIZE, DeltaRequest(2, "small")),
            world.caller.call(rpcs.INCREASE_SIZE, DeltaRequest(3, "small")),
        )
        assert await target(world) == 5
        assert len(world.documents()) == 5

    play(story())


def test_the_server_enforces_sizes() -> None:
    async def story() -> None:
        world = KwokServerWorld(group(maxSize=2, minSize=1))
        above = await refused(world, rpcs.INCREASE_SIZE, DeltaRequest(3, "small"))
        assert (above.status, "maximum of 2 nodes" in above.details) == (CallStatus.OUT_OF_RANGE, True)
        await world.bring_up_by_server(1)
        [node] = world.stored_nodes()
        below = await refused(world, rpcs.DELETE_NODES, DeleteRequest((NamedNode(node.spec.provider_id),), "small"))
        assert (below.status, "keeps 1 node" in below.details) == (CallStatus.FAILED_PRECONDITION, True)
        assert await target(world) == 1

    play(story())


def test_an_increase_from_another_size_is_aborted() -> None:
    async def story() -> None:
        world = KwokServerWorld()
        await world.caller.call(rpcs.INCREASE_SIZE, DeltaRequest(2, "small", ExpectedSize(0)))
        error = await refused(world, rpcs.INCREASE_SIZE, DeltaRequest(2, "small", ExpectedSize(0)))
        assert (error.status, error.details) == (CallStatus.ABORTED, "small has a target size of 2, and not 0")
        await world.caller.call(rpcs.INCREASE_SIZE, DeltaRequest(1, "small", ExpectedSize(2)))
        assert await target(world) == 3

    play(story())


@pytest.mark.parametrize("delta", [0, -1, 2**31])
def test_an_increase_is_positive(delta: int) -> None:
    async def story() -> None:
        world = KwokServerWorld()
        error = await refused(world, rpcs.INCREASE_SIZE, DeltaRequest(delta, "small"))
        assert error.status is CallStatus.INVALID_ARGUMENT

    play(story())


def test_an_unknown_group_is_not_found_whatever_is_asked_of_it() -> None:
    async def story() -> None:
        world = KwokServerWorld()
        for rpc in (rpcs.TARGET_SIZE, rpcs.NODES, rpcs.TEMPLATE):
            assert (await refused(world, rpc, GroupRequest("none"))).status is CallStatus.NOT_FOUND
        assert (await refused(world, rpcs.INCREASE_SIZE, DeltaRequest(1, "none"))).status is CallStatus.NOT_FOUND
        assert (await refused(world, rpcs.DELETE_NODES, DeleteRequest((), "none"))).status is CallStatus.NOT_FOUND
        assert (await refused(world, rpcs.OPTIONS, OptionsRequest("none"))).status is CallStatus.NOT_FOUND

    play(story())


def test_a_node_is_found_by_its_provider_id_and_its_name() -> None:
    async def story() -> None:
        world = KwokServerWorld()
        await world.bring_up_by_server(1)
        for node in (NamedNode("kwok://small-1", "anything"), NamedNode("", "small-1")):
            answer = await world.caller.call(rpcs.NODE_GROUP_FOR_NODE, NodeRequest(node))
            assert answer.group.id == "small"
        # An empty id says that the node is none of ours.
        for node in (NamedNode("kwok://other", "small-1"), NamedNode("", "other"), NamedNode()):
            assert (await world.caller.call(rpcs.NODE_GROUP_FOR_NODE, NodeRequest(node))).group.id == ""

    play(story())


def test_a_node_of_another_group_is_not_deleted() -> None:
    async def story() -> None:
        world = KwokServerWorld(group(), group("large"))
        await world.bring_up_by_server(1)
        request = DeleteRequest((NamedNode("kwok://small-1"),), "large")
        assert (await refused(world, rpcs.DELETE_NODES, request)).status is CallStatus.NOT_FOUND
        assert await target(world) == 1

    play(story())


def test_a_decrease_cancels_the_newest_orders_and_never_a_node_that_is_up() -> None:
    async def story() -> None:
        world = KwokServerWorld()
        await world.bring_up_by_server(1)
        await world.caller.call(rpcs.INCREASE_SIZE, DeltaRequest(2, "small"))
        await world.caller.call(rpcs.DECREASE_TARGET_SIZE, DeltaRequest(-1, "small"))
        assert sorted(world.documents()) == ["small-1", "small-2"]
        error = await refused(world, rpcs.DECREASE_TARGET_SIZE, DeltaRequest(-2, "small"))
        assert (error.status, "waits for 1 node" in error.details) == (CallStatus.FAILED_PRECONDITION, True)
        assert (await refused(world, rpcs.DECREASE_TARGET_SIZE, DeltaRequest(1, "small"))).status is (
            CallStatus.INVALID_ARGUMENT
        )

    play(story())


def test_a_template_is_ready_in_the_old_and_the_new_field_and_names_its_group_for_the_price() -> None:
    async def story() -> None:
        world = KwokServerWorld(group(price=0.5, taints=[{"key": "a", "effect": "NoSchedule"}]))
        answer = await world.caller.call(rpcs.TEMPLATE, GroupRequest("small"))
        assert answer.node == answer.old_node
        node = decode_node(answer.node)
        assert (node.metadata.name, node.status.allocatable["cpu"]) == ("small-template", "4")
        assert [(condition.type, condition.status) for condition in node.status.conditions] == [("Ready", "True")]
        named = NamedNode("", "copy-of-the-template", annotations=node.metadata.annotations)
        half_an_hour = NodePriceRequest(named, start=TimeMessage(0), end=TimeMessage(1800))
        assert (await world.caller.call(rpcs.NODE_PRICE, half_an_hour)).price == 0.25
        old = NodePriceRequest(named, old_start=TimeMessage(0), old_end=TimeMessage(7200))
        assert (await world.caller.call(rpcs.NODE_PRICE, old)).price == 1.0
        unknown = NodePriceRequest(NamedNode("", "other"), start=TimeMessage(0), end=TimeMessage(1800))
        assert (await refused(world, rpcs.NODE_PRICE, unknown)).status is CallStatus.NOT_FOUND
        # The client gets the price of the group.
        assert (await world.provider.groups(world.now)).states[0].group.price == 0.5

    play(story())


def test_options_of_a_group_without_own_ones_are_the_defaults_of_the_request() -> None:
    async def story() -> None:
        defaults = OptionsMessage(
            0.5, 0.6, unneeded=build_duration(600), old_unneeded=build_kube_duration(600), max_startup=build_duration(9)
        )
        world = KwokServerWorld()
        answer = await world.caller.call(rpcs.OPTIONS, OptionsRequest("small", defaults))
        assert answer.options == defaults

    play(story())


def test_the_thresholds_of_a_group_are_answered_each_in_its_own_field(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        world = KwokServerWorld()
        options = GroupOptions(scale_down_utilization_threshold=0.3, scale_down_gpu_utilization_threshold=0.2)
        read = world.group_states.find

        async def find(group: str) -> GroupState:
            state = await read(group)
            return replace(state, group=replace(state.group, options=options))

        monkeypatch.setattr(world.group_states, "find", find)
        answer = await world.caller.call(rpcs.OPTIONS, OptionsRequest("small", OptionsMessage(0.5, 0.5)))
        assert answer.options == OptionsMessage(0.3, 0.2)

    play(story())


def test_an_instance_that_failed_is_one_that_is_created_with_an_error() -> None:
    async def story() -> None:
        world = KwokServerWorld(failing("FailToStart"))
        await world.caller.call(rpcs.INCREASE_SIZE, DeltaRequest(1, "small"))
        await world.wait(60.0)
        [instance] = (await world.caller.call(rpcs.NODES, GroupRequest("small"))).instances
        assert instance.id == "kwok://small-1"
        assert instance.status.state == InstanceStateNumber.CREATING
        assert (instance.status.error.code, instance.status.error.error_class) == ("NodeFailedToStart", 99)

    play(story())


def test_caches_that_are_old_are_no_list_without_groups() -> None:
    async def story() -> None:
        world = KwokServerWorld()
        await world.caller.call(rpcs.NODE_GROUPS, Empty())
        world.staleness = "nodes: no contact for 20 s"
        for rpc, request in ((rpcs.REFRESH, Empty()), (rpcs.NODE_GROUPS, Empty())):
            error = await refused(world, rpc, request)
            assert (error.status, error.details) == (CallStatus.UNAVAILABLE, "nodes: no contact for 20 s")
        assert (await refused(world, rpcs.INCREASE_SIZE, DeltaRequest(1, "small"))).status is CallStatus.UNAVAILABLE
        assert world.documents() == {}

    play(story())


def test_a_provider_without_an_answer_is_no_list_without_groups() -> None:
    async def story() -> None:
        world = KwokServerWorld()
        world.config = None  # type: ignore[assignment]
        # A ConfigMap that is not there is an answer: there are no groups.
        assert (await world.caller.call(rpcs.NODE_GROUPS, Empty())).groups == ()

        async def fail(_now: float) -> None:
            raise RuntimeError("no machines today")

        world.provider_client._calls[0]._provider.groups = fail  # type: ignore[method-assign, assignment]
        for _ in range(3):
            world.group_states.forget()
            assert (await refused(world, rpcs.NODE_GROUPS, Empty())).status is CallStatus.UNAVAILABLE
            await world.wait(100.0)
        assert world.group_states.problem is not None
        assert "no machines today" in world.group_states.problem

    play(story())


@pytest.mark.parametrize("why", ["the server is read-only", "this replica does not work"])
def test_a_server_that_may_not_change_anything_reads_all_the_same(why: str) -> None:
    async def story() -> None:
        world = KwokServerWorld()
        world.change_problem = why
        error = await refused(world, rpcs.INCREASE_SIZE, DeltaRequest(1, "small"))
        assert (error.status, error.details) == (CallStatus.FAILED_PRECONDITION, why)
        assert await target(world) == 0

    play(story())


def test_writes_that_fail_are_reported_so_that_the_client_reads_again() -> None:
    async def story() -> None:
        world = KwokServerWorld()
        # Another process has created a node of this name, which the cache does not show yet.
        known = world.stored_nodes()
        world.add_node("small-1")
        world.shown_nodes = known
        error = await refused(world, rpcs.INCREASE_SIZE, DeltaRequest(1, "small"))
        assert (error.status, "1 write failed" in error.details) == (CallStatus.ABORTED, True)

    play(story())


def test_the_label_and_the_types_of_gpus_are_empty_and_pods_have_no_price() -> None:
    async def story() -> None:
        world = KwokServerWorld()
        assert (await world.caller.call(rpcs.GPU_LABEL, Empty())).label == ""
        await world.caller.call(rpcs.GPU_TYPES, Empty())
        await world.caller.call(rpcs.CLEANUP, Empty())
        assert (await refused(world, rpcs.POD_PRICE, Empty())).status is CallStatus.UNIMPLEMENTED

    play(story())


def test_calls_share_what_was_read_a_moment_ago() -> None:
    async def story() -> None:
        world = KwokServerWorld(*(group(f"group-{number}") for number in range(20)))
        reads = 0
        read = world.provider_client.groups

        async def count(now: float) -> Any:
            nonlocal reads
            reads += 1
            return await read(now)

        world.provider_client.groups = count  # type: ignore[method-assign]
        await world.provider.groups(world.now)
        assert reads == 1
        await world.caller.call(rpcs.INCREASE_SIZE, DeltaRequest(1, "group-3"))
        assert await target(world, "group-3") == 1
        assert reads == 2

    play(story())
