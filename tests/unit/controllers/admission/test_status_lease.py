"""The status Lease: renewed while somebody answers, left to run out when nobody does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support import virtual_time
from support.api_server.server import Document, ModelServer
from trellis.base.durations import Duration
from trellis.base.errors import InvalidInput, Unreachable
from trellis.base.times import parse_time
from trellis.controllers.admission.settings import StatusLeaseSettings
from trellis.controllers.admission.status_lease import StatusLease
from trellis.kube.write.writer import Writer, WriterSettings
from trellis.runtime.settings.loader import from_environment, load_settings

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/vpa-admission-controller"
WALL = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)


class World:
    """A server, and replicas that say that they are there."""

    def __init__(self) -> None:
        self.server = ModelServer()
        self.absent: str | None = None

    def replica(self, name: str = "web-0", *, read_only: bool = False, **settings: Any) -> StatusLease:
        writer = Writer(self.server.client, record=lambda _: None, settings=WriterSettings(read_only=read_only))
        return StatusLease(
            self.server.client,
            writer,
            StatusLeaseSettings(**settings),
            namespace="kube-system",
            identity=name,
            find_absence_reason=lambda: self.absent,
            now=lambda: WALL + timedelta(seconds=asyncio.get_running_loop().time()),
        )

    @property
    def lease(self) -> Document:
        spec: Document = self.server.objects[PATH]["spec"]
        return spec

    @property
    def age(self) -> float:
        now = WALL + timedelta(seconds=asyncio.get_running_loop().time())
        return (now - parse_time(self.lease["renewTime"])).total_seconds()

    def run(self, main: Callable[[], Coroutine[Any, Any, None]], *replicas: StatusLease) -> None:
        async def everything() -> None:
            async with virtual_time.in_background(*(replica.run() for replica in replicas)):
                await main()

        virtual_time.run(everything())


def test_the_lease_is_made_at_once_and_renewed_every_ten_seconds() -> None:
    world = World()

    async def main() -> None:
        await asyncio.sleep(1)
        assert (world.lease["holderIdentity"], world.lease["leaseDurationSeconds"]) == ("web-0", 10)
        acquired = world.lease["acquireTime"]
        for _ in range(5):
            await asyncio.sleep(10)
            assert world.age < 10
        assert world.lease["acquireTime"] == acquired
        assert [request.method for request in world.server.requests] == ["PATCH", "POST", *["PATCH"] * 5]

    world.run(main, world.replica())


def test_the_lease_rests_while_pods_would_not_be_sized() -> None:
    world = World()

    async def main() -> None:
        await asyncio.sleep(25)
        world.absent = "the cache is not filled"
        await asyncio.sleep(60)
        assert world.age > 55
        world.absent = None
        await asyncio.sleep(11)
        assert world.age < 10

    world.run(main, world.replica())


def test_nothing_is_written_before_pods_are_sized() -> None:
    world = World()
    world.absent = "there is no certificate yet"

    async def main() -> None:
        await asyncio.sleep(60)
        assert world.server.requests == []

    world.run(main, world.replica())


def test_several_replicas_renew_one_lease_in_turn() -> None:
    world = World()

    async def main() -> None:
        holders = set()
        for _ in range(20):
            await asyncio.sleep(5)
            assert world.age <= 10
            holders.add(world.lease["holderIdentity"])
        assert holders <= {"web-0", "web-1"}

    world.run(main, world.replica("web-0"), world.replica("web-1"))


def test_what_others_wrote_into_the_lease_stays_and_a_deleted_one_comes_back() -> None:
    world = World()
    world.server.put(PATH, {"metadata": {"labels": {"team": "web"}}, "spec": {"holderIdentity": "upstream"}})

    async def main() -> None:
        await asyncio.sleep(1)
        assert world.lease["holderIdentity"] == "web-0"
        assert world.server.objects[PATH]["metadata"]["labels"] == {"team": "web"}
        world.server.delete(PATH)
        await asyncio.sleep(11)
        assert world.age < 10

    world.run(main, world.replica())


def test_a_server_that_is_away_is_asked_again() -> None:
    world = World()

    async def main() -> None:
        await asyncio.sleep(1)
        world.server.faults.extend([Unreachable("no route to host")] * 3)
        await asyncio.sleep(45)
        assert world.age < 10

    world.run(main, world.replica())


def test_name_place_and_interval_can_be_set() -> None:
    world = World()
    settings: dict[str, Any] = {
        "status_lease_name": "other",
        "status_lease_namespace": "scaling",
        "status_lease_update_interval": Duration(2_500_000_000),
    }

    async def main() -> None:
        await asyncio.sleep(1)
        [path] = world.server.objects
        assert path.endswith("/namespaces/scaling/leases/other")
        assert world.server.objects[path]["spec"]["leaseDurationSeconds"] == 3

    world.run(main, world.replica(**settings))


def test_a_read_only_replica_writes_no_lease() -> None:
    world = World()

    async def main() -> None:
        await asyncio.sleep(30)
        assert world.server.requests == []

    world.run(main, world.replica(read_only=True))


@pytest.mark.parametrize(
    "wrong",
    [
        {"TRELLIS_STATUS_LEASE_UPDATE_INTERVAL": "0s"},
        {"TRELLIS_STATUS_LEASE_NAME": "Not A Name"},
        {"TRELLIS_STATUS_LEASE_NAMESPACE": "Not-One"},
    ],
)
def test_what_cannot_be_right_is_refused_at_the_start(wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        load_settings(StatusLeaseSettings, from_environment(StatusLeaseSettings, wrong))
