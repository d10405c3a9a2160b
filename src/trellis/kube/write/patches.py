"""The four kinds of patch that the API server takes, as values.

| patch | lists | use it for |
|---|---|---|
| JSON | by index, with `test` | a pod's resources, where every step is spelled out |
| merge | replaced whole | custom resources and their status |
| strategic | merged by key, such as a container's name | built-in kinds only |
| apply | merged by key, owners of fields kept apart | objects of which several writers own parts |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
# The API server reads YAML under this name, and JSON is YAML.
APPLY_PATCH: Final = "application/apply-patch+yaml"


class Patch(msgspec.Struct, frozen=True):
    """A patch as it is sent. `force` takes fields over from other managers, and goes with apply alone."""

    content_type: str
    body: bytes
    force: bool = False


def json_patch(operations: Iterable[Mapping[str, object]]) -> Patch:
    """RFC 6902: operations in order, all of them or none. A `test` that fails is answered with 422."""
    return Patch(JSON_PATCH, msgspec.json.encode(list(operations)))


def merge_patch(document: Mapping[str, object]) -> Patch:
    """RFC 7386: what is in the document is set, null removes, lists are replaced."""
    return Patch(MERGE_PATCH, msgspec.json.encode(document))


def strategic_patch(document: Mapping[str, object]) -> Patch:
    """Like merge, but lists such as containers are merged by their key. Custom resources do not take it (415)."""
    return Patch(STRATEGIC_PATCH, msgspec.json.encode(document))


def apply_patch(document: Mapping[str, object], *, force: bool = False) -> Patch:
    """Server-side apply: the document is all that this manager owns, and it must name its `apiVersion` and `kind`."""
    return Patch(APPLY_PATCH, msgspec.json.encode(document), force)
