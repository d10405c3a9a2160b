"""Events: what people get to see of them, and how little is posted for it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from support import virtual_time
from support.api_server.server import Document, ModelServer
from trellis.api.kube.meta import ObjectReference, PodMeta
from trellis.api.kube.pods import Pod
from trellis.base.errors import Unreachable
from trellis.base.names import check_dns_subdomain
from trellis.base.reasons import Reason, Severity
from trellis.kube.events import (
    TRACKED_SERIES,
    EventCorrelator,
    EventRecorder,
    EventReporter,
    Occurrence,
    build_reference,
)
from trellis.kube.lru_map import LruMap
from trellis.kube.resources import NODES, PODS
from trellis.kube.write.writer import Writer, WriterSettings
from trellis.testing.scripted_transport import error_response

RESIZED = Reason("TestResized", "The pod was resized.")
REFUSED = Reason("TestRefused", "The pod could not be resized.", Severity.WARNING)
WEB = ObjectReference("Pod", "shop", "web-0", "uid-1", "v1")
WALL = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)


def wall() -> datetime:
    return WALL + timedelta(seconds=asyncio.get_running_loop().time())


def on(
    server: ModelServer, work: Callable[[EventRecorder], Awaitable[None]], settings: WriterSettings | None = None
) -> EventRecorder:
    async def main() -> EventRecorder:
        writer = Writer(server.client, record=lambda _: None, settings=settings or WriterSettings())
        recorder = EventRecorder(writer, EventReporter("trellis-updater", "replica-1"), now=wall)
        task = asyncio.create_task(recorder.run())
        await work(recorder)
        await asyncio.sleep(60)
        assert not task.done()
        task.cancel()
        return recorder

    return virtual_time.run(main())


def events(server: ModelServer) -> list[Document]:
    return list(server.objects.values())


def test_an_event_names_its_object_reason_and_reporter() -> None:
    server = ModelServer()

    async def work(recorder: EventRecorder) -> None:
        recorder.record(WEB, RESIZED, "cpu of app from 100m to 250m")

    on(server, work)
    [event] = events(server)
    assert event["involvedObject"] == {
        "kind": "Pod",
        "namespace": "shop",
        "name": "web-0",
        "uid": "uid-1",
        "apiVersion": "v1",
    }
    assert (event["type"], event["reason"], event["message"]) == (
        "Normal",
        "TestResized",
        "cpu of app from 100m to 250m",
    )
    assert (event["count"], event["firstTimestamp"], event["lastTimestamp"]) == (1, *["2026-11-15T12:00:00Z"] * 2)
    assert event["source"] == {"component": "trellis-updater", "host": "replica-1"}
    assert (event["reportingComponent"], event["reportingInstance"]) == ("trellis-updater", "replica-1")
    assert re.fullmatch(r"web-0\.[0-9a-f]{16}", event["metadata"]["name"])
    assert server.requests[0].path == "/api/v1/namespaces/shop/events"


def test_without_a_message_the_reason_speaks_and_a_warning_is_one() -> None:
    server = ModelServer()

    async def work(recorder: EventRecorder) -> None:
        recorder.record(WEB, REFUSED)

    on(server, work)
    [event] = events(server)
    assert (event["type"], event["message"]) == ("Warning", "The pod could not be resized.")


def test_a_repeated_occurrence_increases_the_count_of_its_event() -> None:
    server = ModelServer()

    async def work(recorder: EventRecorder) -> None:
        for _ in range(3):
            recorder.record(WEB, REFUSED, "no room on node-1")
            await asyncio.sleep(60)

    on(server, work)
    [event] = events(server)
    assert (event["count"], event["firstTimestamp"], event["lastTimestamp"]) == (
        3,
        "2026-11-15T12:00:00Z",
        "2026-11-15T12:02:00Z",
    )
    assert [request.method for request in server.requests] == ["POST", "PATCH", "PATCH"]


def test_occurrences_before_the_first_post_are_one_request() -> None:
    server = ModelServer()

    async def work(recorder: EventRecorder) -> None:
        for _ in range(20):
            recorder.record(WEB, REFUSED)

    on(server, work)
    assert [event["count"] for event in events(server)] == [20]
    assert len(server.requests) == 1


def test_different_objects_reasons_and_messages_are_different_events() -> None:
    server = ModelServer()

    async def work(recorder: EventRecorder) -> None:
        recorder.record(WEB, REFUSED, "no room")
        recorder.record(WEB, REFUSED, "still no room")
        recorder.record(WEB, RESIZED, "no room")
        recorder.record(ObjectReference("Pod", "shop", "web-0", "uid-2", "v1"), REFUSED, "no room")

    on(server, work)
    assert [event["count"] for event in events(server)] == [1, 1, 1, 1]


def test_versions_of_an_object_share_an_event() -> None:
    server = ModelServer()

    async def work(recorder: EventRecorder) -> None:
        for version in ("7", "8"):
            recorder.record(ObjectReference("Pod", "shop", "web-0", "uid-1", "v1", version), REFUSED)

    on(server, work)
    assert [event["count"] for event in events(server)] == [2]


def test_after_ten_quiet_minutes_it_is_a_new_event() -> None:
    server = ModelServer()

    async def work(recorder: EventRecorder) -> None:
        recorder.record(WEB, REFUSED)
        await asyncio.sleep(601)
        recorder.record(WEB, REFUSED)

    on(server, work)
    assert [event["count"] for event in events(server)] == [1, 1]


def test_the_tenth_and_later_messages_of_a_reason_share_one_event() -> None:
    server = ModelServer()

    async def work(recorder: EventRecorder) -> None:
        for i in range(14):
            recorder.record(WEB, RESIZED, f"cpu is now {i}m")

    on(server, work)
    *own, shared = events(server)
    assert [event["message"] for event in own] == [f"cpu is now {i}m" for i in range(9)]
    assert (shared["message"], shared["count"]) == ("(combined from similar events): cpu is now 13m", 5)


def test_after_ten_minutes_without_occurrences_messages_have_separate_events() -> None:
    server = ModelServer()

    async def work(recorder: EventRecorder) -> None:
        for i in range(12):
            recorder.record(WEB, RESIZED, f"cpu is now {i}m")
        await asyncio.sleep(601)
        recorder.record(WEB, RESIZED, "cpu is now 1")

    on(server, work)
    assert events(server)[-1]["message"] == "cpu is now 1"


def test_events_are_rate_limited_per_object() -> None:
    server = ModelServer()

    async def work(recorder: EventRecorder) -> None:
        for _ in range(100):
            recorder.record(WEB, REFUSED)
        recorder.record(ObjectReference("Pod", "shop", "web-1", "uid-9", "v1"), REFUSED)
        assert recorder.dropped == 75

    on(server, work)
    assert [event["count"] for event in events(server)] == [25, 1]


def test_an_event_that_has_expired_is_created_again() -> None:
    server = ModelServer()

    async def work(recorder: EventRecorder) -> None:
        recorder.record(WEB, REFUSED)
        await asyncio.sleep(60)
        server.delete(next(iter(server.objects)))
        recorder.record(WEB, REFUSED)

    recorder = on(server, work)
    assert [event["count"] for event in events(server)] == [2]
    assert recorder.lost == 0


def test_an_event_is_retried_until_the_server_is_available_and_not_posted_twice() -> None:
    server = ModelServer()
    server.faults.extend([Unreachable("no route"), error_response(500, "InternalError")])

    async def work(recorder: EventRecorder) -> None:
        recorder.record(WEB, REFUSED)

    recorder = on(server, work)
    assert [event["count"] for event in events(server)] == [1]
    assert recorder.lost == 0


def test_an_event_with_a_lost_response_is_patched_and_not_created_again() -> None:
    server = ModelServer()
    server.responses_to_drop = 1

    async def work(recorder: EventRecorder) -> None:
        recorder.record(WEB, REFUSED)
        await asyncio.sleep(60)
        recorder.record(WEB, REFUSED)

    recorder = on(server, work)
    assert [event["count"] for event in events(server)] == [2]
    assert recorder.lost == 0


def test_an_event_the_server_refuses_is_dropped_and_counted() -> None:
    server = ModelServer()
    server.faults.extend([error_response(403, "Forbidden", "the namespace is being terminated")])

    async def work(recorder: EventRecorder) -> None:
        recorder.record(WEB, REFUSED)

    assert on(server, work).lost == 1
    assert len(server.requests) == 1


def test_the_backlog_is_bounded_and_dropped_events_are_counted() -> None:
    server = ModelServer()

    async def work(recorder: EventRecorder) -> None:
        for i in range(1_500):
            recorder.record(ObjectReference("Pod", "shop", f"web-{i}", f"uid-{i}", "v1"), REFUSED)
        assert recorder.lost == 500

    on(server, work)
    assert len(events(server)) == 1_000


def test_read_only_posts_nothing() -> None:
    server = ModelServer()

    async def work(recorder: EventRecorder) -> None:
        recorder.record(WEB, REFUSED)
        recorder.record(WEB, REFUSED, "again")

    recorder = on(server, work, WriterSettings(read_only=True))
    assert server.requests == []
    assert recorder.lost == 0


def test_events_about_cluster_scoped_objects_are_in_default() -> None:
    server = ModelServer()
    node = build_reference(NODES, Pod(PodMeta(name="node-1", uid="n-1", resource_version="5")))

    async def work(recorder: EventRecorder) -> None:
        recorder.record(node, REFUSED)

    on(server, work)
    [event] = events(server)
    assert event["metadata"]["namespace"] == "default"
    assert event["involvedObject"] == {"kind": "Node", "name": "node-1", "uid": "n-1", "apiVersion": "v1"}


@given(
    name=st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", fullmatch=True).filter(
        lambda n: not check_dns_subdomain(n)
    )
)
def test_the_name_of_an_event_is_one_whatever_the_object_is_called(name: str) -> None:
    server = ModelServer()
    reference = build_reference(PODS, Pod(PodMeta(name=name, namespace="shop")))

    async def work(recorder: EventRecorder) -> None:
        recorder.record(reference, REFUSED)
        recorder.record(reference, REFUSED, "another")

    on(server, work)
    names = {event["metadata"]["name"] for event in events(server)}
    assert len(names) == 2
    assert [check_dns_subdomain(event_name) for event_name in names] == [None, None]


def test_a_cluster_that_never_stops_talking_costs_a_bounded_amount_of_memory() -> None:
    correlator = EventCorrelator(capacity=100)
    for i in range(10_000):
        reference = ObjectReference("Pod", "shop", f"web-{i}", f"uid-{i}", "v1")
        correlator.correlate(Occurrence(reference, REFUSED, "x" * 5_000), float(i))
    assert len(correlator._buckets) == len(correlator._recent_messages) == 100
    assert TRACKED_SERIES == 4096


def test_an_lru_map_evicts_the_least_recently_used_key() -> None:
    recent: LruMap[str, list[int]] = LruMap(2)
    for key in ("a", "b", "a", "c"):
        recent.get(key, list).append(1)
    assert recent.get("a", list) == [1, 1]
    assert recent.get("b", list) == []


def test_a_long_message_is_truncated() -> None:
    server = ModelServer()

    async def work(recorder: EventRecorder) -> None:
        recorder.record(WEB, REFUSED, "x" * 5_000)

    on(server, work)
    assert len(events(server)[0]["message"]) == 1024
