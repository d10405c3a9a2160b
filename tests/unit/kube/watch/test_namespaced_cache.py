"""Informers of several namespaces: each is listed and watched by itself, and one that is forbidden stops no other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from support import virtual_time
from support.api_server.server import ModelServer
from trellis.core.cluster.store import BY_NAMESPACE, index_by_namespace
from trellis.kube.resources import HPAS, NODES, PODS, VPAS, Resource
from trellis.kube.transport.requests import Request
from trellis.kube.watch.cache import ObjectChange
from trellis.kube.watch.informer import Informer
from trellis.runtime.cached_kinds import OBSERVED_POD_KIND, RESIZABLE_PODS, follow_in
from trellis.runtime.informers import Informers
from trellis.runtime.optional_kinds import OptionalKind, UnreadableKinds
from trellis.runtime.shared_informers import SharedInformers
from trellis.runtime.telemetry.cluster_metrics import CLUSTER_METRICS
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics
from trellis.testing.scripted_transport import ScriptedResponse, error_response

TARGET = {"spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}}


def path(resource: Resource[Any], namespace: str, name: str = "web") -> str:
    return resource.path(namespace, name)


class World:
    """A server with objects in three namespaces, of which a component watches two."""

    def __init__(self, *namespaces: str) -> None:
        self.server = ModelServer()
        self.server.before = self._before
        # What the API server forbids: the path of a list.
        self.forbidden: set[str] = set()
        self.metrics = Metrics(CLUSTER_METRICS, about_process=False)
        self.unreadable = UnreadableKinds(self.metrics, Logger("trellis.test"))
        self.informers = Informers(
            self.server.client, self.unreadable, draw=lambda: 0.5, namespaces=namespaces or ("bank", "shop")
        )
        for namespace in ("bank", "shop", "hidden"):
            self.server.put(path(VPAS, namespace), TARGET)
            self.server.put(path(PODS, namespace), {})

    def _before(self, request: Request) -> ScriptedResponse | None:
        if request.path in ("/api", "/apis"):
            return None
        if request.path in self.forbidden:
            return error_response(403, "Forbidden", f"cannot list {request.path}")
        return None

    def forbid(self, namespace: str, *resources: Resource[Any]) -> None:
        """Take the rights to these kinds away in a namespace."""
        self.forbidden |= {resource.path(namespace) for resource in resources}
        self.server.break_watches()

    def count_requests(self, resource: Resource[Any], namespace: str) -> int:
        return sum(request.path == resource.path(namespace) for request in self.server.requests)

    def run(self, play: Callable[[], Awaitable[None]]) -> None:
        async def main() -> None:
            async with virtual_time.in_background(self.informers.run()):
                await play()

        virtual_time.run(main())


def keys(informer: Informer[Any]) -> list[tuple[str, str]]:
    return sorted(informer.snapshot().objects)


def test_objects_of_the_watched_namespaces_are_read_and_no_others() -> None:
    world = World()
    pods = world.informers.follow(PODS, indexes={BY_NAMESPACE: index_by_namespace})
    nodes = world.informers.follow(NODES)

    async def play() -> None:
        await world.informers.wait_until_synced()
        assert keys(pods) == [("bank", "web"), ("shop", "web")]
        world.server.put(path(PODS, "shop", "web-2"), {})
        world.server.put(path(PODS, "hidden", "web-2"), {})
        world.server.delete(path(PODS, "bank"))
        await asyncio.sleep(1.0)
        assert keys(pods) == [("shop", "web"), ("shop", "web-2")]
        assert len(pods.by_index(BY_NAMESPACE, "shop")) == 2
        assert nodes.synced
        assert {request.path for request in world.server.requests if "pods" in request.path} == {
            PODS.path("bank"),
            PODS.path("shop"),
        }

    world.run(play)


def test_a_broken_watch_brings_what_has_changed_meanwhile_and_loses_no_other_namespace() -> None:
    world = World()
    pods = world.informers.follow(PODS)
    changes: list[ObjectChange[Any]] = []

    async def play() -> None:
        await world.informers.wait_until_synced()
        pods.subscribe(changes.append)
        changes.clear()
        world.server.break_watches()
        world.server.delete(path(PODS, "bank"))
        world.server.compact()
        await asyncio.sleep(60.0)
        assert keys(pods) == [("shop", "web")]
        assert [change.key for change in changes] == [("bank", "web")]
        assert world.informers.find_staleness_problem() is None

    world.run(play)


def test_nothing_is_synced_until_every_namespace_is() -> None:
    world = World()
    pods = world.informers.follow(PODS)
    world.server.before = lambda request: (
        error_response(500, "InternalError", "later") if request.path == PODS.path("bank") else None
    )

    async def play() -> None:
        await asyncio.sleep(5.0)
        assert not pods.synced
        assert world.informers.find_readiness_problem() == "caches not synced: pods"
        world.server.before = lambda _request: None
        await asyncio.sleep(60.0)
        assert world.informers.find_readiness_problem() is None

    world.run(play)


def test_derived_informers_follow_all_watched_namespaces() -> None:
    world = World()
    shared = SharedInformers(follow_in(("bank", "shop"), RESIZABLE_PODS, OBSERVED_POD_KIND))
    world.informers = Informers(
        world.server.client, world.unreadable, draw=lambda: 0.5, namespaces=("bank", "shop"), shared=shared
    )
    whole = world.informers.follow(RESIZABLE_PODS)
    observed = world.informers.follow(OBSERVED_POD_KIND)

    async def play() -> None:
        await world.informers.wait_until_synced()
        assert not whole.shares_cache(observed)
        assert keys(observed) == keys(whole) == [("bank", "web"), ("shop", "web")]
        world.server.delete(path(PODS, "bank"))
        world.server.put(path(PODS, "shop", "web-2"), {})
        await asyncio.sleep(1.0)
        assert keys(observed) == keys(whole) == [("shop", "web"), ("shop", "web-2")]
        assert world.count_requests(PODS, "shop") == 2  # a list and a watch

    world.run(play)


def test_an_unreadable_object_stays_as_it_was_and_is_known_to_be_unreadable() -> None:
    world = World()
    pods = world.informers.follow(PODS)

    async def play() -> None:
        await world.informers.wait_until_synced()
        before = pods.get("shop", "web")
        world.server.put(path(PODS, "shop"), {"spec": {"containers": "none"}})
        await asyncio.sleep(1.0)
        assert pods.get("shop", "web") is before
        assert list(pods.snapshot().rejected) == [("shop", "web")]
        world.server.put(path(PODS, "shop"), {})
        await asyncio.sleep(1.0)
        assert not pods.snapshot().rejected

    world.run(play)


def test_a_namespace_without_any_right_is_ignored_and_the_others_are_served() -> None:
    world = World()
    vpas, pods = world.informers.follow(VPAS), world.informers.follow(PODS)
    world.forbid("bank", VPAS, PODS)

    async def play() -> None:
        await asyncio.sleep(20.0)
        assert world.informers.find_readiness_problem() is None
        assert world.informers.find_staleness_problem() is None
        assert keys(vpas) == keys(pods) == [("shop", "web")]
        assert world.informers.remarks() == [
            "verticalpodautoscalers.autoscaling.k8s.io not watched in namespaces: bank",
            "pods not watched in namespaces: bank",
        ]

    world.run(play)


def test_a_namespace_that_loses_its_roles_is_forgotten_and_taken_up_again_once_it_has_them() -> None:
    world = World()
    vpas = world.informers.follow(VPAS)
    gone: list[tuple[str, str]] = []

    async def play() -> None:
        await world.informers.wait_until_synced()
        vpas.subscribe(lambda change: gone.append(change.key) if change.new is None else None)
        world.forbid("bank", VPAS)
        await asyncio.sleep(20.0)
        assert (keys(vpas), gone) == ([("shop", "web")], [("bank", "web")])
        assert world.informers.find_staleness_problem() is None
        world.informers.export(world.metrics)
        refused = f'trellis_informer_refused_namespaces{{resource="{VPAS.full_name}"}} 1'
        assert refused in world.metrics.format_text().decode()
        world.forbidden.clear()
        await asyncio.sleep(70.0)
        assert keys(vpas) == [("bank", "web"), ("shop", "web")]
        assert world.informers.remarks() == []

    world.run(play)


def test_a_forbidden_namespace_is_asked_for_twice_a_minute_at_most() -> None:
    world = World()
    world.informers.follow(VPAS)
    world.forbid("bank", VPAS)

    async def play() -> None:
        await asyncio.sleep(120.0)
        before = world.count_requests(VPAS, "bank")
        await asyncio.sleep(600.0)
        assert 10 <= world.count_requests(VPAS, "bank") - before <= 20

    world.run(play)


def test_a_namespace_with_vpas_whose_pods_may_not_be_read_is_a_problem_and_not_ignored() -> None:
    world = World()
    world.informers.follow(VPAS)
    world.informers.follow(PODS)
    world.informers.follow(HPAS, dispensable=OptionalKind("HPAs are not taken into account"))
    world.forbid("bank", PODS, HPAS)

    async def play() -> None:
        await asyncio.sleep(20.0)
        problem = "RBAC does not allow reading pods in namespaces: bank"
        assert world.informers.find_readiness_problem() == problem
        assert world.informers.find_staleness_problem() == problem

    world.run(play)


def test_an_optional_kind_may_be_forbidden_in_one_namespace() -> None:
    world = World()
    world.informers.follow(VPAS)
    hpas = world.informers.follow(HPAS, dispensable=OptionalKind("HPAs are not taken into account"))
    world.forbid("bank", HPAS)

    async def play() -> None:
        await asyncio.sleep(20.0)
        assert world.informers.find_readiness_problem() is None
        assert not world.informers.is_lacking(hpas)
        assert hpas.synced

    world.run(play)


def test_no_namespace_is_given_up_while_the_server_forbids_all() -> None:
    world = World()
    vpas = world.informers.follow(VPAS)

    async def play() -> None:
        await world.informers.wait_until_synced()
        world.forbid("bank", VPAS)
        world.forbid("shop", VPAS)
        await asyncio.sleep(30.0)
        assert keys(vpas) == [("bank", "web"), ("shop", "web")]
        assert world.informers.find_staleness_problem() is not None

    world.run(play)
