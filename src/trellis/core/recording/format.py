"""What the recordings of all components share: component names, kinds of lines, and changes between two states.

Of the cluster only what has changed since the last pass is recorded, in such a way that a replay has the same objects
in the same order, and so decides the same, down to which of two equals comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from trellis.core.cluster.store import ObjectKey, ObjectStore, key_of
from trellis.core.cluster.store import T as Object

# The components that write recordings.
RECOMMENDER: Final = "recommender"
UPDATER: Final = "updater"
HVPA: Final = "hvpa"
BUFFERS: Final = "buffers"
NODES: Final = "nodes"


# Lines of a component whose decisions are independent: its settings, the input and the decision.
START_LINE: Final = "start"
INPUT_LINE: Final = "input"
DECISION_LINE: Final = "decision"


T = TypeVar("T")


class ObjectChanges(msgspec.Struct, Generic[T], frozen=True):
    """The changes of objects: first the removed ones, then those that are put, in this order."""

    removed: tuple[ObjectKey, ...]
    put: tuple[T, ...]

    def __bool__(self) -> bool:
        return bool(self.removed or self.put)


def diff_objects(before: Mapping[ObjectKey, T], after: Mapping[ObjectKey, T]) -> ObjectChanges[T]:
    """The changes from one state to the next. Unchanged objects are identical in both."""
    unmoved = _find_unmoved(before, after)
    removed = [key for key in before if key not in unmoved]
    changed = [after[key] for key in unmoved if after[key] is not before[key]]
    return ObjectChanges(tuple(removed), (*changed, *(value for key, value in after.items() if key not in unmoved)))


def apply_changes(store: ObjectStore[Object], removed: Iterable[ObjectKey], put: Iterable[Object]) -> None:
    """Apply recorded changes to a store."""
    for key in removed:
        store.remove(key)
    for value in put:
        store.put(key_of(value), value)


def encoded_fields(struct: msgspec.Struct) -> Iterator[tuple[str, Any]]:
    """The fields of a struct, under the names they are recorded with."""
    for name, encoded in zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True):
        yield encoded, getattr(struct, name)


def _find_unmoved(before: Mapping[ObjectKey, T], after: Mapping[ObjectKey, T]) -> dict[ObjectKey, None]:
    """Those that keep their place. Whatever is put anew comes behind them, so that they are the first of the next."""
    unmoved: dict[ObjectKey, None] = {}
    passed: set[ObjectKey] = set()
    former = iter(before)
    for key in after:
        if key not in before or key in passed:
            break
        for item in former:
            if item == key:
                break
            passed.add(item)
        unmoved[key] = None
    return unmoved
