"""Metadata of any Kubernetes object (names, owners, labels, managed fields), and conditions, selectors, references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import force_setattr

from trellis.api.kube.slices import NOTHING, Labels, Slice, Time


class OwnerReference(Slice, frozen=True):
    """An owner of an object. At most one owner has `controller: true`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


def find_controller(owners: Sequence[OwnerReference]) -> OwnerReference | None:
    """The owner with `controller: true`, or None."""
    for owner in owners:
        if owner.controller:
            return owner
    return None


class ObjectMeta(Slice, frozen=True):
    """The slice of `metadata`. `managed_fields`, a quarter of a pod's bytes, is read only where a subclass has it."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Labels = NOTHING
    annotations: Labels = NOTHING
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner with `controller: true`, or None."""
        return find_controller(self.owner_references)


RESIZE: Final = "resize"


class SubresourceWrite(Slice, frozen=True):
    """When a manager last wrote, and through which subresource: an entry of `managedFields` without its fields."""

    time: Time | None = None
    subresource: str = ""


def select_last_resize(entries: tuple[SubresourceWrite, ...]) -> tuple[SubresourceWrite, ...]:
    """The newest write to `pods/resize`, or nothing."""
    resizes = [entry for entry in entries if entry.subresource == RESIZE and entry.time is not None]
    return (max(resizes, key=lambda entry: entry.time.timestamp() if entry.time else 0.0),) if resizes else ()


class PodMeta(ObjectMeta, frozen=True):
    """The metadata of a pod. Of `managed_fields` only the last resize is kept."""

    managed_fields: tuple[SubresourceWrite, ...] = ()

    def __post_init__(self) -> None:
        if self.managed_fields:
            force_setattr(self, "managed_fields", select_last_resize(self.managed_fields))


class ManagedFieldsEntry(Slice, frozen=True):
    """The fields that one writer set last: keys are `f:` and a name, and what is below a field is again such a map."""

    manager: str = ""
    operation: str = ""
    subresource: str = ""
    fields_v1: Mapping[str, Any] = msgspec.field(name="fieldsV1", default=NOTHING)

    def has_field(self, *path: str) -> bool:
        """Whether the entry has a field."""
        fields: Any = self.fields_v1
        for name in path:
            fields = fields.get(f"f:{name}") if isinstance(fields, Mapping) else None
        return fields is not None


class KubeObject(Slice, frozen=True):
    """Any object with `metadata`."""

    metadata: ObjectMeta = ObjectMeta()


class ListMeta(Slice, frozen=True):
    """Metadata of a list: the version to watch from, and the token of the next page."""

    resource_version: str = ""
    continue_token: str = msgspec.field(name="continue", default="")
    remaining_item_count: int | None = None


class Condition(Slice, frozen=True):
    """One condition of any kind's status. `status` is True, False or Unknown, as text."""

    type: str = ""
    observed_generation: int = 0
    status: str = ""
    last_transition_time: Time | None = None
    reason: str = ""
    message: str = ""


class LabelSelectorRequirement(Slice, frozen=True):
    """`key` In, NotIn, Exists or DoesNotExist `values`."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Slice, frozen=True):
    """The object form of a selector. Empty matches everything; the meaning of an absent one depends on the field."""

    match_labels: Labels = NOTHING
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class ObjectReference(Slice, frozen=True):
    """A reference to any object, as Events carry it."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class LocalObjectReference(Slice, frozen=True):
    """A reference by name to an object in the same namespace."""

    name: str = ""
