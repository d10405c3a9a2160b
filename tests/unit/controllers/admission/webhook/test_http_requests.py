"""Requests are read strictly, wherever the network splits them; ambiguous and oversized ones are refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.controllers.http_streams import (
    CHUNKED,
    HOST,
    REQUEST_LINE,
    encode_chunked_request,
    encode_request,
    http_streams,
    split,
)
from trellis.controllers.admission.webhook.http_requests import (
    MAX_BODY_BYTES,
    MAX_HEAD_BYTES,
    BadRequest,
    HttpRequest,
    HttpRequestReader,
)


def read_until_refused(reader: HttpRequestReader, pieces: Iterable[bytes]) -> tuple[list[HttpRequest], int | None]:
    """Return the requests, and the status with which the first bad one is refused."""
    requests = []
    for piece in pieces:
        reader.feed(piece)
        try:
            while (request := reader.next_request()) is not None:
                requests.append(request)
        except BadRequest as error:
            return requests, error.status
    return requests, None


def read_all(*pieces: bytes) -> list[HttpRequest]:
    reader = HttpRequestReader()
    requests, status = read_until_refused(reader, pieces)
    assert status is None
    assert not reader.has_pending_request
    return requests


def status_of_refusal(*pieces: bytes) -> int | None:
    return read_until_refused(HttpRequestReader(), pieces)[1]


def test_request_of_an_api_server_is_read() -> None:
    (request,) = read_all(encode_request(b'{"a":1}', b"User-Agent: kube-apiserver-admission", b"Accept-Encoding: gzip"))
    assert request == HttpRequest("POST", "application/json", keep_alive=True, body=b'{"a":1}')


@given(
    bodies=st.lists(st.tuples(st.booleans(), st.lists(st.binary(max_size=40), max_size=4)), min_size=1, max_size=4),
    cuts=st.lists(st.integers(0, 2000), max_size=12),
)
def test_requests_are_the_same_wherever_they_are_split(bodies: list[tuple[bool, list[bytes]]], cuts: list[int]) -> None:
    stream = b"".join(
        encode_chunked_request(*parts) if in_chunks else encode_request(b"".join(parts)) for in_chunks, parts in bodies
    )
    assert [request.body for request in read_all(*split(stream, cuts))] == [b"".join(parts) for _, parts in bodies]


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=8))
def test_random_bytes_are_refused_or_incomplete(noise: bytes, cuts: list[int]) -> None:
    requests, status = read_until_refused(HttpRequestReader(), split(noise, cuts))
    assert not requests
    assert status in (None, 400)


@given(http_streams, st.lists(st.integers(0, 2000), max_size=12))
def test_any_stream_is_read_the_same_wherever_it_is_split(stream: bytes, cuts: list[int]) -> None:
    whole, parts, single = HttpRequestReader(), HttpRequestReader(), HttpRequestReader()
    expected = read_until_refused(whole, [stream])
    assert read_until_refused(parts, split(stream, cuts)) == expected
    assert read_until_refused(single, (bytes([byte]) for byte in stream)) == expected
    assert whole.has_pending_request == parts.has_pending_request == single.has_pending_request


@given(http_streams)
def test_nothing_is_read_after_a_refusal(stream: bytes) -> None:
    reader = HttpRequestReader()
    _, status = read_until_refused(reader, [stream])
    if status is not None:
        reader.feed(encode_request(b"abc"))
        assert reader.next_request() is None
        assert not reader.has_pending_request


def test_one_byte_at_a_time() -> None:
    stream = encode_request(b"body") + encode_chunked_request(b"in", b"pieces", trailer=b"Checksum: none\r\n")
    assert [request.body for request in read_all(*(bytes([byte]) for byte in stream))] == [b"body", b"inpieces"]


def test_empty_lines_before_a_request_are_skipped() -> None:
    assert [request.body for request in read_all(b"\r\n\r\n" + encode_request(b"x"))] == [b"x"]


def test_chunk_extensions_and_trailers_are_ignored() -> None:
    (request,) = read_all(CHUNKED + b"2;a=b\r\nok\r\n0\r\nContent-Type: text/plain\r\nHost: b\r\n\r\n")
    assert request.body == b"ok"
    assert request.content_type == ""


def test_header_without_a_value_is_empty() -> None:
    (request,) = read_all(REQUEST_LINE + b"Content-Type:\r\n" + HOST + b"\r\n")
    assert request.content_type == ""


@pytest.mark.parametrize(
    ("version", "connection", "keep_alive"),
    [
        (b"1.1", b"", True),
        (b"1.1", b"Connection: close\r\n", False),
        (b"1.1", b"Connection: foo, Close\r\n", False),
        (b"1.0", b"", False),
        (b"1.0", b"Connection: Keep-Alive\r\n", True),
    ],
)
def test_keep_alive_depends_on_version_and_connection_header(
    version: bytes, connection: bytes, keep_alive: bool
) -> None:
    (request,) = read_all(b"POST / HTTP/" + version + b"\r\n" + HOST + connection + b"Content-Length: 0\r\n\r\n")
    assert request.keep_alive is keep_alive
    assert request.body == b""


def test_continue_is_awaited_until_the_body_begins() -> None:
    reader = HttpRequestReader()
    data = encode_request(b"body", b"Expect: 100-continue")
    reader.feed(data[:-4])
    assert reader.next_request() is None
    assert reader.awaits_continue
    reader.feed(b"bo")
    assert reader.next_request() is None
    assert not reader.awaits_continue


@pytest.mark.parametrize("rest", [b"", b"2", b"2\r\n", b"2\r\nok\r\n0\r\n\r\n"])
def test_continue_is_awaited_once(rest: bytes) -> None:
    reader = HttpRequestReader()
    head = CHUNKED[:-2] + b"Expect: 100-continue\r\n\r\n"
    awaits_continue = []
    for piece in (head[:-1], head[-1:], rest):
        reader.feed(piece)
        awaits_continue.append(reader.awaits_continue)
    assert awaits_continue == [False, True, False]


def test_client_that_sends_the_body_at_once_awaits_nothing() -> None:
    reader = HttpRequestReader()
    reader.feed(encode_request(b"body", b"Expect: 100-continue"))
    assert not reader.awaits_continue


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"POST /\r\n\r\n", 400),
        (b"POST / HTTP/2.0\r\n" + HOST + b"\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\n\r\n", 400),
        (REQUEST_LINE + HOST + HOST + b"\r\n", 400),
        (REQUEST_LINE + HOST + b"Content-Length : 1\r\n\r\nx", 400),
        (REQUEST_LINE + HOST + b"A: b\r\n folded\r\n\r\n", 400),
        (REQUEST_LINE + HOST + b"A: b\nContent-Length: 9\r\n\r\n", 400),
        (REQUEST_LINE + HOST + b"A: b\rContent-Length: 9\r\n\r\n", 400),
        (REQUEST_LINE + HOST + b"A: \x00\r\n\r\n", 400),
        (REQUEST_LINE + HOST + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400),
        (REQUEST_LINE + HOST + b"Content-Length: +1\r\n\r\nx", 400),
        (REQUEST_LINE + HOST + b"Content-Length: 1, 1\r\n\r\nx", 400),
        (REQUEST_LINE + HOST + b"Content-Length:\r\n\r\nx", 400),
        (REQUEST_LINE + HOST + b"Content-Length: " + b"9" * 30 + b"\r\n\r\nx", 400),
        (REQUEST_LINE + HOST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (REQUEST_LINE + HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", 400),
        (REQUEST_LINE + HOST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (REQUEST_LINE + HOST + b"Content-Type: a\r\nContent-Type: b\r\n\r\n", 400),
        (b"POST / HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n", 400),
        (REQUEST_LINE + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
        (REQUEST_LINE + HOST + b"Transfer-Encoding: gzip\r\n\r\n", 501),
        (REQUEST_LINE + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 501),
        (b"CONNECT a:1 HTTP/1.1\r\n" + HOST + b"\r\n", 501),
        (CHUNKED + b"xyz\r\n", 400),
        (CHUNKED + b"-1\r\n", 400),
        (CHUNKED + b"2\r\nabcd\r\n", 400),
        (CHUNKED + b"fffffffffffffffff\r\n", 400),
        (REQUEST_LINE + HOST + b"Expect: a miracle\r\n\r\n", 417),
        (REQUEST_LINE + b"A" * (MAX_HEAD_BYTES + 1), 431),
        (REQUEST_LINE + b"A: " + b"a" * MAX_HEAD_BYTES + b"\r\n\r\n", 431),
        (REQUEST_LINE + b"A: b\r\n" * (MAX_HEAD_BYTES // 6), 431),
        (b"POST /" + b"a" * MAX_HEAD_BYTES + b" HTTP/1.1\r\n", 431),
        (b"\r\n" * MAX_HEAD_BYTES, 431),
        (REQUEST_LINE + HOST + b"Content-Length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1), 413),
    ],
)
def test_ambiguous_or_oversized_requests_are_refused(data: bytes, status: int) -> None:
    assert status_of_refusal(data) == status


@pytest.mark.parametrize(
    ("begin", "endless"),
    [
        (REQUEST_LINE, b"a" * 1000),
        (REQUEST_LINE + b"A: ", b"a" * 1000),
        (b"POST /", b"a" * 1000),
        (REQUEST_LINE, b"A: b\r\n" * 100),
        (b"", b"\r\n" * 500),
        (CHUNKED, b"0" * 1000),
        (CHUNKED + b"1;", b"a" * 1000),
        (CHUNKED + b"0\r\n", b"a" * 1000),
        (CHUNKED + b"0\r\n", b"A: b\r\n" * 100),
        (encode_request(b"x" * 30_000) + REQUEST_LINE, b"a" * 1000),
    ],
)
def test_endless_heads_and_trailers_are_refused(begin: bytes, endless: bytes) -> None:
    pieces = MAX_HEAD_BYTES // len(endless) + 2
    assert status_of_refusal(begin, *[endless] * pieces) == 431


def test_head_that_follows_a_large_body_in_one_read_has_the_whole_limit() -> None:
    following = encode_request(b"y", b"A: " + b"a" * (MAX_HEAD_BYTES - 1000))
    first, second = read_all(encode_request(b"x" * 30_000) + following[:1000], following[1000:])
    assert (len(first.body), second.body) == (30_000, b"y")


@pytest.mark.parametrize("size", [1, 1000, 100_000])
def test_largest_body_is_accepted(size: int) -> None:
    body = b"x" * (MAX_BODY_BYTES if size > 1 else 5000)
    for data in (encode_request(body), encode_chunked_request(*_pieces(body, size))):
        assert read_all(*_pieces(data, size))[0].body == body


def test_chunks_that_add_up_to_too_much_are_refused() -> None:
    chunk = b"x" * (MAX_BODY_BYTES // 2 + 1)
    assert status_of_refusal(encode_chunked_request(chunk, chunk)) == 413
    assert status_of_refusal(*_pieces(encode_chunked_request(chunk, chunk), 100_000)) == 413


def _pieces(data: bytes, size: int) -> Sequence[bytes]:
    return [data[begin : begin + size] for begin in range(0, len(data), size)]
