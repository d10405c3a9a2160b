"""Whatever a review looks like, it is answered, a pod is never refused, and what is patched can be patched."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.api_server.server import Document
from support.controllers.admission import NAMESPACE, World, apply, build_pod_review, build_review, patch_in, pod
from trellis.controllers.admission.webhook.http_requests import BadRequest, HttpRequest
from trellis.controllers.admission.webhook.server import HttpReply

VPA = {"group": "autoscaling.k8s.io", "version": "v1", "kind": "VerticalPodAutoscaler"}
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


@contextmanager
def standing() -> Iterator[World]:
    """A world that has settled and stands still: answers that are at hand need no loop."""
    world = World()
    world.add_app(startupBoost={"cpu": {"type": "Factor", "factor": 2}})
    world.add_app("plain", advice={"app": {"cpu": "400m", "memory": "300Mi"}})

    async def settle() -> None:
        return None

    world.run(settle)
    yield world


def answered(world: World, body: bytes) -> Document:
    reply = world.admission.handler.review(body)
    assert isinstance(reply, HttpReply)
    assert reply.status == 200
    whole = msgspec.json.decode(reply.body)
    assert (whole["apiVersion"], whole["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: Document = whole["response"]
    return response


def request(body: bytes, content_type: str = "application/json", method: str = "POST") -> HttpRequest:
    return HttpRequest(method, content_type, keep_alive=True, body=body)


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_json_is_read(kind: str) -> None:
    with standing() as world:
        reply = world.admission.handler.handle(request(build_pod_review(pod()), kind))
        assert isinstance(reply, HttpReply)
        assert b'"patch":' in reply.body


@pytest.mark.parametrize("kind", ["", "text/plain", "application/yaml"])
def test_other_content_is_let_through_unchanged(kind: str) -> None:
    with standing() as world:
        reply = world.admission.handler.handle(request(build_pod_review(pod()), kind))
        assert isinstance(reply, HttpReply)
        assert reply.status == 200
        response = msgspec.json.decode(reply.body)["response"]
        assert response["allowed"] is True
        assert response["uid"] == UID
        assert "patch" not in response
        assert "application/json" in response["warnings"][0]


def test_what_is_no_request_is_refused_with_a_yes() -> None:
    with standing() as world:
        for reply in (
            world.admission.handler.handle(request(b"", method="GET")),
            world.admission.handler.refuse(BadRequest(413, "too long")),
        ):
            assert isinstance(reply, HttpReply)
            assert reply.status in (405, 413)
            assert msgspec.json.decode(reply.body)["response"]["allowed"] is True
        assert world.metric_value('trellis_admission_refused_requests_total{code="413"}') == 1


@pytest.mark.parametrize(
    ("body", "uid"),
    [
        (b"", ""),
        (b"null", ""),
        (b"[]", ""),
        (b"{", ""),
        (b'{"kind":"AdmissionReview"', ""),
        (b"\xff\xfe", ""),
        (b"[" * 100_000, ""),
        (build_pod_review(pod())[:-20], ""),
        (build_pod_review(pod()).replace(b"admission.k8s.io/v1", b"admission.k8s.io/v1beta1"), UID),
        (build_pod_review(pod()).replace(b'"AdmissionReview"', b'"Pod"'), UID),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}', ""),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":7}', ""),
    ],
)
def test_what_is_no_review_is_let_through_with_a_warning(body: bytes, uid: str) -> None:
    with standing() as world:
        response = answered(world, body)
        assert response["allowed"] is True
        assert response["uid"] == uid
        assert len(response["warnings"]) == 1
        assert "patch" not in response
        assert world.metric_value('trellis_admission_reviews_total{reason="ReviewUnreadable",resource="unknown"}') == 1
        assert world.metric_value("trellis_admission_failures_total") == 0


@pytest.mark.parametrize(
    "broken", [7, "pod", [], {"spec": 7}, {"metadata": {"labels": []}}, {"spec": {"containers": 1}}]
)
def test_pod_that_cannot_be_read_is_let_through_with_a_warning(broken: object) -> None:
    with standing() as world:
        response = answered(world, build_pod_review(broken))
        assert (response["allowed"], response["uid"]) == (True, UID)
        assert "cannot be read as a Pod" in response["warnings"][0]
        assert world.metric_value('trellis_admission_reviews_total{reason="PodUnreadable",resource="Pod"}') == 1


def test_an_internal_error_admits_the_pod_and_is_warned_about_logged_and_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with standing() as world:

        def fail(*_: object) -> Any:
            raise ZeroDivisionError("a bug")

        monkeypatch.setattr(world.admission.decisions, "decide", fail)
        response = answered(world, build_pod_review(pod()))
        assert (response["allowed"], response["uid"]) == (True, UID)
        assert "patch" not in response
        assert response["warnings"] == [
            "An internal error left an object unchanged: please report it. (ZeroDivisionError)"
        ]
        assert world.metric_value("trellis_admission_failures_total") == 1
        error = 'vpa_admission_controller_admission_latency_seconds_count{resource="unknown",status="error"}'
        assert world.metric_value(error) == 1
        assert "a review failed" in caplog.text
        assert "a bug" in caplog.text


def test_error_of_our_own_that_comes_later_lets_the_pod_through_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    with standing() as world:

        async def fail(*_: object) -> Any:
            raise ZeroDivisionError("a bug")

        monkeypatch.setattr(world.admission.decisions, "decide", fail)

        async def main() -> None:
            response = await world.review(build_pod_review(pod()))
            assert (response["allowed"], response["uid"]) == (True, UID)
            assert len(response["warnings"]) == 1

        asyncio.run(main())
        assert world.metric_value("trellis_admission_failures_total") == 1


@pytest.mark.parametrize(
    "request_",
    [
        {"operation": "UPDATE"},
        {"operation": "DELETE", "object": None},
        {"subResource": "resize"},
        {"object": None},
    ],
)
def test_anything_about_a_pod_but_its_creation_is_left_alone(request_: Document) -> None:
    with standing() as world:
        response = answered(world, build_pod_review(pod(), **request_))
        assert response == {"uid": UID, "allowed": True}


def test_foreign_kinds_are_left_alone() -> None:
    with standing() as world:
        response = answered(world, build_review({"a": 1}, {"group": "apps", "version": "v1", "kind": "Deployment"}))
        assert response == {"uid": UID, "allowed": True}
        counted = 'vpa_admission_controller_admission_latency_seconds_count{resource="unknown",status="error"}'
        assert world.metric_value(counted) == 1


def test_vpa_is_defaulted_or_refused() -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    document: Document = {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "web", "namespace": NAMESPACE},
        "spec": {"targetRef": target},
    }
    with standing() as world:
        response = answered(world, build_review(document, VPA))
        document = apply(document, patch_in(response))
        assert document["spec"]["updatePolicy"] == {"updateMode": "Recreate"}
        assert answered(world, build_review(document, VPA)) == {"uid": UID, "allowed": True}
        document["spec"]["updatePolicy"] = {"updateMode": "Sometimes"}
        refused = answered(world, build_review(document, VPA))
        assert refused["allowed"] is False
        assert refused["status"]["code"] == 422
        assert world.metric_value('trellis_admission_reviews_total{reason="ObjectRefused",resource="VPA"}') == 1
        # As upstream: whether it was changed is all that counts.
        counted = "vpa_admission_controller_admission_latency_seconds_count"
        assert world.metric_value(f'{counted}{{resource="VPA",status="applied"}}') == 1
        assert world.metric_value(f'{counted}{{resource="VPA",status="skipped"}}') == 2


_LEAVES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    2**70,
    "",
    "100m",
    "∞",
    "\x00",
    [],
    {},
    [None],
    {"": None},
    "a" * 300,
    -0.0,
)


def mutate(draw: random.Random, value: Any, depth: int = 0) -> Any:
    """The same document with something else somewhere in it."""
    if depth > 8 or (draw.random() < 0.12 and depth > 1):
        return draw.choice(_LEAVES)
    if isinstance(value, dict) and value:
        key = draw.choice(list(value))
        action = draw.random()
        if action < 0.15:
            return {field: content for field, content in value.items() if field != key}
        if action < 0.25:
            return {**value, draw.choice(("", "cpu", "x/y~z", "Name", key.upper())): draw.choice(_LEAVES)}
        return {**value, key: mutate(draw, value[key], depth + 1)}
    if isinstance(value, list) and value:
        place = draw.randrange(len(value))
        if draw.random() < 0.2:
            return [*value, draw.choice((*value, *_LEAVES))]
        return [*value[:place], mutate(draw, value[place], depth + 1), *value[place + 1 :]]
    return draw.choice(_LEAVES)


def scratched(draw: random.Random, body: bytes) -> bytes:
    """The same bytes with one of them changed, or with the end missing."""
    place = draw.randrange(len(body))
    return body[:place] if draw.random() < 0.3 else body[:place] + bytes([draw.randrange(256)]) + body[place + 1 :]


@given(seed=st.integers(0, 2**32))
def test_mutated_reviews_of_pods_are_let_through_and_patches_can_be_applied(seed: int) -> None:
    # 200 mutations in each of 50 examples: 10,000 in all.
    draw = random.Random(seed)  # noqa: S311 - nothing is secret here
    with standing() as world:

        async def play() -> None:
            for number in range(200):
                body = mutated_review(draw, number)
                reply = world.admission.handler.review(body)
                http_reply = reply if isinstance(reply, HttpReply) else await reply
                assert http_reply.status == 200
                response = msgspec.json.decode(http_reply.body)["response"]
                assert response["allowed"] is True
                if "patch" in response:
                    apply(msgspec.json.decode(body.decode(errors="replace"))["request"]["object"], patch_in(response))
            assert world.metric_value("trellis_admission_failures_total") == 0

        world.run(play)


def mutated_review(draw: random.Random, number: int) -> bytes:
    rich = pod(draw.choice(("web", "plain")))
    rich["spec"]["initContainers"] = [{"name": "side", "restartPolicy": "Always"}, {"name": "init"}]
    rich["metadata"]["annotations"] = {"vpaCpuStartupBoost/app": '{"requests":{"cpu":"100m"},"limits":{}}', "a/b": "c"}
    whole = msgspec.json.decode(build_pod_review(rich))
    for _ in range(1 + number % 3):
        whole = mutate(draw, whole)
    body = msgspec.json.encode(whole)
    return scratched(draw, body) if number % 10 == 0 else body
