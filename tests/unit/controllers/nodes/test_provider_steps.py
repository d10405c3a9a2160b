"""The steps of a provider are written in order, up to the first one that fails."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from support import virtual_time
from support.api_server.server import Document, ModelServer
from support.controllers.nodes import BOOT, NODES, World
from support.worlds.nodes import a_group
from support.worlds.providers.kwok_nodes import group
from trellis.controllers.nodes.metrics import NODE_METRICS
from trellis.controllers.nodes.process import NodeController
from trellis.controllers.nodes.provider_client import ProviderClient
from trellis.core.nodes.node_groups import GroupState
from trellis.kube import resources
from trellis.kube.transport.requests import Request
from trellis.kube.write.actions import CreateObject, Target
from trellis.kube.write.writer import Writer
from trellis.providers.kwok import KwokProvider
from trellis.providers.kwok.plugin import follow_kwok_objects
from trellis.providers.plugins import RunningProvider
from trellis.providers.protocol import Groups, Ordered, Released, Steps, Tended
from trellis.runtime.telemetry.metrics import Metrics
from trellis.testing.scripted_transport import ScriptedResponse, error_response


def creation(name: str) -> CreateObject:
    document: Document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    return CreateObject(Target(resources.NODES, name), document)


# Side by side, in this order.
STEPS: Steps = ((creation("a-1"), creation("a-2")), (creation("b-1"),), (creation("c-1"),))


class Stepwise:
    """A provider that returns the same steps for every call."""

    name = "stepwise"

    async def groups(self, _now: float, /) -> Groups:
        return Groups((GroupState(a_group("small"), 0),))

    async def order(self, _group: str, _target: int, _now: float, /) -> Ordered:
        return Ordered(steps=STEPS)

    async def release(self, _group: str, instances: Sequence[str], _now: float, /) -> Released:
        return Released(tuple(instances), STEPS)

    async def tend(self, now: float, /) -> Tended:
        return Tended(STEPS, now + 60)


def written(call: str, refused: str = "") -> tuple[list[str], list[bool]]:
    """The nodes that there are after a call, and which of its writes were applied, if that of one node is refused."""
    server = ModelServer()

    def refuse(request: Request) -> ScriptedResponse | None:
        return error_response(500, "InternalError") if refused.encode() in (request.body or b"") and refused else None

    server.before = refuse
    writer = Writer(server.client, record=lambda _outcome: None)
    providing = ProviderClient([RunningProvider(Stepwise(), writer)], 30.0, Metrics(NODE_METRICS, about_process=False))

    async def main() -> list[bool]:
        await providing.groups(0.0)
        if call == "tend":
            next_at, outcomes = await providing.tend(0.0)
            assert next_at == 60
        elif call == "order":
            outcomes = (await providing.order("small", 3, 0.0)).outcomes
        else:
            outcomes = (await providing.release("small", ["x"], 0.0)).outcomes
        return [outcome.applied for outcome in outcomes]

    applied = virtual_time.run(main())
    return [path.removeprefix(f"{NODES}/") for path in server.objects], applied


@pytest.mark.parametrize("call", ["order", "release", "tend"])
def test_all_steps_are_written_in_their_order(call: str) -> None:
    assert written(call) == (["a-1", "a-2", "b-1", "c-1"], [True] * 4)


@pytest.mark.parametrize("call", ["order", "release", "tend"])
@pytest.mark.parametrize("refused", ["a-1", "a-2"])
def test_a_step_with_a_failed_write_is_finished_and_later_steps_are_skipped(call: str, refused: str) -> None:
    existing, applied = written(call, refused)
    assert existing == [name for name in ("a-1", "a-2") if name != refused]
    assert sorted(applied) == [False, True]


@pytest.mark.parametrize("call", ["order", "release", "tend"])
def test_writes_before_a_failed_step_stay_and_are_reported(call: str) -> None:
    assert written(call, "b-1") == (["a-1", "a-2"], [True, True, False])


class Marking(KwokProvider):
    """A provider whose orders also write a Node outside all groups."""

    async def order(self, group: str, target: int, now: float, /) -> Ordered:
        made = await super().order(group, target, now)
        return Ordered(made.instances, (*made.steps, (creation(f"mark-{target}"),)), made.error)


@pytest.mark.parametrize(("code", "failures"), [(500, 0), (422, 1)], ids=["for the moment", "for good"])
def test_an_order_whose_last_step_fails_counts_as_partly_made(code: int, failures: int) -> None:
    world = World(group())
    world.providers = (lambda context: Marking(follow_kwok_objects(context)),)
    refused: list[str] = []

    def refuse(request: Request) -> ScriptedResponse | None:
        if b"mark-" in (request.body or b"") and not refused:
            refused.append(request.path)
            return error_response(code, "Invalid" if code == 422 else "InternalError")
        return None

    world.fault = refuse

    async def play(_: NodeController) -> None:
        world.add_pod("web")
        await world.wait(10)
        assert list(world.nodes()) == ["small-1"]
        assert world.metric("trellis_nodes_failed_orders_total", group="small") == failures
        # A node is on its way: the pod is told of it, and no second one is ordered.
        assert world.event_codes("Pod", "web") == ["TriggeredScaleUp"]
        await world.wait(BOOT + 10)
        assert not world.pending()
        assert list(world.nodes()) == ["small-1"]

    world.run(play)
    assert refused
