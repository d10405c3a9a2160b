"""Hypothesis strategies for the JSON of our kinds, made from the same declaration as everything else.

`good_specs` follow the schema; `wild_specs` break it here and there: wrong types, nulls, unknown fields, missing
ones, numbers at their limits. Pools are small on purpose, so that rules over several fields are met as often as they
are broken.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from trellis.api.fields import DURATION_PATTERN, Field
from trellis.api.kinds import Kind
from trellis.api.schema import Node, Shape, schema_of

GOOD_QUANTITIES = ("0", "1", "2", "500m", "250m", "1.5", "1G", "2Gi", "5120Mi", "1e3", "+3", ".5", 0, 1, 4, 40)
ODD_QUANTITIES = ("-1", "0.5m", "1e1.5", "1Kg", "", "NaN", " 1", -1, "1" * 33, "1e9999", "0.0000000001", 2.0)
DURATIONS = ("0s", "10s", "2m", "1h30m", "1.5h", "100ms")
ODD_DURATIONS = ("-5s", "10", "", "1d", "999999h999999h", "+5s", ".5s", "1µs", "0", "1" * 21)
TEXTS = ("a", "app", "*", "web", "apps/v1", "Deployment", "0 8 * * 1-5", "UTC", "220000-0000", "in.valid/key")
ODD_VALUES: tuple[Any, ...] = (None, True, 0, 7, -1, 1.5, "", "x", [], {}, [None], {"a": None}, 2**31, 2**63, "é")


def good_specs(kind: Kind) -> st.SearchStrategy[Any]:
    """Specs that follow the schema; rules over several fields may still be broken."""
    return _values(schema_of(kind.spec), wild=False)


def wild_specs(kind: Kind) -> st.SearchStrategy[Any]:
    """Specs that mostly follow the schema and break it in a few places."""
    return _values(schema_of(kind.spec), wild=True)


def _values(node: Node, wild: bool) -> st.SearchStrategy[Any]:
    good = _shaped(node, wild)
    if not wild:
        return good
    # One value in twelve is odd: most objects then have one or two flaws, and many have none.
    odd = st.sampled_from(_odd(node))
    return st.integers(0, 11).flatmap(lambda roll: odd if roll == 0 else good)


def _shaped(node: Node, wild: bool) -> st.SearchStrategy[Any]:
    match node.shape:
        case Shape.OBJECT:
            return _objects(node, wild)
        case Shape.LIST if node.items is not None:
            field = node.field
            least, most = field.min_items or 0, min(field.max_items or 3, 3)
            return st.lists(_values(node.items, wild), min_size=0 if wild else least, max_size=most + wild)
        case Shape.MAP if node.items is not None and not node.field.opaque:
            keys = st.sampled_from(("cpu", "memory", "app", "example.com/gpu"))
            return st.dictionaries(keys, _values(node.items, wild), max_size=3)
        case Shape.MAP:
            return st.dictionaries(st.sampled_from(("a", "b")), st.sampled_from((0, "x", True)), max_size=2)
        case _:
            return st.sampled_from(_scalars(node))


def _objects(node: Node, wild: bool) -> st.SearchStrategy[Any]:
    required = {name: _values(node.members[name], wild) for name in node.required}
    optional = {name: _values(member, wild) for name, member in node.members.items() if name not in required}
    if wild:
        optional["surprise"] = st.just(1)
        if required:
            dropped = next(iter(required))
            optional[dropped] = required.pop(dropped)
    return st.fixed_dictionaries(required, optional=optional)


def _scalars(node: Node) -> tuple[Any, ...]:
    field = node.field
    match node.shape:
        case Shape.QUANTITY:
            return GOOD_QUANTITIES
        case Shape.INTEGER:
            return tuple(sorted({_clamp(number, field) for number in (0, 1, 2, 3, 8, 10, 100, 2**31 - 1)}))
        case Shape.NUMBER:
            return (0, 1, 0.5, -2.25)
        case Shape.BOOLEAN:
            return (True, False)
        case _ if field.enum:
            return field.enum
        case _ if field.pattern == DURATION_PATTERN:
            return DURATIONS
        case _ if field.format == "date-time":
            return ("2026-11-15T18:00:00Z", "2026-11-15T18:00:00.5+01:00")
        case _ if field.pattern is not None:
            return ("220000-0000", "063000+0530")
        case _:
            return tuple(text for text in TEXTS if _fits(text, field))


def _odd(node: Node) -> tuple[Any, ...]:
    own: tuple[Any, ...] = ()
    if node.shape is Shape.QUANTITY:
        own = ODD_QUANTITIES
    elif node.shape is Shape.INTEGER:
        own = (2.0, 1.5, -1, 0, 2**31, 2**63)
    elif node.field.pattern == DURATION_PATTERN:
        own = ODD_DURATIONS
    return own + ODD_VALUES


def _clamp(number: int, field: Field) -> int:
    low = number if field.minimum is None else max(number, field.minimum)
    return low if field.maximum is None else min(low, field.maximum)


def _fits(text: str, field: Field) -> bool:
    return (field.min_length or 0) <= len(text) <= (field.max_length or len(text))
