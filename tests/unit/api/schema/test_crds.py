"""What the generated CRDs promise: upstream's surface kept, ours added, every list and text bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from trellis.api.registry import BUFFER, CHECKPOINT, HVPA, KINDS, VPA, Kind
from trellis.api.schema.crds import build_crd, build_object_schema
from trellis.api.schema.tree import JsonShape, SchemaNode, build_schema_tree


def at(schema: dict[str, Any], path: str) -> dict[str, Any]:
    """The schema of a field, `[]` stepping into a list's items."""
    for part in path.split("."):
        schema = schema["properties"][part.removesuffix("[]")]
        if part.endswith("[]"):
            schema = schema["items"]
    return schema


def version(kind: Kind, name: str) -> dict[str, Any]:
    document: dict[str, Any] = next(v for v in build_crd(kind)["spec"]["versions"] if v["name"] == name)
    return document


@pytest.mark.parametrize(
    ("kind", "name", "short", "stored"),
    [
        (VPA, "verticalpodautoscalers.autoscaling.k8s.io", "vpa", "v1"),
        (CHECKPOINT, "verticalpodautoscalercheckpoints.autoscaling.k8s.io", "vpacheckpoint", "v1"),
        (HVPA, "hvpas.autoscaling.x-k8s.io", "hvpa", "v1alpha1"),
        (BUFFER, "buffers.autoscaling.x-k8s.io", "buf", "v1alpha1"),
    ],
)
@pytest.mark.req("BF-06")
def test_names_version_and_scope(kind: Kind, name: str, short: str, stored: str) -> None:
    crd = build_crd(kind)
    assert crd["metadata"]["name"] == name
    assert crd["spec"]["group"] == name.partition(".")[2]
    assert [version["name"] for version in crd["spec"]["versions"] if version["served"] and version["storage"]] == [
        stored
    ]
    assert crd["spec"]["scope"] == "Namespaced"
    assert crd["spec"]["names"]["shortNames"] == [short]
    assert crd["spec"]["names"]["singular"] == kind.name.lower()


def test_upstreams_printer_columns_are_kept() -> None:
    columns = version(VPA, "v1")["additionalPrinterColumns"]
    assert [(column["name"], column["type"]) for column in columns] == [
        ("Mode", "string"),
        ("CPU", "string"),
        ("Mem", "string"),
        ("Provided", "string"),
        ("Age", "date"),
        ("MinReplicas", "integer"),
        ("OOMSeconds", "integer"),
    ]
    assert [column.get("priority", 0) for column in columns] == [0, 0, 0, 0, 0, 1, 1]
    assert columns[0]["jsonPath"] == ".spec.updatePolicy.updateMode"
    assert columns[1]["jsonPath"] == ".status.recommendation.containerRecommendations[0].target.cpu"


@pytest.mark.parametrize("kind", [VPA, CHECKPOINT], ids=lambda kind: kind.name)
def test_the_retired_version_is_unserved_and_prunes_nothing(kind: Kind) -> None:
    retired = version(kind, "v1beta2")
    assert (retired["served"], retired["storage"], retired["deprecated"]) == (False, False, True)
    assert retired["schema"]["openAPIV3Schema"]["x-kubernetes-preserve-unknown-fields"] is True
    assert version(kind, "v1")["storage"] is True


def test_the_protected_group_carries_its_approval() -> None:
    for kind in (VPA, CHECKPOINT):
        assert "api-approved.kubernetes.io" in build_crd(kind)["metadata"]["annotations"]


def test_subresources() -> None:
    assert version(VPA, "v1")["subresources"] == {"status": {}}
    assert "subresources" not in version(CHECKPOINT, "v1")
    assert version(HVPA, "v1alpha1")["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    scale = version(BUFFER, "v1alpha1")["subresources"]["scale"]
    assert scale["specReplicasPath"] == ".spec.capacity.replicas.exactly"


@pytest.mark.req("CR-03")
def test_recommenders_are_an_optional_list_of_objects_with_a_name() -> None:
    schema = build_object_schema(VPA)
    recommenders = at(schema, "spec.recommenders")
    assert recommenders["type"] == "array"
    assert recommenders["items"]["type"] == "object"
    assert recommenders["items"]["properties"]["name"]["type"] == "string"
    assert recommenders["items"]["required"] == ["name"]
    assert "recommenders" not in schema["properties"]["spec"]["required"]


@pytest.mark.req("SB-09")
def test_the_factors_minimum_is_in_the_schema_itself() -> None:
    schema = build_object_schema(VPA)
    for place in ("spec.startupBoost.cpu", "spec.resourcePolicy.containerPolicies[].startupBoost.cpu"):
        factor = at(schema, f"{place}.factor")
        assert (factor["type"], factor["minimum"], factor["format"]) == ("integer", 1, "int32")


def test_upstreams_own_cel_rules_are_kept() -> None:
    rules = {rule["rule"] for rule in at(build_object_schema(VPA), "spec.startupBoost.cpu")["x-kubernetes-validations"]}
    assert "(self.type == 'Factor') == has(self.factor)" in rules
    assert "(self.type == 'Quantity') == has(self.quantity)" in rules


def test_quantities_are_text_or_numbers_with_upstreams_pattern() -> None:
    quantity = at(build_object_schema(VPA), "spec.resourcePolicy.containerPolicies[].minAllowed")[
        "additionalProperties"
    ]
    assert quantity["x-kubernetes-int-or-string"] is True
    assert quantity["pattern"].startswith(r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))")
    assert quantity["maxLength"] == 32


def test_checkpoints_keep_upstreams_format() -> None:
    schema = build_object_schema(CHECKPOINT)
    assert "required" not in schema
    assert set(schema["properties"]["status"]["properties"]) >= {
        "lastUpdateTime", "version", "cpuHistogram", "memoryHistogram", "firstSampleStart", "lastSampleStart",
        "totalSamplesCount",
    }  # fmt: skip
    weights = at(schema, "status.cpuHistogram.bucketWeights")
    assert weights == {
        "description": weights["description"],
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    assert at(schema, "status.lastUpdateTime")["nullable"] is True


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_there_are_no_schema_defaults_because_they_show_in_every_diff(kind: Kind) -> None:
    assert not [schema for schema in schemas(build_object_schema(kind)) if "default" in schema]


@pytest.mark.parametrize("kind", [VPA, HVPA, BUFFER], ids=lambda kind: kind.name)
def test_conditions_are_a_map_by_type_with_the_generation_observed(kind: Kind) -> None:
    conditions = at(build_object_schema(kind), "status.conditions")
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    assert "observedGeneration" in conditions["items"]["properties"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_field_is_described(kind: Kind) -> None:
    for struct in (kind.spec, kind.status):
        undescribed = [
            name
            for node in nodes(build_schema_tree(struct))
            for name, member in node.members.items()
            if not member.field.doc
        ]
        assert undescribed == []


@pytest.mark.parametrize("kind", [HVPA, BUFFER], ids=lambda kind: kind.name)
def test_every_list_of_our_own_kinds_that_users_write_is_bounded(kind: Kind) -> None:
    # Lists below a VPA's own types are upstream's and stay as they are; a pod spec is kept as written.
    upstreams = {"containerPolicies", "controlledResources", "resources"}
    unbounded = [
        name
        for node in nodes(build_schema_tree(kind.spec))
        for name, member in node.members.items()
        if member.shape is JsonShape.LIST and member.field.max_items is None
    ]
    assert set(unbounded) <= upstreams


@pytest.mark.parametrize("kind", [HVPA, BUFFER], ids=lambda kind: kind.name)
def test_every_text_of_our_own_kinds_that_users_write_is_bounded(kind: Kind) -> None:
    upstreams = {"containerName", "resources"}
    unbounded = [
        name
        for node in nodes(build_schema_tree(kind.spec))
        for name, member in node.members.items()
        for text in (member, member.items)
        if text is not None
        and text.shape in {JsonShape.STRING, JsonShape.QUANTITY}
        and not text.field.enum
        and text.field.max_length is None
    ]
    assert set(unbounded) <= upstreams


@pytest.mark.req("BF-37", "BF-07")
def test_a_buffers_status_holds_the_pods_the_conditions_and_the_last_full_time() -> None:
    status = build_object_schema(BUFFER)["properties"]["status"]["properties"]
    fields = {"podBasedBufferSpec", "conditions", "lastFullyProvisioned", "observedGeneration", "selector"}
    assert set(status) == fields
    assert set(status["podBasedBufferSpec"]["properties"]) == {"replicaNum", "podSpec", "podLabels"}
    assert status["lastFullyProvisioned"]["format"] == "date-time"


def nodes(node: SchemaNode) -> Iterator[SchemaNode]:
    yield node
    for member in node.members.values():
        yield from nodes(member)
    if node.items is not None:
        yield from nodes(node.items)


def schemas(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for below in schema.get("properties", {}).values():
        yield from schemas(below)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from schemas(schema[name])
