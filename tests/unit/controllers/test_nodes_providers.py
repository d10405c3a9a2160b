"""What the node autoscaler makes of a provider that is silent for long, or says what cannot be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from kwok_world import failing, group
from nodes_controller_world import BOOT, NODES, World, seconds
from trellis.controllers.nodes.controller import NodeController
from trellis.controllers.nodes.watching import Watching
from trellis.core.buffers.said import Said
from trellis.core.nodes.groups import GroupState
from trellis.providers.kwok import KwokProvider
from trellis.providers.protocol import UNKNOWN_GROUP, Groups, Released

MARK = "trellis.x-k8s.io/leaving"


class Closable(KwokProvider):
    """It says nothing of its groups while it is closed."""

    is_closed = False

    async def groups(self, now: float, /) -> Groups:
        if self.is_closed:
            raise OSError("the cloud is closed")
        return await super().groups(now)


class Lying(KwokProvider):
    """Of the group `small` it says what cannot be."""

    def __init__(self, watching: Watching, **figures: Any) -> None:
        super().__init__(watching.kwok_objects)
        self._figures = figures

    async def groups(self, now: float, /) -> Groups:
        told = await super().groups(now)
        return Groups(tuple(self._spoiled(each) for each in told.states), told.problems)

    def _spoiled(self, state: GroupState) -> GroupState:
        if state.group.name != "small":
            return state
        target = self._figures.get("target", state.target)
        figures = {name: value for name, value in self._figures.items() if name != "target"}
        return msgspec.structs.replace(state, target=target, group=msgspec.structs.replace(state.group, **figures))


def closing(world: World) -> list[Closable]:
    made: list[Closable] = []

    def provider(watching: Watching) -> Closable:
        made.append(Closable(watching.kwok_objects))
        return made[-1]

    world.provider = provider
    return made


def test_a_provider_that_is_silent_for_long_leaves_no_node_marked() -> None:
    quick = {"scale_down_unneeded_time": seconds(60), "scale_down_delay_after_add": seconds(0)}
    slow = {"node_delete_delay_after_taint": seconds(600), "unremovable_node_recheck_timeout": seconds(10)}
    world = World(down={**quick, **slow})
    made = closing(world)

    async def play(_: NodeController) -> None:
        world.add_pod()
        await world.wait(BOOT + 10)
        world.delete_pods()
        while MARK not in world.taints("small-1"):
            await world.wait(1)
        made[0].is_closed = True
        await world.wait(60)
        # A moment of silence ends nothing.
        assert MARK in world.taints("small-1")
        await world.wait(120)
        assert MARK not in world.taints("small-1")

    world.run(play)
    assert list(world.nodes()) == ["small-1"]


def test_a_buffer_is_told_the_truth_while_the_provider_is_silent() -> None:
    world = World()
    made = closing(world)

    async def play(_: NodeController) -> None:
        world.add_buffer(chunks=1)
        await world.wait(BOOT + 10)
        assert world.provisioned()[0] == "True"
        made[0].is_closed = True
        world.server.delete(f"{NODES}/small-1")
        await world.wait(150)
        assert world.provisioned()[0] == "False"
        made[0].is_closed = False
        await world.wait(BOOT + 30)
        assert world.provisioned()[0] == "True"

    world.run(play)
    assert len(world.nodes()) == 1


@pytest.mark.parametrize(
    "figures",
    [
        {"price": math.nan},
        {"price": -math.inf},
        {"priority": 10**30},
        {"max_size": 10**30},
        {"min_size": -1},
        {"target": 10**9},
        {"target": -1},
    ],
    ids=str,
)
def test_a_group_of_which_the_provider_says_what_cannot_be_stops_no_other(figures: dict[str, Any]) -> None:
    world = World(group(), group("sound", priority=-1))
    world.provider = lambda watching: Lying(watching, **figures)

    async def play(_: NodeController) -> None:
        world.add_pod()
        await world.wait(BOOT + 10)
        assert list(world.nodes()) == ["sound-1"]
        assert not world.waiting()

    world.run(play)
    assert world.metric("trellis_nodes_group_problems", reason="NodeGroupUnsound") == 1


def test_a_pod_is_not_told_of_an_order_that_was_refused() -> None:
    world = World(failing("RefuseOrders"))

    async def play(_: NodeController) -> None:
        world.add_pod("web")
        await world.wait(60)

    world.run(play)
    assert world.told("Pod", "web") == ["NotTriggerScaleUp"]


class Counting(KwokProvider):
    """It notes what it is asked to take back."""

    def __init__(self, watching: Watching) -> None:
        super().__init__(watching.kwok_objects)
        self.asked: list[Sequence[str]] = []

    async def release(self, group: str, instances: Sequence[str], now: float, /) -> Released:
        self.asked.append(instances)
        return await super().release(group, instances, now)


def test_nodes_of_a_group_that_failed_are_given_back_together() -> None:
    world = World(failing("FailToStart"))
    made: list[Counting] = []

    def provider(watching: Watching) -> Counting:
        made.append(Counting(watching))
        return made[-1]

    world.provider = provider

    async def play(_: NodeController) -> None:
        world.add_pods(12)
        await world.wait(BOOT + 20)

    world.run(play)
    assert [len(each) for each in made[0].asked] == [3]
    assert world.metric("trellis_nodes_released_total", group="small", reason="InstanceFailed") == 3


class Keeping(KwokProvider):
    """It takes nothing back."""

    async def release(self, group: str, instances: Sequence[str], _now: float, /) -> Released:
        return Released(refused=dict.fromkeys(instances, Said(UNKNOWN_GROUP, f"{group} keeps what it has")))


def test_a_node_that_nobody_takes_back_is_used_again_at_once() -> None:
    quick = {"scale_down_unneeded_time": seconds(60), "scale_down_delay_after_add": seconds(0)}
    world = World(down={**quick, "unremovable_node_recheck_timeout": seconds(10)})
    world.provider = lambda watching: Keeping(watching.kwok_objects)

    async def play(_: NodeController) -> None:
        world.add_pod()
        await world.wait(BOOT + 10)
        world.delete_pods()
        while MARK not in world.taints("small-1"):
            await world.wait(1)
        await world.wait(40)
        assert world.taints("small-1") == []

    world.run(play)
    assert list(world.nodes()) == ["small-1"]
    assert world.metric("trellis_nodes_released_total", group="small") == 0


def test_what_a_node_needs_on_its_way_is_done_when_it_is_due_and_not_at_the_next_interval() -> None:
    world = World(loop={"scan_interval": seconds(600)})

    async def play(_: NodeController) -> None:
        world.add_pod()
        await world.wait(BOOT + 10)
        assert not world.waiting()

    world.run(play)


def test_thousands_of_pods_that_wait_are_told_little_by_little() -> None:
    world = World(group(resources={"cpu": "1", "memory": "4Gi"}), loop={"scan_interval": seconds(30)})

    async def play(_: NodeController) -> None:
        world.add_pods(150, cpu="8")
        await world.wait(5)
        assert world.told("Pod") == ["NotTriggerScaleUp"] * 100
        await world.wait(60)
        assert world.told("Pod") == ["NotTriggerScaleUp"] * 150

    world.run(play)
