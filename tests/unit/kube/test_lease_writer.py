"""Records get into Leases for those who may patch them, and for those who may only replace them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from support import virtual_time
from support.api_server.server import ModelServer
from trellis.kube.leader_election import Election
from trellis.kube.lease_records import LeaseWriter
from trellis.kube.resources import LEASES
from trellis.kube.transport.requests import Request
from trellis.kube.write.actions import Target
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.kube.write.writer import Writer
from trellis.testing.scripted_transport import ScriptedResponse, error_response

PLACE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
PATH = f"{PLACE}/one"
LEASE = Target(LEASES, "one", "kube-system")
RECORD = {"holderIdentity": "me", "renewTime": "2026-11-15T12:00:00.000000Z"}
WALL = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)


class World:
    def __init__(self, *forbidden: str) -> None:
        self.server = ModelServer()
        self.server.before = self._before
        self.forbidden = forbidden
        self.outcomes: list[WriteOutcome] = []
        self.writer = Writer(self.server.client, record=self.outcomes.append)
        self.writes = LeaseWriter(self.server.client, self.writer)

    def _before(self, request: Request) -> ScriptedResponse | None:
        return error_response(403, "Forbidden", "no") if request.method in self.forbidden else None

    def methods(self) -> list[str]:
        return [request.method for request in self.server.requests]

    def run(self, play: Callable[[], Awaitable[None]]) -> None:
        async def main() -> None:
            await play()

        virtual_time.run(main())


def test_a_lease_that_may_not_be_patched_is_replaced_and_keeps_everything_else() -> None:
    world = World("PATCH")
    world.server.put(PATH, {"metadata": {"labels": {"a": "b"}}, "spec": {"holderIdentity": "you", "strategy": "x"}})

    async def play() -> None:
        assert (await world.writes.write(LEASE, RECORD)).applied
        assert world.methods() == ["PATCH", "GET", "PUT"]
        lease = world.server.objects[PATH]
        assert lease["metadata"]["labels"] == {"a": "b"}
        assert lease["spec"] == {**RECORD, "strategy": "x"}
        # The way is known from there on.
        assert (await world.writes.write(LEASE, RECORD)).applied
        assert world.methods()[3:] == ["GET", "PUT"]
        # What was refused first is nobody's business: it was done after all.
        assert [outcome.result for outcome in world.outcomes] == [Result.APPLIED, Result.APPLIED]

    world.run(play)


def test_a_lease_that_has_changed_is_not_replaced() -> None:
    world = World("PATCH")
    lease = world.server.put(PATH, {"spec": {"holderIdentity": "you"}})

    async def play() -> None:
        target = Target(LEASES, "one", "kube-system", resource_version=str(lease["metadata"]["resourceVersion"]))
        assert (await world.writes.write(target, RECORD)).applied
        assert (await world.writes.write(target, RECORD)).result is Result.CONFLICT
        world.server.delete(PATH)
        assert (await world.writes.write(LEASE, RECORD)).result is Result.GONE

    world.run(play)


@pytest.mark.parametrize("also", ["GET", "PUT"])
def test_a_lease_with_patch_and_update_forbidden_is_patched_again(also: str) -> None:
    world = World("PATCH", also)
    world.server.put(PATH, {"spec": {}})

    async def play() -> None:
        assert (await world.writes.write(LEASE, RECORD)).result is Result.FORBIDDEN
        world.forbidden = ()
        before = len(world.methods())
        assert (await world.writes.write(LEASE, RECORD)).applied
        assert world.methods()[before:] == ["PATCH"]

    world.run(play)


def test_a_candidate_that_may_only_update_leads_renews_and_releases() -> None:
    world = World("PATCH")

    async def play() -> None:
        election = Election(
            world.server.client,
            world.writer,
            name="one",
            namespace="kube-system",
            identity="me",
            now=lambda: WALL + timedelta(seconds=asyncio.get_running_loop().time()),
            draw=lambda: 0.5,
        )
        running = asyncio.create_task(election.run())
        await election.wait_until_leading()
        taken = world.server.objects[PATH]["spec"]
        await asyncio.sleep(60.0)
        assert election.may_write()
        assert world.server.objects[PATH]["spec"]["renewTime"] > taken["renewTime"]
        assert world.server.objects[PATH]["spec"]["acquireTime"] == taken["acquireTime"]
        running.cancel()
        await asyncio.wait({running})
        assert not world.server.objects[PATH]["spec"].get("holderIdentity")

    world.run(play)
