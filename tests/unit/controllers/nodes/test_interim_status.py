"""The status of Buffers while the provider does not respond."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from support.controllers.nodes import BOOT, World, seconds
from support.worlds.providers.kwok_nodes import failing
from trellis.base.errors import Unreachable
from trellis.controllers.nodes.process import NodeController
from trellis.core.nodes.autoscaler_pass import NodePlanner, ObservedBuffers
from trellis.core.nodes.scale_up.remembered_state import ScaleUpMemory
from trellis.core.nodes.state.snapshot import ClusterSnapshotChanges
from trellis.providers.kwok import KwokProvider
from trellis.providers.kwok.plugin import follow_kwok_objects
from trellis.providers.plugins import ProviderContext
from trellis.providers.protocol import Groups, Ordered, Released, Tended

SILENT = ("False", "ProviderTimedOut")


class Hanging(KwokProvider):
    """A provider that records calls and does not respond to one kind of them."""

    def __init__(self, context: ProviderContext, silent: str) -> None:
        super().__init__(follow_kwok_objects(context))
        self.silent = silent
        self.asked: list[str] = []
        self._open = asyncio.Event()

    async def groups(self, now: float, /) -> Groups:
        await self._respond("groups")
        return await super().groups(now)

    async def tend(self, now: float, /) -> Tended:
        await self._respond("tend")
        return await super().tend(now)

    async def order(self, group: str, target: int, now: float, /) -> Ordered:
        await self._respond("order")
        return await super().order(group, target, now)

    async def release(self, group: str, instances: Sequence[str], now: float, /) -> Released:
        await self._respond("release")
        return await super().release(group, instances, now)

    async def _respond(self, call: str) -> None:
        self.asked.append(call)
        if call == self.silent:
            await self._open.wait()

    def respond(self) -> None:
        """Respond to all calls from now on, pending ones included."""
        self.silent = ""
        self._open.set()


def hanging(world: World, silent: str = "") -> list[Hanging]:
    made: list[Hanging] = []

    def provider(context: ProviderContext) -> Hanging:
        made.append(Hanging(context, silent))
        return made[-1]

    world.providers = (provider,)
    return made


def written(world: World, name: str) -> int:
    """How often the status of a Buffer was written."""
    return sum(path.endswith(f"/buffers/{name}/status") for _, path in world.writes())


@pytest.mark.parametrize("call", ["groups", "tend"])
def test_new_buffers_get_their_status_while_the_provider_is_silent(call: str) -> None:
    world = World()
    world.add_node("there")
    made = hanging(world)

    async def play(_: NodeController) -> None:
        await world.wait(10)
        made[0].silent = call
        await world.wait(12)
        world.add_buffer("fits", chunks=2)
        world.add_buffer("large", chunks=2, cpu="3")
        world.add_buffer("endless", chunks=1, cpu="64")
        await world.wait(4)
        assert world.provisioned("fits") == ("True", "BufferProvisioned")
        assert world.provisioned("large") == SILENT
        assert world.provisioned("endless") == ("False", "NoGroupFits")
        made[0].silent = ""
        await world.wait(60 + BOOT)
        assert world.provisioned("large")[0] == "True"

    world.run(play)


@pytest.mark.parametrize("call", ["groups", "tend"])
def test_a_buffer_that_loses_headroom_reports_it_while_the_provider_is_silent(call: str) -> None:
    world = World()
    world.add_node("there")
    world.add_buffer(chunks=4)
    made = hanging(world)

    async def play(_: NodeController) -> None:
        await world.wait(10)
        assert world.provisioned()[0] == "True"
        made[0].silent = call
        await world.wait(12)
        world.add_pod()
        await world.wait(5)
        assert world.provisioned() == SILENT
        assert len(world.nodes()) == 1
        made[0].silent = ""
        await world.wait(60 + BOOT)
        assert world.provisioned()[0] == "True"

    world.run(play)
    # The pod has come to where a chunk was, whoever was silent then.
    assert world.metric("trellis_nodes_buffer_hits_total", buffer_name="spare") == 1


def test_new_buffers_get_their_status_once_while_an_order_is_in_flight() -> None:
    world = World(failing("Hang"))
    world.add_node("there")

    async def play(_: NodeController) -> None:
        world.add_buffer("large", chunks=2, cpu="3")
        await world.wait(5)
        assert world.provisioned("large") == ("False", "BufferNodesOrdered")
        world.add_buffer("small", chunks=1)
        await world.wait(4)
        assert world.provisioned("small") == ("True", "BufferProvisioned")
        before = written(world, "small")
        await world.wait(25)
        # What became of the order is told, and what was said meanwhile stays.
        assert world.provisioned("large") == ("False", "GroupsExhausted")
        assert world.provisioned("small") == ("True", "BufferProvisioned")
        assert written(world, "small") == before

    world.run(play)


def test_new_buffers_get_their_status_while_a_release_is_in_flight() -> None:
    quick = {"scale_down_unneeded_time": seconds(20), "scale_down_delay_after_add": seconds(0)}
    world = World(down=quick)
    made = hanging(world, "release")

    async def play(_: NodeController) -> None:
        world.add_pod()
        await world.wait(BOOT + 5)
        world.delete_pods()
        while "release" not in made[0].asked:
            await world.wait(1)
        world.add_buffer(chunks=2, cpu="3")
        await world.wait(4)
        assert world.provisioned() == SILENT

    world.run(play)


def test_before_groups_are_known_no_status_says_that_none_fits() -> None:
    world = World()
    world.add_buffer(chunks=2)
    made = hanging(world, "groups")

    async def play(_: NodeController) -> None:
        await world.wait(5)
        assert world.provisioned() == SILENT
        [condition] = [stored for stored in world.buffer()["conditions"] if stored["type"] == "Provisioned"]
        assert condition["message"].endswith("2 have none: no node is ordered until the provider answers")
        made[0].silent = ""
        await world.wait(30 + BOOT)
        assert world.provisioned()[0] == "True"

    world.run(play)


def test_a_process_that_does_not_lead_reports_nothing_while_the_provider_is_silent() -> None:
    world = World()
    made = hanging(world)

    async def play(_: NodeController) -> None:
        await world.wait(10)
        made[0].silent = "groups"
        await world.wait(12)
        world.leads = False
        world.add_buffer(chunks=1)
        await world.wait(10)
        assert world.provisioned() == ("", "")

    world.run(play)


@pytest.mark.parametrize("lost", ["lead", "sight"])
def test_nothing_is_ordered_after_losing_the_lease_or_the_watches_during_a_call_to_the_provider(lost: str) -> None:
    world = World(provider={"provider_timeout": seconds(120)})
    made = hanging(world, "groups")

    async def play(_: NodeController) -> None:
        world.add_pod()
        await world.wait(15)
        world.leads = lost != "lead"
        if lost == "sight":
            world.fault = lambda _request: Unreachable("nobody listens")
            world.server.break_watches()
        await world.wait(60)
        made[0].respond()
        await world.wait(30)
        assert "order" not in made[0].asked
        world.leads = True
        world.fault = lambda _request: None
        await world.wait(30 + BOOT)
        assert not world.pending()

    world.run(play)


def test_an_order_in_flight_is_not_ended_by_a_failed_read(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    hanging(world, "order")
    failures: list[str] = []

    def fails(
        _planning: NodePlanner, _news: ClusterSnapshotChanges, _memory: ScaleUpMemory, _now: float
    ) -> ObservedBuffers:
        failures.append("broken")
        raise ValueError("a bug")

    monkeypatch.setattr(NodePlanner, "observe_buffers", fails)

    async def play(_: NodeController) -> None:
        world.add_pod()
        await world.wait(5)
        world.add_buffer(chunks=1)
        await world.wait(3)
        assert failures
        await world.wait(30)

    world.run(play)
    assert world.metric("trellis_nodes_provider_failures_total", call="order", reason="ProviderTimedOut") == 1
    assert world.metric("trellis_nodes_failed_orders_total", group="small") == 1
