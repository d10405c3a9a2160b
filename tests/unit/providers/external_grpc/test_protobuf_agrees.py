"""Bytes of messages agree with Google's protobuf library, for every message of the protocol."""

from __future__ import annotations

import importlib
import typing
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from support.worlds.providers.external_grpc import RPCS, template_node
from trellis.providers.external_grpc import messages, node_messages
from trellis.providers.external_grpc.node_messages import NodeMessage, encode_node
from trellis.providers.external_grpc.protobuf import Message, decode

descriptor = importlib.import_module("google.protobuf.descriptor_pb2")
pool_module = importlib.import_module("google.protobuf.descriptor_pool")
factory = importlib.import_module("google.protobuf.message_factory")

KINDS = sorted(
    {
        value
        for module in (messages, node_messages)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Message) and value is not Message
    },
    key=lambda kind: kind.__name__,
)
SCALARS = {str: "STRING", bytes: "BYTES", bool: "BOOL", int: "INT64", float: "DOUBLE"}
SAMPLES: dict[type, Any] = {str: "ä1", bytes: b"\0\xff", bool: True, int: -3, float: 1.5}


def unwrap(annotation: Any) -> tuple[Any, str]:
    """The type of one value, and whether there is one, a list or a map of them."""
    annotation = typing.get_args(annotation)[0]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is tuple:
        return arguments[0], "list"
    if origin is not None and issubclass(origin, Mapping):
        return arguments[1], "map"
    return (arguments[0], "one") if arguments else (annotation, "one")


def describe(kind: type[Message]) -> Any:
    """A message for Google's library, from the declaration of ours."""
    described = descriptor.DescriptorProto(name=kind.__name__)
    hints = typing.get_type_hints(kind, include_extras=True)
    for name in kind.__struct_fields__:
        value, shape = unwrap(hints[name])
        field = described.field.add(name=name, number=typing.get_args(hints[name])[1].number)
        field.label = field.LABEL_OPTIONAL if shape == "one" else field.LABEL_REPEATED
        if shape == "map":
            entry = described.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
            entry.options.map_entry = True
            set_type(entry.field.add(name="key", number=1, label=1), str)
            set_type(entry.field.add(name="value", number=2, label=1), value)
            field.type, field.type_name = field.TYPE_MESSAGE, f".ours.{kind.__name__}.{entry.name}"
        else:
            set_type(field, value)
    return described


def set_type(field: Any, value: type) -> None:
    if value in SCALARS:
        field.type = getattr(field, f"TYPE_{SCALARS[value]}")
    else:
        field.type, field.type_name = field.TYPE_MESSAGE, f".ours.{value.__name__}"


def load_classes() -> Mapping[str, Any]:
    file = descriptor.FileDescriptorProto(name="ours.proto", package="ours", syntax="proto3")
    file.message_type.extend(describe(kind) for kind in KINDS)
    pool = pool_module.DescriptorPool()
    pool.Add(file)
    return {
        kind.__name__: factory.GetMessageClass(pool.FindMessageTypeByName(f"ours.{kind.__name__}")) for kind in KINDS
    }


THEIRS = load_classes()


def build_sample(kind: type) -> Any:
    """A value with all fields set."""
    if kind in SAMPLES:
        return SAMPLES[kind]
    hints = typing.get_type_hints(kind, include_extras=True)
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        value, shape = unwrap(hints[field.name])
        sample = build_sample(value)
        values[field.name] = {"one": sample, "list": (sample, sample), "map": {"k": sample, "": sample}}[shape]
    return kind(**values)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_side_reads_what_the_other_has_written(kind: type[Message]) -> None:
    ours = build_sample(kind)
    theirs = THEIRS[kind.__name__].FromString(ours.encode())
    assert decode(kind, theirs.SerializeToString()) == ours
    empty = THEIRS[kind.__name__]()
    assert decode(kind, empty.SerializeToString()) == kind()
    assert kind().encode() == b""


def test_a_node_has_what_was_written() -> None:
    node = THEIRS[NodeMessage.__name__].FromString(encode_node(template_node("a")))
    assert node.metadata.name == "a"
    assert node.status.allocatable["cpu"].text == "2"
    assert [taint.key for taint in node.spec.taints] == ["dedicated"]


def test_every_message_of_a_call_is_among_them() -> None:
    assert {kind for rpc in RPCS.values() for kind in (rpc.request, rpc.answer)} <= set(KINDS)
