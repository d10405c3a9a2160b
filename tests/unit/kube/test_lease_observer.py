"""Whether somebody holds a Lease, as those see it who yield to the holder."""

from __future__ import annotations

import asyncio
from typing import Any

from support import virtual_time
from support.api_server.server import ModelServer
from trellis.kube.lease_records import LeaseObserver
from trellis.testing.scripted_transport import error_response

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/trellis-nodes"


def record(server: ModelServer, holder: str = "nodes-1", renewed: int = 0) -> None:
    moment = f"2026-01-01T00:00:{renewed:02}.000000Z"
    server.put(PATH, {"spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": moment}})


async def after(observer: LeaseObserver, seconds: float) -> bool | None:
    """What is known after so long, with a poll every second."""
    await observer.poll()
    for _ in range(int(seconds)):
        await asyncio.sleep(1.0)
        await observer.poll()
    return observer.is_held


def observed(play: Any) -> None:
    server = ModelServer()

    async def main() -> None:
        await play(server, LeaseObserver(server.client, "kube-system", "trellis-nodes"))

    virtual_time.run(main())


def test_a_lease_counts_as_held_until_its_record_has_not_changed_for_its_duration() -> None:
    async def play(server: ModelServer, observer: LeaseObserver) -> None:
        record(server)
        assert await after(observer, 10) is True
        record(server, renewed=10)
        assert await after(observer, 14) is True
        assert await after(observer, 7) is False
        record(server, renewed=40)
        assert await after(observer, 0) is True

    observed(play)


def test_a_lease_that_is_released_or_missing_is_free_once_no_candidate_has_taken_it() -> None:
    async def play(server: ModelServer, observer: LeaseObserver) -> None:
        assert await after(observer, 4) is None
        assert await after(observer, 2) is False
        record(server)
        assert await after(observer, 0) is True
        record(server, holder="")
        assert await after(observer, 4) is True
        record(server, holder="nodes-2", renewed=5)
        assert await after(observer, 8) is True

    observed(play)


def test_an_api_server_that_does_not_answer_changes_nothing_and_one_that_forbids_counts_as_held() -> None:
    async def play(server: ModelServer, observer: LeaseObserver) -> None:
        assert await after(observer, 6) is False
        server.faults.append(error_response(400, "BadRequest"))
        assert await after(observer, 0) is False
        server.faults.append(error_response(403, "Forbidden", "leases are forbidden"))
        assert await after(observer, 0) is True
        assert "forbidden" in observer.last_error

    observed(play)
