"""Events wait for the work, but not for ever, and whoever cannot write them does not go on about it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from support import virtual_time
from support.api_server.server import ModelServer
from trellis.api.kube.meta import ObjectReference
from trellis.controllers.updater.events import EVICTED_BY_VPA
from trellis.kube.events import EventRecorder, EventReporter
from trellis.kube.resources import EVENTS
from trellis.kube.write.actions import CreateObject, Target
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.kube.write.writer import Writer
from trellis.runtime.telemetry.event_queue import EventFailureLog, EventQueue
from trellis.runtime.telemetry.logs import Logger


def test_events_wait_while_changes_are_written_and_are_posted_after_ten_seconds_in_any_case() -> None:
    server = ModelServer()
    busy = True

    async def main() -> None:
        nonlocal busy
        writer = Writer(server.client, record=lambda _outcome: None)
        recorder = EventRecorder(writer, EventReporter("vpa-updater"), now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
        posting = EventQueue(recorder)
        task = asyncio.create_task(posting.run(lambda: busy))

        def record(name: str) -> None:
            posting.record(ObjectReference("Pod", "shop", name, f"uid-{name}", "v1"), EVICTED_BY_VPA, "")

        record("a")
        await asyncio.sleep(9.0)
        assert len(server.objects) == 0
        await asyncio.sleep(2.0)
        assert len(server.objects) == 1
        record("b")
        await asyncio.sleep(1.0)
        busy = False
        await asyncio.sleep(0.5)
        assert len(server.objects) == 2
        for number in range(300):
            record(f"c{number}")
        await asyncio.sleep(0.5)
        assert len(server.objects) == 302
        task.cancel()

    virtual_time.run(main())


def test_events_that_cannot_be_written_are_reported_once_a_minute_with_their_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    action = CreateObject(Target(EVENTS, "web.1", "shop"), {})

    async def main() -> None:
        trouble = EventFailureLog(Logger("trellis.updater"))
        for _ in range(50):
            trouble.note(WriteOutcome(action, Result.FORBIDDEN, message="events are not for you"))
            trouble.note(WriteOutcome(action, Result.APPLIED))
        assert failed() == [1]
        await asyncio.sleep(60.0)
        trouble.note(WriteOutcome(action, Result.CONFLICT))
        assert failed() == [1]
        trouble.note(WriteOutcome(action, Result.FORBIDDEN, message="events are not for you"))
        assert failed() == [1, 50]

    def failed() -> list[int]:
        records = [record for record in caplog.records if record.message == "writing Events failed"]
        return [getattr(record, "trellis_fields", {})["failed"] for record in records]

    virtual_time.run(main())
