"""Decodes the lines of a watch into events, without I/O.

An object that cannot be read is an event too, with its name and the reason, because it must not hide those that
follow. A line costs one pass of the decoder; only one that does not fit is read a second time, in parts.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import Any, Final, Generic, TypeVar

import msgspec

from trellis.api.kube.decoder import Rejected, decode_object
from trellis.base.errors import KubeError, ServerFault, UnreadableObject, format_value
from trellis.kube.resources import Resource
from trellis.kube.transport.responses import Status, build_error_from_status

T = TypeVar("T", bound=msgspec.Struct)

# Twenty times what the API server accepts as one object (3 MiB): whatever is longer is no watch.
MAX_LINE_BYTES: Final = 64 * 1024 * 1024

_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class EventKind(StrEnum):
    """What happened. `ERROR` ends the watch: nothing after it can be trusted."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One line of a watch.

    ADDED, MODIFIED and DELETED have an `object`, or `rejected` if it could not be read; ERROR has an `error`, which is
    `Expired` if the watch must begin with a new list; a bookmark has none of them. `resource_version` is where to
    resume after this event, and empty where that is not known.
    """

    kind: EventKind
    resource_version: str = ""
    object: T | None = None
    rejected: Rejected | None = None
    error: KubeError | None = None


class _WatchLine(msgspec.Struct, Generic[T], gc=False):
    type: EventKind
    object: T


class _RawWatchLine(msgspec.Struct):
    type: EventKind
    object: msgspec.Raw


class _ObjectVersion(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _VersionedObject(msgspec.Struct):
    """The name and version of an object: mostly readable, whatever else is wrong with it."""

    metadata: _ObjectVersion


def decode_line(line: bytes, resource: Resource[T]) -> WatchEvent[T]:
    """One event. It never raises: an object that cannot be read is in the event as rejected."""
    try:
        read = _line_decoder(resource.struct).decode(line)
    except _UNREADABLE:
        return _decode_in_parts(line, resource)
    if read.type is EventKind.BOOKMARK or read.type is EventKind.ERROR:
        return _decode_in_parts(line, resource)
    return WatchEvent(read.type, read.object.metadata.resource_version, read.object)


def _decode_in_parts(line: bytes, resource: Resource[T]) -> WatchEvent[T]:
    try:
        raw = _RAW_LINES.decode(line)
    except _UNREADABLE as error:
        excerpt = format_value(line[:400].decode("utf-8", "replace"))
        fault = ServerFault(0, "NotAWatch", f"not a watch event: {excerpt} ({error})")
        return WatchEvent(EventKind.ERROR, error=fault)
    if raw.type is EventKind.ERROR:
        return WatchEvent(EventKind.ERROR, error=_error_in(raw.object))
    metadata = _read_version(raw.object)
    if raw.type is EventKind.BOOKMARK:
        return WatchEvent(EventKind.BOOKMARK, metadata.resource_version)
    try:
        return WatchEvent(raw.type, metadata.resource_version, decode_object(raw.object, resource.struct))
    except UnreadableObject as error:
        rejected = Rejected(0, metadata.namespace, metadata.name, str(error))
        return WatchEvent(raw.type, metadata.resource_version, rejected=rejected)


def _error_in(raw: msgspec.Raw) -> KubeError:
    try:
        return build_error_from_status(decode_object(raw, Status))
    except UnreadableObject as error:
        return ServerFault(0, "NotAStatus", f"the watch ended with an invalid error: {error}")


def _read_version(raw: msgspec.Raw) -> _ObjectVersion:
    try:
        return msgspec.json.decode(raw, type=_VersionedObject).metadata
    except _UNREADABLE:
        return _ObjectVersion()


_RAW_LINES: Final = msgspec.json.Decoder(_RawWatchLine)


# A decoder is compiled from its type, which takes longer than decoding a pod: one per kind, kept.
@cache
def _line_decoder(kind: type[Any]) -> msgspec.json.Decoder[_WatchLine[Any]]:
    return msgspec.json.Decoder(_WatchLine[kind])  # type: ignore[valid-type]


class LineSplitter:
    """Chunks in, whole lines out, however the network cut them.

    aiohttp's own `readline` gives up at 64 KiB; a pod with a large annotation is a line of 1 MB and more.
    """

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._held = 0

    def rest(self) -> bytes:
        """The beginning of a line whose end has not come."""
        return b"".join(self._pieces)

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end within this chunk, without their ends; raises `ServerFault` if one never does."""
        if b"\n" not in chunk:
            return self._hold(chunk)
        first, *lines = chunk.split(b"\n")
        if self._pieces:
            # Joined once per line: adding to a bytes object for each chunk copies a long line over and over.
            first = b"".join((*self._pieces, first))
        self._pieces, self._held = [], 0
        rest = lines.pop()
        if rest:
            self._hold(rest)
        return [line for line in (first, *lines) if line]

    def _hold(self, piece: bytes) -> list[bytes]:
        self._pieces.append(piece)
        self._held += len(piece)
        if self._held > self._limit:
            raise ServerFault(0, "LineTooLong", f"a watch event is longer than {self._limit} bytes")
        return []
