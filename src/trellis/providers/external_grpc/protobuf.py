"""Reads and writes protobuf messages that are declared as structs.

    class Taint(Message, frozen=True):
        key: Annotated[str, Number(1)] = ""

    Taint(key="gpu").encode()
    decode(Taint, data)

It has what the external gRPC protocol and its slice of v1.Node need: text, bytes, int32 and int64, bool, double,
messages, lists of messages, text or bytes, and maps from text. Fields that are not declared are skipped, so that a
struct may be a slice of a message. Default values are not written, as in proto3.
"""

from __future__ import annotations

import struct
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from trellis.base.errors import InternalError, InvalidMessage

_VARINT: Final = 0
_FIXED_64: Final = 1
_LENGTH: Final = 2
_FIXED_32: Final = 5
_FIXED_SIZES: Final = {_FIXED_64: 8, _FIXED_32: 4}

_BITS_64: Final = 1 << 64
_SIGN_64: Final = 1 << 63
_MAX_VARINT_BYTES: Final = 10


class Number(NamedTuple):
    """The number of a field in its message."""

    number: int


class Message(msgspec.Struct, frozen=True):
    """The base of all messages. Every field has a number and a default."""

    def encode(self) -> bytes:
        """The bytes of the message."""
        return b"".join(_iterate_encoded(self))


M = TypeVar("M", bound=Message)


def decode(kind: type[M], data: bytes) -> M:
    """The message of these bytes; raises `InvalidMessage` if they are none."""
    fields = _list_fields(kind)
    payloads: dict[str, list[Any]] = {}
    for number, wire_type, value in _iterate_wire(kind, memoryview(data)):
        field = fields.get(number)
        if field is None:
            continue
        if wire_type != field.scalar.wire_type:
            raise InvalidMessage(kind.__name__, f"the field {field.name} has the wire type {wire_type}")
        payloads.setdefault(field.name, []).append(value)
    by_name = {field.name: field for field in fields.values()}
    return kind(**{name: _join(kind, by_name[name], values) for name, values in payloads.items()})


class _Scalar(NamedTuple):
    """How one value is on the wire."""

    wire_type: int
    write: Callable[[Any], bytes]
    read: Callable[[Any], Any]


class _Shape(Enum):
    SINGLE = "single"
    MESSAGE = "message"
    LIST = "list"
    MAP = "map"


class _Field(NamedTuple):
    name: str
    number: int
    scalar: _Scalar
    shape: _Shape
    default: Any


def _iterate_encoded(message: Message) -> Iterator[bytes]:
    for field in _list_fields(type(message)).values():
        value = getattr(message, field.name)
        if value is None or value == field.default:
            continue
        match field.shape:
            case _Shape.LIST:
                values = value
            case _Shape.MAP:
                # Sorted, so that equal messages are equal bytes.
                values = sorted(value.items())
            case _:
                values = (value,)
        for single in values:
            yield _write_field(field.number, field.scalar, single)


def _write_field(number: int, scalar: _Scalar, value: Any) -> bytes:
    payload = scalar.write(value)
    tag = _write_varint(number << 3 | scalar.wire_type)
    return tag + (_write_varint(len(payload)) if scalar.wire_type == _LENGTH else b"") + payload


def _join(kind: type[Message], field: _Field, values: list[Any]) -> Any:
    """The value of a field from all its occurrences: of a message all are merged, else the last one counts."""
    try:
        match field.shape:
            case _Shape.LIST:
                return tuple(map(field.scalar.read, values))
            case _Shape.MAP:
                return dict(map(field.scalar.read, values))
            case _Shape.MESSAGE:
                return field.scalar.read(b"".join(values))
            case _:
                return field.scalar.read(values[-1])
    except UnicodeDecodeError as error:
        raise InvalidMessage(kind.__name__, f"the text of {field.name} is not UTF-8") from error


def _iterate_wire(kind: type[Message], data: memoryview) -> Iterator[tuple[int, int, Any]]:
    """Number, wire type and payload of each field."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _read_varint(kind, data, position)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            value, position = _read_varint(kind, data, position)
            yield number, wire_type, value
            continue
        if wire_type == _LENGTH:
            size, position = _read_varint(kind, data, position)
        elif wire_type in _FIXED_SIZES:
            size = _FIXED_SIZES[wire_type]
        else:
            raise InvalidMessage(kind.__name__, f"there is no wire type {wire_type}")
        if size > end - position:
            raise InvalidMessage(kind.__name__, f"the field {number} ends after the message")
        yield number, wire_type, bytes(data[position : position + size])
        position += size


def _read_varint(kind: type[Message], data: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(data[position : position + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value % _BITS_64, position + index + 1
    raise InvalidMessage(kind.__name__, "a number does not end")


def _write_varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _write_integer(value: int) -> bytes:
    if not -_SIGN_64 <= value < _SIGN_64:
        raise InternalError(f"{value} does not fit into 64 bits")
    return _write_varint(value % _BITS_64)


def _read_integer(value: int) -> int:
    return value - _BITS_64 if value >= _SIGN_64 else value


_SCALARS: Final[Mapping[Any, _Scalar]] = types.MappingProxyType(
    {
        str: _Scalar(_LENGTH, lambda text: text.encode(errors="surrogatepass"), lambda data: data.decode()),
        bytes: _Scalar(_LENGTH, bytes, bytes),
        bool: _Scalar(_VARINT, lambda flag: _write_varint(int(flag)), bool),
        int: _Scalar(_VARINT, _write_integer, _read_integer),
        float: _Scalar(_FIXED_64, lambda number: struct.pack("<d", number), lambda data: struct.unpack("<d", data)[0]),
    }
)
_TEXT: Final = _SCALARS[str]


@cache
def _list_fields(kind: type[Message]) -> dict[int, _Field]:
    """The fields of a message by their numbers."""
    hints = typing.get_type_hints(kind, include_extras=True)
    defaults = {field.name: field.default for field in msgspec.structs.fields(kind)}
    fields: dict[int, _Field] = {}
    for name in kind.__struct_fields__:
        annotation, number = typing.get_args(hints[name])[:2]
        shape, scalar = _read_annotation(annotation)
        if number.number in fields:
            raise InternalError(f"{kind.__name__} has two fields {number.number}")
        fields[number.number] = _Field(name, number.number, scalar, shape, defaults[name])
    return fields


def _read_annotation(annotation: Any) -> tuple[_Shape, _Scalar]:
    """The shape of a field, and how one of its values is written."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is types.UnionType:
        return _Shape.MESSAGE, _find_scalar(arguments[0])
    if origin is tuple:
        return _Shape.LIST, _find_scalar(arguments[0])
    if origin is not None and issubclass(origin, Mapping):
        return _Shape.MAP, _build_map_scalar(_find_scalar(arguments[1]))
    is_message = isinstance(annotation, type) and issubclass(annotation, Message)
    return _Shape.MESSAGE if is_message else _Shape.SINGLE, _find_scalar(annotation)


def _find_scalar(kind: Any) -> _Scalar:
    if isinstance(kind, type) and issubclass(kind, Message):
        return _Scalar(_LENGTH, lambda message: message.encode(), lambda data: decode(kind, data))
    return _SCALARS[kind]


def _build_map_scalar(value: _Scalar) -> _Scalar:
    def write(entry: tuple[str, Any]) -> bytes:
        return _write_field(1, _TEXT, entry[0]) + _write_field(2, value, entry[1])

    def read(data: bytes) -> tuple[str, Any]:
        key, raw = "", b""
        for number, wire_type, payload in _iterate_wire(Message, memoryview(data)):
            if wire_type != _LENGTH:
                raise InvalidMessage("map", f"the field {number} of an entry has the wire type {wire_type}")
            if number == 1:
                key = payload.decode()
            elif number == 2:
                raw = payload
        return key, value.read(raw)

    return _Scalar(_LENGTH, write, read)
