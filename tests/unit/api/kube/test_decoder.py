from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.api.kube.decoder import convert_object, decode_list, decode_object
from trellis.api.kube.pods import Pod
from trellis.base.errors import InvalidInput, UnreadableObject

GOOD: dict[str, Any] = {
    "metadata": {"name": "web-0", "namespace": "shop", "labels": {"app": "web"}, "finalizers": ["a"]},
    "spec": {
        "nodeName": "node-1",
        "containers": [{"name": "app", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "priority": 5,
        "affinity": {"nodeAffinity": {}},
    },
    "status": {
        "phase": "Running",
        "startTime": "2026-03-01T10:00:00Z",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "app", "ready": True, "resources": {"requests": {"cpu": "1"}}}],
    },
}


def body(*items: object, **metadata: object) -> bytes:
    return msgspec.json.encode({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items})


def named(name: str, **spec: object) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": spec}


def test_a_page_has_its_position_and_a_continue_token() -> None:
    metadata: dict[str, Any] = {"resourceVersion": "7", "continue": "abc", "remainingItemCount": 30}
    page = decode_list(body(named("a"), named("b"), **metadata), Pod)
    assert [pod.metadata.name for pod in page.items] == ["a", "b"]
    assert (page.resource_version, page.continue_token, page.remaining_item_count) == ("7", "abc", 30)
    assert page.rejected == ()


def test_a_complete_list_has_no_continue_token() -> None:
    page = decode_list(body(resourceVersion="7"), Pod)
    assert (page.items, page.continue_token, page.remaining_item_count) == ((), "", None)


def test_items_null_is_an_empty_list() -> None:
    assert decode_list(b'{"metadata":{"resourceVersion":"7"},"items":null}', Pod).items == ()


def test_an_unreadable_pod_of_a_list_is_rejected_by_name() -> None:
    pods = [named(f"web-{i}", nodeName="node-1") for i in range(300)]
    pods[123]["spec"]["containers"] = [{"name": "app"}, {"name": 5}]
    page = decode_list(body(*pods, resourceVersion="7"), Pod)
    assert len(page.items) == 299
    assert "web-123" not in {pod.metadata.name for pod in page.items}
    assert page.resource_version == "7"
    [bad] = page.rejected
    assert (bad.index, bad.namespace, bad.name) == (123, "shop", "web-123")
    assert "shop/web-123" in bad.message
    assert "$.spec.containers[1].name" in bad.message
    assert "\n" not in bad.message


def test_something_without_a_name_is_still_set_aside_with_its_place() -> None:
    page = decode_list(body(named("a"), 17, None, "text", {"metadata": 1}), Pod)
    assert [pod.metadata.name for pod in page.items] == ["a"]
    assert [(bad.index, bad.name) for bad in page.rejected] == [(1, ""), (2, ""), (3, ""), (4, "")]
    assert "an object without a name" in page.rejected[0].message


def test_text_that_is_not_utf8_costs_one_pod_and_not_the_list() -> None:
    data = body(named("a"), named("b", nodeName="?")).replace(b'"?"', b'"\xff"')
    page = decode_list(data, Pod)
    assert [pod.metadata.name for pod in page.items] == ["a"]
    assert [(bad.index, bad.name) for bad in page.rejected] == [(1, "b")]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>502 Bad Gateway</html>",
        b'{"items":[{"metadata":{}},',
        b'{"items":{}}',
        b"[]",
        b'{"kind":"Status","status":"Failure","message":"too old resource version","code":410}',
    ],
)
def test_a_document_that_is_no_list_is_refused_and_not_read_as_empty(data: bytes) -> None:
    with pytest.raises(UnreadableObject, match="PodList"):
        decode_list(data, Pod)


def test_an_unreadable_object_names_itself_and_the_field() -> None:
    with pytest.raises(UnreadableObject) as caught:
        decode_object(msgspec.json.encode(named("web-0", priority="high")), Pod)
    assert isinstance(caught.value, InvalidInput)
    assert caught.value.value == "shop/web-0"
    assert "$.spec.priority" in caught.value.rule


def test_nesting_without_end_is_refused_and_not_a_crash() -> None:
    data = b'{"metadata":{"name":"deep"},"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(UnreadableObject):
        decode_object(data, Pod)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(UnreadableObject, match="startTime"):
        decode_object(b'{"status":{"startTime":"2026-03-01T10:00:00"}}', Pod)


def test_names_beyond_ascii_are_read_and_reported_as_they_are() -> None:
    label = {"team": "größe-漢字-🌱"}
    page = decode_list(body({"metadata": {"name": "ü", "labels": label}}, named("漢", priority=[])), Pod)
    assert page.items[0].metadata.labels == label
    assert page.rejected[0].name == "漢"
    assert "漢" in page.rejected[0].message


@pytest.mark.parametrize(("written", "read"), [(2, "2"), (0.5, "0.5"), (-1, "-1"), ("2", "2")])
def test_a_quantity_written_as_a_number_is_read_as_its_text(written: object, read: str) -> None:
    data = msgspec.json.encode(named("a", overhead={"cpu": written}, containers=[]))
    assert decode_object(data, Pod).spec.overhead == {"cpu": read}


@pytest.mark.parametrize("written", [True, [], {}])
def test_a_quantity_that_is_neither_text_nor_number_is_refused(written: object) -> None:
    with pytest.raises(UnreadableObject, match="overhead"):
        decode_object(msgspec.json.encode(named("a", overhead={"cpu": written})), Pod)


def test_a_number_is_no_text_elsewhere() -> None:
    with pytest.raises(UnreadableObject, match="nodeName"):
        decode_object(msgspec.json.encode(named("a", nodeName=5)), Pod)


def test_a_manifest_is_read_as_the_same_bytes_would_be() -> None:
    assert convert_object(GOOD, Pod) == decode_object(msgspec.json.encode(GOOD), Pod)


def test_a_manifest_with_empty_keys_is_read() -> None:
    document = {
        "metadata": {"name": "a", "labels": None},
        "spec": {"containers": [{"name": "app", "resources": None}]},
    }
    read = convert_object(document, Pod)
    assert (dict(read.metadata.labels), dict(read.spec.containers[0].resources.requests)) == ({}, {})


@pytest.mark.parametrize("document", [None, 5, "text", ["a"], {"metadata": {"name": 5}}])
def test_a_manifest_that_is_no_pod_is_refused(document: object) -> None:
    with pytest.raises(UnreadableObject, match="cannot be read as a Pod"):
        convert_object(document, Pod)


def places(node: object) -> list[tuple[str | int, ...]]:
    """Every key of every map in a document, as the path that leads to it."""
    if isinstance(node, dict):
        return [path for key, value in node.items() for path in [(key,), *((key, *p) for p in places(value))]]
    if isinstance(node, list):
        return [(i, *path) for i, value in enumerate(node) for path in places(value)]
    return []


def parent(document: Any, path: tuple[str | int, ...]) -> Any:
    for step in path[:-1]:
        document = document[step]
    return document


@given(st.sampled_from(places(GOOD)))
def test_null_reads_as_absent_wherever_it_stands(path: tuple[str | int, ...]) -> None:
    null, absent = copy.deepcopy(GOOD), copy.deepcopy(GOOD)
    parent(null, path)[path[-1]] = None
    del parent(absent, path)[path[-1]]
    assert decode_object(msgspec.json.encode(null), Pod) == decode_object(msgspec.json.encode(absent), Pod)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from([(), ("metadata",), ("spec",), ("spec", "containers", 0), ("status",)]), JSON)
def test_fields_outside_the_slice_are_ignored(path: tuple[str | int, ...], value: object) -> None:
    extended = copy.deepcopy(GOOD)
    parent(extended, (*path, ""))["a field of a later version"] = value
    assert decode_object(msgspec.json.encode(extended), Pod) == decode_object(msgspec.json.encode(GOOD), Pod)


@given(st.lists(st.one_of(st.just(GOOD), JSON, st.dictionaries(st.sampled_from(["metadata", "spec"]), JSON))))
def test_every_object_of_a_list_is_either_read_or_set_aside(items: list[object]) -> None:
    page = decode_list(body(*items), Pod)
    assert len(page.items) + len(page.rejected) == len(items)
    aside = {bad.index for bad in page.rejected}
    assert aside.isdisjoint(i for i, item in enumerate(items) if item is GOOD)
    readable = [item for i, item in enumerate(items) if i not in aside]
    assert page.items == tuple(convert_object(item, Pod) for item in readable)
    assert all(bad.message for bad in page.rejected)
