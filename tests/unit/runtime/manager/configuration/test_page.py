"""`/config` is shown on loopback, and elsewhere to callers with the right to get it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from trellis.base.errors import Forbidden, Unreachable
from trellis.kube.client import Client
from trellis.kube.transport.requests import Request
from trellis.kube.transport.responses import Response
from trellis.runtime.manager.configuration.page import ConfigurationPage, authorize_with, is_local
from trellis.runtime.telemetry.health import ProbeResponse
from trellis.runtime.telemetry.health_server import PageRequest
from trellis.testing.scripted_transport import ScriptedResponse, ScriptedTransport

ELSEWHERE = "10.0.0.7"
KNOWN = "good"


class ApiServer:
    """Knows one token, and who may get which path."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.allowed = True
        self.reviews: list[dict[str, Any]] = []

    def answer(self, request: Request) -> ScriptedResponse:
        if isinstance(self.error, Forbidden | Unreachable):
            return self.error
        document = msgspec.json.decode(request.body or b"")
        self.reviews.append(document["spec"])
        user = {"username": "jane", "groups": ["admins"], "extra": {"scopes": ["a"]}}
        status: dict[str, Any] = {"allowed": self.allowed}
        if document["kind"] == "TokenReview":
            known = document["spec"]["token"] == KNOWN
            status = {"authenticated": True, "user": user} if known else {"error": "unknown"}
        return Response(201, {}, msgspec.json.encode({**document, "status": status}))


def ask(server: ApiServer | None, remote: str = ELSEWHERE, **headers: str) -> ProbeResponse:
    async def main() -> ProbeResponse:
        authorize = authorize_with(Client(ScriptedTransport(handler=server.answer))) if server is not None else None
        return await ConfigurationPage(lambda: "kind: X\n", authorize).show(PageRequest({}, {}, headers, remote))

    return asyncio.run(main())


@pytest.mark.parametrize("remote", ["127.0.0.1", "127.0.0.6", "::1", "::ffff:127.0.0.1"])
def test_callers_on_the_same_host_see_it(remote: str) -> None:
    answer = ask(None, remote)
    assert (answer.status, answer.text, answer.kind) == (200, "kind: X\n", "application/yaml")


@pytest.mark.parametrize("remote", [ELSEWHERE, "", "nonsense", "::ffff:10.0.0.7", "fe80::1"])
def test_other_callers_are_told_how_to_see_it(remote: str) -> None:
    answer = ask(None, remote)
    assert answer.status == 403
    assert "use `kubectl port-forward`, or set configPage: authenticated" in answer.text


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded"])
def test_a_proxy_on_the_same_host_is_no_caller_on_the_same_host(header: str) -> None:
    assert not is_local(PageRequest({}, {}, {header: ELSEWHERE}, "127.0.0.1"))
    assert ask(None, "127.0.0.1", **{header: ELSEWHERE}).status == 403


def test_a_token_whose_user_may_get_the_path_opens_it() -> None:
    server = ApiServer()
    assert ask(server, Authorization=f"Bearer {KNOWN}").status == 200
    token, access = server.reviews
    assert token == {"token": KNOWN}
    assert access == {
        "user": "jane",
        "uid": "",
        "groups": ["admins"],
        "extra": {"scopes": ["a"]},
        "nonResourceAttributes": {"path": "/config", "verb": "get"},
    }


def test_a_user_who_may_not_get_the_path_is_told_what_would_allow_it() -> None:
    server = ApiServer()
    server.allowed = False
    answer = ask(server, Authorization=f"Bearer {KNOWN}")
    assert answer.status == 403
    assert answer.text.startswith('jane may not get the path /config: a ClusterRole with nonResourceURLs: ["/config"]')


@pytest.mark.parametrize(
    ("authorization", "text"),
    [
        ("", "send a bearer token"),
        ("Basic amFuZTp4", "send a bearer token"),
        ("Bearer bad", "the API server does not accept the bearer token"),
    ],
)
def test_a_caller_without_a_valid_token_is_not_let_in(authorization: str, text: str) -> None:
    answer = ask(ApiServer(), Authorization=authorization)
    assert (answer.status, text in answer.text) == (401, True)


def test_a_process_without_the_rights_says_which_it_needs() -> None:
    server = ApiServer()
    server.error = Forbidden(403, "Forbidden", "no")
    answer = ask(server, Authorization=f"Bearer {KNOWN}")
    assert answer.status == 403
    assert "its account needs the right to create tokenreviews and subjectaccessreviews" in answer.text
    server.error = Unreachable("connection refused")
    assert ask(server, Authorization=f"Bearer {KNOWN}").status == 503
