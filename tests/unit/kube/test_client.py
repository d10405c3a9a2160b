"""The client's verbs, against an API server made of answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from support.api_server.writes import delete, evict, patch
from trellis.api.kube.decoder import DecodedList
from trellis.api.kube.pods import Pod
from trellis.base.errors import Conflict, Expired, Forbidden, InternalError, NotFound, Throttled, Unreachable
from trellis.kube.client import Client
from trellis.kube.resources import DEPLOYMENTS, PODS, VPAS
from trellis.kube.transport.requests import Preconditions
from trellis.kube.watch.watch_events import EventKind, WatchEvent
from trellis.kube.write.patches import json_patch, merge_patch, strategic_patch
from trellis.testing.scripted_transport import (
    ScriptedResponse,
    ScriptedTransport,
    StreamScript,
    bookmark_line,
    error_response,
    expired_line,
    json_response,
    list_response,
    watch_line,
)


def _pod(name: str, **spec: object) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "shop", "resourceVersion": "5"}, "spec": spec}


def _do(transport: ScriptedTransport, work: Callable[[Client], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        return await work(Client(transport))

    return asyncio.run(main())


def _list(*answers: ScriptedResponse, **options: Any) -> tuple[DecodedList[Pod], ScriptedTransport]:
    transport = ScriptedTransport(*answers)
    return _do(transport, lambda client: client.list_all(PODS, **options)), transport


def _queries(transport: ScriptedTransport) -> list[dict[str, str]]:
    return [dict(request.query) for request in transport.requests]


def test_a_list_is_all_its_pages_in_order_with_the_version_to_watch_from() -> None:
    listed, transport = _list(
        list_response([_pod("a"), _pod("b")], resource_version="40", continue_from="next"),
        list_response([_pod("c")], resource_version="40"),
        limit=2,
    )
    assert [pod.metadata.name for pod in listed.items] == ["a", "b", "c"]
    assert listed.resource_version == "40"
    assert _queries(transport) == [{"limit": "2"}, {"limit": "2", "continue": "next"}]


def test_an_object_set_aside_on_a_later_page_counts_from_the_first() -> None:
    broken = _pod("c") | {"spec": 3}
    listed, _ = _list(list_response([_pod("a"), _pod("b")], continue_from="next"), list_response([_pod("d"), broken]))
    assert [(rejected.index, rejected.name) for rejected in listed.rejected] == [(3, "c")]


def test_a_list_with_an_expired_token_restarts_in_one_piece() -> None:
    listed, transport = _list(
        list_response([_pod("stale")], resource_version="40", continue_from="old"),
        error_response(410, "Expired", "the continue token is too old"),
        list_response([_pod("a"), _pod("b")], resource_version="90"),
    )
    assert [pod.metadata.name for pod in listed.items] == ["a", "b"]
    assert listed.resource_version == "90"
    assert _queries(transport)[-1] == {}


def test_a_list_of_an_expired_version_is_not_retried_forever() -> None:
    with pytest.raises(Expired):
        _list(*[error_response(410, "Expired") for _ in range(2)], resource_version="1", resource_version_match="Exact")


def test_pages_are_yielded_one_by_one_to_callers_that_need_no_full_list() -> None:
    transport = ScriptedTransport(list_response([_pod("a")], continue_from="next"), list_response([_pod("b")]))

    async def sizes(client: Client) -> list[int]:
        return [len(list_page.items) async for list_page in client.list_pages(PODS, "shop", limit=1)]

    assert _do(transport, sizes) == [1, 1]


def _watched(transport: ScriptedTransport, **options: Any) -> list[WatchEvent[Pod]]:
    events: list[WatchEvent[Pod]] = []

    async def watch(client: Client) -> None:
        async with client.watch(PODS, **options) as stream:
            async for event in stream:
                events.append(event)  # noqa: PERF401 - what came before an error is kept

    try:
        _do(transport, watch)
    except Unreachable:
        events.append(WatchEvent(EventKind.ERROR, "broken"))
    return events


def test_a_watch_is_its_events_until_the_server_ends_it() -> None:
    script = StreamScript(
        [watch_line("ADDED", _pod("a")), bookmark_line("9"), watch_line("DELETED", _pod("a"))], ended=True
    )
    events = _watched(ScriptedTransport(script), resource_version="4")
    assert [(event.kind.value, event.resource_version) for event in events] == [
        ("ADDED", "5"),
        ("BOOKMARK", "9"),
        ("DELETED", "5"),
    ]


def test_an_unreadable_object_does_not_end_a_watch() -> None:
    broken = _pod("b") | {"spec": 3}
    script = StreamScript([watch_line("ADDED", broken), watch_line("ADDED", _pod("c"))], ended=True)
    first, second = _watched(ScriptedTransport(script))
    assert first.rejected is not None
    assert second.object is not None


def test_an_expired_version_of_a_watch_is_an_event_or_an_error() -> None:
    (event,) = _watched(ScriptedTransport(StreamScript([expired_line()], ended=True)))
    assert isinstance(event.error, Expired)
    with pytest.raises(Expired, match="too old"):
        _watched(ScriptedTransport(error_response(410, "Expired", "too old")))


def test_a_throttled_watch_has_retry_after() -> None:
    with pytest.raises(Throttled) as caught:
        _watched(ScriptedTransport(error_response(429, "TooManyRequests", retry_after=4)))
    assert caught.value.retry_after == 4.0


def test_a_broken_stream_yields_the_events_before_it() -> None:
    script = StreamScript([watch_line("ADDED", _pod("a"))])
    script.break_off()
    assert [event.resource_version for event in _watched(ScriptedTransport(script))] == ["5", "broken"]


def test_an_object_can_be_read_and_made_and_what_is_not_there_is_reported() -> None:
    transport = ScriptedTransport(
        json_response(_pod("a", nodeName="n1")), json_response(_pod("b"), 201), error_response(404, "NotFound")
    )
    assert _do(transport, lambda client: client.get(PODS, "a", "shop")).spec.node_name == "n1"
    assert _do(transport, lambda client: client.create(PODS, _pod("b"), "shop")).metadata.name == "b"
    with pytest.raises(NotFound):
        _do(transport, lambda client: client.get(PODS, "c", "shop"))
    assert transport.requests[1].query == (("fieldManager", "trellis"),)


def test_a_resize_is_a_patch_of_its_own_subresource() -> None:
    transport = ScriptedTransport(json_response(_pod("a")))
    change = strategic_patch({"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "2"}}}]}})
    _do(transport, lambda client: patch(client, PODS, "a", change, "shop", subresource="resize"))
    (request,) = transport.requests
    assert (request.method, request.path) == ("PATCH", "/api/v1/namespaces/shop/pods/a/resize")
    assert request.body == change.body


def test_a_status_is_patched_beside_its_object() -> None:
    transport = ScriptedTransport(json_response(_pod("a")))
    _do(transport, lambda client: patch(client, VPAS, "a", merge_patch({"status": {}}), "shop", subresource="status"))
    assert transport.requests[0].path.endswith("/verticalpodautoscalers/a/status")


def test_a_scale_is_read_as_a_scale_whatever_is_scaled() -> None:
    scale = {"metadata": {"name": "web"}, "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "app=web"}}
    transport = ScriptedTransport(json_response(scale))
    read = _do(transport, lambda client: client.get_scale(DEPLOYMENTS, "web", "shop"))
    assert (read.spec.replicas, read.status.replicas, read.status.selector) == (3, 2, "app=web")
    assert transport.requests[0].path.endswith("/deployments/web/scale")


def test_an_eviction_that_a_budget_forbids_is_throttled_and_a_stale_deletion_a_conflict() -> None:
    transport = ScriptedTransport(
        json_response({"kind": "Status", "status": "Success"}, 201),
        error_response(429, "TooManyRequests", retry_after=10),
        error_response(409, "Conflict", "the UID in the precondition does not match"),
    )
    _do(transport, lambda client: evict(client, "a", "shop"))
    with pytest.raises(Throttled):
        _do(transport, lambda client: evict(client, "a", "shop"))
    with pytest.raises(Conflict, match="UID"):
        _do(transport, lambda client: delete(client, PODS, "a", "shop", Preconditions(uid="u")))


def test_a_refused_write_is_not_retried() -> None:
    transport = ScriptedTransport(error_response(403, "Forbidden", "no"), error_response(403, "Forbidden", "no"))
    with pytest.raises(Forbidden):
        _do(transport, lambda client: patch(client, PODS, "a", json_patch([]), "shop"))
    assert len(transport.requests) == 1


def test_a_script_may_be_a_function_of_the_request_and_running_out_is_a_mistake() -> None:
    transport = ScriptedTransport(handler=lambda request: json_response({"metadata": {"name": request.path[-1]}}))
    assert _do(transport, lambda client: client.get(PODS, "z", "shop")).metadata.name == "z"
    with pytest.raises(InternalError, match="GET /api/v1/namespaces/shop/pods/z"):
        _do(ScriptedTransport(), lambda client: client.get(PODS, "z", "shop"))


def test_closing_a_client_closes_its_transport() -> None:
    transport = ScriptedTransport()
    _do(transport, lambda client: client.close())
    assert transport.closed


def test_a_struct_can_be_sent_as_it_is() -> None:
    class Lease(msgspec.Struct):
        kind: str = "Lease"

    transport = ScriptedTransport(json_response({}, 201))
    _do(transport, lambda client: client.create(PODS, Lease(), "shop"))
    assert transport.requests[0].body == b'{"kind":"Lease"}'
