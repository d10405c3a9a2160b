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
    """Values with a selector each, and optionally the namespaces that the selector is restricted to."""

    def __init__(self) -> None:
        self._buckets: dict[Hashable, dict[T, None]] = {}

    def put(self, value: T, selector: Selector, namespaces: tuple[str, ...] | None) -> None:
        """Index a value by its selector."""
        for bucket in _index_entries(selector, namespaces):
            self._buckets.setdefault(bucket, {})[value] = None

    def drop(self, value: T, selector: Selector, namespaces: tuple[str, ...] | None) -> None:
        """Remove a value that was indexed with this selector and these namespaces."""
        for bucket in _index_entries(selector, namespaces):
            values = self._buckets[bucket]
            del values[value]
            if not values:
                del self._buckets[bucket]

    def clear(self) -> None:
        self._buckets.clear()

    def candidates(self, namespace: str, labels: Labels) -> Iterator[T]:
        """The values whose selector may select an object, each of them once."""
        if not self._buckets:
            return
        entries: dict[T, None] = {}
        for namespace_entry in (namespace, None):
            entries |= self._buckets.get(namespace_entry, {})
            for label in labels.items():
                entries |= self._buckets.get((namespace_entry, label), {})
        yield from entries


def _index_entries(selector: Selector, namespaces: tuple[str, ...] | None) -> Iterator[Hashable]:
    requirements = selector.value_requirements
    for namespace_entry in (None,) if namespaces is None else namespaces:
        if not requirements:
            yield namespace_entry
            continue
        for value in requirements[0].values:
            yield namespace_entry, (requirements[0].key, value)
