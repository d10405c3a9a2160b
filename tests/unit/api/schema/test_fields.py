"""A field is declared once: validation, CRD and reference page all follow."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

import pages
from trellis.api import registry
from trellis.api.kinds.parts import ApiStruct
from trellis.api.registry import Kind
from trellis.api.schema.crds import build_object_schema
from trellis.api.schema.fields import Field
from trellis.api.schema.tree import build_schema_tree
from trellis.api.validation import SchemaValidator, validate


class NewSpec(ApiStruct, frozen=True):
    """A spec with one new field."""

    lead_time: Annotated[int | None, Field("How long before.", minimum=5, required=True)] = None


@pytest.fixture
def kind() -> Kind:
    return Kind(
        group="example.com",
        version="v1",
        name="New",
        plural="news",
        short_names=("nw",),
        struct=NewSpec,
        spec=NewSpec,
        status=NewSpec,
    )


def test_a_new_field_is_validated(kind: Kind) -> None:
    problems = SchemaValidator({}).check(build_schema_tree(NewSpec), {"leadTime": 4}, ("spec",))
    assert [str(problem) for problem in problems] == [
        "spec.leadTime: Invalid value: 4: must be greater than or equal to 5"
    ]


def test_a_new_field_is_in_the_crd(kind: Kind) -> None:
    spec = build_object_schema(kind)["properties"]["spec"]
    assert spec["required"] == ["leadTime"]
    assert spec["properties"]["leadTime"] == {"description": "How long before.", "type": "integer", "minimum": 5}


def test_a_new_field_is_on_the_reference_page(kind: Kind) -> None:
    assert "| `spec.leadTime` | integer **required** | How long before. At least 5. |" in pages.build_kind_page(kind)


def test_decoding_and_encoding_adds_nothing() -> None:
    written = {"targetRef": {"kind": "Deployment", "name": "web"}, "recommenders": [{"name": "x"}]}
    decoded = msgspec.convert(written, registry.VPA.spec)
    assert msgspec.to_builtins(decoded) == written


def test_validation_takes_an_object_as_it_is_stored_with_status_and_managed_fields() -> None:
    stored = {
        "apiVersion": registry.VPA.api_version,
        "kind": "VerticalPodAutoscaler",
        "metadata": {
            "name": "web", "namespace": "default", "uid": "1", "resourceVersion": "5", "generation": 2,
            "creationTimestamp": "2026-11-15T18:00:00Z", "managedFields": [{"manager": "kubectl"}],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
        },
        "spec": {"targetRef": {"kind": "Deployment", "name": "web"}},
        "status": {"recommendation": {"newer": 1}},
    }  # fmt: skip
    assert validate(registry.VPA, stored) == []
