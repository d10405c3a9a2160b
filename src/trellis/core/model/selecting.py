"""Which objects does a pod concern? Those whose target selects it: found by one of its labels, not by asking them all.

A selector is filed under one of the labels that it wants: the one under which fewest others stand, because a label such
as the name of a chart may be on every pod of a namespace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from trellis.base.selectors import Selector
from trellis.core.model.keys import Key

_Place: TypeAlias = tuple[str, str, str]

# Where those stand that want no value of any label: they are asked about every pod of their namespace.
_ANY: Final = ""


class Selecting:
    """The selectors of all targets, as they were last seen."""

    def __init__(self) -> None:
        self._selectors: dict[Key, Selector] = {}
        self._places: dict[Key, tuple[_Place, ...]] = {}
        self._filed: dict[_Place, dict[Key, None]] = {}

    def put(self, key: Key, selector: Selector) -> None:
        """The target of an object has this selector."""
        if self._selectors.get(key) == selector:
            return
        self.forget(key)
        self._selectors[key] = selector
        self._places[key] = places = self._file(key[0], selector)
        for place in places:
            self._filed.setdefault(place, {})[key] = None

    def forget(self, key: Key) -> None:
        """It has none any more."""
        self._selectors.pop(key, None)
        for place in self._places.pop(key, ()):
            filed = self._filed[place]
            del filed[key]
            if not filed:
                del self._filed[place]

    def clear(self) -> None:
        """None has."""
        self._selectors.clear()
        self._places.clear()
        self._filed.clear()

    def concerned(self, namespace: str, labels: Mapping[str, str]) -> list[Key]:
        """The objects whose pods include one with these labels."""
        places = [(namespace, _ANY, _ANY), *((namespace, key, value) for key, value in labels.items())]
        found = [key for place in places for key in self._filed.get(place, ())]
        return [key for key in found if self._selectors[key].matches(labels)]

    def _file(self, namespace: str, selector: Selector) -> tuple[_Place, ...]:
        if selector.selects_nothing:
            return ()
        choices = [tuple((namespace, each.key, value) for value in each.values) for each in selector.wanted]
        crowds = [sum(len(self._filed.get(place, ())) for place in places) for places in choices]
        return choices[crowds.index(min(crowds))] if choices else ((namespace, _ANY, _ANY),)
