"""How the API server's answers become findings."""

from __future__ import annotations

import pytest

from trellis.api.problems import Path
from trellis.base.errors import Cause, Details, Forbidden, Invalid, NotFound, Unreachable
from trellis.core.lint.check import check, convert_server_error, parse_field_path
from trellis.core.lint.cross_checks import TrellisObject
from trellis.core.lint.manifests import ManifestSource

HVPA = """\
apiVersion: autoscaling.x-k8s.io/v1alpha1
kind: Hvpa
metadata: {name: web, namespace: shop}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  buckets:
  - replicas: {min: 1, max: 8}
    cpu: {min: 0, max: 24}
    memory: {min: 0, max: 25G}
"""


@pytest.fixture
def ours() -> TrellisObject:
    (hvpa,) = check([ManifestSource("a.yaml", HVPA.encode())]).objects
    return hvpa


def test_every_field_that_the_server_objects_to_is_found_at_its_line(ours: TrellisObject) -> None:
    causes = (
        Cause("FieldValueInvalid", "Invalid value: too much", "spec.buckets[0].cpu"),
        Cause("FieldValueRequired", "Required value", "spec"),
    )
    error = Invalid(422, "Invalid", "Hvpa is invalid", Details(causes=causes))
    findings = list(convert_server_error(ours, error))
    assert [(finding.line, finding.path, finding.message) for finding in findings] == [
        (8, "spec.buckets[0].cpu", "the API server says: Invalid value: too much"),
        (4, "spec", "the API server says: Required value"),
    ]


def test_a_kind_that_is_not_served_is_reported_with_the_remedy(ours: TrellisObject) -> None:
    (finding,) = convert_server_error(
        ours, NotFound(404, "NotFound", "the server could not find the requested resource")
    )
    assert finding.reason.code == "NotServed"
    assert finding.message.endswith("install it with `trellis crds`")


def test_a_missing_namespace_is_reported_where_it_is_named(ours: TrellisObject) -> None:
    error = NotFound(404, "NotFound", 'namespaces "shop" not found', Details(name="shop", kind="namespaces"))
    (finding,) = convert_server_error(ours, error)
    assert (finding.path, finding.line) == ("metadata.namespace", 3)


def test_any_other_refusal_is_about_the_object(ours: TrellisObject) -> None:
    (finding,) = convert_server_error(ours, Forbidden(403, "Forbidden", "not you"))
    assert (finding.path, finding.line, finding.message) == ("", 1, "the API server says: not you")


def test_an_unreachable_server_raises_instead_of_a_finding(ours: TrellisObject) -> None:
    with pytest.raises(Unreachable):
        list(convert_server_error(ours, Unreachable("no route")))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("spec.buckets[1].cpu", ("spec", "buckets", 1, "cpu")),
        ("spec.minAllowed[cpu]", ("spec", "minAllowed", "cpu")),
        ("metadata.name", ("metadata", "name")),
        ("<nil>", ()),
        ("", ()),
    ],
)
def test_paths_of_the_server_are_paths_of_the_document(text: str, path: Path) -> None:
    assert parse_field_path(text) == path
