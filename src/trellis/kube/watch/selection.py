"""Selections: which objects of a kind are listed and watched, and how one selection is cut out of a wider one."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, reduce
from operator import attrgetter
from typing import Any, Final

import msgspec

from trellis.core.cluster.store import AnyObject

_CAPITAL: Final = re.compile(r"(?<!^)([A-Z])")


class Selection(msgspec.Struct, frozen=True):
    """Which objects of a kind: all of them, or those of one namespace, or with certain labels or fields."""

    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""

    def covers(self, other: Selection) -> bool:
        """Whether it has all objects of the other one."""
        return (
            self.namespace in {"", other.namespace}
            and self.label_selector == other.label_selector
            and _requirements(self.field_selector) <= _requirements(other.field_selector)
        )

    def widen(self, other: Selection) -> Selection:
        """A selection that has all objects of both. Those with different labels have none but the whole kind."""
        if self.label_selector != other.label_selector:
            return Selection()
        shared = _requirements(other.field_selector)
        requirements = [text for text in self.field_selector.split(",") if text in shared]
        namespace = self.namespace if self.namespace == other.namespace else ""
        return Selection(namespace, self.label_selector, ",".join(requirements))

    def matches(self, candidate: AnyObject) -> bool:
        """Whether an object of a selection that covers this one belongs to it as well."""
        if self.namespace and candidate.metadata.namespace != self.namespace:
            return False
        return all(
            (_read_field(path)(candidate) == value) is must_equal
            for path, value, must_equal in _parse(self.field_selector)
        )


def widen_all(selections: list[Selection]) -> Selection:
    """The narrowest selection that has all objects of these."""
    return reduce(Selection.widen, selections)


@cache
def _requirements(field_selector: str) -> frozenset[str]:
    return frozenset(filter(None, field_selector.split(",")))


@cache
def _parse(field_selector: str) -> tuple[tuple[str, str, bool], ...]:
    """The path of each field, its value, and whether it must have that value or must not."""
    parsed = []
    for text in _requirements(field_selector):
        path, operator, value = re.split(r"(!=|==?)", text, maxsplit=1)
        parsed.append((path, value, operator != "!="))
    return tuple(parsed)


@cache
def _read_field(path: str) -> Callable[[Any], Any]:
    """Read a field by its path in JSON: `spec.nodeName` is `spec.node_name` of a slice."""
    return attrgetter(_CAPITAL.sub(r"_\1", path).lower())
