"""Bytes as text in a checkpoint: compressed, and base64."""

from __future__ import annotations

import base64
import zlib

from trellis.base.errors import InvalidCheckpoint


def compress(data: bytes) -> str:
    """The text of some bytes."""
    return base64.b64encode(zlib.compress(data, 9)).decode()


def decompress(field: str, text: str, *, longest: int, most: int) -> tuple[bytes, bool]:
    """The bytes of a text of at most `longest` characters, and whether that is all; raises `InvalidCheckpoint`.

    No more than `most` bytes are unpacked: a few characters can be made to unpack to gigabytes.
    """
    if len(text) > longest:
        raise InvalidCheckpoint(field, text, f"must not be longer than {longest} characters")
    reader = zlib.decompressobj()
    try:
        data = reader.decompress(base64.b64decode(text, validate=True), most)
    except (ValueError, zlib.error) as error:
        raise InvalidCheckpoint(field, text, "must be base64 of zlib") from error
    return data, reader.eof
