"""A component goes on without what it may not read and can do without, says so once, and sees it once it may."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from support import virtual_time
from support.api_server.server import ModelServer
from trellis.kube.resources import HPAS, NAMESPACES, PODS, VPAS, Resource
from trellis.kube.transport.requests import Request
from trellis.kube.watch.informer import WatchInformer
from trellis.runtime.optional_kinds import OptionalKind, UnreadableKinds, format_missing_rule
from trellis.runtime.telemetry.cluster_metrics import CLUSTER_METRICS
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics
from trellis.testing.scripted_transport import ScriptedResponse, error_response

HPA = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web"
NAME = "horizontalpodautoscalers.autoscaling"
WITHOUT = OptionalKind("HPAs are not noticed")


class World:
    """Informers of VPAs, pods and HPAs, of which only the last can be done without."""

    def __init__(self) -> None:
        self.server = ModelServer()
        self.server.put(HPA, {})
        self.server.before = self._before
        self.forbidden: set[str] = set()
        self.fault: ScriptedResponse = error_response(403, "Forbidden", "no such rule")
        self.metrics = Metrics(CLUSTER_METRICS, about_process=False)
        self.unreadable = UnreadableKinds(self.metrics, Logger("trellis.test"))
        self.vpas = self._informer(VPAS)
        self.pods = self._informer(PODS)
        self.hpas = self._informer(HPAS, WITHOUT)
        self.unreadable.set_essential(self.vpas)
        self.everything = (self.vpas, self.pods, self.hpas)

    def _informer(self, resource: Resource[Any], dispensable: OptionalKind | None = None) -> WatchInformer[Any]:
        self.unreadable.register(resource, dispensable)
        report = partial(self.unreadable.report, resource)
        return WatchInformer(self.server.client, resource, draw=lambda: 0.5, report=report)

    def _before(self, request: Request) -> ScriptedResponse | None:
        return self.fault if request.path.rpartition("/")[2] in self.forbidden else None

    @property
    def gauge(self) -> float | None:
        lines = self.metrics.format_text().decode().splitlines()
        samples = [line for line in lines if line.startswith(f'trellis_unseen_resources{{resource="{NAME}"}}')]
        return float(samples[0].rpartition(" ")[2]) if samples else None

    def run(self, play: Callable[[], Awaitable[None]]) -> None:
        async def main() -> None:
            async with virtual_time.in_background(*(informer.run() for informer in self.everything)):
                await play()

        virtual_time.run(main())


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said of HPAs, at a level that people read."""
    records = [record for record in caplog.records if getattr(record, "trellis_fields", {}).get("what") == NAME]
    return [record.getMessage() for record in records if record.levelno >= logging.WARNING]


def test_a_component_works_without_a_forbidden_kind_and_reports_it_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.forbidden = {"horizontalpodautoscalers"}

    async def play() -> None:
        assert world.unreadable.list_unsynced(world.everything)
        async with asyncio.timeout(10.0):
            for informer in world.everything:
                await world.unreadable.wait_for(informer)
        assert world.unreadable.is_lacking(world.hpas)
        assert world.unreadable.list_unsynced(world.everything) == []
        assert world.unreadable.remarks() == [f"{NAME} not watched: HPAs are not noticed"]
        assert world.gauge == 1.0
        await asyncio.sleep(3600.0)

    with caplog.at_level(logging.INFO):
        world.run(play)
    assert len(warnings(caplog)) == 1


def test_a_rule_that_comes_later_is_noticed_within_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.forbidden = {"horizontalpodautoscalers"}
    keys: list[object] = []
    world.hpas.subscribe(lambda change: keys.append(change.key))

    async def play() -> None:
        await asyncio.sleep(600.0)
        assert keys == []
        asked = sum(request.path.endswith("/horizontalpodautoscalers") for request in world.server.requests)
        assert 10 <= asked <= 30
        world.forbidden = set()
        await asyncio.sleep(61.0)
        assert keys == [("shop", "web")]
        assert not world.unreadable.is_lacking(world.hpas)
        assert world.unreadable.remarks() == []
        assert world.gauge == 0.0
        # Revoked, and said again.
        world.forbidden = {"horizontalpodautoscalers"}
        world.server.break_watches()
        await asyncio.sleep(10.0)
        assert world.unreadable.is_lacking(world.hpas)
        assert world.hpas.get("shop", "web") is not None

    with caplog.at_level(logging.INFO):
        world.run(play)
    assert sum("continuing without it" in warning for warning in warnings(caplog)) == 2


def test_an_api_server_that_forbids_everything_at_first_costs_no_kind() -> None:
    world = World()
    world.forbidden = {"verticalpodautoscalers", "pods", "horizontalpodautoscalers"}

    async def play() -> None:
        await asyncio.sleep(20.0)
        assert len(world.unreadable.list_unsynced(world.everything)) == 3
        # Roles are read one after the other: HPAs are refused once more after VPAs may be read.
        world.forbidden = {"horizontalpodautoscalers"}
        while not world.vpas.staleness().connected:  # noqa: ASYNC110 - nobody else wants to know
            await asyncio.sleep(0.1)
        world.forbidden = set()
        for informer in world.everything:
            await world.unreadable.wait_for(informer)
        assert world.hpas.synced
        assert world.gauge is None

    world.run(play)


@pytest.mark.parametrize("kind", ["pods", "verticalpodautoscalers"])
def test_a_component_waits_for_essential_kinds(kind: str) -> None:
    world = World()
    world.forbidden = {kind, "horizontalpodautoscalers"}

    async def play() -> None:
        await asyncio.sleep(600.0)
        awaited = world.unreadable.list_unsynced(world.everything)
        # Without VPAs in sight no refusal is believed.
        assert len(awaited) == (1 if kind == "pods" else 2)
        assert awaited[0].startswith(kind)

    world.run(play)


def test_a_kind_that_fails_for_another_reason_is_waited_for() -> None:
    world = World()
    world.forbidden, world.fault = {"horizontalpodautoscalers"}, error_response(500, "InternalError")

    async def play() -> None:
        await asyncio.sleep(600.0)
        assert world.unreadable.list_unsynced(world.everything) == [NAME]

    world.run(play)


def test_the_rule_that_is_missing_can_be_put_into_a_role() -> None:
    assert format_missing_rule(HPAS, WITHOUT) == (
        "{apiGroups: [autoscaling], resources: [horizontalpodautoscalers], verbs: [list, watch]}"
    )
    one = OptionalKind("", "kube-system", "trellis-freeze")
    assert format_missing_rule(NAMESPACES, one) == (
        '{apiGroups: [""], resources: [namespaces], resourceNames: [trellis-freeze], verbs: [list, watch]}'
        " in namespace kube-system"
    )
