"""What every Kubernetes object has: a name, owners, labels, conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import force_setattr

from trellis.api.kube.slices import NOTHING, Labels, Slice, Time


class OwnerReference(Slice, frozen=True):
    """Who made an object. At most one owner has `controller: true`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


def controller_among(owners: Sequence[OwnerReference]) -> OwnerReference | None:
    """The owner that keeps an object as it should be, if there is one."""
    for owner in owners:
        if owner.controller:
            return owner
    return None


RESIZE: Final = "resize"


class ManagedFields(Slice, frozen=True):
    """When a manager last changed fields, and through which subresource; which fields those are is not read."""

    time: Time | None = None
    subresource: str = ""


def last_resize(entries: tuple[ManagedFields, ...]) -> tuple[ManagedFields, ...]:
    """The newest entry of those who wrote `pods/resize`; all others, a quarter of a pod's bytes, are dropped."""
    found = [each for each in entries if each.subresource == RESIZE and each.time is not None]
    return (max(found, key=lambda each: each.time.timestamp() if each.time else 0.0),) if found else ()


class ObjectMeta(Slice, frozen=True):
    """The slice of `metadata`. Of `managed_fields` only the last resize of a pod is kept."""

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
    managed_fields: tuple[ManagedFields, ...] = ()

    def __post_init__(self) -> None:
        if self.managed_fields:
            force_setattr(self, "managed_fields", last_resize(self.managed_fields))

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that keeps this object as it should be, if there is one."""
        return controller_among(self.owner_references)


class KubeObject(Slice, frozen=True):
    """Anything with `metadata`: what caches and decoders know of a kind."""

    metadata: ObjectMeta = ObjectMeta()


class ListMeta(Slice, frozen=True):
    """Where a list stands: the version to watch from, and how to go on if it is only a page."""

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
    """The object form of a selector. Empty matches everything; absent means something else everywhere."""

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
