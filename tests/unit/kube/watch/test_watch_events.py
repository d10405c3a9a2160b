"""Lines of a watch: whatever comes, the stream goes on, and nothing is passed over in silence."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.base.errors import Expired, ServerFault
from trellis.kube.resources import PODS, VPAS, Resource
from trellis.kube.watch.watch_events import EventKind, LineSplitter, decode_line
from trellis.testing.scripted_transport import bookmark_line, expired_line, status_object, watch_line


def _pod(**fields: object) -> dict[str, object]:
    return {"metadata": {"name": "web", "namespace": "shop", "resourceVersion": "8"}, **fields}


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_a_change_carries_its_object_and_where_to_resume(kind: str) -> None:
    event = decode_line(watch_line(kind, _pod(spec={"nodeName": "n1"})), PODS)
    assert (event.kind, event.resource_version) == (EventKind(kind), "8")
    assert event.object is not None
    assert event.object.spec.node_name == "n1"


@pytest.mark.parametrize("resource", [PODS, PODS.as_metadata(), VPAS], ids=lambda resource: resource.kind)
def test_a_bookmark_is_a_version_and_no_object(resource: Resource[Any]) -> None:
    event = decode_line(bookmark_line("99"), resource)
    assert (event.kind, event.resource_version, event.object) == (EventKind.BOOKMARK, "99", None)


@pytest.mark.parametrize("resource", [PODS, PODS.as_metadata(), VPAS], ids=lambda resource: resource.kind)
def test_a_version_too_old_ends_the_watch_as_expired(resource: Resource[Any]) -> None:
    event = decode_line(expired_line("too old resource version: 5 (90)"), resource)
    assert event.kind is EventKind.ERROR
    assert isinstance(event.error, Expired)
    assert "5 (90)" in str(event.error)


def test_another_error_keeps_its_code_and_its_patience() -> None:
    status = status_object(500, "InternalError", "etcd is slow", {"retryAfterSeconds": 3})
    event = decode_line(watch_line("ERROR", status), PODS)
    assert isinstance(event.error, ServerFault)
    assert (event.error.code, event.error.retry_after) == (500, 3.0)


def test_an_object_with_a_wrong_type_is_reported_with_its_name_and_its_version() -> None:
    event = decode_line(watch_line("MODIFIED", _pod(spec={"nodeName": 5})), PODS)
    assert (event.kind, event.object, event.resource_version) == (EventKind.MODIFIED, None, "8")
    assert event.rejected is not None
    assert (event.rejected.namespace, event.rejected.name) == ("shop", "web")
    assert "nodeName" in event.rejected.message


def test_a_null_that_go_writes_is_no_reason_to_reject() -> None:
    event = decode_line(watch_line("ADDED", _pod(spec={"containers": None})), PODS)
    assert event.object is not None
    assert event.object.spec.containers == ()


def test_an_annotation_of_a_megabyte_is_read() -> None:
    metadata = {"name": "web", "annotations": {"big": "x" * 2**20}}
    event = decode_line(watch_line("ADDED", {"metadata": metadata}), PODS)
    assert event.object is not None
    assert len(event.object.metadata.annotations["big"]) == 2**20


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"<html>", b"\xff", b"[1]", b'{"type":"SURPRISE","object":{}}', b'{"type":"ADDED"}', b"[" * 9999]
)
def test_what_is_no_event_at_all_ends_the_watch_and_says_what_it_was(raw: bytes) -> None:
    event = decode_line(raw, PODS)
    assert event.kind is EventKind.ERROR
    assert isinstance(event.error, ServerFault)
    assert len(str(event.error)) < 300


def test_an_error_that_is_no_status_is_an_error_all_the_same() -> None:
    assert isinstance(decode_line(b'{"type":"ERROR","object":7}', PODS).error, ServerFault)


@given(
    st.binary(max_size=300) | st.from_regex(rb'\{"type":"(ADDED|ERROR|BOOKMARK)","object":.{0,80}\}', fullmatch=True)
)
def test_no_line_makes_the_decoder_raise(raw: bytes) -> None:
    event = decode_line(raw, PODS)
    present = [part for part in (event.object, event.rejected, event.error) if part is not None]
    assert len(present) == (0 if event.kind is EventKind.BOOKMARK else 1)


@given(st.lists(st.binary(min_size=1).filter(lambda part: b"\n" not in part)), st.data())
def test_lines_come_out_whole_however_the_network_cuts_them(lines: list[bytes], data: st.DataObject) -> None:
    sent = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=8)))
    splitter = LineSplitter()
    got: list[bytes] = []
    for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        got += splitter.feed(sent[start:end])
    assert got == lines
    assert splitter.rest() == b""


def test_the_beginning_of_a_line_is_kept_and_not_given_out() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b'one\n{"type":') == [b"one"]
    assert splitter.feed(b'"ADDED"') == []
    assert splitter.rest() == b'{"type":"ADDED"'


def test_a_line_without_end_is_given_up() -> None:
    splitter = LineSplitter(limit=10)
    splitter.feed(b"12345678")
    with pytest.raises(ServerFault, match="10 bytes"):
        splitter.feed(b"9012")


def test_an_event_of_a_kind_of_our_own_is_read_by_its_own_declaration() -> None:
    document = {"metadata": {"name": "web", "resourceVersion": "3"}, "spec": {"targetRef": {"kind": "Deployment"}}}
    event = decode_line(msgspec.json.encode({"type": "ADDED", "object": document}), VPAS)
    assert event.object is not None
    assert event.object.spec is not None
    assert event.resource_version == "3"
