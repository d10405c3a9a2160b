"""A map of bounded size that evicts the entry used longest ago."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LruMap(Generic[K, V]):
    """A map that forgets what was used longest ago."""

    def __init__(self, kept: int) -> None:
        self._capacity = kept
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value, made if it is not there."""
        if key in self._values:
            self._values.move_to_end(key)
        else:
            self._values[key] = make()
            if len(self._values) > self._capacity:
                self._values.popitem(last=False)
        return self._values[key]

    def drop(self, key: K) -> None:
        """Forget a value."""
        self._values.pop(key, None)
