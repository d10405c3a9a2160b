"""Requests are read whole and strictly, however the network cuts them; what could be read in two ways is refused."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.controllers.admission.webhook.http_requests import (
    MOST_BODY_BYTES,
    MOST_HEAD_BYTES,
    BadRequest,
    HttpRequest,
    HttpRequestReader,
)

HOST = b"Host: vpa-webhook.kube-system.svc\r\n"


def plain(body: bytes, *headers: bytes) -> bytes:
    lines = b"".join(header + b"\r\n" for header in headers)
    length = b"Content-Length: %d\r\n" % len(body)
    return (
        b"POST /?timeout=5s HTTP/1.1\r\n"
        + HOST
        + b"Content-Type: application/json\r\n"
        + lines
        + length
        + b"\r\n"
        + body
    )


def chunked(*chunks: bytes, trailer: bytes = b"") -> bytes:
    head = b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: Chunked\r\n\r\n"
    parts = (b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks if chunk)
    return head + b"".join(parts) + b"0\r\n" + trailer + b"\r\n"


def taken(*pieces: bytes) -> list[HttpRequest]:
    reader = HttpRequestReader()
    found = []
    for piece in pieces:
        reader.feed(piece)
        while (request := reader.take()) is not None:
            found.append(request)
    assert not reader.is_within
    return found


def refused(data: bytes) -> BadRequest:
    with pytest.raises(BadRequest) as error:
        taken(data)
    return error.value


def test_request_of_an_api_server_is_read() -> None:
    (request,) = taken(plain(b'{"a":1}', b"User-Agent: kube-apiserver-admission", b"Accept-Encoding: gzip"))
    assert request.body == b'{"a":1}'
    assert request.head.method == "POST"
    assert request.head.content_type == "application/json"
    assert request.head.keep_alive


@given(
    bodies=st.lists(st.tuples(st.booleans(), st.lists(st.binary(max_size=40), max_size=4)), min_size=1, max_size=4),
    cuts=st.lists(st.integers(0, 2000), max_size=12),
)
def test_requests_are_the_same_however_the_network_cuts_them(
    bodies: list[tuple[bool, list[bytes]]], cuts: list[int]
) -> None:
    stream = b"".join(chunked(*parts) if in_chunks else plain(b"".join(parts)) for in_chunks, parts in bodies)
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    pieces = [stream[begin:end] for begin, end in pairwise(places)]
    assert [request.body for request in taken(*pieces)] == [b"".join(parts) for _, parts in bodies]


@given(st.binary(max_size=300))
def test_noise_is_refused_or_waited_for(noise: bytes) -> None:
    reader = HttpRequestReader()
    reader.feed(noise)
    try:
        found = reader.take()
    except BadRequest as error:
        status = error.status
    else:
        status = 400 if found is None else 200
    assert 200 <= status < 600


def test_one_byte_at_a_time() -> None:
    stream = plain(b"body") + chunked(b"in", b"pieces", trailer=b"Checksum: none\r\n")
    assert [request.body for request in taken(*(bytes([byte]) for byte in stream))] == [b"body", b"inpieces"]


def test_empty_lines_before_a_request_are_passed_over() -> None:
    assert [request.body for request in taken(b"\r\n\r\n" + plain(b"x"))] == [b"x"]


def test_extensions_of_chunks_and_what_follows_them_are_of_no_interest() -> None:
    head = b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    assert taken(head + b"2;a=b\r\nok\r\n0\r\nA: b\r\n\r\n")[0].body == b"ok"


@pytest.mark.parametrize(
    ("version", "connection", "keeps"),
    [
        (b"1.1", b"", True),
        (b"1.1", b"Connection: close\r\n", False),
        (b"1.1", b"Connection: foo, Close\r\n", False),
        (b"1.0", b"", False),
        (b"1.0", b"Connection: Keep-Alive\r\n", True),
    ],
)
def test_whether_the_connection_stays(version: bytes, connection: bytes, keeps: bool) -> None:
    (request,) = taken(b"POST / HTTP/" + version + b"\r\n" + HOST + connection + b"\r\n")
    assert request.head.keep_alive is keeps
    assert request.body == b""


def test_client_that_waits_for_a_word_is_given_one() -> None:
    reader = HttpRequestReader()
    whole = plain(b"body", b"Expect: 100-continue")
    reader.feed(whole[:-4])
    assert reader.take() is None
    assert reader.wants_continue
    reader.feed(b"bo")
    assert reader.take() is None
    assert not reader.wants_continue


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"POST / HTTP/2.0\r\n" + HOST + b"\r\n", 400),
        (b"POST  / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"POST / HTTP/1.1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length : 1\r\n\r\nx", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"A: b\r\n folded\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"A: b\nContent-Length: 9\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"A: \x00\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: +1\r\n\r\nx", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1, 1\r\n\r\nx", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: " + b"9" * 30 + b"\r\n\r\nx", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + b"0" * 300, 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"a" * 20_000, 431),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Expect: a miracle\r\n\r\n", 417),
        (b"POST / HTTP/1.1\r\n" + b"A" * (MOST_HEAD_BYTES + 1), 431),
        (b"POST / HTTP/1.1\r\nA: " + b"a" * MOST_HEAD_BYTES + b"\r\n\r\n", 431),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % (MOST_BODY_BYTES + 1), 413),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % (MOST_BODY_BYTES + 1), 413),
    ],
)
def test_what_could_be_read_in_two_ways_or_is_too_much_is_refused(data: bytes, status: int) -> None:
    assert refused(data).status == status


def test_largest_body_is_taken() -> None:
    body = b"x" * MOST_BODY_BYTES
    whole = plain(body)
    pieces = [whole[at : at + 100_000] for at in range(0, len(whole), 100_000)]
    assert taken(*pieces)[0].body == body


def test_chunks_that_add_up_to_too_much_are_refused() -> None:
    chunk = b"x" * (MOST_BODY_BYTES // 2 + 1)
    assert refused(chunked(chunk, chunk)).status == 413
