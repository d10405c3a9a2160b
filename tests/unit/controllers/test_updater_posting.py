"""Events wait for the work, but not for ever."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import virtual_time
from model_server import ModelServer
from trellis.api.kube.meta import ObjectReference
from trellis.controllers.updater.posting import Posting
from trellis.controllers.updater.telling import EVICTED_BY_VPA
from trellis.kube.events import EventRecorder, Reporter
from trellis.kube.writer import Writer


def test_events_wait_while_changes_are_written_and_are_posted_after_ten_seconds_in_any_case() -> None:
    server = ModelServer()
    busy = True

    async def main() -> None:
        nonlocal busy
        writer = Writer(server.client, record=lambda _outcome: None)
        recorder = EventRecorder(writer, Reporter("vpa-updater"), now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
        posting = Posting(recorder, lambda: busy)
        task = asyncio.create_task(posting.run())

        def tell(name: str) -> None:
            posting.record(ObjectReference("Pod", "shop", name, f"uid-{name}", "v1"), EVICTED_BY_VPA, "")

        tell("a")
        await asyncio.sleep(9.0)
        assert len(server.objects) == 0
        await asyncio.sleep(2.0)
        assert len(server.objects) == 1
        tell("b")
        await asyncio.sleep(1.0)
        busy = False
        await asyncio.sleep(0.5)
        assert len(server.objects) == 2
        for number in range(300):
            tell(f"c{number}")
        await asyncio.sleep(0.5)
        assert len(server.objects) == 302
        task.cancel()

    virtual_time.run(main())
