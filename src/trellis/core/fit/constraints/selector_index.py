"""An index of label selectors that finds those which may select an object.

Selectors are indexed by one label that each requires, so an object with ten labels is compared with the few selectors
that require one of the ten, and not with those of all other workloads.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from trellis.api.kube.slices import Labels
from trellis.base.selectors import Selector

T = TypeVar("T", bound=Hashable)


class LabelSelectorIndex(Generic[T]):
    """Things with a selector each, and optionally the only namespaces that they are about."""

    def __init__(self) -> None:
        self._buckets: dict[Hashable, dict[T, None]] = {}

    def put(self, thing: T, selector: Selector, namespaces: tuple[str, ...] | None) -> None:
        """Index a value by its selector."""
        for bucket in _index_entries(selector, namespaces):
            self._buckets.setdefault(bucket, {})[thing] = None

    def drop(self, thing: T, selector: Selector, namespaces: tuple[str, ...] | None) -> None:
        """Forget one that was put in with the same words."""
        for bucket in _index_entries(selector, namespaces):
            left = self._buckets[bucket]
            del left[thing]
            if not left:
                del self._buckets[bucket]

    def clear(self) -> None:
        self._buckets.clear()

    def candidates(self, namespace: str, labels: Labels) -> Iterator[T]:
        """Those that may select an object; each of them once."""
        if not self._buckets:
            return
        entries: dict[T, None] = {}
        for where in (namespace, None):
            entries |= self._buckets.get(where, {})
            for label in labels.items():
                entries |= self._buckets.get((where, label), {})
        yield from entries


def _index_entries(selector: Selector, namespaces: tuple[str, ...] | None) -> Iterator[Hashable]:
    requirements = selector.value_requirements
    for where in (None,) if namespaces is None else namespaces:
        if not requirements:
            yield where
            continue
        for value in requirements[0].values:
            yield where, (requirements[0].key, value)
