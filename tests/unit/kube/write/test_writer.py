"""The one writer: what it sends, what it makes of every answer, and when it does not write at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from support import virtual_time
from support.api_server.connections import Connection
from support.api_server.server import ModelServer
from trellis.api.kube.meta import PodMeta
from trellis.api.kube.pods import Pod
from trellis.base.errors import InvalidInput, Unreachable
from trellis.kube.client import Client
from trellis.kube.flow_control import Rate, TokenBucket
from trellis.kube.resources import DEPLOYMENTS, NODES, PODS, VPAS
from trellis.kube.transport.requests import Request
from trellis.kube.transport.responses import Response
from trellis.kube.write.actions import (
    Action,
    CreateEviction,
    CreateObject,
    DeleteObject,
    PatchObject,
    PatchResize,
    PatchScale,
    PatchStatus,
    Target,
    build_request,
    build_target,
)
from trellis.kube.write.outcomes import DRY_RUN, NOT_LEADING, READ_ONLY, REPLACED, Result, WriteOutcome
from trellis.kube.write.patches import json_patch, merge_patch, strategic_patch
from trellis.kube.write.writer import Writer, WriterSettings
from trellis.testing.scripted_transport import ScriptedResponse, ScriptedTransport, error_response, json_response

POD = Target(PODS, "web-0", "shop", "uid-1", "7")
RESIZE = PatchResize(POD, json_patch([{"op": "replace", "path": "/spec/containers/0/resources", "value": {}}]))
EVICT = CreateEviction(POD)
PATCH = PatchObject(POD, merge_patch({"metadata": {"labels": {"a": "b"}}}))
CREATE = CreateObject(Target(NODES, "n1"), {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
DONE = json_response({"metadata": {"name": "web-0", "uid": "uid-1", "resourceVersion": "8"}})
FINE = WriterSettings()


def body(action: Action) -> Any:
    return msgspec.json.decode(build_request(action).body or b"null")


def write(
    *answers: ScriptedResponse,
    actions: list[Action],
    settings: WriterSettings = FINE,
    may_write: Callable[[], bool] = lambda: True,
) -> tuple[tuple[WriteOutcome, ...], ScriptedTransport, list[WriteOutcome]]:
    transport = ScriptedTransport(*answers)
    recorded: list[WriteOutcome] = []

    async def main() -> tuple[WriteOutcome, ...]:
        writer = Writer(Client(transport), record=recorded.append, may_write=may_write, settings=settings)
        return await writer.write_all(actions)

    return virtual_time.run(main()), transport, recorded


def outcome(response: ScriptedResponse, action: Action) -> WriteOutcome:
    # A server that stays busy is asked three times.
    (written,), _, recorded = write(response, response, response, actions=[action])
    assert recorded == [written]
    return written


@pytest.mark.parametrize(
    ("action", "method", "path"),
    [
        (PATCH, "PATCH", "/api/v1/namespaces/shop/pods/web-0"),
        (RESIZE, "PATCH", "/api/v1/namespaces/shop/pods/web-0/resize"),
        (EVICT, "POST", "/api/v1/namespaces/shop/pods/web-0/eviction"),
        (DeleteObject(POD), "DELETE", "/api/v1/namespaces/shop/pods/web-0"),
        (CREATE, "POST", "/api/v1/nodes"),
        (
            PatchScale(Target(DEPLOYMENTS, "web", "shop"), 3),
            "PATCH",
            "/apis/apps/v1/namespaces/shop/deployments/web/scale",
        ),
        (
            PatchStatus(Target(VPAS, "web", "shop"), {"conditions": []}),
            "PATCH",
            "/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers/web/status",
        ),
    ],
)
def test_each_action_is_one_request(action: Action, method: str, path: str) -> None:
    request = build_request(action)
    assert (request.method, request.path) == (method, path)
    assert request.query in ((), (("fieldManager", "trellis"),))


def test_writes_are_recorded_under_the_writers_name_unless_the_action_has_another() -> None:
    transport = ScriptedTransport(json_response({}), json_response({}))
    writer = Writer(Client(transport, "trellis-updater"), record=lambda _outcome: None)
    asyncio.run(writer.write(PatchResize(Target(PODS, "web-0", "shop"), json_patch([]))))
    own = PatchObject(Target(PODS, "web-0", "shop"), merge_patch({}), field_manager="somebody")
    asyncio.run(writer.write(own))
    assert [request.query for request in transport.requests] == [
        (("fieldManager", "trellis-updater"),),
        (("fieldManager", "somebody"),),
    ]


def test_a_merge_patch_has_uid_and_version_preconditions() -> None:
    assert body(PATCH)["metadata"] == {"labels": {"a": "b"}, "uid": "uid-1", "resourceVersion": "7"}
    strategic = PatchResize(POD, strategic_patch({"spec": {"containers": [{"name": "app"}]}}))
    assert body(strategic)["metadata"] == {"uid": "uid-1", "resourceVersion": "7"}
    assert body(PatchStatus(POD, {"x": 1})) == {
        "status": {"x": 1},
        "metadata": {"uid": "uid-1", "resourceVersion": "7"},
    }
    assert body(PatchScale(POD, 3)) == {"spec": {"replicas": 3}, "metadata": {"uid": "uid-1", "resourceVersion": "7"}}


def test_a_json_patch_sets_uid_and_version_before_anything_else() -> None:
    assert body(RESIZE) == [
        {"op": "replace", "path": "/metadata/uid", "value": "uid-1"},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "replace", "path": "/spec/containers/0/resources", "value": {}},
    ]


def test_evictions_and_deletions_carry_their_preconditions_in_their_options() -> None:
    expected = {"uid": "uid-1", "resourceVersion": "7"}
    assert body(CreateEviction(POD, 5))["deleteOptions"] == {"preconditions": expected, "gracePeriodSeconds": 5}
    assert body(DeleteObject(POD, propagation="Orphan"))["preconditions"] == expected


def test_an_unknown_uid_or_version_is_no_precondition() -> None:
    bare = Target(PODS, "web-0", "shop")
    assert body(PatchObject(bare, merge_patch({"spec": {}}))) == {"spec": {}}
    assert "deleteOptions" not in body(CreateEviction(bare))


def test_a_target_is_the_object_as_it_was_observed() -> None:
    pod = Pod(PodMeta(name="web-0", namespace="shop", uid="uid-1", resource_version="7"))
    assert build_target(PODS, pod) == POD
    assert build_target(PODS, pod, with_version=False).resource_version == ""


def test_a_successful_write_returns_the_new_version() -> None:
    written = outcome(DONE, PATCH)
    assert written.applied
    assert (written.name, written.uid, written.resource_version) == ("web-0", "uid-1", "8")
    assert outcome(json_response({"kind": "Status", "status": "Success"}, 201), EVICT).applied


BUDGET = {"causes": [{"reason": "DisruptionBudget", "message": "The disruption budget web needs 2 healthy pods"}]}
ANOTHER_UID = {"causes": [{"reason": "FieldValueInvalid", "field": "metadata.uid", "message": "field is immutable"}]}


@pytest.mark.parametrize(
    ("response", "action", "result", "reason"),
    [
        (error_response(409, "Conflict", "the object has been modified"), PATCH, Result.CONFLICT, "Conflict"),
        (error_response(409, "AlreadyExists", "nodes n1 already exists"), CREATE, Result.CONFLICT, "AlreadyExists"),
        (error_response(404, "NotFound", "pods web-0 not found"), PATCH, Result.GONE, "NotFound"),
        (error_response(404, "NotFound", "namespaces x not found"), CREATE, Result.INVALID, "NotFound"),
        (error_response(409, "Conflict", "Precondition failed: UID in precondition: 1"), EVICT, Result.GONE, REPLACED),
        (error_response(422, "Invalid", "is invalid", details=ANOTHER_UID), PATCH, Result.GONE, REPLACED),
        (error_response(422, "Invalid", "spec: Invalid value"), PATCH, Result.INVALID, "Invalid"),
        (error_response(400, "BadRequest", "json: cannot unmarshal"), PATCH, Result.INVALID, "BadRequest"),
        (error_response(429, "TooManyRequests", details=BUDGET), EVICT, Result.REFUSED, "DisruptionBudget"),
        (error_response(429, "TooManyRequests", retry_after=2), EVICT, Result.THROTTLED, "TooManyRequests"),
        (error_response(401, "Unauthorized"), PATCH, Result.FORBIDDEN, "Unauthorized"),
        (
            error_response(403, "Forbidden", 'pods "web-0" is forbidden: User "x" cannot patch resource "pods/resize"'),
            RESIZE,
            Result.FORBIDDEN,
            "Forbidden",
        ),
        (
            error_response(403, "Forbidden", 'pods "web-0" is forbidden: exceeded quota: q, requested: cpu=1'),
            RESIZE,
            Result.INFEASIBLE,
            "Forbidden",
        ),
        (error_response(403, "Forbidden", "exceeded quota"), CREATE, Result.FORBIDDEN, "Forbidden"),
        (
            error_response(500, "InternalError", "more than one PodDisruptionBudget"),
            EVICT,
            Result.FAILED,
            "InternalError",
        ),
        (Unreachable("connection reset"), PATCH, Result.FAILED, "Unreachable"),
        (Response(502, {}, b"<html>\nbad gateway\n</html>"), PATCH, Result.FAILED, "ServerFault"),
    ],
)
def test_every_response_is_an_outcome_and_never_an_exception(
    response: ScriptedResponse, action: Action, result: Result, reason: str
) -> None:
    written = outcome(response, action)
    assert (written.result, written.reason) == (result, reason)
    assert written.message
    assert "\n" not in written.message
    assert written.action == action


@pytest.mark.parametrize(
    "response",
    [
        Unreachable("connection reset"),
        Response(502, {}, b"<html>bad gateway</html>"),
        error_response(504, "Timeout", "Timeout: request did not complete within requested timeout"),
        Response(504, {}, b"upstream request timeout"),
        error_response(
            500, "InternalError", "request did not complete within requested timeout - context deadline exceeded"
        ),
        error_response(500, "", "etcdserver: request timed out, possibly due to connection lost"),
    ],
)
def test_a_write_cancelled_before_its_answer_may_have_been_executed(response: ScriptedResponse) -> None:
    written = outcome(response, PATCH)
    assert (written.result, written.uncertain) == (Result.FAILED, True)


@pytest.mark.parametrize(
    "response",
    [
        error_response(500, "InternalError"),
        error_response(500, "InternalError", 'failed calling webhook "x": context deadline exceeded'),
        error_response(503, "ServiceUnavailable", "no endpoints available"),
        error_response(422, "Invalid", "request did not complete within requested timeout"),
        error_response(429, "TooManyRequests"),
    ],
)
def test_a_write_that_was_refused_was_not_carried_out(response: ScriptedResponse) -> None:
    assert not outcome(response, PATCH).uncertain


def test_an_outcome_has_what_the_server_made_of_the_object() -> None:
    written = outcome(json_response({"metadata": {"name": "web"}, "spec": {"filled": "in"}}), PATCH)
    assert msgspec.json.decode(written.body)["spec"] == {"filled": "in"}
    assert not outcome(DONE, PatchStatus(POD, {})).body


def test_outcomes_are_in_the_order_of_their_actions() -> None:
    targets = [Target(PODS, f"web-{i}", "shop") for i in range(30)]

    def named_after_the_path(request: Request) -> ScriptedResponse:
        return json_response({"metadata": {"name": request.path.rsplit("/", 1)[1]}})

    transport = ScriptedTransport(handler=named_after_the_path)

    async def main() -> tuple[WriteOutcome, ...]:
        return await Writer(Client(transport), record=lambda _: None).write_all(
            [PatchObject(target, merge_patch({})) for target in targets]
        )

    assert [written.name for written in virtual_time.run(main())] == [target.name for target in targets]


class SlowTransport(ScriptedTransport):
    """Takes a second for each request and counts how many are under way."""

    def __init__(self) -> None:
        super().__init__(handler=lambda _: DONE)
        self.under_way = 0
        self.most = 0
        self.times: list[float] = []

    async def send(self, request: Request) -> Response:
        self.times.append(asyncio.get_running_loop().time())
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(1)
        self.under_way -= 1
        return await super().send(request)


def slowly(settings: WriterSettings, *actions: Action) -> SlowTransport:
    transport = SlowTransport()

    async def main() -> None:
        await Writer(Client(transport), record=lambda _: None, settings=settings).write_all(actions)

    virtual_time.run(main())
    return transport


def patches(count: int) -> list[Action]:
    return [PatchObject(Target(PODS, f"web-{i}", "shop"), merge_patch({})) for i in range(count)]


def test_no_more_requests_are_under_way_than_allowed() -> None:
    transport = slowly(WriterSettings(concurrency=3), *patches(10))
    assert transport.most == 3
    assert transport.times == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]


def test_actions_on_one_object_are_executed_in_order() -> None:
    transport = slowly(WriterSettings(concurrency=8), PATCH, RESIZE, EVICT)
    assert transport.most == 1
    assert [request.path.rsplit("/", 1)[1] for request in transport.requests] == ["web-0", "resize", "eviction"]


def test_without_a_rate_limit_no_write_is_delayed() -> None:
    assert slowly(WriterSettings(concurrency=100), *patches(100)).times == [0] * 100


def test_a_rate_limit_allows_a_burst_and_then_its_rate() -> None:
    transport = slowly(WriterSettings(concurrency=100, rate=Rate(2, 3)), *patches(7))
    assert transport.times == pytest.approx([0, 0, 0, 0.5, 1, 1.5, 2])


def test_a_token_bucket_refills_up_to_its_burst() -> None:
    bucket = TokenBucket(Rate(1, 2), 0)
    assert [bucket.try_take(1000) for _ in range(3)] == [True, True, False]
    assert bucket.try_take(1001)
    with pytest.raises(InvalidInput):
        Rate(0)


def timed(*answers: ScriptedResponse, actions: list[Action]) -> tuple[tuple[WriteOutcome, ...], list[float]]:
    times: list[float] = []
    script = list(answers)

    def reply(_: Request) -> ScriptedResponse:
        times.append(asyncio.get_running_loop().time())
        return script.pop(0)

    async def main() -> tuple[WriteOutcome, ...]:
        writer = Writer(
            Client(ScriptedTransport(handler=reply)), record=lambda _: None, settings=WriterSettings(concurrency=1)
        )
        return await writer.write_all(actions)

    return virtual_time.run(main()), times


def test_a_throttled_write_is_retried_after_retry_after() -> None:
    (written,), times = timed(error_response(429, "TooManyRequests", retry_after=7), DONE, actions=[PATCH])
    assert written.applied
    assert times == [0, 7]


def test_while_a_server_is_busy_no_other_write_is_sent() -> None:
    outcomes, times = timed(error_response(429, "TooManyRequests", retry_after=7), DONE, DONE, DONE, actions=patches(3))
    assert all(written.applied for written in outcomes)
    assert times == [0, 7, 7, 7]


def test_a_write_that_remains_throttled_is_an_outcome_with_retry_after() -> None:
    busy = error_response(429, "TooManyRequests", retry_after=2)
    (written,), times = timed(busy, busy, busy, actions=[PATCH])
    assert (written.result, written.retry_after) == (Result.THROTTLED, 2)
    assert times == [0, 2, 4]


def test_a_retry_after_of_minutes_is_honoured_without_blocking_callers() -> None:
    outcomes, times = timed(error_response(429, "TooManyRequests", retry_after=300), actions=patches(2))
    assert [written.result for written in outcomes] == [Result.THROTTLED] * 2
    assert [written.retry_after for written in outcomes] == [300, 300]
    assert times == [0]


def test_an_eviction_refused_by_a_budget_delays_no_other_write() -> None:
    outcomes, times = timed(
        error_response(429, "TooManyRequests", details=BUDGET, retry_after=10), DONE, actions=[EVICT, PATCH]
    )
    assert [written.result for written in outcomes] == [Result.REFUSED, Result.APPLIED]
    assert outcomes[0].retry_after == 10
    assert times == [0, 0]


def test_read_only_makes_every_write_a_recorded_no_op() -> None:
    actions: list[Action] = [PATCH, RESIZE, EVICT, CREATE, DeleteObject(POD), PatchScale(POD, 2), PatchStatus(POD, {})]
    outcomes, transport, recorded = write(actions=actions, settings=WriterSettings(read_only=True))
    assert transport.requests == []
    assert {(written.result, written.reason) for written in outcomes} == {(Result.SKIPPED, READ_ONLY)}
    assert "evict pods shop/web-0" in outcomes[2].message
    assert sorted(map(str, recorded)) == sorted(map(str, outcomes))


def test_a_dry_run_is_checked_by_the_server_and_stores_nothing() -> None:
    (fine, bad), transport, _ = write(
        DONE,
        error_response(422, "Invalid", "spec: Forbidden"),
        actions=[PATCH, CREATE],
        settings=WriterSettings(dry_run=True, concurrency=1),
    )
    assert all(("dryRun", "All") in request.query for request in transport.requests)
    assert (fine.result, fine.reason) == (Result.SKIPPED, DRY_RUN)
    assert bad.result is Result.INVALID


def test_a_writer_that_does_not_lead_sends_nothing() -> None:
    (written,), transport, _ = write(actions=[PATCH], may_write=lambda: False)
    assert (written.result, written.reason) == (Result.SKIPPED, NOT_LEADING)
    assert transport.requests == []


def test_a_writer_of_a_replica_that_shares_namespaces_writes_in_its_own_alone() -> None:
    transport = ScriptedTransport(DONE, DONE)

    async def main() -> list[WriteOutcome]:
        writer = Writer(Client(transport), record=lambda _: None, may_write_in=lambda namespace: namespace != "shop")
        return [await writer.write(action) for action in (PATCH, CREATE)]

    inside, cluster = virtual_time.run(main())
    assert (inside.result, inside.reason) == (Result.SKIPPED, NOT_LEADING)
    assert cluster.applied
    assert [request.path for request in transport.requests] == ["/api/v1/nodes"]


def test_writes_in_flight_are_waited_for_but_not_those_to_other_namespaces() -> None:
    async def main() -> list[float]:
        connection = Connection(ModelServer())
        connection.seconds = 3.0
        writer = Writer(Client(connection), record=lambda _: None)
        writing = asyncio.create_task(writer.write(PATCH))
        await asyncio.sleep(1.0)
        clock = asyncio.get_running_loop().time
        times = []
        for ignored in ("shop", "other"):
            await writer.wait_for_writes(lambda namespace, ignored=ignored: namespace == ignored)  # type: ignore[misc]
            times.append(clock())
        await writing
        return times

    assert virtual_time.run(main()) == [1.0, 3.0]


def test_leadership_lost_while_waiting_in_line_stops_the_write() -> None:
    leading = True
    transport = ScriptedTransport(error_response(429, "TooManyRequests", retry_after=20), DONE)

    async def main() -> WriteOutcome:
        nonlocal leading
        writer = Writer(Client(transport), record=lambda _: None, may_write=lambda: leading)
        writing = asyncio.create_task(writer.write(PATCH))
        await asyncio.sleep(10)
        leading = False
        return await writing

    assert virtual_time.run(main()).reason == NOT_LEADING
    assert len(transport.requests) == 1


def test_a_request_times_out_before_another_process_could_lead() -> None:
    _, transport, _ = write(DONE, actions=[PATCH])
    assert transport.requests[0].timeout == 5.0


SAME = json_response({"metadata": {"name": "web", "uid": "uid-1", "resourceVersion": "41"}})
BY_UID = Target(VPAS, "web", "shop", "uid-1")


@pytest.mark.parametrize(
    ("action", "read"), [(PatchStatus(BY_UID, {"x": 1}), "/web"), (PatchScale(BY_UID, 3), "/web/scale")]
)
def test_where_the_server_would_overlook_a_uid_the_version_is_read_first(action: Action, read: str) -> None:
    (written,), transport, _ = write(SAME, DONE, actions=[action])
    assert written.applied
    assert written.action == action
    reading, writing = transport.requests
    assert (reading.method, writing.method) == ("GET", "PATCH")
    assert reading.path.endswith(read)
    assert msgspec.json.decode(writing.body or b"")["metadata"] == {"uid": "uid-1", "resourceVersion": "41"}


def test_a_namesake_found_by_that_reading_is_not_written() -> None:
    other = json_response({"metadata": {"name": "web", "uid": "uid-2", "resourceVersion": "41"}})
    (written,), transport, _ = write(other, actions=[PatchStatus(BY_UID, {"x": 1})])
    assert (written.result, written.reason) == (Result.GONE, REPLACED)
    assert len(transport.requests) == 1


def test_a_conflict_after_the_second_read_is_retried() -> None:
    stale = error_response(409, "Conflict", "the object has been modified")
    (written,), transport, _ = write(SAME, stale, SAME, DONE, actions=[PatchStatus(BY_UID, {"x": 1})])
    assert written.applied
    assert len(transport.requests) == 4


def test_leadership_lost_during_that_reading_stops_the_write() -> None:
    answers = iter([False])
    (written,), transport, _ = write(SAME, actions=[PatchStatus(BY_UID, {})], may_write=answers.__next__)
    assert written.reason == NOT_LEADING
    assert [request.method for request in transport.requests] == ["GET"]
