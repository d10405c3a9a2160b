"""Components of one process share their informers: one list and one watch for each kind, and the same objects."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from support import virtual_time
from support.api_server.server import ModelServer, pod_path
from support.controllers.buffers import World as BufferWorld
from trellis.api.kube.observed_pods import ObservedPod
from trellis.base.errors import InternalError
from trellis.controllers.admission import informers as admission_informers
from trellis.controllers.buffers import informers as buffers_informers
from trellis.controllers.buffers.process import build_buffer_controller
from trellis.controllers.hvpa import informers as hvpa_informers
from trellis.controllers.hvpa.settings import HvpaControllerSettings
from trellis.controllers.nodes import informers as nodes_informers
from trellis.controllers.nodes.informers import NodeInformers
from trellis.controllers.nodes.metrics import NODE_METRICS
from trellis.controllers.nodes.process import open_node_controller
from trellis.controllers.nodes.settings import NodeControllerSettings
from trellis.controllers.nodes.sizing import SizingInformers
from trellis.controllers.recommender import informers as recommender_informers
from trellis.controllers.recommender.settings import RecommenderSettings
from trellis.controllers.updater import informers as updater_informers
from trellis.controllers.updater.settings import UpdaterSettings
from trellis.core.cluster.store import BY_NAMESPACE, index_by_namespace
from trellis.kube.client import Client
from trellis.kube.discovery import Served, ServedKind
from trellis.kube.resources import BUFFERS, HPAS, HVPAS, NODES, PODS, VPAS
from trellis.kube.transport.requests import Request
from trellis.runtime.cached_kinds import (
    FULL_VPAS,
    HVPA_PODS,
    OBSERVED_POD_KIND,
    PLACED_PODS,
    POD_SUMMARIES,
    RESIZABLE_PODS,
    RESIZING_VPAS,
    SIZING_VPAS,
    UNFINISHED_PODS,
    WIDEST_KINDS,
    follow_in,
    follow_pods,
)
from trellis.runtime.informers import Informers
from trellis.runtime.optional_kinds import UnreadableKinds
from trellis.runtime.settings.component import ScopeSettings
from trellis.runtime.shared_informers import SharedInformers
from trellis.runtime.telemetry.cluster_metrics import CLUSTER_METRICS
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics
from trellis.testing.scripted_transport import ScriptedResponse, json_response

SCOPE = ScopeSettings()
OURS = (BUFFERS, HPAS, HVPAS, VPAS)
HVPA = f"/apis/{HVPAS.api_version}/namespaces/shop/{HVPAS.plural}/web"


class World:
    """Two components in one process, each with a client of its own."""

    def __init__(self, *, is_installed: bool = False) -> None:
        self.server = ModelServer()
        self.server.before = self._before
        self.is_installed = is_installed
        self.shared = SharedInformers(follow_in((), PLACED_PODS, POD_SUMMARIES))
        self.one, self.other = self.component(), self.component()

    def component(self) -> Informers:
        unreadable = UnreadableKinds(Metrics(CLUSTER_METRICS, about_process=False), Logger("trellis.test"))
        client = Client(self.server.client.transport)
        return Informers(client, unreadable, draw=lambda: 0.5, shared=self.shared)

    def lists(self, plural: str) -> int:
        return sum(request.path.endswith(f"/{plural}") and not _is_watch(request) for request in self.server.requests)

    def watches(self, plural: str) -> int:
        return sum(request.path.endswith(f"/{plural}") and _is_watch(request) for request in self.server.requests)

    def _before(self, request: Request) -> ScriptedResponse | None:
        version = {"groupVersion": HVPAS.api_version, "version": HVPAS.version}
        group = {"versions": [version], "preferredVersion": version}
        kinds = {
            "/api": {"versions": []},
            "/apis": {"groups": [group] if self.is_installed else []},
            f"/apis/{HVPAS.api_version}": {
                "resources": [{"name": HVPAS.plural, "kind": HVPAS.kind, "namespaced": True}]
            },
        }
        if request.path.endswith(f"/{HVPAS.plural}") and not self.is_installed:
            return json_response({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}, 404)
        return json_response(kinds[request.path]) if request.path in kinds else None

    def run(self, play: Callable[[], Awaitable[None]]) -> None:
        async def main() -> None:
            async with virtual_time.in_background(self.one.run(), self.other.run()):
                await play()

        virtual_time.run(main())


def _is_watch(request: Request) -> bool:
    return "watch" in dict(request.query)


def test_two_components_make_one_list_and_one_watch_and_read_the_same_objects() -> None:
    world = World()
    world.server.put(pod_path("web-0"), {"metadata": {"labels": {"app": "web"}}})
    summaries = world.one.follow(POD_SUMMARIES, indexes={BY_NAMESPACE: index_by_namespace})
    placed = world.other.follow(PLACED_PODS)

    async def play() -> None:
        await world.one.wait_until_synced()
        await world.other.wait_until_synced()
        assert (world.lists("pods"), world.watches("pods")) == (1, 1)
        changes: list[str] = []
        placed.subscribe(lambda change: changes.append(change.key[1]))
        world.server.put(pod_path("web-1"), {})
        await asyncio.sleep(1.0)
        assert changes == ["web-0", "web-1"]
        assert summaries.get("shop", "web-1") is placed.get("shop", "web-1") is not None
        assert len(summaries.by_index(BY_NAMESPACE, "shop")) == 2

    world.run(play)


def test_a_slice_that_is_too_narrow_for_a_later_component_is_not_shared() -> None:
    world = World()
    world.shared = SharedInformers()
    world.one, world.other = world.component(), world.component()
    assert not world.one.follow(POD_SUMMARIES).shares_cache(world.other.follow(PLACED_PODS))
    another = world.component().follow(POD_SUMMARIES)
    assert any(another.shares_cache(informer) for informer in world.shared)


def test_slices_and_selections_that_differ_are_read_from_one_watch() -> None:
    world = World()
    not_pending = "status.phase!=Pending"
    followed = (
        follow_pods(RESIZABLE_PODS, (), UNFINISHED_PODS),
        follow_pods(OBSERVED_POD_KIND, ("shop",), not_pending),
    )
    world.shared = SharedInformers(followed)
    world.one, world.other = world.component(), world.component()
    observed = world.one.follow(OBSERVED_POD_KIND, namespaces=("shop",), field_selector=not_pending)
    unfinished = world.other.follow(RESIZABLE_PODS, field_selector=UNFINISHED_PODS)
    for name, phase in (("web-0", "Pending"), ("web-1", "Running"), ("web-2", "Failed")):
        world.server.put(pod_path(name), {"status": {"phase": phase}})
    world.server.put(pod_path("web-3", "bank"), {"status": {"phase": "Running"}})

    async def play() -> None:
        await world.one.wait_until_synced()
        await world.other.wait_until_synced()
        assert (world.lists("pods"), world.watches("pods")) == (1, 1)
        assert {type(pod) for pod in observed.snapshot()} == {ObservedPod}
        assert [pod.metadata.name for pod in observed.snapshot()] == ["web-1", "web-2"]
        assert sorted(pod.metadata.name for pod in unfinished.snapshot()) == ["web-0", "web-1", "web-3"]
        assert world.one.is_available(observed)
        assert world.one.find_staleness_problem() is None

    world.run(play)


def test_a_kind_of_which_no_expected_slice_provides_for_all_is_cached_in_the_widest() -> None:
    world = World()
    world.shared = SharedInformers(follow_in((), PLACED_PODS, HVPA_PODS, SIZING_VPAS, RESIZING_VPAS), WIDEST_KINDS)
    world.one, world.other = world.component(), world.component()
    placed, hvpa_pods = world.one.follow(PLACED_PODS), world.other.follow(HVPA_PODS)
    sizing, resizing = world.one.follow(SIZING_VPAS), world.other.follow(RESIZING_VPAS)
    assert [informer.resource for informer in world.shared] == [RESIZABLE_PODS.resource, RESIZING_VPAS.resource]
    assert (placed.resource, hvpa_pods.resource) == (PLACED_PODS.resource, HVPA_PODS.resource)
    assert sizing.shares_cache(resizing), "one slice serves the other"


def test_followers_of_slices_that_serve_each_other_share_what_is_derived_for_them() -> None:
    world = World()
    world.shared = SharedInformers(follow_in((), SIZING_VPAS, RESIZING_VPAS, FULL_VPAS))
    world.one, world.other = world.component(), world.component()
    sizing, resizing, whole = (
        world.one.follow(SIZING_VPAS),
        world.other.follow(RESIZING_VPAS),
        world.one.follow(FULL_VPAS),
    )
    assert sizing.shares_cache(resizing)
    assert not whole.shares_cache(sizing)
    assert [informer.resource for informer in world.shared] == [FULL_VPAS.resource]


def test_what_is_derived_ends_with_its_last_follower_and_the_watch_goes_on() -> None:
    world = World()
    world.shared = SharedInformers(follow_in((), RESIZABLE_PODS, OBSERVED_POD_KIND))
    world.one, world.other = world.component(), world.component()
    resizable, observed = world.one.follow(RESIZABLE_PODS), world.other.follow(OBSERVED_POD_KIND)

    async def play() -> None:
        async with virtual_time.in_background(world.one.run()):
            async with virtual_time.in_background(world.other.run()):
                await world.other.wait_until_synced()
            world.server.put(pod_path("web-1"), {})
            await asyncio.sleep(5.0)
            assert (len(resizable.snapshot()), len(observed.snapshot())) == (1, 0)

    virtual_time.run(play())


def test_components_that_end_at_the_same_time_leave_nothing_running() -> None:
    world = World()
    world.one.follow(POD_SUMMARIES)
    world.other.follow(POD_SUMMARIES)

    async def main() -> None:
        runs = [asyncio.create_task(component.run()) for component in (world.one, world.other)]
        await world.one.wait_until_synced()
        for run in runs:
            run.cancel()
        assert [type(end) for end in await asyncio.gather(*runs, return_exceptions=True)] == [
            asyncio.CancelledError,
            asyncio.CancelledError,
        ]
        assert tuple(world.shared) == ()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    virtual_time.run(main())


def test_an_informer_goes_on_with_another_client_when_the_first_component_ends() -> None:
    world = World()
    world.one.follow(PODS)
    pods = world.other.follow(PODS)

    async def play() -> None:
        async with virtual_time.in_background(world.other.run()):
            async with virtual_time.in_background(world.one.run()):
                await world.other.wait_until_synced()
            (watching,) = world.shared
            assert watching.client is world.other.client
            world.server.put(pod_path("web-1"), {})
            await asyncio.sleep(5.0)
            assert pods.get("shop", "web-1") is not None
        assert not tuple(world.shared), "the last component takes it with it"

    virtual_time.run(play())


def test_a_component_that_has_ended_is_not_called_any_more_and_another_goes_on() -> None:
    world = World()
    called: dict[str, list[str]] = {"one": [], "other": []}
    world.one.follow(PODS).subscribe(lambda change: called["one"].append(change.key[1]))
    world.other.follow(PODS).subscribe(lambda change: called["other"].append(change.key[1]))

    async def play() -> None:
        async with virtual_time.in_background(world.other.run()):
            async with virtual_time.in_background(world.one.run()):
                await world.one.wait_until_synced()
                world.server.put(pod_path("web-1"), {})
                await asyncio.sleep(5.0)
            world.server.put(pod_path("web-2"), {})
            await asyncio.sleep(5.0)
        assert called == {"one": ["web-1"], "other": ["web-1", "web-2"]}

    virtual_time.run(play())


def test_a_component_that_ends_before_it_runs_leaves_nothing_behind() -> None:
    world = World()
    world.one.follow(PODS)

    async def play() -> None:
        await world.one.leave()
        assert tuple(world.shared) == ()

    virtual_time.run(play())


def test_an_error_of_an_informer_ends_only_the_components_that_follow_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.one.follow(PODS)
    world.other.follow(NODES)

    async def play() -> None:
        runs = [asyncio.create_task(component.run()) for component in (world.one, world.other)]
        await world.one.wait_until_synced()
        (pods,) = (informer for informer in world.shared if informer.resource is PODS)
        monkeypatch.setattr(pods.contact, "heard", _fail)
        world.server.put(pod_path("web-1"), {})
        await asyncio.sleep(5.0)
        assert [run.done() for run in runs] == [True, False]
        assert isinstance(runs[0].exception(), InternalError)
        runs[1].cancel()
        await asyncio.wait(runs)

    virtual_time.run(play())


def _fail(_at: float, *, event: bool = False) -> float | None:
    raise InternalError("out of memory")


def test_an_unsubscribed_handler_is_called_no_longer() -> None:
    world = World()
    pods = world.one.follow(PODS)
    world.other.follow(NODES)

    async def play() -> None:
        await world.one.wait_until_synced()
        changes: list[str] = []
        unsubscribe = pods.subscribe(lambda change: changes.append(change.key[1]))
        unsubscribe()
        world.server.put(pod_path("web-1"), {})
        await asyncio.sleep(1.0)
        assert (changes, len(pods.snapshot())) == ([], 1)

    world.run(play)


def test_an_optional_kind_appears_and_disappears_for_both_components() -> None:
    world = World()
    for component in (world.one, world.other):
        component.follow(PODS)
    hvpas = [component.follow(HVPAS, served=False) for component in (world.one, world.other)]

    async def play() -> None:
        await world.one.wait_until_synced()
        assert world.other.synced
        world.is_installed = True
        world.server.put(HVPA, {})
        await asyncio.sleep(70.0)
        world.server.bookmark()
        assert [len(informer.snapshot()) for informer in hvpas] == [1, 1]
        assert world.one.is_available(hvpas[0])
        assert world.other.is_available(hvpas[1])
        assert world.lists(HVPAS.plural) == 1
        world.is_installed = False
        world.server.end_watches()
        await asyncio.sleep(30.0)
        assert [len(informer.snapshot()) for informer in hvpas] == [0, 0]
        assert not world.one.is_available(hvpas[0])
        assert (world.one.find_readiness_problem(), world.other.find_readiness_problem()) == (None, None)

    world.run(play)


def test_a_component_waits_for_a_kind_that_it_needs_and_another_goes_on_without() -> None:
    world = World()
    for component in (world.one, world.other):
        component.follow(PODS)
    needed, optional = world.one.follow(HVPAS), world.other.follow(HVPAS, served=False)

    async def play() -> None:
        waiting = asyncio.create_task(world.one.wait_until_synced())
        await world.other.wait_until_synced()
        await asyncio.sleep(600.0)
        # The longest wait between two attempts is a minute.
        assert world.lists(HVPAS.plural) < 30
        assert not waiting.done()
        assert world.one.find_readiness_problem() == (
            "caches not synced: hvpas.autoscaling.x-k8s.io; the API server does not serve hvpas.autoscaling.x-k8s.io: "
            "install its CRD; `trellis crds` prints ours"
        )
        assert HVPAS.full_name in (world.one.find_staleness_problem() or "")
        assert (world.other.find_readiness_problem(), world.other.find_staleness_problem()) == (None, None)
        world.is_installed = True
        world.server.put(HVPA, {})
        await asyncio.sleep(120.0)
        assert waiting.done()
        assert world.one.is_available(needed)
        assert world.other.is_available(optional)
        assert [len(informer.snapshot()) for informer in (needed, optional)] == [1, 1]

    world.run(play)


def test_a_removed_kind_that_one_component_needs_keeps_its_objects_for_a_minute() -> None:
    world = World(is_installed=True)
    for component in (world.one, world.other):
        component.follow(PODS)
    needed, optional = world.one.follow(HVPAS), world.other.follow(HVPAS, served=True)
    world.server.put(HVPA, {})

    async def play() -> None:
        await world.one.wait_until_synced()
        await world.other.wait_until_synced()
        world.is_installed = False
        world.server.end_watches()
        await asyncio.sleep(55.0)
        assert [len(informer.snapshot()) for informer in (needed, optional)] == [1, 1]
        await asyncio.sleep(30.0)
        assert [len(informer.snapshot()) for informer in (needed, optional)] == [0, 0]
        assert HVPAS.full_name in (world.one.find_staleness_problem() or "")
        assert world.other.find_staleness_problem() is None
        asked = len(world.server.requests)
        await asyncio.sleep(600.0)
        # Discovery is three requests once a minute, and a list is tried as often.
        assert len(world.server.requests) - asked < 60
        world.is_installed = True
        await asyncio.sleep(120.0)
        assert [len(informer.snapshot()) for informer in (needed, optional)] == [1, 1]
        assert (world.one.find_readiness_problem(), world.other.find_readiness_problem()) == (None, None)

    world.run(play)


def test_the_node_autoscaler_and_the_buffer_controller_list_and_watch_each_kind_once() -> None:
    world = BufferWorld()
    world.add_workload()
    world.add_buffer()

    async def main() -> None:
        settings = NodeControllerSettings()
        followed = (*nodes_informers.list_followed_kinds(settings), *buffers_informers.list_followed_kinds(SCOPE))
        shared = SharedInformers(followed, WIDEST_KINDS)
        context = await world.context(shared=shared)
        buffers = build_buffer_controller(context, world.settings, kinds=world.kinds)
        metrics = Metrics(NODE_METRICS, about_process=False)
        unreadable = UnreadableKinds(metrics, Logger("trellis.test"))
        informers = Informers(context.client, unreadable, draw=context.draw, shared=shared)
        node_context = msgspec.structs.replace(context, metrics=metrics, informers=informers)
        async with (
            open_node_controller(node_context, settings) as nodes,
            virtual_time.in_background(world.running(context, buffers), world.running(node_context, nodes)),
        ):
            await informers.wait_until_synced()
            await context.informers.wait_until_synced()
            await asyncio.sleep(1.0)
            assert nodes.node_informers.pods.shares_cache(buffers._informers.pods)
            assert nodes.node_informers.buffers.shares_cache(buffers._informers.buffers)
            read = [request for request in world.server.requests if request.method == "GET"]
            watches = Counter(request.path for request in read if _is_watch(request))
            assert set(watches.values()) == {1}, watches
            assert len(nodes.node_informers.pods.snapshot()) == 2

    virtual_time.run(main())


def test_all_six_controllers_list_and_watch_each_kind_once() -> None:
    """Each follows what it says that it follows, so that its slices are known before it is there."""
    world = World(is_installed=True)
    updater, nodes, recommender, hvpa = (
        UpdaterSettings(),
        NodeControllerSettings(),
        RecommenderSettings(),
        HvpaControllerSettings(),
    )
    followed = (
        *updater_informers.list_followed_kinds(updater),
        *nodes_informers.list_followed_kinds(nodes),
        *recommender_informers.list_followed_kinds(recommender),
        *hvpa_informers.list_followed_kinds(hvpa),
        *admission_informers.list_followed_kinds(SCOPE),
        *buffers_informers.list_followed_kinds(SCOPE),
    )
    world.shared = SharedInformers(followed, WIDEST_KINDS)
    components = [world.component() for _ in range(6)]
    served = Served(
        tuple(ServedKind(resource.group, resource.version, resource.plural, resource.kind, True) for resource in OURS)
    )
    controllers = (
        updater_informers.UpdaterInformers(components[0], updater, served),
        (NodeInformers(components[1], nodes, served), SizingInformers(components[1], nodes, served)),
        recommender_informers.RecommenderInformers(components[2], hvpas_served=True),
        hvpa_informers.HvpaInformers(components[3], served),
        admission_informers.AdmissionInformers(components[4], SCOPE, hvpas_served=True, boost_ceilings=None),
        buffers_informers.BufferInformers(components[5], served, SCOPE),
    )
    assert len(controllers) == len(components)
    for structs in group_by_path(world.shared).values():
        assert len(structs) == 1, structs
    assert [informer.resource for informer in world.shared if informer.resource.kind == "Pod"] == [
        RESIZABLE_PODS.resource
    ]


def group_by_path(shared: SharedInformers) -> dict[str, list[str]]:
    """The structs that are read from each path, but for kinds of which single objects are followed."""
    paths: dict[str, list[str]] = {}
    for informer in shared:
        if informer.resource.kind not in ("ConfigMap", "Event"):
            paths.setdefault(informer.resource.path(), []).append(informer.resource.struct.__name__)
    return paths
