"""Informers that are followed together are waited for, trusted and told of together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from support import virtual_time
from support.api_server.server import ModelServer, pod_path
from trellis.kube.resources import HPAS, HVPAS, NODES, PODS, VPAS
from trellis.kube.transport.requests import Request
from trellis.runtime.informers import Informers
from trellis.runtime.optional_kinds import OptionalKind, UnreadableKinds
from trellis.runtime.telemetry.cluster_metrics import CLUSTER_METRICS
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics
from trellis.testing.scripted_transport import ScriptedResponse, error_response, json_response

HVPA = f"/apis/{HVPAS.api_version}/namespaces/shop/{HVPAS.plural}/web"


class World:
    """A component of one namespace that follows VPAs, pods and, if it may, HPAs."""

    def __init__(self, *namespaces: str) -> None:
        self.server = ModelServer()
        self.server.before = self._before
        self.refused: dict[str, ScriptedResponse] = {}
        self.installed = self.stale = self.unreadable = False
        self.metrics = Metrics(CLUSTER_METRICS, about_process=False)
        unreadable = UnreadableKinds(self.metrics, Logger("trellis.test"))
        self.informers = Informers(self.server.client, unreadable, draw=lambda: 0.5, namespaces=namespaces)
        self.vpas = self.informers.follow(VPAS)
        self.pods = self.informers.follow(PODS)
        self.hpas = self.informers.follow(HPAS, dispensable=OptionalKind("HPAs are not noticed"))
        self.hvpas = self.informers.follow(HVPAS, served=False)

    def asked_for_kinds(self) -> int:
        return len([request for request in self.server.requests if request.path == "/apis"])

    def _before(self, request: Request) -> ScriptedResponse | None:
        if request.path == "/apis" and self.unreadable:
            return json_response({"groups": "none"})
        if request.path == "/apis" and self.stale:
            version = {"version": HVPAS.version, "freshness": "Stale"}
            listed = {"metadata": {"name": HVPAS.group}, "versions": [version]}
            content = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            return json_response({"items": [listed]}, headers={"content-type": content})
        if request.path == "/apis" and self.installed:
            version = {"groupVersion": HVPAS.api_version, "version": HVPAS.version}
            return json_response({"groups": [{"versions": [version], "preferredVersion": version}]})
        if request.path == f"/apis/{HVPAS.api_version}":
            return json_response({"resources": [{"name": HVPAS.plural, "kind": HVPAS.kind, "namespaced": True}]})
        if request.path in ("/api", "/apis"):
            return json_response({"versions": [], "groups": []})
        return self.refused.get(request.path.rpartition("/")[2])

    def run(self, play: Callable[[], Awaitable[None]]) -> None:
        async def main() -> None:
            async with virtual_time.in_background(self.informers.run()):
                await play()

        virtual_time.run(main())


def test_a_component_waits_for_all_caches_and_an_unserved_kind_is_empty() -> None:
    world = World()
    world.server.put(pod_path("web-0"), {})

    async def play() -> None:
        assert not world.informers.synced
        assert world.informers.find_readiness_problem() == (
            "caches not synced: verticalpodautoscalers.autoscaling.k8s.io, pods, horizontalpodautoscalers.autoscaling"
        )
        await world.informers.wait_until_synced()
        assert world.informers.find_readiness_problem() is None
        assert len(world.pods.snapshot()) == 1
        assert len(world.hvpas.snapshot()) == 0
        assert not any("hvpas" in request.path for request in world.server.requests)

    world.run(play)


def test_a_kind_that_is_installed_later_is_followed_from_then_on() -> None:
    world = World()
    world.server.put(HVPA, {"spec": {"targetRef": {"kind": "Deployment", "name": "web"}, "buckets": []}})

    async def play() -> None:
        await world.informers.wait_until_synced()
        await asyncio.sleep(70.0)
        assert len(world.hvpas.snapshot()) == 0
        world.installed = True
        await asyncio.sleep(120.0)
        assert world.informers.find_readiness_problem() is None
        assert [hvpa.metadata.name for hvpa in world.hvpas.snapshot()] == ["web"]
        asked = world.asked_for_kinds()
        await asyncio.sleep(600.0)
        assert world.asked_for_kinds() == asked

    world.run(play)


def with_an_hvpa() -> World:
    """A world in which the kind is there, and an object of it."""
    world = World()
    world.installed = True
    world.server.put(HVPA, {"spec": {"targetRef": {"kind": "Deployment", "name": "web"}, "buckets": []}})
    return world


def remove(world: World) -> None:
    """The definition is deleted; objects may be, or not."""
    world.installed = False
    world.refused[HVPAS.plural] = error_response(404, "NotFound", "the server could not find the requested resource")
    world.server.break_watches()


def test_a_removed_kind_is_empty_stops_no_informer_and_is_watched_again_once_served() -> None:
    world = with_an_hvpa()
    gone: list[str] = []
    world.hvpas.subscribe(lambda change: gone.append(change.key[1]) if change.new is None else None)

    async def play() -> None:
        await asyncio.sleep(61.0)
        assert world.informers.is_available(world.hvpas)
        remove(world)
        await asyncio.sleep(3.0)
        assert world.informers.find_staleness_problem() is None
        assert not world.informers.is_available(world.hvpas)
        assert (len(world.hvpas.snapshot()), gone) == (0, ["web"])
        await asyncio.sleep(600.0)
        assert world.informers.find_staleness_problem() is None
        assert world.informers.find_readiness_problem() is None
        world.informers.export(world.metrics)
        assert f'trellis_informer_connected{{resource="{HVPAS.full_name}"}} 0' in world.metrics.format_text().decode()
        world.refused.clear()
        world.installed = True
        await asyncio.sleep(61.0)
        assert world.informers.is_available(world.hvpas)
        assert [hvpa.metadata.name for hvpa in world.hvpas.snapshot()] == ["web"]

    world.run(play)


def test_a_404_of_a_served_kind_does_not_count_as_removed() -> None:
    world = with_an_hvpa()

    async def play() -> None:
        await asyncio.sleep(61.0)
        remove(world)
        world.installed = True
        await asyncio.sleep(20.0)
        assert len(world.hvpas.snapshot()) == 1
        assert "could not be watched" in (world.informers.find_staleness_problem() or "")
        world.refused.clear()
        await asyncio.sleep(60.0)
        assert world.informers.find_staleness_problem() is None
        assert world.informers.is_available(world.hvpas)

    world.run(play)


def test_a_missing_kind_is_checked_by_discovery_until_it_is_served() -> None:
    world = with_an_hvpa()

    async def play() -> None:
        await asyncio.sleep(61.0)
        assert world.informers.is_available(world.hvpas)
        world.refused[HVPAS.plural] = error_response(
            404, "NotFound", "the server could not find the requested resource"
        )
        world.server.break_watches()
        await asyncio.sleep(4.0)
        assert not world.informers.is_available(world.hvpas)
        asked = world.asked_for_kinds()
        await asyncio.sleep(300.0)
        assert 50 <= world.asked_for_kinds() - asked <= 60

    world.run(play)


def test_a_kind_of_an_unavailable_aggregated_server_does_not_count_as_removed() -> None:
    world = with_an_hvpa()

    async def play() -> None:
        await asyncio.sleep(61.0)
        remove(world)
        world.stale = True
        await asyncio.sleep(20.0)
        assert len(world.hvpas.snapshot()) == 1
        world.stale = False
        await asyncio.sleep(20.0)
        assert len(world.hvpas.snapshot()) == 0

    world.run(play)


def test_unreadable_kinds_stop_no_informer() -> None:
    world = World()

    async def play() -> None:
        await world.informers.wait_until_synced()
        world.unreadable = True
        await asyncio.sleep(120.0)
        world.unreadable, world.installed = False, True
        await asyncio.sleep(120.0)
        assert world.informers.is_available(world.hvpas)

    world.run(play)


def test_a_kind_that_was_removed_before_it_was_observed_is_not_waited_for() -> None:
    world = World()
    late = world.informers.follow(HVPAS, served=True)
    world.refused[HVPAS.plural] = error_response(404, "NotFound", "the server could not find the requested resource")

    async def play() -> None:
        await asyncio.wait_for(world.informers.wait_until_synced(), 10.0)
        assert len(late.snapshot()) == 0

    world.run(play)


def test_a_component_of_one_namespace_asks_for_no_other_and_for_kinds_that_have_none() -> None:
    world = World("shop")
    world.informers.follow(NODES)

    async def play() -> None:
        await world.informers.wait_until_synced()
        asked = {request.path for request in world.server.requests}
        assert "/api/v1/namespaces/shop/pods" in asked
        assert "/api/v1/pods" not in asked
        assert "/api/v1/nodes" in asked

    world.run(play)


def test_a_kind_that_may_not_be_read_is_done_without_and_remarked_on() -> None:
    world = World()
    world.refused["horizontalpodautoscalers"] = error_response(403, "Forbidden", "no such rule")

    async def play() -> None:
        await world.informers.wait_until_synced()
        assert world.informers.find_staleness_problem() is None
        assert world.informers.remarks() == ["horizontalpodautoscalers.autoscaling not watched: HPAs are not noticed"]

    world.run(play)


def test_informers_are_not_ready_before_their_list_and_five_seconds_after_a_broken_watch() -> None:
    world = World()
    world.refused["pods"] = error_response(500, "InternalError", "out of order")

    async def play() -> None:
        await asyncio.sleep(1.0)
        assert "pods could not be listed yet: " in (world.informers.find_staleness_problem() or "")
        world.refused.clear()
        await world.informers.wait_until_synced()
        assert world.informers.find_staleness_problem() is None
        world.refused["pods"] = error_response(500, "InternalError", "out of order")
        world.server.break_watches()
        await asyncio.sleep(3.0)
        assert world.informers.find_staleness_problem() is None
        await asyncio.sleep(3.0)
        assert world.informers.find_staleness_problem() == "pods could not be watched for 6 s"

    world.run(play)


def test_metrics_of_all_informers_are_exported() -> None:
    world = World()

    async def play() -> None:
        await world.informers.wait_until_synced()
        world.informers.export(world.metrics)
        text = world.metrics.format_text().decode()
        for resource in ("pods", "horizontalpodautoscalers.autoscaling"):
            assert f'trellis_informer_synced{{resource="{resource}"}} 1' in text
        assert 'trellis_informer_synced{resource="hvpas' not in text

    world.run(play)
