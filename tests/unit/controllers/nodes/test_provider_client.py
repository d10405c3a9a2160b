"""What the node autoscaler makes of a provider that is silent for long, or says what cannot be."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

import msgspec
import pytest

from support.controllers.nodes import BOOT, NODES, World, seconds
from support.worlds.providers.kwok_nodes import failing, group
from trellis.base.reasons import DetailedReason
from trellis.controllers.nodes.process import NodeController
from trellis.core.nodes.node_groups import GroupState, Instance, InstanceState
from trellis.providers.kwok import KwokProvider
from trellis.providers.kwok.plugin import follow_kwok_objects
from trellis.providers.plugins import ProviderContext
from trellis.providers.protocol import UNKNOWN_GROUP, Groups, Ordered, Released, Tended

T = TypeVar("T")

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

    def __init__(self, context: ProviderContext, **figures: Any) -> None:
        super().__init__(follow_kwok_objects(context))
        self._figures = figures

    async def groups(self, now: float, /) -> Groups:
        reported = await super().groups(now)
        return Groups(tuple(self._spoiled(state) for state in reported.states), reported.problems)

    def _spoiled(self, state: GroupState) -> GroupState:
        if state.group.name != "small":
            return state
        of_state = {name: value for name, value in self._figures.items() if name in {"target", "instances"}}
        figures = {name: value for name, value in self._figures.items() if name not in of_state}
        return msgspec.structs.replace(state, **of_state, group=msgspec.structs.replace(state.group, **figures))


def closing(world: World) -> list[Closable]:
    made: list[Closable] = []

    def provider(context: ProviderContext) -> Closable:
        made.append(Closable(follow_kwok_objects(context)))
        return made[-1]

    world.providers = (provider,)
    return made


def test_leaving_taints_are_removed_when_the_provider_is_silent_for_long() -> None:
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


def test_the_status_of_a_buffer_stays_current_while_the_provider_is_silent() -> None:
    world = World()
    made = closing(world)

    async def play(_: NodeController) -> None:
        world.add_buffer(chunks=1)
        await world.wait(BOOT + 10)
        assert world.provisioned()[0] == "True"
        made[0].is_closed = True
        world.server.delete(f"{NODES}/small-1")
        await world.wait(60)
        assert world.provisioned()[0] == "False"
        assert world.metric_value("trellis_nodes_buffer_provisioned_chunks") == 0, "metrics say the same"
        await world.wait(90)
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
        {"instances": (Instance("i", InstanceState.RUNNING, math.inf),)},
        {"instances": (Instance("i", InstanceState.RUNNING, 0.0),) * 2},
    ],
    ids=str,
)
def test_an_invalid_group_of_the_provider_affects_no_other(figures: dict[str, Any]) -> None:
    world = World(group(), group("sound", priority=-1))
    world.providers = (lambda context: Lying(context, **figures),)

    async def play(_: NodeController) -> None:
        world.add_pod()
        await world.wait(BOOT + 10)
        assert list(world.nodes()) == ["sound-1"]
        assert not world.pending()

    world.run(play)
    assert world.metric("trellis_nodes_group_problems", reason="NodeGroupInconsistent") == 1


def test_a_refused_order_records_no_event_on_the_pod() -> None:
    world = World(failing("RefuseOrders"))

    async def play(_: NodeController) -> None:
        world.add_pod("web")
        await world.wait(60)

    world.run(play)
    assert world.event_codes("Pod", "web") == ["NotTriggerScaleUp"]


def test_a_pod_with_a_refused_order_is_not_counted_as_awaiting_a_node() -> None:
    world = World(failing("RefuseOrders"))

    async def play(_: NodeController) -> None:
        world.add_pod("web")
        while not world.metric("trellis_nodes_failed_orders_total", group="small"):
            await world.wait(0.1)
        await world.wait(1)
        assert world.metric("trellis_nodes_pending_pods", reason="GroupsExhausted") == 1
        assert world.metric("trellis_nodes_pending_pods", reason="NodeOrdered") == 0

    world.run(play)


def list_written_reasons(world: World) -> list[str]:
    """Every reason of `Provisioned` that was ever written, in order."""
    bodies = [
        request.body or b"" for request in world.server.requests if request.path.endswith("/buffers/spare/status")
    ]
    return [
        condition["reason"]
        for body in bodies
        for condition in msgspec.json.decode(body)["status"].get("conditions", ())
    ]


def test_a_refused_order_is_never_in_the_status_of_a_buffer() -> None:
    world = World(failing("RefuseOrders"))

    async def play(_: NodeController) -> None:
        world.add_buffer(chunks=2)
        await world.wait(3)
        [condition] = [stored for stored in world.buffer()["conditions"] if stored["type"] == "Provisioned"]
        assert condition["reason"] == "GroupsExhausted"
        assert condition["message"] == ("0 of 2 chunks have a place on ready nodes; 2 have none: OrderFailed: small")
        await world.wait(57)

    world.run(play)
    assert set(list_written_reasons(world)) == {"GroupsExhausted"}
    assert world.event_codes("Buffer", "spare") == ["GroupsExhausted"]
    assert world.metric("trellis_nodes_buffers", reason="BufferNodesOrdered") == 0


def test_the_status_of_a_buffer_has_the_next_order_after_a_refused_one() -> None:
    world = World(failing("RefuseOrders"), group("sound", priority=-1))

    async def play(_: NodeController) -> None:
        world.add_buffer(chunks=2)
        await world.wait(BOOT + 30)

    world.run(play)
    # Where nothing else has changed, the next look is at the next interval.
    assert list_written_reasons(world) == [
        "GroupsExhausted",
        "BufferNodesOrdered",
        "BufferAwaitsNodes",
        "BufferProvisioned",
    ]


def test_the_status_has_the_order_while_the_provider_is_silent_and_its_result_later() -> None:
    world = World(failing("Hang"))

    async def play(_: NodeController) -> None:
        world.add_buffer(chunks=2)
        await world.wait(10)
        assert world.provisioned() == ("False", "BufferNodesOrdered")
        await world.wait(23)
        assert world.provisioned() == ("False", "GroupsExhausted")

    world.run(play)


def test_a_read_only_process_reports_planned_orders_without_a_failure() -> None:
    world = World()
    world.read_only = True

    async def play(_: NodeController) -> None:
        world.add_pod("web")
        world.add_buffer(chunks=5)
        await world.wait(30)

    world.run(play)
    assert world.metric("trellis_nodes_buffers", reason="BufferNodesOrdered") == 1
    assert set(world.event_codes("Buffer", "spare")) == {"BufferNodesOrdered"}
    assert world.event_codes("Pod", "web") == ["TriggeredScaleUp"]


class Mute(KwokProvider):
    """Of one kind of question it answers with something that is no answer."""

    def __init__(self, context: ProviderContext, silent: str) -> None:
        super().__init__(follow_kwok_objects(context))
        self._silent = silent

    async def order(self, group: str, target: int, now: float, /) -> Ordered:
        return await self._respond("order", super().order(group, target, now))

    async def tend(self, now: float, /) -> Tended:
        return await self._respond("tend", super().tend(now))

    async def groups(self, now: float, /) -> Groups:
        return await self._respond("groups", super().groups(now))

    async def _respond(self, call: str, answer: Awaitable[T]) -> T:
        result = await answer
        return result if call != self._silent else None  # type: ignore[return-value]


@pytest.mark.parametrize("call", ["order", "tend", "groups"])
def test_an_invalid_response_is_a_failure_and_buffer_statuses_are_published(call: str) -> None:
    world = World()
    world.providers = (lambda context: Mute(context, call),)

    async def play(_: NodeController) -> None:
        world.add_buffer(chunks=2)
        await world.wait(150)
        assert world.provisioned()[0] == "False"

    world.run(play)
    assert world.metric("trellis_nodes_provider_failures_total", call=call, reason="ProviderFailed") > 0


class RecordingProvider(KwokProvider):
    """A provider that records releases."""

    def __init__(self, context: ProviderContext) -> None:
        super().__init__(follow_kwok_objects(context))
        self.asked: list[Sequence[str]] = []

    async def release(self, group: str, instances: Sequence[str], now: float, /) -> Released:
        self.asked.append(instances)
        return await super().release(group, instances, now)


def test_failed_nodes_of_a_group_are_released_together() -> None:
    world = World(failing("FailToStart"))
    made: list[RecordingProvider] = []

    def provider(context: ProviderContext) -> RecordingProvider:
        made.append(RecordingProvider(context))
        return made[-1]

    world.providers = (provider,)

    async def play(_: NodeController) -> None:
        world.add_pods(12)
        await world.wait(BOOT + 20)

    world.run(play)
    assert [len(names) for names in made[0].asked] == [3]
    assert world.metric("trellis_nodes_released_total", group="small", reason="InstanceFailed") == 3


class RefusingProvider(KwokProvider):
    """A provider that refuses all releases."""

    async def release(self, group: str, instances: Sequence[str], _now: float, /) -> Released:
        return Released(refused=dict.fromkeys(instances, DetailedReason(UNKNOWN_GROUP, f"{group} keeps what it has")))


def test_a_node_the_provider_does_not_delete_is_used_again_at_once() -> None:
    quick = {"scale_down_unneeded_time": seconds(60), "scale_down_delay_after_add": seconds(0)}
    world = World(down={**quick, "unremovable_node_recheck_timeout": seconds(10)})
    world.providers = (lambda context: RefusingProvider(follow_kwok_objects(context)),)

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


def test_a_due_write_of_the_provider_does_not_wait_for_the_interval() -> None:
    world = World(loop={"scan_interval": seconds(600)})

    async def play(_: NodeController) -> None:
        world.add_pod()
        await world.wait(BOOT + 10)
        assert not world.pending()

    world.run(play)


def test_events_of_thousands_of_pending_pods_are_recorded_over_several_passes() -> None:
    world = World(group(resources={"cpu": "1", "memory": "4Gi"}), loop={"scan_interval": seconds(30)})

    async def play(_: NodeController) -> None:
        world.add_pods(150, cpu="8")
        await world.wait(5)
        assert world.event_codes("Pod") == ["NotTriggerScaleUp"] * 100
        await world.wait(60)
        assert world.event_codes("Pod") == ["NotTriggerScaleUp"] * 150

    world.run(play)
