"""Byte streams that are HTTP/1.1 requests, or nearly."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import strategies as st

REQUEST_LINE = b"POST /?timeout=5s HTTP/1.1\r\n"
HOST = b"Host: vpa-webhook.kube-system.svc\r\n"
CHUNKED = REQUEST_LINE + HOST + b"Transfer-Encoding: chunked\r\n\r\n"


def encode_request(body: bytes, *headers: bytes) -> bytes:
    lines = b"".join(header + b"\r\n" for header in headers)
    length = b"Content-Length: %d\r\n" % len(body)
    return REQUEST_LINE + HOST + b"Content-Type: application/json\r\n" + lines + length + b"\r\n" + body


def encode_chunked_request(*chunks: bytes, trailer: bytes = b"") -> bytes:
    parts = (b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks if chunk)
    return CHUNKED + b"".join(parts) + b"0\r\n" + trailer + b"\r\n"


def split(stream: bytes, positions: Iterable[int]) -> list[bytes]:
    """Cut the stream at these positions, taken modulo its length."""
    cuts = sorted({0, len(stream), *(position % (len(stream) + 1) for position in positions)})
    return [stream[begin:end] for begin, end in pairwise(cuts)]


# Pieces of requests, good and bad, of which streams are put together that a parser may take for requests.
_FRAGMENTS = (
    *(b"POST / HTTP/1.1\r\n", b"GET /%2e HTTP/1.0\r\n", b"POST / HTTP/1.1\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    *(b"CONNECT a:1 HTTP/1.1\r\n", b"SOURCE / ICE/1.0\r\n", b"POST http://a/ HTTP/1.1\r\n", b"POST / HTTP/9.9\r\n"),
    *(HOST, b"host:\r\n", b"Content-Length: 3\r\n", b"Content-Length: 03 \r\n", b"Content-Length:\r\n"),
    *(b"content-length: 0x3\r\n", b"Content-Length: 99999999\r\n", b"Content-Length: -1\r\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"transfer-encoding: gzip, chunked\r\n", b"Transfer-Encoding: chunked,\r\n"),
    *(b"Transfer-Encoding:\r\n", b"Transfer-Encoding : chunked\r\n", b"Expect: 100-continue\r\n", b"Expect: a\r\n"),
    *(b"Connection: close\r\n", b"Connection: keep-alive, upgrade\r\n", b"Upgrade: h2c\r\n", b"A: b\r\n c\r\n"),
    *(
        b"Content-Type: \t application/json \t\r\n",
        b"A: \x00\r\n",
        b": b\r\n",
        b"A\r\n",
        b"A: \xff\r\n",
        b"A: b\rC: d\r\n",
    ),
    *(b"\r\n", b"\n", b"\r", b"\r\n\r\n", b" ", b"\t", b"abc", b"3\r\nabc\r\n", b"3;a=b\r\nabc\r\n", b"3 \r\nabc\r\n"),
    *(b"0\r\n\r\n", b"0\r\nA: b\r\n\r\n", b"0\r\nContent-Length: 1\r\n\r\n", b"ffffffffffffffffff\r\n", b"-1\r\n"),
    *(encode_request(b"abc"), encode_chunked_request(b"a", b"bc"), b"\x16\x03\x01\x02\x00"),
)
_assembled_streams = st.lists(st.sampled_from(_FRAGMENTS) | st.binary(max_size=4), max_size=12).map(b"".join)


@st.composite
def _mutated_requests(draw: st.DrawFn) -> bytes:
    """Valid requests in which some bytes are replaced, removed or inserted."""
    stream = bytearray(draw(st.sampled_from((encode_request(b"abc"), encode_chunked_request(b"a", b"bc")))) * 2)
    for position, removed, inserted in draw(
        st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 3), st.binary(max_size=3)), max_size=4)
    ):
        begin = position % (len(stream) + 1)
        stream[begin : begin + removed] = inserted
    return bytes(stream)


http_streams = _assembled_streams | _mutated_requests()
