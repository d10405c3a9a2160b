"""The names of fields in recordings stay as they are, whatever the attributes are called."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import msgspec
from msgspec import inspect

from support.golden_files import assert_golden
from trellis.core import recording
from trellis.core.recording.nodes.changes import ObjectLine


def _list_lines() -> Iterator[type[msgspec.Struct]]:
    """The structs that recordings are made of; a generic line is one of its objects with a key."""
    for module in pkgutil.walk_packages(recording.__path__, f"{recording.__name__}."):
        for member in vars(importlib.import_module(module.name)).values():
            is_struct = isinstance(member, type) and issubclass(member, msgspec.Struct)
            if is_struct and member.__module__ == module.name and member is not ObjectLine:
                yield member


def _collect_structs(part: inspect.Type, structs: dict[str, list[str]]) -> None:
    """Add the structs that a type consists of, with the names of their fields."""
    match part:
        case inspect.StructType(cls=cls, fields=fields):
            if cls.__qualname__ in structs:
                return
            structs[cls.__qualname__] = [field.encode_name for field in fields]
            parts = [field.type for field in fields]
        case inspect.NamedTupleType(fields=fields):
            parts = [field.type for field in fields]
        case inspect.UnionType(types=types):
            parts = list(types)
        case inspect.TupleType(item_types=items):
            parts = list(items)
        case inspect.DictType(key_type=key, value_type=value):
            parts = [key, value]
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            parts = [item]
        case inspect.SetType(item_type=item) | inspect.FrozenSetType(item_type=item):
            parts = [item]
        case _:
            parts = []
    for inner in parts:
        _collect_structs(inner, structs)


def test_recorded_fields_keep_their_names() -> None:
    """A name that changes makes earlier recordings unreadable: rename the attribute, and keep the field."""
    structs: dict[str, list[str]] = {}
    for line in _list_lines():
        _collect_structs(inspect.type_info(line), structs)
    assert len(structs) > 200
    text = "".join(f"{name}: {', '.join(fields)}\n" for name, fields in sorted(structs.items()))
    assert_golden("recorded-fields.txt", text)
