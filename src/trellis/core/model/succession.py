"""What makes one state of a kind into the next? What is gone and what is put, such that even the order comes out.

Whoever repeats the steps has the same objects in the same order, and so decides the same, down to which of two equals
comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

import msgspec

from trellis.core.model.keys import Key, key_of
from trellis.core.model.keys import T as Object
from trellis.core.model.store import Store

T = TypeVar("T")


class Step(msgspec.Struct, Generic[T], frozen=True):
    """First some objects go, then others are put, in this order."""

    gone: tuple[Key, ...]
    put: tuple[T, ...]

    def __bool__(self) -> bool:
        return bool(self.gone or self.put)


def step(before: Mapping[Key, T], after: Mapping[Key, T]) -> Step[T]:
    """From one state to the next. An object of which nothing has changed is the very same in both."""
    staying = _staying(before, after)
    gone = [key for key in before if key not in staying]
    changed = [after[key] for key in staying if after[key] is not before[key]]
    return Step(tuple(gone), (*changed, *(found for key, found in after.items() if key not in staying)))


def take(store: Store[Object], gone: Iterable[Key], put: Iterable[Object]) -> None:
    """Repeat a step."""
    for key in gone:
        store.remove(key)
    for found in put:
        store.put(key_of(found), found)


def _staying(before: Mapping[Key, T], after: Mapping[Key, T]) -> dict[Key, None]:
    """Those that keep their place. Whatever is put anew comes behind them, so that they are the first of the next."""
    staying: dict[Key, None] = {}
    passed: set[Key] = set()
    former = iter(before)
    for key in after:
        if key not in before or key in passed:
            break
        for each in former:
            if each == key:
                break
            passed.add(each)
        staying[key] = None
    return staying
