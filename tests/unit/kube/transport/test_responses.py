"""Which error an answer stands for, and what it says."""

from __future__ import annotations

import pytest

from trellis.base.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    ServerFault,
    Throttled,
    TrellisError,
    Unauthorized,
    UnreadableObject,
)
from trellis.kube.resources import PODS
from trellis.kube.transport.responses import Response, build_error, read_object, read_page
from trellis.testing.scripted_transport import error_response, json_response, list_response


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (400, "BadRequest", KubeError),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Expired),
        (410, "Gone", Expired),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", Throttled),
        (500, "InternalError", ServerFault),
        (503, "ServiceUnavailable", ServerFault),
        (504, "Timeout", ServerFault),
    ],
)
def test_code_and_reason_determine_the_error(code: int, reason: str, expected: type[KubeError]) -> None:
    error = build_error(error_response(code, reason, 'pods "web" says no'))
    assert type(error) is expected
    assert (error.code, error.reason, str(error)) == (code, reason, 'pods "web" says no')
    assert isinstance(error, TrellisError)


def test_a_throttled_request_has_retry_after_from_header_or_details() -> None:
    by_header = build_error(error_response(429, "TooManyRequests", retry_after=7))
    by_details = build_error(error_response(429, "TooManyRequests", details={"retryAfterSeconds": 9}))
    by_both = build_error(error_response(429, "TooManyRequests", details={"retryAfterSeconds": 9}, retry_after=7))
    by_date = build_error(Response(429, {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}))
    assert [error.retry_after for error in (by_header, by_details, by_both, by_date)] == [7.0, 9.0, 7.0, None]


def test_a_starting_server_has_retry_after() -> None:
    assert build_error(error_response(503, "ServiceUnavailable", retry_after=1)).retry_after == 1.0


def test_a_disruption_budget_can_be_distinguished_from_too_many_requests() -> None:
    causes = [{"reason": "DisruptionBudget", "message": "The disruption budget web needs 2 healthy pods"}]
    error = build_error(error_response(429, "TooManyRequests", "Cannot evict pod", details={"causes": causes}))
    assert [cause.reason for cause in error.details.causes] == ["DisruptionBudget"]


def test_every_field_of_an_invalid_object_is_in_the_message_once() -> None:
    causes = [
        {"reason": "FieldValueInvalid", "message": 'Invalid value: "-1"', "field": "spec.a"},
        {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.b"},
    ]
    short = build_error(error_response(422, "Invalid", 'VPA "web" is invalid', details={"causes": causes}))
    assert str(short) == 'VPA "web" is invalid; spec.a: Invalid value: "-1"; spec.b: Required value'
    message = 'VPA "web" is invalid: [spec.a: Invalid value: "-1", spec.b: Required value]'
    assert str(build_error(error_response(422, "Invalid", message, details={"causes": causes}))) == message


def test_a_page_of_html_from_a_proxy_is_shown_on_one_short_line() -> None:
    body = b"<html>\n<body>\n" + b"Bad gateway. " * 500
    error = build_error(Response(502, {"content-type": "text/html"}, body))
    assert isinstance(error, ServerFault)
    assert str(error).startswith('HTTP 502 "<html> <body> Bad gateway.')
    assert len(str(error)) < 120
    assert "\n" not in str(error)


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b'{"kind":"Pod"}', b"\xff\xfe"])
def test_whatever_the_body_is_an_error_remains_an_error(body: bytes) -> None:
    error = build_error(Response(404, {}, body))
    assert isinstance(error, NotFound)
    assert str(error).startswith("HTTP 404")


def test_a_status_with_null_details_is_read() -> None:
    assert str(build_error(error_response(404, "NotFound", "gone", details=None))) == "gone"


def test_a_redirect_is_no_success() -> None:
    with pytest.raises(KubeError, match="HTTP 302"):
        read_object(Response(302, {"location": "https://elsewhere"}), PODS)


def test_an_object_is_read_as_its_slice() -> None:
    pod = read_object(json_response({"metadata": {"name": "web"}, "spec": {"nodeName": "n1"}}), PODS)
    assert (pod.metadata.name, pod.spec.node_name) == ("web", "n1")


def test_a_success_that_is_not_the_object_is_refused_with_the_field() -> None:
    with pytest.raises(UnreadableObject, match=r"web.*\$\.spec"):
        read_object(json_response({"metadata": {"name": "web"}, "spec": 3}), PODS)


def test_a_page_sets_aside_what_it_cannot_read() -> None:
    read = read_page(list_response([{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}, "spec": 3}]), PODS)
    assert [pod.metadata.name for pod in read.items] == ["a"]
    assert [(rejected.index, rejected.name) for rejected in read.rejected] == [(1, "b")]
