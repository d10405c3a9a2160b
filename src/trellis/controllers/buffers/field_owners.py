"""Which field managers own the fields of a Buffer's status that two components may write, one at a time?

`managedFields` is read of Buffers alone, and cut down to the answer as an object comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import msgspec

from trellis.api.buffer import Buffer
from trellis.api.kube.meta import ManagedFields, ObjectMeta
from trellis.kube.resources import BUFFERS, Resource

_PROVISIONED: Final = 'k:{"type":"Provisioned"}'
_LAST_FULL: Final = "f:lastFullyProvisioned"
_NONE: Final[frozenset[str]] = frozenset()


class ManagedMeta(ObjectMeta, frozen=True):
    """Metadata with who owns what."""

    managed_fields: tuple[ManagedFields, ...] = ()


class ManagedBuffer(Buffer, frozen=True):
    """A Buffer, and by field manager the leaves it owns of `Provisioned` and `lastFullyProvisioned`."""

    metadata: ManagedMeta = ManagedMeta()
    owners: Mapping[str, tuple[str, ...]] = {}


MANAGED_BUFFERS: Final = cast("Resource[Buffer]", BUFFERS.read_as(ManagedBuffer))


def transform(found: Buffer) -> Buffer:
    """The Buffer with the owners found, and without `managedFields`."""
    if not isinstance(found, ManagedBuffer):
        return found
    owners = {
        each.manager: leaves
        for each in found.metadata.managed_fields
        if each.subresource == "status" and (leaves := tuple(_leaves(each.fields_v1)))
    }
    metadata = msgspec.structs.replace(found.metadata, managed_fields=())
    return msgspec.structs.replace(found, metadata=metadata, owners=owners)


def owned_by(buffer: Buffer, manager: str) -> frozenset[str]:
    """The leaves that a field manager owns."""
    return frozenset(buffer.owners.get(manager, ())) if isinstance(buffer, ManagedBuffer) else _NONE


def _leaves(fields: Mapping[str, Any]) -> Iterator[str]:
    status = fields.get("f:status", {})
    yield from (name for name in status.get("f:conditions", {}).get(_PROVISIONED, {}) if name != ".")
    if _LAST_FULL in status:
        yield _LAST_FULL
