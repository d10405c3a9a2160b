"""A map of bounded size that evicts the entry used longest ago."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LruMap(Generic[K, V]):
    """A map that evicts the least recently used entry beyond its capacity."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value of the key, created by `make` if it is missing."""
        if key in self._values:
            self._values.move_to_end(key)
        else:
            self._values[key] = make()
            if len(self._values) > self._capacity:
                self._values.popitem(last=False)
        return self._values[key]

    def drop(self, key: K) -> None:
        """Remove a key."""
        self._values.pop(key, None)
