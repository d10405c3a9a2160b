"""What a server says about its groups, and what it leaves out, gets wrong or does not answer."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from typing import Any

import msgspec
import pytest

from support import virtual_time
from support.worlds.providers.external_grpc import BOOT, Before, GroupOfMachines, Hang, MachineWorld
from trellis.core.nodes.node_groups import GroupOptions, InstanceState, estimate_price
from trellis.providers.external_grpc.answers import (
    GROUP_INVALID,
    INSTANCE_ERROR,
    NO_TEMPLATE,
    OUT_OF_RESOURCES,
    build_default_options,
    read_options,
)
from trellis.providers.external_grpc.group_reader import ALL_OR_NONE
from trellis.providers.external_grpc.messages import (
    InstanceErrorMessage,
    KubeDuration,
    OptionsMessage,
    build_duration,
)
from trellis.providers.external_grpc.provider import GROUP_NOT_ANSWERED
from trellis.providers.external_grpc.rpcs import CallFailed, CallStatus

DEFAULTS = GroupOptions(0.5, 600.0, 1200.0, 900.0)


def play(story: Coroutine[Any, Any, None]) -> None:
    virtual_time.run(story)


@pytest.mark.parametrize("rpc", ["Refresh", "NodeGroups"])
@pytest.mark.parametrize("status", [CallStatus.UNAVAILABLE, CallStatus.DEADLINE_EXCEEDED, CallStatus.UNKNOWN])
def test_silence_is_no_list_without_groups(rpc: str, status: CallStatus) -> None:
    """Cluster Autoscaler takes an error for an empty list: all its groups vanish for a pass."""

    async def story() -> None:
        world = MachineWorld()
        world.server.fail(rpc, Before(status))
        with pytest.raises(CallFailed):
            await world.provider.groups(world.now)
        assert len((await world.provider.groups(world.now)).states) == 1

    play(story())


@pytest.mark.parametrize("rpc", ["NodeGroupTargetSize", "NodeGroupNodes"])
def test_a_group_without_an_answer_stays_as_it_was_suspended(rpc: str) -> None:
    async def story() -> None:
        world = MachineWorld(GroupOfMachines("one"), GroupOfMachines("other"))
        await world.order(2, "one")
        await world.provider.groups(world.now)
        # The groups are read at the same time, the first one first.
        world.server.fail(rpc, Before(CallStatus.UNKNOWN))
        one, other = await world.state("one"), await world.state("other")
        assert (one.target, len(one.instances)) == (2, 2)
        assert other.suspended is None
        world.server.fail(rpc, Before(CallStatus.UNKNOWN))
        suspended = (await world.state("one")).suspended
        assert suspended is not None
        assert suspended.reason is GROUP_NOT_ANSWERED
        assert rpc in str(suspended)

    play(story())


def test_the_last_answer_about_a_group_counts_for_two_minutes() -> None:
    async def story() -> None:
        world = MachineWorld()
        await world.state()
        world.server.fail("NodeGroupNodes", Before(CallStatus.UNKNOWN), Before(CallStatus.UNKNOWN))
        await world.wait(119)
        assert await world.problems() == {}
        await world.wait(1)
        assert await world.problems() == {"pool": GROUP_NOT_ANSWERED}

    play(story())


def test_a_group_that_was_never_read_is_a_problem_and_stops_no_other() -> None:
    async def story() -> None:
        world = MachineWorld(GroupOfMachines("one"), GroupOfMachines("other"))
        world.server.fail("NodeGroupTemplateNodeInfo", Before(CallStatus.UNKNOWN))
        groups = await world.provider.groups(world.now)
        assert [state.group.name for state in groups.states] == ["other"]
        assert [problem.group for problem in groups.problems] == ["one"]

    play(story())


@pytest.mark.parametrize(("least", "most"), [(-1, 3), (4, 3), (0, -2)])
def test_impossible_sizes_cost_their_group_alone(least: int, most: int) -> None:
    async def story() -> None:
        world = MachineWorld(GroupOfMachines("bad", least=least, most=most), GroupOfMachines("good"))
        assert (await world.state("good")).target == 0
        assert await world.problems() == {"bad": GROUP_INVALID}

    play(story())


def test_two_groups_with_one_instance_are_a_problem_of_the_second() -> None:
    async def story() -> None:
        world = MachineWorld(GroupOfMachines("one"), GroupOfMachines("other"))
        await world.order(1, "one")
        world.server.groups["other"].machines.update(world.server.groups["one"].machines)
        assert await world.problems() == {"other": GROUP_INVALID}

    play(story())


def test_a_highest_number_means_no_limit() -> None:
    async def story() -> None:
        state = await MachineWorld(GroupOfMachines(most=2**31 - 1)).state()
        assert state.group.max_size == 100_000

    play(story())


def test_a_server_without_templates_has_those_of_its_nodes() -> None:
    async def story() -> None:
        world = MachineWorld()
        world.server.unimplemented.add("NodeGroupTemplateNodeInfo")
        assert await world.problems() == {"pool": NO_TEMPLATE}
        assert await world.order(1) is None
        await world.wait(BOOT + 1)
        group = (await world.state()).group
        assert dict(group.template.metadata.labels) == {"pool": "pool"}
        assert group.template.status.allocatable["cpu"] == "2"
        assert [taint.key for taint in group.template.spec.taints] == ["dedicated"]
        assert group.template.metadata.name == ""

    play(story())


@pytest.mark.parametrize("field", ["node", "old_node"])
def test_the_template_of_an_old_and_of_a_new_server(field: str) -> None:
    async def story() -> None:
        world = MachineWorld()
        world.server.template_field = field
        template = (await world.state()).group.template
        assert (template.metadata.name, template.status.allocatable["memory"]) == ("", "8Gi")

    play(story())


def test_a_template_that_cannot_be_read_is_a_problem_of_its_group() -> None:
    async def story() -> None:
        world = MachineWorld()
        world.server.extra = b"\x12\x03\xff"
        with pytest.raises(Exception, match="ends after the message"):
            await world.provider.groups(world.now)

    play(story())


def test_the_price_is_the_server_s_or_an_estimate() -> None:
    async def story() -> None:
        for price, expected in ((0.25, 0.25), (None, None), (math.nan, None), (-1.0, None), (math.inf, None)):
            world = MachineWorld()
            world.server.groups["pool"].price = price
            group = (await world.state()).group
            assert group.price == (expected if expected is not None else estimate_price(group.template))
            assert group.price > 0

    play(story())


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (OptionsMessage(), GroupOptions()),
        (build_default_options(DEFAULTS), GroupOptions()),
        (OptionsMessage(unneeded=build_duration(0)), GroupOptions()),
        (OptionsMessage(unneeded=build_duration(30)), GroupOptions(scale_down_unneeded_seconds=30.0)),
        (OptionsMessage(old_unready=KubeDuration(5 * 10**9)), GroupOptions(scale_down_unready_seconds=5.0)),
        (OptionsMessage(max_provision=build_duration(0.5)), GroupOptions(max_node_provision_seconds=0.5)),
        (
            OptionsMessage(unready=build_duration(7), old_unready=KubeDuration(5 * 10**9)),
            GroupOptions(scale_down_unready_seconds=7.0),
        ),
        (OptionsMessage(utilization_threshold=0.3), GroupOptions(scale_down_utilization_threshold=0.3)),
        (OptionsMessage(utilization_threshold=math.nan), GroupOptions()),
        (OptionsMessage(utilization_threshold=50.0), GroupOptions()),
        (OptionsMessage(unneeded=build_duration(-5)), GroupOptions()),
        (OptionsMessage(gpu_utilization_threshold=0.3), GroupOptions(scale_down_gpu_utilization_threshold=0.3)),
        (OptionsMessage(gpu_utilization_threshold=50.0), GroupOptions()),
    ],
)
def test_an_unset_option_means_the_default(answer: OptionsMessage, expected: GroupOptions) -> None:
    """Cluster Autoscaler reads an unset duration as zero, and removes nodes in its next pass."""
    assert read_options(answer, DEFAULTS) == expected


def test_a_server_that_reads_the_threshold_of_gpus_for_all_nodes_leaves_both_as_they_are() -> None:
    """Cluster Autoscaler's example server, which wraps the clouds, answers with what it reads there."""
    defaults = msgspec.structs.replace(DEFAULTS, scale_down_gpu_utilization_threshold=0.9)
    request = build_default_options(defaults)
    answer = msgspec.structs.replace(request, utilization_threshold=request.gpu_utilization_threshold)
    assert read_options(answer, defaults) == GroupOptions()


def test_a_group_that_only_grows_to_its_maximum_is_suspended() -> None:
    async def story() -> None:
        world = MachineWorld()
        world.server.groups["pool"].options = OptionsMessage(zero_or_max=True)
        suspended = (await world.state()).suspended
        assert suspended is not None
        assert suspended.reason is ALL_OR_NONE

    play(story())


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (InstanceErrorMessage("stockout", "no m5 left", 1), InstanceState.FAILED, OUT_OF_RESOURCES),
        (InstanceErrorMessage("quota", "", 99), InstanceState.FAILED, INSTANCE_ERROR),
        (InstanceErrorMessage("other", "", 7), InstanceState.FAILED, INSTANCE_ERROR),
        (InstanceErrorMessage("", "a message without a code", 1), InstanceState.ORDERED, None),
    ],
)
def test_errors_of_instances(error: InstanceErrorMessage, state: InstanceState, reason: object) -> None:
    async def story() -> None:
        world = MachineWorld()
        await world.order(1)
        pool = world.server.groups["pool"]
        [machine] = pool.machines
        pool.failed[machine] = error
        [instance] = (await world.state()).instances
        assert instance.state is state
        assert (instance.error.reason if instance.error is not None else None) is reason

    play(story())


def test_a_server_that_hangs_can_be_left() -> None:
    async def story() -> None:
        world = MachineWorld()
        world.server.fail("NodeGroupNodes", Hang())
        call = asyncio.create_task(world.provider.groups(world.now))
        await asyncio.sleep(10)
        assert not call.done()
        call.cancel()
        await asyncio.wait({call})
        assert (await world.state()).suspended is None

    play(story())
