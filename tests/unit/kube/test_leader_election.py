"""Leader election on virtual time: one leader, a successor within the lease, and no write of a leader that was."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import virtual_time
from support.api_server.connections import Connection
from support.api_server.server import Document, ModelServer
from trellis.base.errors import InvalidInput
from trellis.kube.client import Client
from trellis.kube.leader_election import Election, LeaseTimes
from trellis.kube.resources import PODS
from trellis.kube.write.actions import PatchObject, Target
from trellis.kube.write.outcomes import NOT_LEADING, Result, WriteOutcome
from trellis.kube.write.patches import merge_patch
from trellis.kube.write.writer import Writer, WriterSettings
from trellis.testing.scripted_transport import error_response

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/trellis-updater"
WALL = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)


# Those of a process of several components.
SHORT = LeaseTimes(duration=12.0)


def wall() -> datetime:
    return WALL + timedelta(seconds=asyncio.get_running_loop().time())


class Candidate:
    def __init__(self, server: ModelServer, identity: str, now: Any = wall, times: LeaseTimes | None = None) -> None:
        self.line = Connection(server)
        client = Client(self.line)
        self.changes: list[bool] = []
        self.election = Election(
            client,
            Writer(client, record=lambda _: None),
            name="trellis-updater",
            namespace="kube-system",
            identity=identity,
            now=now,
            draw=lambda: 0.5,
            times=times or LeaseTimes(),
        )
        self.writer = Writer(client, record=lambda _: None, may_write=self.election.may_write)
        self.task: asyncio.Task[None] | None = None
        self.thawed = asyncio.Event()
        self.thawed.set()

    def start(self) -> Candidate:
        self.task = asyncio.create_task(self._until_frozen(self.election.run(self.changes.append)))
        return self

    @types.coroutine
    def _until_frozen(self, work: Coroutine[Any, Any, None]) -> Generator[Any, Any, None]:
        """Run the election, but let nothing of it go on while frozen, as `kill -STOP` would."""
        cancelled: asyncio.CancelledError | None = None
        while True:
            try:
                waits_for = work.throw(cancelled) if cancelled else work.send(None)
            except StopIteration:
                return
            cancelled = None
            try:
                yield waits_for
            except asyncio.CancelledError as error:
                cancelled = error
            else:
                yield from self.thawed.wait().__await__()

    def freeze(self) -> None:
        self.thawed.clear()

    def thaw(self) -> None:
        self.thawed.set()

    async def stop(self) -> None:
        assert self.task
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def write(self) -> WriteOutcome:
        return await self.writer.write(PatchObject(Target(PODS, "web-0", "shop"), merge_patch({})))


def spec(server: ModelServer) -> Document:
    lease_spec: Document = server.objects[PATH]["spec"]
    return lease_spec


async def leading_and_standing(first: Candidate, second: Candidate) -> tuple[Candidate, Candidate]:
    """Both of them stand for election, and the first leads."""
    await first.start().election.wait_until_leading()
    return first, second.start()


def run(work: Coroutine[Any, Any, None], start: float = 0.0) -> None:
    virtual_time.run(work, start=start)


def test_the_first_candidate_creates_the_lease_with_the_fields_of_client_go() -> None:
    async def main() -> None:
        server = ModelServer()
        first = Candidate(server, "a").start()
        await first.election.wait_until_leading()
        assert spec(server) == {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-11-15T12:00:00.000000Z",
            "renewTime": "2026-11-15T12:00:00.000000Z",
            "leaseTransitions": 0,
        }
        await asyncio.sleep(4.5)
        assert spec(server)["acquireTime"] == "2026-11-15T12:00:00.000000Z"
        assert spec(server)["renewTime"] == "2026-11-15T12:00:04.000000Z"
        assert spec(server)["leaseTransitions"] == 0

    run(main())


def test_a_leader_renews_with_one_request_every_two_retry_periods() -> None:
    async def main() -> None:
        server = ModelServer()
        Candidate(server, "a").start()
        await asyncio.sleep(20.5)
        assert [request.method for request in server.requests] == ["GET", "POST"] + ["PATCH"] * 5

    run(main())


@pytest.mark.parametrize(("deadline", "period"), [(10.0, 4.0), (9.0, 3.0), (8.0, 2.0), (3.0, 2.0)])
def test_a_leader_that_fails_to_renew_has_three_more_attempts_if_the_deadline_allows(
    deadline: float, period: float
) -> None:
    assert LeaseTimes(15.0, deadline, 2.0).renew_period == period


def test_the_second_candidate_waits_as_long_as_the_first_renews() -> None:
    async def main() -> None:
        server = ModelServer()
        first, second = await leading_and_standing(Candidate(server, "a"), Candidate(server, "b"))
        await asyncio.sleep(3600)
        assert (first.election.may_write(), second.election.may_write()) == (True, False)
        assert second.election.holder == "a"
        assert (first.changes, second.changes) == ([True], [])

    run(main())


def test_after_the_leader_dies_another_leads_within_the_lease_and_old_writes_fail() -> None:
    async def main() -> None:
        server = ModelServer()
        server.put("/api/v1/namespaces/shop/pods/web-0", {})
        first, second = await leading_and_standing(Candidate(server, "a"), Candidate(server, "b"))
        await asyncio.sleep(60.5)
        assert (await first.write()).applied
        died = asyncio.get_running_loop().time()
        first.freeze()
        await second.election.wait_until_leading()
        assert asyncio.get_running_loop().time() - died <= 15 + 2 * 2.2
        assert spec(server)["holderIdentity"] == "b"
        assert spec(server)["leaseTransitions"] == 1
        # It does not know yet that it was deposed, and an action of its was still waiting in line.
        assert first.election.is_leading
        before = len(server.requests)
        late = await first.write()
        assert (late.result, late.reason) == (Result.SKIPPED, NOT_LEADING)
        assert len(server.requests) == before
        assert (await second.write()).applied
        first.thaw()
        await asyncio.sleep(5)
        assert (first.changes, second.changes) == ([True, False], [True])

    run(main())


@pytest.mark.parametrize("times", [LeaseTimes(), SHORT], ids=["15s", "12s"])
def test_a_leader_that_cannot_renew_stops_writing_before_another_may_acquire_the_lease(times: LeaseTimes) -> None:
    async def main() -> None:
        server = ModelServer()
        first, second = await leading_and_standing(
            Candidate(server, "a", times=times), Candidate(server, "b", times=times)
        )
        await asyncio.sleep(60)
        first.line.cut = True
        stopped = started = 0.0
        while not started:
            await asyncio.sleep(0.1)
            now = asyncio.get_running_loop().time()
            assert not (first.election.may_write() and second.election.may_write())
            stopped = stopped or (now if not first.election.may_write() else 0.0)
            started = now if second.election.may_write() else 0.0
        assert started - stopped >= 4.9
        assert first.changes == [True, False]
        first.line.cut = False
        await asyncio.sleep(60)
        assert (first.election.is_leading, second.election.is_leading) == (False, True)

    run(main())


def test_a_leader_with_a_short_lease_that_renews_late_stops_writing_and_leads_on() -> None:
    async def main() -> None:
        server = ModelServer()
        first = Candidate(server, "a", times=SHORT).start()
        await asyncio.sleep(60.5)
        first.line.cut = True
        await asyncio.sleep(6.0)
        assert first.election.may_write()
        await asyncio.sleep(1.0)
        assert (first.election.is_leading, first.election.may_write()) == (True, False)
        first.line.cut = False
        await asyncio.sleep(2.0)
        assert first.election.may_write()
        assert first.changes == [True]

    run(main())


def test_candidates_of_a_process_renew_at_the_same_moments() -> None:
    async def main() -> None:
        servers = [ModelServer(), ModelServer()]
        for server, start in zip(servers, (0.3, 1.4), strict=True):
            await asyncio.sleep(start)
            Candidate(server, "a").start()
        await asyncio.sleep(20.0)
        assert [spec(server)["renewTime"] for server in servers] == ["2026-11-15T12:00:20.000000Z"] * 2

    run(main())


def test_may_write_counts_from_the_time_the_renewal_was_sent() -> None:
    async def main() -> None:
        first = Candidate(ModelServer(), "a")
        first.line.seconds = 4
        first.start()
        await first.election.wait_until_leading()
        # Asked at 0, answered at 4; written then, answered at 8.
        assert asyncio.get_running_loop().time() == 8
        first.line.cut = True
        await asyncio.sleep(5.9)
        assert first.election.may_write()
        await asyncio.sleep(0.2)
        assert not first.election.may_write()

    run(main())


@pytest.mark.parametrize("refuses_watches", [False, True], ids=["watched", "polled"])
def test_a_lease_released_on_shutdown_is_taken_at_once(refuses_watches: bool) -> None:
    async def main() -> None:
        server = ModelServer()
        second = Candidate(server, "b")
        second.line.refuses_watches = refuses_watches
        first, second = await leading_and_standing(Candidate(server, "a"), second)
        await asyncio.sleep(30)
        await first.stop()
        assert not first.election.may_write()
        assert "holderIdentity" not in spec(server)
        assert spec(server)["leaseDurationSeconds"] == 1
        stopped = asyncio.get_running_loop().time()
        await second.election.wait_until_leading()
        # Roles that grant no watch leave it at retries.
        assert asyncio.get_running_loop().time() - stopped <= (2 * 2.2 if refuses_watches else 0.1)
        assert spec(server)["leaseTransitions"] == 1

    run(main())


def test_a_lease_whose_leader_was_killed_is_taken_as_soon_as_it_expires() -> None:
    async def main() -> None:
        server = ModelServer()
        first, second = await leading_and_standing(Candidate(server, "a"), Candidate(server, "b"))
        await asyncio.sleep(60.5)
        renewed = 60.0
        first.freeze()
        await second.election.wait_until_leading()
        assert 15 <= asyncio.get_running_loop().time() - renewed <= 15.1
        first.thaw()

    run(main())


def test_a_deleted_lease_is_taken_by_a_waiting_candidate_at_once() -> None:
    async def main() -> None:
        server = ModelServer()
        first, second = await leading_and_standing(Candidate(server, "a"), Candidate(server, "b"))
        await asyncio.sleep(30.5)
        first.freeze()
        server.delete(PATH)
        await second.election.wait_until_leading()
        assert asyncio.get_running_loop().time() <= 30.6
        first.thaw()

    run(main())


def test_a_candidate_that_does_not_lead_releases_nothing() -> None:
    async def main() -> None:
        server = ModelServer()
        _first, second = await leading_and_standing(Candidate(server, "a"), Candidate(server, "b"))
        await asyncio.sleep(30)
        await second.stop()
        assert spec(server)["holderIdentity"] == "a"

    run(main())


@pytest.mark.parametrize("skew", [timedelta(days=-400), timedelta(days=400)], ids=["behind", "ahead"])
def test_clocks_that_disagree_or_jump_change_nothing(skew: timedelta) -> None:
    def jumping() -> datetime:
        return wall() + (skew if asyncio.get_running_loop().time() % 7 > 3 else timedelta(0))

    async def main() -> None:
        server = ModelServer()
        first, second = await leading_and_standing(
            Candidate(server, "a", jumping), Candidate(server, "b", lambda: wall() + skew)
        )
        for _ in range(1000):
            await asyncio.sleep(0.7)
            assert first.election.may_write()
            assert not second.election.may_write()

    run(main())


def test_a_lease_is_observed_for_its_full_duration_before_it_is_taken() -> None:
    async def main() -> None:
        server = ModelServer()
        old = {"holderIdentity": "gone", "leaseDurationSeconds": 40, "renewTime": "2020-01-01T00:00:00.000000Z"}
        server.put(PATH, {"spec": old | {"leaseTransitions": 8}})
        second = Candidate(server, "b").start()
        await second.election.wait_until_leading()
        assert 40 <= asyncio.get_running_loop().time() < 41
        assert spec(server)["leaseTransitions"] == 9
        assert spec(server)["leaseDurationSeconds"] == 15

    run(main())


def test_a_label_on_the_lease_does_not_prolong_it() -> None:
    async def main() -> None:
        server = ModelServer()
        lease: Document = {"spec": {"holderIdentity": "gone", "leaseDurationSeconds": 15}}
        server.put(PATH, lease)
        second = Candidate(server, "b").start()
        for i in range(4):
            await asyncio.sleep(3)
            server.put(PATH, lease | {"metadata": {"labels": {"n": str(i)}}})
        await second.election.wait_until_leading()
        assert asyncio.get_running_loop().time() < 20

    run(main())


def test_a_lease_of_another_process_with_the_same_identity_is_not_taken() -> None:
    async def main() -> None:
        server = ModelServer()
        first, second = await leading_and_standing(Candidate(server, "same"), Candidate(server, "same"))
        await asyncio.sleep(600)
        assert (first.election.may_write(), second.election.may_write()) == (True, False)

    run(main())


def test_an_acquisition_with_a_lost_response_is_recognised() -> None:
    async def main() -> None:
        server = ModelServer()
        server.responses_to_drop = 1
        first = Candidate(server, "a").start()
        await asyncio.sleep(0.1)
        assert spec(server)["holderIdentity"] == "a"
        assert not first.election.may_write()
        await first.election.wait_until_leading()
        assert asyncio.get_running_loop().time() < 5
        assert spec(server)["leaseTransitions"] == 0

    run(main())


def test_a_leader_survives_an_outage_shorter_than_the_renew_deadline() -> None:
    async def main() -> None:
        server = ModelServer()
        first = Candidate(server, "a").start()
        await first.election.wait_until_leading()
        server.faults.extend([error_response(500, "InternalError")] * 4)
        await asyncio.sleep(60)
        assert first.changes == [True]
        assert first.election.may_write()

    run(main())


def test_a_deleted_lease_is_created_again() -> None:
    async def main() -> None:
        server = ModelServer()
        first = Candidate(server, "a").start()
        await first.election.wait_until_leading()
        server.delete(PATH)
        await asyncio.sleep(5)
        assert spec(server)["holderIdentity"] == "a"
        assert first.changes == [True]

    run(main())


def test_a_lease_overwritten_by_another_holder_is_given_up_at_once() -> None:
    async def main() -> None:
        server = ModelServer()
        first = Candidate(server, "a").start()
        await first.election.wait_until_leading()
        server.put(PATH, {"spec": {"holderIdentity": "kubectl", "leaseDurationSeconds": 15}})
        await asyncio.sleep(4.1)
        assert not first.election.may_write()
        assert first.changes == [True, False]

    run(main())


def test_a_read_only_candidate_never_leads_and_writes_nothing() -> None:
    async def main() -> None:
        server = ModelServer()
        writer = Writer(server.client, record=lambda _: None, settings=WriterSettings(read_only=True))
        election = Election(
            server.client, writer, name="x", namespace="kube-system", identity="a", now=wall, draw=lambda: 0.5
        )
        task = asyncio.create_task(election.run())
        await asyncio.sleep(60)
        assert not election.is_leading
        assert server.objects == {}
        assert "read-only" in election.last_error
        task.cancel()

    run(main())


def test_a_release_without_a_response_does_not_delay_shutdown() -> None:
    async def main() -> None:
        server = ModelServer()
        first = Candidate(server, "a").start()
        await first.election.wait_until_leading()
        first.line.cut = True
        before = asyncio.get_running_loop().time()
        await first.stop()
        assert asyncio.get_running_loop().time() - before <= 1.0

    run(main())


@pytest.mark.parametrize("times", [(10, 10, 2), (15, 2, 2), (15, 10, 0)])
def test_times_that_cannot_work_are_refused(times: tuple[float, float, float]) -> None:
    with pytest.raises(InvalidInput, match="outlast"):
        LeaseTimes(*times)


@settings(max_examples=25, deadline=None)
@given(
    times=st.sampled_from([LeaseTimes(), SHORT]),
    cuts=st.lists(st.tuples(st.integers(0, 2), st.floats(0.1, 40), st.booleans()), max_size=25),
)
def test_at_no_moment_may_two_write(times: LeaseTimes, cuts: list[tuple[int, float, bool]]) -> None:
    async def main() -> None:
        server = ModelServer()
        candidates = [Candidate(server, name, times=times).start() for name in "abc"]

        async def watch() -> None:
            while True:
                assert sum(candidate.election.may_write() for candidate in candidates) <= 1
                await asyncio.sleep(0.25)

        watching = asyncio.create_task(watch())
        for which, seconds, cut in cuts:
            candidates[which].line.cut = cut
            await asyncio.sleep(seconds)
        for candidate in candidates:
            candidate.line.cut = False
        await asyncio.sleep(60)
        assert not watching.done()
        assert sum(candidate.election.may_write() for candidate in candidates) == 1

    run(main())
