"""Messages as bytes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.worlds.providers.external_grpc import RPCS, template_node, unknown_fields
from trellis.base.errors import InternalError, InvalidMessage
from trellis.providers.external_grpc.answers import strip_node
from trellis.providers.external_grpc.node_messages import NodeMessage, decode_node, encode_node
from trellis.providers.external_grpc.protobuf import Message, Number, decode


class Inner(Message, frozen=True):
    text: Annotated[str, Number(1)] = ""
    number: Annotated[int, Number(2)] = 0


class Everything(Message, frozen=True):
    text: Annotated[str, Number(1)] = ""
    data: Annotated[bytes, Number(2)] = b""
    flag: Annotated[bool, Number(3)] = False
    number: Annotated[int, Number(4)] = 0
    share: Annotated[float, Number(5)] = 0.0
    inner: Annotated[Inner | None, Number(6)] = None
    texts: Annotated[tuple[str, ...], Number(7)] = ()
    inners: Annotated[tuple[Inner, ...], Number(8)] = ()
    labels: Annotated[Mapping[str, str], Number(200)] = MappingProxyType({})
    by_name: Annotated[Mapping[str, Inner], Number(17)] = MappingProxyType({})


numbers = st.integers(-(2**63), 2**63 - 1)
inners = st.builds(Inner, text=st.text(), number=numbers)
messages = st.builds(
    Everything,
    text=st.text(),
    data=st.binary(),
    flag=st.booleans(),
    number=numbers,
    share=st.floats(allow_nan=False),
    inner=st.none() | inners,
    texts=st.lists(st.text()).map(tuple),
    inners=st.lists(inners).map(tuple),
    labels=st.dictionaries(st.text(), st.text()),
    by_name=st.dictionaries(st.text(), inners),
)


@given(messages)
def test_a_message_is_read_as_it_was_written(message: Everything) -> None:
    assert decode(Everything, message.encode()) == message


@given(messages)
def test_unknown_fields_are_skipped(message: Everything) -> None:
    assert decode(Everything, unknown_fields() + message.encode() + unknown_fields()) == message


@given(messages, messages)
def test_of_several_values_the_last_one_counts_and_lists_are_joined(first: Everything, second: Everything) -> None:
    both = decode(Everything, first.encode() + second.encode())
    assert both.text == (second.text or first.text)
    assert both.texts == first.texts + second.texts
    assert both.labels == {**first.labels, **second.labels}


@given(st.binary())
def test_bytes_that_are_no_message_are_refused_and_nothing_else_happens(data: bytes) -> None:
    kinds: list[type[Message]] = [Everything, NodeMessage, *(rpc.answer for rpc in RPCS.values())]
    for kind in kinds:
        with suppress(InvalidMessage):
            decode(kind, data)


@given(messages, st.data())
def test_a_message_that_is_cut_off_is_refused_or_another_message(message: Everything, data: st.DataObject) -> None:
    encoded = message.encode()
    with suppress(InvalidMessage):
        decode(Everything, encoded[: data.draw(st.integers(0, len(encoded)))])


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"\x0a\x05ab", "the field 1 ends after the message"),
        (b"\x0a\x01\xff", "the text of text is not UTF-8"),
        (b"\x08\x01", "the field text has the wire type 0"),
        (b"\x0b", "there is no wire type 3"),
        (b"\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "a number does not end"),
        (b"\x8a\x01\x02\x0d\x00", "the field 1 ends after the message"),
    ],
)
def test_what_is_wrong_with_bytes(data: bytes, rule: str) -> None:
    with pytest.raises(InvalidMessage, match=rule):
        decode(Everything, data)


def test_a_number_of_more_than_64_bits_is_a_bug() -> None:
    with pytest.raises(InternalError, match="64 bits"):
        Everything(number=2**63).encode()


def test_a_negative_number_has_ten_bytes_as_in_go() -> None:
    assert Everything(number=-2).encode() == b"\x20" + b"\xfe" + b"\xff" * 8 + b"\x01"


def test_a_node_is_read_as_it_was_written() -> None:
    node = template_node("a")
    assert decode_node(encode_node(node)) == node
    assert strip_node(node).metadata.name == ""
