"""Each review is a span below that of the API server's request, with what became of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from support.controllers.admission import World, build_pod_review, pod
from support.otlp_collector import CollectedSpan, collecting
from trellis.controllers.admission.webhook.http_requests import HttpRequest, HttpRequestReader
from trellis.controllers.admission.webhook.server import HttpReply
from trellis.runtime.telemetry.tracing import exporting_traces

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def request(body: bytes, traceparent: str = "") -> HttpRequest:
    return HttpRequest("POST", "application/json", keep_alive=True, body=body, traceparent=traceparent.encode())


def review(*requests: HttpRequest) -> list[CollectedSpan]:
    """The spans of reviews of an admission controller that is ready."""
    with collecting() as collector:
        with exporting_traces(collector.url):
            world = World()
            world.add_app(advice={"app": {"cpu": "400m", "memory": "300Mi"}})

            async def play() -> None:
                for sent in requests:
                    pending = world.admission.handle(sent)
                    reply = pending if isinstance(pending, HttpReply) else await pending
                    assert reply.status == 200

            world.run(play)
        return collector.named("admission review")


def test_a_review_is_below_the_span_of_the_api_server_and_has_its_result() -> None:
    [span] = review(request(build_pod_review(pod()), f"00-{TRACE}-{SPAN}-01"))
    assert (span.trace, span.parent) == (TRACE, SPAN)
    operations = span.attributes.pop("trellis.operations")
    assert operations > 0
    assert span.attributes == {
        "trellis.component": "admission",
        "trellis.resource": "Pod",
        "trellis.reason": "PodSized",
        "trellis.outcome": "applied",
        "trellis.http_status": 200,
    }


def test_a_trace_that_the_api_server_does_not_sample_is_not_exported() -> None:
    assert review(request(build_pod_review(pod()), f"00-{TRACE}-{SPAN}-00")) == []


def test_a_review_without_a_parent_or_with_an_invalid_one_begins_a_trace() -> None:
    spans = review(request(build_pod_review(pod())), request(build_pod_review(pod()), "\xff-nonsense"))
    assert [span.parent for span in spans] == ["", ""]
    assert len({span.trace for span in spans}) == 2


def test_what_is_no_review_is_traced_as_an_error() -> None:
    [span] = review(request(b"{"))
    assert (span.attributes["trellis.reason"], span.attributes["trellis.outcome"]) == ("ReviewUnreadable", "error")


def test_a_review_that_waits_for_an_owner_ends_when_it_is_answered() -> None:
    stray = pod()
    stray["metadata"]["ownerReferences"][0]["name"] = "unknown"
    [span] = review(request(build_pod_review(stray)))
    assert span.attributes["trellis.http_status"] == 200
    assert "trellis.reason" in span.attributes


def test_without_an_exporter_the_handler_of_reviews_is_used_as_it_is() -> None:
    world = World()
    found: list[Callable[[HttpRequest], HttpReply | Awaitable[HttpReply]]] = []

    async def play() -> None:
        found.append(world.admission.handle)

    world.run(play)
    assert found == [world.admission.handler.handle]


def test_the_header_of_a_trace_is_read_whatever_its_case_and_number() -> None:
    reader = HttpRequestReader()
    reader.feed(b"POST / HTTP/1.1\r\nHost: x\r\nTraceparent: 00-a-b-01\r\ntraceparent: 00-c-d-01\r\n")
    reader.feed(b"Content-Length: 2\r\n\r\n{}")
    read = reader.next_request()
    assert read is not None
    assert read.traceparent == b"00-c-d-01"
