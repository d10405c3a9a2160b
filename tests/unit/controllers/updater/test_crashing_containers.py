"""The updater and containers that crash: from the watch to the request, and again in the replay of every play."""

from __future__ import annotations

from datetime import UTC, datetime

from support.api_server.server import Document, pod_path
from support.controllers.updater import MINUTE, START, World
from trellis.base.times import format_time
from trellis.controllers.updater.process import UpdaterController


def text(seconds: float) -> str:
    return format_time(datetime.fromtimestamp(seconds, UTC))


def terminated(started: float, finished: float) -> Document:
    times = {"startedAt": text(started), "finishedAt": text(finished)}
    return {"terminated": {"reason": "OOMKilled", "exitCode": 137, **times}}


def report(world: World, name: str, state: Document, last: Document | None = None, **more: object) -> None:
    """What the kubelet says of the container of a pod."""
    pod = world.server.objects[pod_path(name)]
    resources = pod["spec"]["containers"][0]["resources"]
    status = {"name": "app", "resources": resources, "state": state, **({"lastState": last} if last else {})}
    metadata = {**pod["metadata"], **more}
    document = {**pod, "metadata": metadata, "status": {**pod["status"], "containerStatuses": [status]}}
    world.server.put(pod_path(name), document)


def crash(world: World) -> None:
    for name in ("web-0", "web-1"):
        report(world, name, terminated(START - 5, START))


def restart(world: World, ended: float, started: float, **more: object) -> None:
    for name in ("web-0", "web-1"):
        report(world, name, {"running": {"startedAt": text(started)}}, terminated(ended - 5, ended), **more)


def test_pods_are_resized_when_their_containers_run_again() -> None:
    world = World("--evict-after-container-down=1h")
    world.add_workload(mode="InPlaceOrRecreate")

    async def play(_updater: UpdaterController) -> None:
        await world.passes(5)
        assert world.resizes == []
        restart(world, START, world.now())
        await world.passes(2)

    crash(world)
    world.run(play)
    assert sorted(name for _, name in world.resizes) == ["web-0", "web-1"]
    assert min(time for time, _ in world.resizes) >= START + 5 * MINUTE + 1
    assert world.list_events("ContainerDown")[0][0] == "VerticalPodAutoscaler/web"
    assert world.evictions == []


def test_pods_are_evicted_if_their_containers_stay_down() -> None:
    world = World()
    world.add_workload(mode="InPlaceOrRecreate")

    async def play(_updater: UpdaterController) -> None:
        await world.passes(3)

    crash(world)
    world.run(play)
    assert world.resizes == []
    assert {name for _, name in world.evictions} == {"web-0", "web-1"}
    assert min(time for time, _ in world.evictions) >= START + MINUTE


def test_a_missed_resize_is_repeated_once_and_by_an_updater_that_starts_later() -> None:
    world = World()
    world.add_workload(mode="InPlace", cpu="100m")
    other = {"manager": "kubelet", "operation": "Update", "time": text(START + 9), "subresource": "status"}
    written = {"manager": "kubectl", "operation": "Update", "time": text(START - 30), "subresource": "resize"}
    restart(world, START - 60, START - 10, managedFields=[other, written])

    def followed(name: str) -> None:
        """The API server notes the resize."""
        again = {**written, "time": text(world.now())}
        pod = world.server.objects[pod_path(name)]
        world.server.put(pod_path(name), {**pod, "metadata": {**pod["metadata"], "managedFields": [other, again]}})

    async def play(_updater: UpdaterController) -> None:
        count = 0
        for _ in range(600):
            await world.passes(1 / 60)
            for _, name in world.resizes[count:]:
                followed(name)
            count = len(world.resizes)

    world.run(play)
    # Once by a unit of CPU, and back, because the recommendation leaves no room.
    assert sorted(name for _, name in world.resizes) == ["web-0", "web-0", "web-1", "web-1"]
    assert world.requests() == ["100m", "100m"]
    assert world.evictions == []
