"""The schema tree of a struct: the one derivation from structs that validation, CRDs and reference pages share."""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from trellis.api.schema.fields import Field
from trellis.base.errors import InternalError


class JsonShape(StrEnum):
    """The JSON shapes a field can have."""

    OBJECT = "object"
    MAP = "map"
    LIST = "array"
    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    QUANTITY = "quantity"


class SchemaNode(msgspec.Struct, frozen=True):
    """One field: its shape, its declaration, and what is below it."""

    shape: JsonShape
    field: Field
    struct: type[msgspec.Struct] | None = None
    members: Mapping[str, SchemaNode] = {}
    items: SchemaNode | None = None

    @property
    def required(self) -> tuple[str, ...]:
        """Wire names of the members that must be there, in the order they are declared."""
        return tuple(name for name, member in self.members.items() if member.field.required)


_SCALARS: dict[Any, JsonShape] = {
    str: JsonShape.STRING,
    int: JsonShape.INTEGER,
    float: JsonShape.NUMBER,
    bool: JsonShape.BOOLEAN,
}


@functools.cache
def build_schema_tree(struct: type[msgspec.Struct]) -> SchemaNode:
    """The tree of a struct declared with `Field` annotations."""
    return _build_node(struct, Field())


def _build_node(annotation: Any, outer: Field) -> SchemaNode:
    """The tree below one annotation; `outer` is the declaration around it."""
    unwrapped, field = _unwrap(annotation, outer)
    origin = get_origin(unwrapped)
    if isinstance(unwrapped, type) and issubclass(unwrapped, msgspec.Struct):
        return SchemaNode(JsonShape.OBJECT, field, struct=unwrapped, members=_build_members(unwrapped))
    if field.quantity:
        return SchemaNode(JsonShape.QUANTITY, field)
    if origin is list:
        return SchemaNode(JsonShape.LIST, field, items=_build_node(get_args(unwrapped)[0], Field()))
    if origin is dict and field.like is not None:
        return SchemaNode(JsonShape.OBJECT, field, struct=field.like, members=_build_members(field.like))
    if origin is dict:
        values = get_args(unwrapped)[1]
        return SchemaNode(JsonShape.MAP, field, items=None if values is Any else _build_node(values, Field()))
    if unwrapped in _SCALARS:
        return SchemaNode(_SCALARS[unwrapped], field)
    raise InternalError(f"no schema for {annotation!r}")


def _unwrap(annotation: Any, field: Field) -> tuple[Any, Field]:
    """Remove `Annotated` and `| None`, merging declarations from the outside in."""
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            annotation, *extras = get_args(annotation)
            for extra in extras:
                if isinstance(extra, Field):
                    field = field.merged(extra)
        elif origin in {Union, types.UnionType} and type(None) in get_args(annotation):
            rest = tuple(arg for arg in get_args(annotation) if arg is not type(None))
            annotation = rest[0] if len(rest) == 1 else Union[rest]  # noqa: UP007 -- built at run time
        else:
            return annotation, field


def _build_members(struct: type[msgspec.Struct]) -> dict[str, SchemaNode]:
    hints = get_type_hints(struct, include_extras=True)
    wire = zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True)
    return {encoded: _build_node(hints[name], Field()) for name, encoded in wire}
