"""Selections: which objects of a kind are listed and watched, and how one selection is cut out of a wider one."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import cache, reduce
from operator import attrgetter
from typing import Any, Final

import msgspec

from trellis.core.cluster.store import AnyObject

_CAPITAL: Final = re.compile(r"(?<!^)([A-Z])")


class Selection(msgspec.Struct, frozen=True):
    """Which objects of a kind: all of them, or those of some namespaces, or with certain labels or fields."""

    namespaces: tuple[str, ...] = ()
    label_selector: str = ""
    field_selector: str = ""

    def covers(self, other: Selection) -> bool:
        """Whether it has all objects of the other one."""
        return (
            self.covers_namespaces(other.namespaces)
            and self.label_selector == other.label_selector
            and _requirements(self.field_selector) <= _requirements(other.field_selector)
        )

    def covers_namespaces(self, namespaces: Collection[str]) -> bool:
        """Whether it has the objects of these namespaces, of which none means all."""
        return not self.namespaces or (bool(namespaces) and set(namespaces) <= set(self.namespaces))

    def split(self) -> tuple[Selection, ...]:
        """Selections of one namespace each: one list and one watch cannot have several, only all."""
        if len(self.namespaces) < 2:
            return (self,)
        return tuple(msgspec.structs.replace(self, namespaces=(namespace,)) for namespace in self.namespaces)

    @property
    def namespace(self) -> str:
        """The namespace of a list or a watch, empty for all; a selection of several is split first."""
        (namespace,) = self.namespaces or ("",)
        return namespace

    def widen(self, other: Selection) -> Selection:
        """A selection that has all objects of both. Those with different labels have none but the whole kind."""
        if self.label_selector != other.label_selector:
            return Selection()
        shared = _requirements(other.field_selector)
        requirements = [text for text in self.field_selector.split(",") if text in shared]
        # Of none on either side, all are needed.
        namespaces = {*self.namespaces, *other.namespaces} if self.namespaces and other.namespaces else ()
        return Selection(tuple(sorted(namespaces)), self.label_selector, ",".join(requirements))

    def matches(self, candidate: AnyObject) -> bool:
        """Whether an object of a selection that covers this one belongs to it as well."""
        if self.namespaces and candidate.metadata.namespace not in self.namespaces:
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
