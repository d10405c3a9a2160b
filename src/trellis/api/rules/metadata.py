"""The metadata of any object, with the API server's rules for names, labels and annotations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from trellis.api.kinds.parts import ApiStruct
from trellis.api.problems import INVALID, REQUIRED, TOO_MANY, MapKey, Path, ValidationProblem
from trellis.api.schema.fields import Field, Rule, rule
from trellis.base.names import check_dns_label, check_dns_subdomain, check_label_key, check_label_value

# All annotations of an object together, keys included; more is refused by the API server.
MAX_ANNOTATION_BYTES = 256 * 1024


class Metadata(ApiStruct, frozen=True):
    """Every field that metadata can have; those a server fills are listed so that they are no typos."""

    name: Annotated[str | None, Field("The name.")] = None
    generate_name: Annotated[str | None, Field("A prefix for a generated name.")] = None
    namespace: Annotated[str | None, Field("The namespace.")] = None
    labels: Annotated[dict[str, str] | None, Field("Labels.")] = None
    annotations: Annotated[dict[str, str] | None, Field("Annotations.")] = None
    finalizers: Annotated[list[str] | None, Field("Finalizers: the object is deleted once they are removed.")] = None
    owner_references: Annotated[list[dict[str, Any]] | None, Field("Owners.")] = None
    managed_fields: Annotated[list[dict[str, Any]] | None, Field("Field ownership of server-side apply.")] = None
    uid: Annotated[str | None, Field("Set by the server.")] = None
    resource_version: Annotated[str | None, Field("Set by the server.")] = None
    generation: Annotated[int | None, Field("Set by the server.")] = None
    creation_timestamp: Annotated[str | None, Field("Set by the server.")] = None
    deletion_timestamp: Annotated[str | None, Field("Set by the server.")] = None
    deletion_grace_period_seconds: Annotated[int | None, Field("Set by the server.")] = None
    self_link: Annotated[str | None, Field("No longer used.")] = None


@rule(Metadata, "name", "generateName", message="an object must have a name")
def name_is_set(metadata: Metadata) -> Iterator[ValidationProblem]:
    """A DNS subdomain, for kinds that have no stricter rule."""
    if not metadata.name and not metadata.generate_name:
        yield ValidationProblem(("name",), REQUIRED, "name or generateName is required")
    problem = check_dns_subdomain(metadata.name) if metadata.name else None
    if problem:
        yield ValidationProblem(("name",), INVALID, problem, metadata.name)


@rule(Metadata, "namespace", message="a namespace must be a DNS label")
def namespace_is_a_label(metadata: Metadata) -> Iterator[ValidationProblem]:
    """Namespaces are labels, shorter than other names."""
    problem = check_dns_label(metadata.namespace) if metadata.namespace else None
    if problem:
        yield ValidationProblem(("namespace",), INVALID, problem, metadata.namespace)


@rule(Metadata, "labels", message="labels must have qualified names and valid values")
def labels_are_valid(metadata: Metadata) -> Iterator[ValidationProblem]:
    """Keys are qualified names, values at most 63 characters."""
    for key, value in (metadata.labels or {}).items():
        place: Path = ("labels", MapKey(key))
        for problem, text in ((check_label_key(key), key), (check_label_value(value), value)):
            if problem:
                yield ValidationProblem(place, INVALID, problem, text)


@rule(Metadata, "annotations", message="annotations must have qualified names and a limited total size")
def annotations_are_valid(metadata: Metadata) -> Iterator[ValidationProblem]:
    """Values are free; keys and the sum are not."""
    annotations = metadata.annotations or {}
    for key in annotations:
        # The API server compares annotation keys in lower case.
        problem = check_label_key(key.lower())
        if problem:
            yield ValidationProblem(("annotations", MapKey(key)), INVALID, problem, key)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > MAX_ANNOTATION_BYTES:
        yield ValidationProblem(("annotations",), TOO_MANY, f"must have at most {MAX_ANNOTATION_BYTES} bytes", size)


METADATA_RULES: tuple[Rule[Any], ...] = (name_is_set, namespace_is_a_label, labels_are_valid, annotations_are_valid)
