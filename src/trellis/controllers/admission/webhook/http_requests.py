"""Reads HTTP/1.1 requests from the bytes of a connection.

llhttp, the parser of Node.js, reads them, by way of httptools. It runs in its strict mode: requests that two parsers
could read differently (two lengths, a length and chunks, folded lines, bare line feeds) are errors. This module adds
the limits and the rules that a server has beyond the grammar.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec
from httptools import HttpParserCallbackError, HttpParserError, HttpRequestParser

# Upstream's limit, and more than an API server can send: it takes objects up to 3 MiB, and sends the old one along.
MAX_BODY_BYTES: Final = 5 * 1024 * 1024
MAX_HEAD_BYTES: Final = 16 * 1024

_CONTENT_LENGTH: Final = b"content-length"
_CONTENT_TYPE: Final = b"content-type"
_EXPECT: Final = b"expect"
_HOST: Final = b"host"
_TRANSFER_ENCODING: Final = b"transfer-encoding"
# Of the API server's trace, if it has one.
_TRACEPARENT: Final = b"traceparent"
# The headers that are read. Each may occur once.
_READ_HEADERS: Final = frozenset((_CONTENT_LENGTH, _CONTENT_TYPE, _EXPECT, _HOST, _TRANSFER_ENCODING))
# The colon, the space and the line break of a header line.
_HEADER_LINE_OVERHEAD: Final = 4


class BadRequest(Exception):
    """A request that is answered with an error status. Nothing after it on the connection can be read."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        self.message = message
        super().__init__(f"{status}: {message}")


class HttpRequest(msgspec.Struct, frozen=True):
    """One complete request."""

    method: str
    content_type: str
    keep_alive: bool
    body: bytes
    traceparent: bytes = b""


class HttpRequestReader:
    """Turns the bytes of one connection into requests, wherever the network splits them.

    The methods `on_*` are the parser's callbacks.
    """

    __slots__ = (
        "_awaits_continue",
        "_body",
        "_completed",
        "_has_head",
        "_has_progressed",
        "_head_bytes",
        "_headers",
        "_is_mid_request",
        "_is_refused",
        "_parser",
        "_unparsed_bytes",
    )

    def __init__(self) -> None:
        self._parser = HttpRequestParser(self)
        self._completed: deque[HttpRequest | BadRequest] = deque()
        self._is_mid_request = False
        self._is_refused = False
        self._headers: dict[bytes, bytes] = {}
        self._head_bytes = 0
        self._has_head = False
        self._body = bytearray()
        self._awaits_continue = False
        # The parser holds an unfinished header line, and reports nothing while it skips chunk extensions. So bytes
        # that lead to no callback are counted, and limited as the head is.
        self._unparsed_bytes = 0
        self._has_progressed = False

    @property
    def has_pending_request(self) -> bool:
        """Whether a request is incomplete or has not been taken."""
        return self._is_mid_request or bool(self._completed)

    @property
    def awaits_continue(self) -> bool:
        """Whether the client sends the body only after `100 Continue`."""
        return self._awaits_continue

    def feed(self, data: bytes) -> None:
        if self._is_refused:
            return
        self._has_progressed = self._awaits_continue = False
        try:
            self._parser.feed_data(data)
        except HttpParserCallbackError as error:
            refusal = error.__context__
            if not isinstance(refusal, BadRequest):
                raise
            self._refuse(refusal)
        except HttpParserError as error:
            self._refuse(BadRequest(400, f"not an HTTP/1.1 request: {error}"))
        else:
            self._unparsed_bytes = 0 if self._has_progressed else self._unparsed_bytes + len(data)
            if self._unparsed_bytes > MAX_HEAD_BYTES:
                self._refuse(_head_too_large())

    def next_request(self) -> HttpRequest | None:
        """Return the next complete request, if there is one. Raise `BadRequest` after the last valid one."""
        if not self._completed:
            return None
        request = self._completed.popleft()
        if isinstance(request, BadRequest):
            raise request
        return request

    def on_message_begin(self) -> None:
        self._is_mid_request = True
        self._has_head = False
        self._headers = {}
        self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._count_head_bytes(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head_bytes(len(name) + len(value) + _HEADER_LINE_OVERHEAD)
        # After the head, headers are the trailers of a chunked body.
        if self._has_head:
            return
        key = name.lower()
        if key in _READ_HEADERS:
            if key in self._headers:
                raise BadRequest(400, f"there is more than one header {key.decode()}")
            self._headers[key] = value.strip(b" \t")
        elif key == _TRACEPARENT:
            self._headers[key] = value

    def on_headers_complete(self) -> None:
        self._has_head = self._has_progressed = True
        headers = self._headers
        version = self._parser.get_http_version()
        if version not in ("1.0", "1.1"):
            raise BadRequest(400, "not an HTTP/1.1 request")
        if version == "1.1" and _HOST not in headers:
            raise BadRequest(400, "the header host is missing")
        if self._parser.should_upgrade():
            raise BadRequest(501, "upgrading to another protocol is not supported")
        encoding = headers.get(_TRANSFER_ENCODING)
        if encoding is not None:
            if version == "1.0":
                raise BadRequest(400, "HTTP/1.0 has no transfer encoding")
            if encoding.lower() != b"chunked":
                raise BadRequest(501, "the only supported transfer encoding is chunked")
        if int(headers.get(_CONTENT_LENGTH, b"0")) > MAX_BODY_BYTES:
            raise _body_too_large()
        expectation = headers.get(_EXPECT, b"").lower()
        if expectation not in (b"", b"100-continue"):
            raise BadRequest(417, "the only supported expectation is 100-continue")
        self._awaits_continue = expectation != b"" and version == "1.1"

    def on_chunk_header(self) -> None:
        self._has_progressed = True
        self._awaits_continue = False

    def on_body(self, data: bytes) -> None:
        self._has_progressed = True
        self._awaits_continue = False
        if len(self._body) + len(data) > MAX_BODY_BYTES:
            raise _body_too_large()
        self._body += data

    def on_message_complete(self) -> None:
        self._has_progressed = True
        self._is_mid_request = self._awaits_continue = False
        self._completed.append(
            HttpRequest(
                method=self._parser.get_method().decode(),
                content_type=self._headers.get(_CONTENT_TYPE, b"").decode("latin-1"),
                keep_alive=self._parser.should_keep_alive(),
                body=bytes(self._body),
                traceparent=self._headers.get(_TRACEPARENT, b""),
            )
        )
        self._body.clear()

    def _count_head_bytes(self, count: int) -> None:
        self._head_bytes += count
        if self._head_bytes > MAX_HEAD_BYTES:
            raise _head_too_large()

    def _refuse(self, refusal: BadRequest) -> None:
        self._is_refused = True
        self._is_mid_request = self._awaits_continue = False
        self._body.clear()
        self._completed.append(refusal)


def _head_too_large() -> BadRequest:
    return BadRequest(431, f"the request header is longer than {MAX_HEAD_BYTES} bytes")


def _body_too_large() -> BadRequest:
    return BadRequest(413, f"the request body is longer than {MAX_BODY_BYTES} bytes")
