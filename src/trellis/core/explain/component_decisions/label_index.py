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
        """The metadata, which has the labels."""


P = TypeVar("P", bound=LabelledObject)


class ObjectLabelIndex(Generic[P]):
    """Objects of one namespace by their labels."""

    def __init__(self, objects: Iterable[P] = ()) -> None:
        self._all: list[P] = []
        self._by_label: defaultdict[tuple[str, str], list[P]] = defaultdict(list)
        for obj in objects:
            self.add(obj)

    def add(self, obj: P) -> None:
        self._all.append(obj)
        for label in obj.metadata.labels.items():
            self._by_label[label].append(obj)

    def select(self, selector: Selector) -> Iterator[P]:
        """The objects that a selector matches."""
        choices = [
            [self._by_label.get((requirement.key, value), []) for value in requirement.values]
            for requirement in selector.value_requirements
        ]
        rarest = min(choices, key=lambda groups: sum(map(len, groups)), default=[self._all])
        return (obj for group in rarest for obj in group if selector.matches(obj.metadata.labels))
