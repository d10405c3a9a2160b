"""Files of JSON lines, each of which names its kind: the format of recordings, dumps and survey progress.

The first line is a header that says which component wrote the file. A value read back equals the value written, to the
last bit: numbers as JSON has them are exact, NaN is null (and NaN again in a column), and maps keep their order. Sets
have no order that outlives a process, so no line that is to be compared may hold one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cache
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

from trellis.base.durations import Duration, parse_duration
from trellis.base.errors import InvalidRecording
from trellis.base.quantities import Quantity

FORMAT_VERSION: Final = 2
HEADER: Final = "header"
# The first format that is still read, by the component of a header. Format 2 renamed fields of recordings alone.
_OLDEST_FORMATS: Final[Mapping[str, int]] = {"dump": 1}


# Bytes of an invalid line to quote: enough to recognise the file.
_MAX_QUOTED_BYTES: Final = 40


T = TypeVar("T")

_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ZeroDivisionError)


class RecordingHeader(msgspec.Struct, frozen=True):
    """The writer of a recording: the component, its release, and its settings by the names of their flags."""

    format: int
    component: str
    release: str = ""
    settings: Mapping[str, str] = {}


class JsonLine(msgspec.Struct, frozen=True):
    """One line: its kind and its payload."""

    kind: str
    data: msgspec.Raw


def encode_payload(payload: object) -> bytes:
    """A payload as JSON."""
    return _ENCODER.encode(payload)


def encode_line(kind: str, payload: object) -> bytes:
    """A line with its kind and payload."""
    return _ENCODER.encode(JsonLine(kind, msgspec.Raw(_ENCODER.encode(payload)))) + b"\n"


def decode_payload(data: bytes | msgspec.Raw, kind: type[T]) -> T:
    """The payload of a line; raises `InvalidRecording`."""
    try:
        decoded: T = _decoder(kind).decode(data)  # type: ignore[arg-type]
    except _UNREADABLE as error:
        raise InvalidRecording(bytes(data)[:200].decode(errors="replace"), f"is invalid: {error}") from error
    return decoded


def read_lines(data: bytes | Iterable[bytes]) -> Iterator[tuple[str, msgspec.Raw]]:
    """Every line of a recording, the header first; raises `InvalidRecording`.

    An incomplete last line is skipped: its writer was stopped there.
    """
    lines = data.splitlines(keepends=True) if isinstance(data, bytes) else data
    number = 0
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n") and number > 1:
            return
        decoded = _decode_line(line, number)
        if number == 1:
            read_header(decoded.kind, decoded.data)
        yield decoded.kind, decoded.data
    if not number:
        raise InvalidRecording("", "is empty: a recording begins with a header")


def read_header(kind: str, data: msgspec.Raw) -> RecordingHeader:
    """The header in the first line of a recording; raises `InvalidRecording`."""
    if kind != HEADER:
        raise InvalidRecording(kind, "line 1 is not a header: this is not a recording of a component")
    header = decode_payload(data, RecordingHeader)
    if not _OLDEST_FORMATS.get(header.component, FORMAT_VERSION) <= header.format <= FORMAT_VERSION:
        raise InvalidRecording(
            header.format,
            "is the format of this file, written by another release; this one reads format "
            f"{FORMAT_VERSION}: record again, or use that release",
        )
    return header


def _decode_line(line: bytes, number: int) -> JsonLine:
    try:
        return _LINE_DECODER.decode(line)
    except _UNREADABLE as error:
        text = line[:_MAX_QUOTED_BYTES].decode(errors="replace").rstrip()
        raise InvalidRecording(text, f"line {number} is not valid in a recording or a dump: {error}") from error


def _encode_value(value: Any) -> Any:
    """Encode types that JSON does not have."""
    match value:
        case np.ndarray() | np.generic():
            return value.tolist()
        case Quantity() | Duration() | Fraction():
            return str(value)
        case MappingProxyType():
            return dict(value)
        case _:
            raise NotImplementedError(f"{type(value).__name__} cannot be recorded")


def _decode_value(kind: Any, value: Any) -> Any:
    """Decode types that JSON does not have."""
    if kind is Quantity:
        return Quantity.parse(value)
    if kind is Duration:
        return parse_duration(value)
    if kind is Fraction:
        return Fraction(value)
    if getattr(kind, "__origin__", None) is np.ndarray:
        (item_type,) = kind.__args__[1].__args__
        return np.array(value, dtype=item_type)
    if kind is object:
        # What a warning was about: whatever JSON has.
        return value
    raise NotImplementedError(f"{kind} cannot be read from a recording")


# A decoder is compiled from its type: one per type, kept.
@cache
def _decoder(kind: Hashable) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=_decode_value)


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_encode_value)
_LINE_DECODER: Final = msgspec.json.Decoder(JsonLine)
