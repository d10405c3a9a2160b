"""JSON Schemas for editors: what they accept, and which slips they find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from support.json_schemas import find_errors
from trellis.api.registry import ALL_KINDS, SCENARIO, VPA, Kind
from trellis.api.schema.json_schemas import build_combined_schema, build_json_schema

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"
COMBINED = build_combined_schema()


def list_documents() -> list[Any]:
    texts = (path.read_text() for path in sorted(EXAMPLES.rglob("*.yaml")))
    return [document for text in texts for document in yaml.safe_load_all(text) if document]


def vpa(**spec: Any) -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    metadata = {"name": "web"}
    return {
        "apiVersion": VPA.api_version,
        "kind": VPA.name,
        "metadata": metadata,
        "spec": {"targetRef": target, **spec},
    }


def test_every_example_is_accepted() -> None:
    documents = list_documents()
    kinds = {document["kind"] for document in documents}
    ours = {"VerticalPodAutoscaler", "Hvpa", "Buffer", "Scenario", "KwokNodeGroup", "ClaimNodeGroup"}
    assert kinds >= ours | {"Deployment"}
    assert [error for document in documents for error in find_errors(document, COMBINED, COMBINED)] == []


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"updatePolcy": {}}, ".spec: updatePolcy is unknown"),
        ({"updatePolicy": {"updateMode": "Sometimes"}}, ".spec.updatePolicy.updateMode: must be one of"),
        ({"updatePolicy": {"minReplicas": "two"}}, ".spec.updatePolicy.minReplicas: must be integer"),
    ],
)
def test_slips_are_found(spec: dict[str, Any], error: str) -> None:
    found = list(find_errors(vpa(**spec), COMBINED, COMBINED))
    assert any(text.startswith(error) for text in found), found


def test_an_object_of_another_kind_may_be_anything() -> None:
    assert list(find_errors({"apiVersion": "v1", "kind": "Widget", "spec": 1}, COMBINED, COMBINED)) == []


@pytest.mark.parametrize("kind", ALL_KINDS, ids=lambda kind: kind.name)
def test_a_kind_has_a_schema_of_its_own_without_words_of_kubernetes(kind: Kind) -> None:
    schema = build_json_schema(kind)
    assert schema["properties"]["kind"]["const"] == kind.name
    assert "x-kubernetes" not in str(schema)
    other = {"apiVersion": "v1", "kind": "Widget", "spec": {}}
    assert f".kind: must be {kind.name}" in list(find_errors(other, schema, schema))


def test_a_scenario_without_a_spec_is_incomplete() -> None:
    schema = build_json_schema(SCENARIO)
    document = {"apiVersion": SCENARIO.api_version, "kind": SCENARIO.name}
    assert list(find_errors(document, schema, schema)) == [": spec is missing"]
