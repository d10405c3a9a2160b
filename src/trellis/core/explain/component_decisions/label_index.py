"""Index of objects of one namespace by their labels.

A selector is compared only with the objects that have the rarest of the labels it requires.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from trellis.api.kube.slices import Labels
from trellis.base.selectors import Selector


class _LabelledMetadata(Protocol):
    @property
    def labels(self) -> Labels: ...


class LabelledObject(Protocol):
    """An object with labels, in whatever slice it is kept."""

    @property
    def metadata(self) -> _LabelledMetadata:
        """Where they are."""


P = TypeVar("P", bound=LabelledObject)


class ObjectLabelIndex(Generic[P]):
    """Objects of one namespace by their labels."""

    def __init__(self, objects: Iterable[P] = ()) -> None:
        self._all: list[P] = []
        self._labelled: defaultdict[tuple[str, str], list[P]] = defaultdict(list)
        for each in objects:
            self.add(each)

    def add(self, found: P) -> None:
        """One more."""
        self._all.append(found)
        for label in found.metadata.labels.items():
            self._labelled[label].append(found)

    def matching(self, selector: Selector) -> Iterator[P]:
        """Those that a selector matches."""
        choices = [[self._labelled.get((each.key, value), []) for value in each.values] for each in selector.wanted]
        rarest = min(choices, key=lambda groups: sum(map(len, groups)), default=[self._all])
        return (each for group in rarest for each in group if selector.matches(each.metadata.labels))
