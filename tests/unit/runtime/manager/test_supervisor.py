"""A component that loses its lease or fails is restarted alone; the others of its process go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any

import pytest

from support import virtual_time
from support.api_server.server import ModelServer, pod_path
from trellis.base.errors import InternalError, InvalidInput
from trellis.kube.discovery import Served
from trellis.kube.resources import PODS
from trellis.runtime.cached_kinds import PLACED_PODS, follow_in
from trellis.runtime.component import ComponentSpec, Controller, ControllerContext
from trellis.runtime.leadership import single_lease
from trellis.runtime.manager.supervisor import RECOVERED_SECONDS, ManagedComponent, Supervisor
from trellis.runtime.settings.component import AccessSettings, LeaderSettings
from trellis.runtime.settings.declarations import Setting, Settings
from trellis.runtime.shared_informers import SharedInformers
from trellis.runtime.shutdown import Shutdown, run_together
from trellis.runtime.telemetry.cluster_metrics import CLUSTER_METRICS
from trellis.runtime.telemetry.component_metrics import ProcessMetrics
from trellis.runtime.telemetry.health import ProbeResponse
from trellis.runtime.telemetry.health_server import HealthSettings, PageRequest
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics

log = Logger("trellis.test")
MOST_DEPTH = 9


class GardenSettings(Settings, frozen=True):
    """All that a component needs."""

    depth: Annotated[int, Setting("How deep to dig.", why="Roots.")] = 1
    access: AccessSettings = AccessSettings()
    leader: LeaderSettings = LeaderSettings(leader_elect=True)
    health: HealthSettings = HealthSettings()


class Gardener(Controller):
    """Counts the pods that it is told of, and fails when told to."""

    def __init__(self, context: ControllerContext, depth: int) -> None:
        self.context = context
        self.depth = depth
        self.pods = context.informers.follow(PLACED_PODS)
        self.changes: list[str] = []
        self.pods.subscribe(lambda change: self.changes.append(change.key[1]))
        self.error: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_started_leading(self) -> None:
        self.changes.append("led")

    async def run(self) -> None:
        await self.error


class World:
    """A process of gardeners, and their cluster."""

    def __init__(self, *names: str) -> None:
        self.server = ModelServer()
        self.server.put(pod_path("rose"), {})
        self.stop = Shutdown()
        self.gardeners: dict[str, list[Gardener]] = {name: [] for name in names}
        self.restarts: list[tuple[str, str]] = []
        # Errors that the next starts raise.
        self.refusals: dict[str, list[Exception]] = {name: [] for name in names}
        self.closed: list[str] = []
        # Errors of settings that were refused, and the depth that holds again.
        self.taken_back: list[tuple[str, int]] = []
        self.supervisors: dict[str, Supervisor] = {}

    def lease(self, name: str) -> dict[str, Any]:
        spec: dict[str, Any] = self.server.objects[_lease_path(name)]["spec"]
        return spec

    def take_lease(self, name: str, holder: str) -> None:
        lease = self.server.objects[_lease_path(name)]
        self.server.put(_lease_path(name), {**lease, "spec": {**lease["spec"], "holderIdentity": holder}})

    def run(self, play: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            shared = SharedInformers(follow_in((), PLACED_PODS))
            for name in self.gardeners:
                self.supervisors[name] = Supervisor(
                    self._manage(name),
                    self.server.client,
                    shared,
                    on_restart=lambda name, why: self.restarts.append((name, why.value)),
                    draw=lambda: 0.0,
                )
            runs = (supervisor.run for supervisor in self.supervisors.values())
            process = asyncio.create_task(run_together(*runs)(self.stop))
            await asyncio.sleep(1.0)
            await play()
            self.stop.request("the test is over")
            await process

        virtual_time.run(main())

    def reconfigure(self, name: str, depth: int) -> None:
        """Restart a gardener with another depth."""

        def on_refused(error: InvalidInput, restored: ManagedComponent) -> None:
            assert isinstance(restored.settings, GardenSettings)
            self.taken_back.append((str(error), restored.settings.depth))

        self.supervisors[name].reconfigure(self._manage(name, depth), on_refused)

    def _manage(self, name: str, depth: int = 1) -> ManagedComponent:
        settings = GardenSettings(
            depth=depth, leader=LeaderSettings(leader_elect=True, leader_elect_resource_name=name)
        )

        @asynccontextmanager
        async def build(context: ControllerContext) -> AsyncIterator[Gardener]:
            gardener = Gardener(context, depth)
            if depth > MOST_DEPTH:
                raise InvalidInput(depth, "is too deep")
            if self.refusals[name]:
                raise self.refusals[name].pop(0)
            self.gardeners[name].append(gardener)
            yield gardener

        @contextmanager
        def open_spec(_metrics: Metrics) -> Iterator[ComponentSpec[Gardener]]:
            yield ComponentSpec(
                component=name,
                name=f"trellis-{name}",
                field_manager=name,
                log=log,
                metrics=CLUSTER_METRICS,
                build=build,
                interval=None,
                election=single_lease(settings.leader),
                assumed=Served(),
                pages={"/roses": _show_roses},
            )
            self.closed.append(name)

        return ManagedComponent(
            name=name,
            settings=settings,
            metrics=CLUSTER_METRICS,
            followed=follow_in((), PLACED_PODS),
            open=open_spec,
            paths=("/roses",),
        )


async def _show_roses(gardener: Gardener, _request: PageRequest) -> ProbeResponse:
    return ProbeResponse(200, f"{len(gardener.pods.snapshot())} roses\n")


def _lease_path(name: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{name}"


def test_components_share_a_watch_and_have_a_lease_each_which_they_release() -> None:
    world = World("one", "other")

    async def play() -> None:
        assert [sorted(gardener.changes) for [gardener] in world.gardeners.values()] == [["led", "rose"]] * 2
        identities = {world.lease(name)["holderIdentity"] for name in world.gardeners}
        assert len(identities) == 2
        watches = [request for request in world.server.requests if "watch" in dict(request.query)]
        assert [request.path for request in watches] == ["/api/v1/pods"]
        assert [supervisor.find_problem() for supervisor in world.supervisors.values()] == [None, None]

    world.run(play)
    assert not any(world.lease(name).get("holderIdentity") for name in world.gardeners)
    assert sorted(world.closed) == ["one", "other"]


def test_a_lost_lease_restarts_only_the_component_that_lost_it() -> None:
    world = World("one", "other")

    async def play() -> None:
        world.take_lease("one", "another process")
        await asyncio.sleep(3.5)
        problem = world.supervisors["one"].find_problem()
        assert problem is not None
        assert (problem.reason, problem.message) == ("lease-lost", "restarts after lost the Lease")
        await asyncio.sleep(30.0)
        assert {name: len(gardeners) for name, gardeners in world.gardeners.items()} == {"one": 2, "other": 1}
        assert world.restarts == [("one", "lease-lost")]
        first, second = world.gardeners["one"]
        assert world.lease("one")["holderIdentity"] == second.context.leadership.identity
        assert sorted(second.changes) == ["led", "rose"]
        world.server.put(pod_path("lily"), {})
        await asyncio.sleep(1.0)
        assert "lily" not in first.changes
        assert [gardener.changes[-1] for gardener in (second, *world.gardeners["other"])] == ["lily", "lily"]
        assert world.supervisors["one"].find_problem() is None

    world.run(play)


def test_a_component_that_fails_again_and_again_is_restarted_less_and_less_often() -> None:
    world = World("one", "other")

    async def play() -> None:
        clock = asyncio.get_running_loop().time
        world.refusals["one"] = [InternalError("the well is dry")] * 9
        began = clock()
        world.gardeners["one"][0].error.set_exception(InternalError("the well is dry"))
        starts: list[float] = []
        while world.refusals["one"]:
            left = len(world.refusals["one"])
            await asyncio.sleep(0.1)
            if len(world.refusals["one"]) < left:
                starts.append(clock() - began)
        waits = [round(after - before) for before, after in zip([0.0, *starts], starts, strict=False)]
        assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
        assert world.supervisors["one"].find_readiness_problem() == "restarts after the well is dry"
        assert world.supervisors["other"].find_readiness_problem() is None
        await asyncio.sleep(RECOVERED_SECONDS + 61.0)
        world.gardeners["one"][-1].error.set_exception(InternalError("the well is dry"))
        await asyncio.sleep(1.1)
        assert len(world.gardeners["one"]) == 3, "it had recovered"
        assert len(world.gardeners["other"]) == 1
        assert set(world.restarts) == {("one", "failed")}

    world.run(play)


def test_invalid_settings_end_the_process_if_the_component_never_worked() -> None:
    world = World("one", "other")
    world.refusals["one"] = [InvalidInput("x", "is not a port")]

    async def play() -> None:
        await asyncio.sleep(1.0)

    with pytest.raises(InvalidInput, match="is not a port"):
        world.run(play)
    assert not world.lease("other").get("holderIdentity")
    assert world.restarts == []


def test_an_invalid_input_of_a_component_that_has_worked_is_a_failure_like_any_other() -> None:
    world = World("one")

    async def play() -> None:
        assert world.supervisors["one"].find_problem() is None
        world.gardeners["one"][0].error.set_exception(InvalidInput("x", "is not a quantity"))
        await asyncio.sleep(3.0)
        assert len(world.gardeners["one"]) == 2

    world.run(play)


def test_other_settings_restart_one_component_at_once_without_a_loss_of_its_lease() -> None:
    world = World("one", "other")

    async def play() -> None:
        world.reconfigure("one", 2)
        await asyncio.sleep(0.5)
        assert [gardener.depth for gardener in world.gardeners["one"]] == [1, 2]
        assert len(world.gardeners["other"]) == 1
        assert world.restarts == [("one", "reconfigured")]
        await asyncio.sleep(3.0)
        assert world.supervisors["one"].find_problem() is None
        second = world.gardeners["one"][1]
        assert world.lease("one")["holderIdentity"] == second.context.leadership.identity
        assert sorted(second.changes) == ["led", "rose"]

    world.run(play)
    assert not world.lease("one").get("holderIdentity")


def test_settings_that_a_component_refuses_give_way_to_those_it_worked_with() -> None:
    world = World("one", "other")

    async def play() -> None:
        world.reconfigure("one", MOST_DEPTH + 1)
        await asyncio.sleep(3.0)
        assert world.taken_back == [(f"{MOST_DEPTH + 1}: is too deep", 1)]
        assert [gardener.depth for gardener in world.gardeners["one"]] == [1, 1]
        assert world.supervisors["one"].find_problem() is None
        world.reconfigure("one", 3)
        await asyncio.sleep(3.0)
        assert world.gardeners["one"][-1].depth == 3

    world.run(play)


def test_of_settings_that_change_twice_the_last_ones_hold() -> None:
    world = World("one")

    async def play() -> None:
        world.reconfigure("one", MOST_DEPTH + 1)
        world.reconfigure("one", 2)
        await asyncio.sleep(3.0)
        assert world.gardeners["one"][-1].depth == 2
        world.reconfigure("one", 3)
        # It has not been ready with these, so that those before them are what it goes back to.
        await asyncio.sleep(0.0)
        world.reconfigure("one", MOST_DEPTH + 1)
        await asyncio.sleep(3.0)
        assert world.gardeners["one"][-1].depth in (2, 3)
        assert [error for error, _ in world.taken_back] == [f"{MOST_DEPTH + 1}: is too deep"]

    world.run(play)


def test_other_settings_end_the_wait_of_a_component_that_fails() -> None:
    world = World("one")

    async def play() -> None:
        world.refusals["one"] = [InternalError("the well is dry")] * 5
        world.gardeners["one"][0].error.set_exception(InternalError("the well is dry"))
        await asyncio.sleep(40.0)
        assert not world.refusals["one"], "it waits for half a minute now"
        started = len(world.gardeners["one"])
        world.reconfigure("one", 2)
        await asyncio.sleep(0.5)
        assert [gardener.depth for gardener in world.gardeners["one"][started:]] == [2]

    world.run(play)


def test_metrics_of_all_components_are_one_text_and_common_ones_say_whose_they_are() -> None:
    world = World("one", "other")

    async def play() -> None:
        for name in world.gardeners:
            gardener = world.gardeners[name][0]
            gardener.context.informers.export(gardener.context.metrics)
        running = {name: supervisor.metrics for name, supervisor in world.supervisors.items()}
        own = Metrics([], about_process=False)
        lines = ProcessMetrics(own, lambda: {name: found for name, found in running.items() if found}).format_text()
        text = lines.decode().splitlines()
        assert text.count("# TYPE trellis_informer_objects gauge") == 1
        assert [line for line in text if line.startswith("trellis_informer_objects")] == [
            f'trellis_informer_objects{{component="{name}",resource="{PODS.full_name}"}} 1' for name in ("one", "other")
        ]
        leases = [line for line in text if line.startswith("trellis_writes_total") and "leases" in line]
        assert len(leases) == 2
        assert all('component="' in line for line in leases)

    world.run(play)


def test_a_page_of_a_component_says_so_while_the_component_is_down() -> None:
    world = World("one")

    async def play() -> None:
        supervisor = world.supervisors["one"]
        request = PageRequest({}, {})
        assert (await supervisor.show_page("/roses", request)).text == "1 roses\n"
        world.gardeners["one"][0].error.set_exception(InternalError("the well is dry"))
        await asyncio.sleep(0.5)
        answer = await supervisor.show_page("/roses", request)
        assert (answer.status, answer.text) == (503, "one: restarts after the well is dry\n")

    world.run(play)
