"""The reflector alone: what it asks for, when, and what it tells its sink. On a virtual clock."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import virtual_time
from support.api_server.server import ModelServer, pod, pod_path
from trellis.api.kube.decoder import DecodedList
from trellis.api.kube.pods import Pod
from trellis.base.errors import KubeError, Unreachable, UnreadableObject
from trellis.kube.client import Client
from trellis.kube.flow_control import RetryBackoff
from trellis.kube.resources import PODS
from trellis.kube.transport.responses import Response
from trellis.kube.watch.reflector import PAGE_SIZE, QUIET_SECONDS, Reflector
from trellis.kube.watch.selection import Selection
from trellis.kube.watch.watch_events import WatchEvent
from trellis.testing.scripted_transport import (
    ScriptedResponse,
    ScriptedTransport,
    StreamScript,
    bookmark_line,
    error_response,
    expired_line,
    list_response,
    status_object,
    watch_line,
)

ALL = Selection()
STEADY = RetryBackoff(jitter=0)


class Story:
    """A sink that writes down what it is told, with the time."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.waits: list[float] = []
        self.times: list[float] = []

    def begin_list(self) -> None:
        self.calls.append("list")

    def add_page(self, page: DecodedList[Pod], at: float) -> None:
        self.times.append(at)
        self.calls.append(f"page of {len(page.items)}")

    async def end_list(self, resource_version: str) -> None:
        self.calls.append(f"listed at {resource_version}")

    def on_watch_opened(self, at: float) -> None:
        self.times.append(at)
        self.calls.append("watch")

    def apply_event(self, event: WatchEvent[Pod], at: float) -> None:
        self.times.append(at)
        name = event.object.metadata.name if event.object else event.resource_version
        self.calls.append(f"{event.kind} {name}")

    def failed(self, error: KubeError | UnreadableObject, wait: float, at: float) -> None:
        self.times.append(at)
        self.calls.append(f"failed: {type(error).__name__}")
        self.waits.append(wait)


def _pod(name: str, version: int) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "shop", "resourceVersion": str(version)}}


def follow(
    *answers: ScriptedResponse, seconds: float = 100.0, selection: Selection = ALL
) -> tuple[Story, ScriptedTransport]:
    transport = ScriptedTransport(*answers)
    story = Story()

    async def main() -> None:
        reflector = Reflector(Client(transport), PODS, story, draw=lambda: 0.5, selection=selection, backoff=STEADY)
        task = asyncio.create_task(reflector.run())
        await asyncio.sleep(seconds)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    virtual_time.run(main())
    return story, transport


def queries(transport: ScriptedTransport) -> list[dict[str, str]]:
    return [dict(request.query) for request in transport.requests]


def test_a_list_then_a_watch_from_its_version() -> None:
    story, transport = follow(
        list_response([_pod("a", 5)], resource_version="7"), StreamScript([watch_line("MODIFIED", _pod("a", 8))])
    )
    assert story.calls == ["list", "page of 1", "listed at 7", "watch", "MODIFIED a"]
    listed, watched = queries(transport)
    assert listed == {"limit": str(PAGE_SIZE)}
    assert watched["resourceVersion"] == "7"
    assert watched["allowWatchBookmarks"] == "true"


def test_the_same_selection_is_listed_and_watched() -> None:
    selection = Selection(("shop",), "app=web", "spec.nodeName=node-1")
    _, transport = follow(list_response([], resource_version="7"), StreamScript(), selection=selection)
    for request in transport.requests:
        query = dict(request.query)
        assert request.path == "/api/v1/namespaces/shop/pods"
        assert (query["labelSelector"], query["fieldSelector"]) == ("app=web", "spec.nodeName=node-1")


def test_a_watch_that_ends_in_order_is_resumed_at_once_after_its_last_event() -> None:
    story, transport = follow(
        list_response([], resource_version="7"),
        StreamScript([watch_line("ADDED", _pod("a", 9))], ended=True),
        StreamScript([watch_line("ADDED", _pod("b", 10))]),
        seconds=0.1,
    )
    assert story.calls == ["list", "page of 0", "listed at 7", "watch", "ADDED a", "watch", "ADDED b"]
    assert [query.get("resourceVersion") for query in queries(transport)] == [None, "7", "9"]


def test_a_bookmark_moves_the_place_to_resume_from() -> None:
    _, transport = follow(
        list_response([], resource_version="7"), StreamScript([bookmark_line("50")], ended=True), StreamScript()
    )
    assert queries(transport)[-1]["resourceVersion"] == "50"


def test_a_connection_that_breaks_in_the_middle_of_a_line_is_resumed_and_not_listed_anew() -> None:
    broken = StreamScript([watch_line("ADDED", _pod("a", 9))])
    broken.break_off()
    story, transport = follow(
        list_response([], resource_version="7"), broken, StreamScript([watch_line("ADDED", _pod("b", 10))])
    )
    assert story.calls[3:] == ["watch", "ADDED a", "failed: Unreachable", "watch", "ADDED b"]
    assert queries(transport)[-1]["resourceVersion"] == "9"
    assert story.waits == [0.8]
    assert story.times == [0, 0, 0, 0, 0.8, 0.8]


@pytest.mark.parametrize(
    "expired",
    [error_response(410, "Expired", "too old resource version"), StreamScript([expired_line()], ended=True)],
    ids=["as the answer", "in the stream"],
)
def test_a_version_that_is_too_old_means_a_list_at_once(expired: ScriptedResponse) -> None:
    story, _ = follow(
        list_response([], resource_version="7"),
        expired,
        list_response([_pod("b", 90)], resource_version="99"),
        StreamScript(),
    )
    assert story.calls[-5:] == ["failed: Expired", "list", "page of 1", "listed at 99", "watch"]
    assert story.waits == [0.0]


def test_a_second_version_that_is_too_old_waits() -> None:
    old = error_response(410, "Expired")
    story, _ = follow(
        list_response([], resource_version="7"),
        old,
        list_response([], resource_version="8"),
        old,
        list_response([]),
        StreamScript(),
    )
    assert story.waits == [0.0, 1.6]


def test_a_version_that_became_too_old_in_an_outage_means_a_list_at_once() -> None:
    fault = error_response(503, "ServiceUnavailable")
    story, _ = follow(
        list_response([], resource_version="7"),
        fault,
        fault,
        error_response(410, "Expired"),
        list_response([], resource_version="8"),
        StreamScript(),
    )
    assert story.calls[-4:] == ["list", "page of 0", "listed at 8", "watch"]
    assert story.waits[-1] == 0.0


def test_a_list_whose_pages_expire_begins_anew_in_one_piece() -> None:
    story, transport = follow(
        list_response([_pod("a", 5)], resource_version="7", continue_from="more"),
        error_response(410, "Expired", "the provided continue parameter is too old"),
        list_response([_pod("a", 5), _pod("b", 6)], resource_version="8"),
        StreamScript(),
    )
    assert story.calls[:6] == ["list", "page of 1", "failed: Expired", "list", "page of 2", "listed at 8"]
    assert [query.get("limit") for query in queries(transport)][:3] == [str(PAGE_SIZE), str(PAGE_SIZE), None]


@pytest.mark.parametrize("where", ["list", "watch"])
def test_retry_after_is_obeyed(where: str) -> None:
    busy = error_response(429, "TooManyRequests", retry_after=17)
    answers: list[ScriptedResponse] = [list_response([], resource_version="7"), StreamScript()]
    answers.insert(0 if where == "list" else 1, busy)
    story, transport = follow(*answers, seconds=16.9)
    assert story.calls[-1] == "failed: Throttled"
    assert story.waits == [17.0]
    before = len(transport.requests)
    story, transport = follow(*answers, seconds=17.1)
    assert story.calls[-1] == "watch"
    assert len(transport.requests) > before


def test_faults_are_waited_out_longer_and_longer_and_then_a_list_is_tried() -> None:
    fault = error_response(500, "InternalError", "etcdserver: leader changed")
    story, transport = follow(
        list_response([], resource_version="7"),
        fault,
        fault,
        fault,
        list_response([], resource_version="9"),
        StreamScript(),
    )
    assert story.waits == [0.8, 1.6, 3.2]
    assert story.calls[-4:] == ["list", "page of 0", "listed at 9", "watch"]
    assert [query.get("resourceVersion") for query in queries(transport)] == [None, "7", "7", "7", None, "9"]


def test_an_error_inside_the_stream_that_is_no_410_is_resumed() -> None:
    odd = StreamScript([watch_line("ERROR", status_object(500, "InternalError"))])
    story, transport = follow(
        list_response([], resource_version="7"), odd, StreamScript([watch_line("ADDED", _pod("a", 8))])
    )
    assert story.calls[-3:] == ["failed: ServerFault", "watch", "ADDED a"]
    assert queries(transport)[-1]["resourceVersion"] == "7"


def test_a_success_ends_the_growth_of_waits() -> None:
    broken = StreamScript([watch_line("ADDED", _pod("a", 9))])
    broken.break_off()
    lost = Unreachable("no route to host")
    story, _ = follow(lost, lost, list_response([], resource_version="7"), broken, lost, StreamScript())
    assert story.waits == [0.8, 1.6, 0.8, 1.6]


def test_watches_that_end_at_once_without_a_word_do_not_become_a_storm() -> None:
    empty = [StreamScript(ended=True) for _ in range(20)]
    _, transport = follow(
        list_response([], resource_version="7"), *empty, list_response([], resource_version="7"), seconds=10.0
    )
    assert len(transport.requests) < 8


def test_silence_for_too_long_is_a_connection_that_died() -> None:
    quiet = StreamScript([bookmark_line("8")])
    story, transport = follow(list_response([], resource_version="7"), quiet, StreamScript(), seconds=QUIET_SECONDS + 5)
    assert story.calls[-2:] == ["failed: Unreachable", "watch"]
    assert queries(transport)[-1]["resourceVersion"] == "8"


def test_silence_of_a_kind_without_bookmarks_is_no_failure() -> None:
    quiet = StreamScript([watch_line("ADDED", _pod("a", 8))])
    story, transport = follow(list_response([], resource_version="7"), quiet, StreamScript(), seconds=QUIET_SECONDS + 5)
    assert story.calls[-3:] == ["watch", "ADDED a", "watch"]
    assert queries(transport)[-1]["resourceVersion"] == "8"


def test_a_bookmark_a_minute_keeps_a_watch_alive() -> None:
    async def main() -> int:
        server = ModelServer()
        server.put(pod_path("a"), pod())
        story = Story()
        task = asyncio.create_task(Reflector(server.client, PODS, story, draw=lambda: 0.0).run())
        for _ in range(30):
            await asyncio.sleep(60)
            server.bookmark()
        task.cancel()
        return story.calls.count("watch")

    assert virtual_time.run(main()) == 1


def test_a_list_that_cannot_be_read_at_all_is_tried_again() -> None:
    html = Response(200, {}, b"<html>sign in</html>")
    story, _ = follow(html, list_response([], resource_version="7"), StreamScript())
    assert story.calls == ["list", "failed: UnreadableObject", "list", "page of 0", "listed at 7", "watch"]


@given(failures=st.integers(1, 10_000), draw=st.floats(0, 1, exclude_max=True), after=st.none() | st.floats(0, 1e6))
def test_a_wait_is_bounded_and_never_shorter_than_the_server_asks(
    failures: int, draw: float, after: float | None
) -> None:
    wait = RetryBackoff().wait(failures, lambda: draw, after)
    assert wait >= (after or 0)
    assert 0.8 <= wait <= max(60.0, after or 0)


def test_two_clients_that_failed_together_do_not_come_back_together() -> None:
    draws = iter((0.0, 0.25, 0.99))
    assert len({RetryBackoff().wait(3, draws.__next__) for _ in range(3)}) == 3
