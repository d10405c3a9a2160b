"""Decodes bytes from the API server into slices.

One object that cannot be read must not blind an autoscaler to ten thousand others. A list is decoded whole, in one
go; only if that fails is it decoded object by object, and those that cannot be read are set aside with their name and
the reason.

An object that does not decode as declared is repaired and decoded again. Go writes a list or map that is nil as null
where the field has no `omitempty` (a new autoscaler's `currentMetrics`, an empty LimitRange), people leave a key of a
manifest empty, and a custom resource keeps `limits: {cpu: 1}` as the number it was written as. The API server accepts
all of these. Slices are declared without them, so that readers need not check. A repair is some twenty times slower,
and rare: the API server writes pods without either.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import inspect

from trellis.api.kube.meta import ListMeta
from trellis.api.kube.slices import QUANTITY_MARK
from trellis.base.errors import UnreadableObject

T = TypeVar("T", bound=msgspec.Struct)


def convert_leniently(value: object, kind: type[T]) -> T:
    """An object of that kind from parsed JSON or YAML; raises `msgspec.ValidationError` if it is not one."""
    return msgspec.convert(_repair(value, _inspect_type(kind)), kind)


@cache
def _inspect_type(kind: type[Any]) -> inspect.Type:
    return inspect.type_info(kind)


def _repair(value: object, shape: inspect.Type) -> object:
    """The value without nulls, and with quantities as text; the decoder reports anything else."""
    match shape:
        case inspect.Metadata(type=inner, extra=extra):
            return str(value) if _is_number(value) and QUANTITY_MARK in (extra or ()) else _repair(value, inner)
        case inspect.StructType(fields=fields) if isinstance(value, dict):
            return {
                field.encode_name: _repair(value[field.encode_name], field.type)
                for field in fields
                if value.get(field.encode_name) is not None
            }
        case inspect.DictType(value_type=inner) if isinstance(value, dict):
            return {key: _repair(item, inner) for key, item in value.items() if item is not None}
        case inspect.VarTupleType(item_type=inner) if isinstance(value, list):
            return [_repair(item, inner) for item in value]
        case inspect.UnionType(types=types):
            members = [member for member in types if not isinstance(member, inspect.NoneType)]
            return _repair(value, members[0]) if len(members) == 1 else value
        case _:
            return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# Beside its own errors the decoder raises two others: text that is not UTF-8, and nesting that is too deep.
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Rejected(msgspec.Struct, frozen=True):
    """An object that cannot be read: its index in the list, its name as far as it can be read, and the problem."""

    index: int
    namespace: str
    name: str
    message: str


class DecodedList(msgspec.Struct, Generic[T], frozen=True):
    """A list, or a page of one, as far as it could be read.

    A rejected object exists: a cache must not take its absence from `items` for a deletion.
    """

    items: tuple[T, ...]
    resource_version: str = ""
    continue_token: str = ""
    remaining_item_count: int | None = None
    rejected: tuple[Rejected, ...] = ()


class _Page(msgspec.Struct, Generic[T]):
    """The list on the wire.

    `items` is required: a document without it is no empty list but, for example, the `Status` of an error, and reading
    that as empty would look as if every object had been deleted.
    """

    items: tuple[T, ...] | None
    metadata: ListMeta | None = None


class _ObjectName(msgspec.Struct):
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.namespace, self.name) if part) or "an object without a name"


class _NamedObject(msgspec.Struct):
    """Only the name of an object, which can be read even if other fields are broken."""

    metadata: _ObjectName


def decode_list(data: bytes, kind: type[T]) -> DecodedList[T]:
    """All readable objects, and the others by name; raises if the list itself cannot be read."""
    try:
        page = _page_decoder(kind).decode(data)
    except _UNREADABLE:
        return _decode_individually(data, kind)
    return _build_list(page.items or (), page.metadata, ())


def decode_object(data: bytes | msgspec.Raw, kind: type[T]) -> T:
    """One object; raises `UnreadableObject` with its name and the field at fault."""
    try:
        decoded: T = _decoder(kind).decode(data)
    except _UNREADABLE:
        return _decode_leniently(data, kind)
    return decoded


def convert_object(document: object, kind: type[T]) -> T:
    """One object from a document parsed already, such as a YAML manifest; raises like `decode_object`."""
    try:
        return convert_leniently(document, kind)
    except _UNREADABLE as error:
        raise UnreadableObject(str(_convert_name(document)), _describe_error(error, kind.__name__)) from error


def _decode_leniently(data: bytes | msgspec.Raw, kind: type[T]) -> T:
    try:
        return convert_leniently(msgspec.json.decode(data), kind)
    except _UNREADABLE as error:
        raise UnreadableObject(str(_decode_name(data)), _describe_error(error, kind.__name__)) from error


def _decode_individually(data: bytes, kind: type[T]) -> DecodedList[T]:
    try:
        page = _page_decoder(msgspec.Raw).decode(data)
    except _UNREADABLE as error:
        raise UnreadableObject(f"{kind.__name__}List", _describe_error(error, "list")) from error
    items: list[T] = []
    rejected: list[Rejected] = []
    for index, raw in enumerate(page.items or ()):
        try:
            items.append(decode_object(raw, kind))
        except UnreadableObject as error:
            name = _decode_name(raw)
            rejected.append(Rejected(index, name.namespace, name.name, str(error)))
    return _build_list(tuple(items), page.metadata, tuple(rejected))


def _build_list(items: tuple[T, ...], meta: ListMeta | None, rejected: tuple[Rejected, ...]) -> DecodedList[T]:
    meta = meta or ListMeta()
    return DecodedList(items, meta.resource_version, meta.continue_token, meta.remaining_item_count, rejected)


# A decoder is compiled from its type, which takes longer than decoding a pod: one per kind, kept.
@cache
def _decoder(kind: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


@cache
def _page_decoder(kind: type[Any]) -> msgspec.json.Decoder[_Page[Any]]:
    return msgspec.json.Decoder(_Page[kind])  # type: ignore[valid-type]


def _decode_name(data: bytes | msgspec.Raw) -> _ObjectName:
    try:
        return msgspec.json.decode(data, type=_NamedObject).metadata
    except _UNREADABLE:
        return _ObjectName()


def _convert_name(document: object) -> _ObjectName:
    try:
        return msgspec.convert(document, _NamedObject).metadata
    except _UNREADABLE:
        return _ObjectName()


def _describe_error(error: Exception, kind: str) -> str:
    """The decoder's message, which names the field (`$` is the object), punctuated as a rule."""
    return f"cannot be read as a {kind}: {str(error).replace(' - at ', ' at ')}"
