"""JSON patches that set resources and annotations: what they make of a pod, and when they refuse to."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.json_patch import PatchRefused, apply_patch
from trellis.api.kube.pods import ResourceRequirements
from trellis.base.quantities import Quantity
from trellis.core.cluster.json_patches import (
    PatchOp,
    ResourceChange,
    build_annotation_ops,
    build_guarded_ops,
    build_resource_ops,
    format_resource_amount,
)
from trellis.core.recommend.amounts import format_cpu_column, format_memory_column


def change(resources: dict[str, Any] | None = None, place: str = "containers", index: int = 0, **wanted: Any) -> Any:
    return ResourceChange(
        place,
        index,
        "app",
        msgspec.convert(resources or {}, ResourceRequirements),
        wanted.get("requests", {}),
        wanted.get("limits", {}),
    )


def listed(operations: list[PatchOp]) -> list[tuple[str, object]]:
    return [(op.path.removeprefix("/spec/containers/0/resources"), op.value) for op in operations]


def pod(resources: dict[str, Any] | None, **metadata: Any) -> dict[str, Any]:
    container = {"name": "app"} | ({} if resources is None else {"resources": resources})
    return {"metadata": {"uid": "u-1", **metadata}, "spec": {"containers": [container], "initContainers": []}}


# Resources


def test_a_container_without_resources_gets_the_maps_first_as_upstream_writes_them() -> None:
    operations = build_resource_ops([change(requests={"memory": 262144000, "cpu": 25}, limits={"cpu": 50})])
    assert listed(operations) == [
        ("", {}),
        ("/requests", {}),
        ("/requests/cpu", "25m"),
        ("/requests/memory", "250Mi"),
        ("/limits", {}),
        ("/limits/cpu", "50m"),
    ]


def test_maps_that_are_there_are_kept() -> None:
    operations = build_resource_ops([change({"requests": {"ephemeral-storage": "1Gi"}}, requests={"cpu": 25})])
    assert listed(operations) == [("/requests/cpu", "25m")]


def test_device_claims_survive_on_a_container_without_requests_and_limits() -> None:
    resources = {"claims": [{"name": "gpu"}]}
    changed = apply_patch(pod(resources), build_resource_ops([change(resources, requests={"cpu": 25})]))
    assert changed["spec"]["containers"][0]["resources"] == {**resources, "requests": {"cpu": "25m"}}


def test_an_amount_that_stands_there_in_other_words_is_left_alone() -> None:
    resources = {"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": {"cpu": "0.5"}}
    assert build_resource_ops([change(resources, requests={"cpu": 1000, "memory": 2**30}, limits={"cpu": 500})]) == []


@pytest.mark.parametrize("text", ["0.5m", "nonsense", "", "1u"])
def test_what_is_finer_than_we_count_or_no_amount_at_all_is_replaced(text: str) -> None:
    assert listed(build_resource_ops([change({"requests": {"cpu": text}}, requests={"cpu": 1})])) == [
        ("/requests/cpu", "1m")
    ]


def test_nothing_wanted_is_no_operation_not_even_an_empty_map() -> None:
    assert build_resource_ops([change()]) == []


def test_sidecars_are_patched_where_they_stand() -> None:
    [op] = build_resource_ops([change({"requests": {"cpu": "1"}}, "initContainers", 3, requests={"cpu": 2000})])
    assert op == PatchOp("add", "/spec/initContainers/3/resources/requests/cpu", "2")


@given(st.integers(0, 2**53))
def test_amounts_are_written_as_the_recommender_writes_them(amount: int) -> None:
    assert format_resource_amount("cpu", amount) == format_cpu_column(np.array([float(amount)]))[0]
    assert format_resource_amount("memory", amount) == format_memory_column(np.array([float(amount)]))[0]


counts = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(0, 2**40))
texts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "example.com/gpu~1"]), st.sampled_from(["1", "250m", "1Gi", "1000m"])
)
written_resources = st.none() | st.fixed_dictionaries({}, optional={"requests": texts, "limits": texts})


@given(written_resources, counts, counts, st.booleans())
def test_a_patched_pod_has_what_was_wanted_and_everything_else_as_before(
    resources: dict[str, Any] | None, requests: dict[str, int], limits: dict[str, int], guarded: bool
) -> None:
    before = pod(resources)
    wanted = [change(resources, requests=requests, limits=limits)]
    after = apply_patch(before, build_guarded_ops("u-1", wanted) if guarded else build_resource_ops(wanted))
    had = resources or {}
    now = after["spec"]["containers"][0].get("resources", {})
    for field, amounts in (("requests", requests), ("limits", limits)):
        expected = {name: Quantity.parse(text) for name, text in had.get(field, {}).items()}
        expected |= {
            name: Quantity.from_milli(amount) if name == "cpu" else Quantity.from_units(amount)
            for name, amount in amounts.items()
        }
        assert {name: Quantity.parse(text) for name, text in now.get(field, {}).items()} == expected
    for document in (before, after):
        document["spec"]["containers"][0].pop("resources", None)
    assert after == before


# Guards


RUNNING: dict[str, Any] = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}}


def test_only_what_is_replaced_is_tested_beside_the_pod_and_the_containers_name() -> None:
    operations = build_guarded_ops("u-1", [change(RUNNING, requests={"cpu": 500}), change(RUNNING, index=1)])
    assert [(op.op, op.path, op.value) for op in operations] == [
        ("test", "/metadata/uid", "u-1"),
        ("test", "/spec/containers/0/name", "app"),
        ("test", "/spec/containers/0/resources/requests/cpu", "1"),
        ("add", "/spec/containers/0/resources/requests/cpu", "500m"),
    ]


def test_nothing_to_change_is_no_patch_at_all() -> None:
    assert build_guarded_ops("u-1", [change(RUNNING, requests={"cpu": 1000})]) == []


@pytest.mark.parametrize(
    "elsewhere",
    [
        lambda it: it["metadata"].update(uid="u-2"),
        lambda it: it["spec"]["containers"][0].update(name="other"),
        lambda it: it["spec"]["containers"][0]["resources"]["requests"].update(cpu="3"),
        lambda it: it["spec"]["containers"][0]["resources"]["requests"].pop("cpu"),
    ],
)
def test_a_pod_changed_by_another_writer_is_not_patched(elsewhere: Any) -> None:
    stored = pod(copy.deepcopy(RUNNING))
    elsewhere(stored)
    with pytest.raises(PatchRefused):
        apply_patch(stored, build_guarded_ops("u-1", [change(RUNNING, requests={"cpu": 500})]))


# Annotations


def test_the_first_annotation_makes_the_map() -> None:
    made = [PatchOp("add", "/metadata/annotations", {}), PatchOp("add", "/metadata/annotations/a", "1")]
    assert build_annotation_ops(None, {"a": "1"}) == made
    assert build_annotation_ops({}, {"a": "1"}) == made


def test_a_removal_has_no_value_on_the_wire() -> None:
    assert msgspec.json.encode(build_annotation_ops({"a/b~c": "1"}, {}, ["a/b~c", "gone"])) == (
        b'[{"op":"remove","path":"/metadata/annotations/a~1b~0c"}]'
    )


some_annotations = st.dictionaries(st.text("ab~/01", min_size=1, max_size=4), st.text("xy", max_size=2), max_size=5)


@given(st.none() | some_annotations, some_annotations, st.lists(st.text("ab~/01", min_size=1, max_size=4)))
def test_annotations_are_set_and_removed_whatever_their_keys(
    existing: dict[str, str] | None, values: dict[str, str], removed: list[str]
) -> None:
    metadata = {} if existing is None else {"annotations": existing}
    changed = apply_patch(pod(None, **metadata), build_annotation_ops(existing, values, removed))
    expected = {key: text for key, text in (existing or {}).items() if key not in removed} | values
    assert changed["metadata"].get("annotations", {}) == expected
    if expected == (existing or {}):
        assert build_annotation_ops(existing, values, removed) == []
