"""Which kinds of placed pods may a selector mean?

Pods that look alike are one kind. Kinds are found by a label once somebody has asked about that label: a namespace can
have thousands of them, and as many rules that each mean one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt

from trellis.base.selectors import Selector
from trellis.core.fit.resident import Resident

CountColumn = npt.NDArray[np.int32]

# Labels of namespaces asked about; whoever makes pods can ask about any.
_MOST_INDEXES: Final = 1024


class Kind:
    """Pods that look alike: how many are on which node, and which columns count them."""

    __slots__ = ("columns", "labels", "resident", "where")

    def __init__(self, resident: Resident) -> None:
        self.resident = resident
        self.labels = dict(resident.labels)
        self.where: dict[int, int] = {}
        self.columns: list[CountColumn] = []


class Kinds:
    """All kinds there are, by namespace."""

    def __init__(self) -> None:
        self._kinds: dict[str, dict[Resident, Kind]] = {}
        # By namespace and name of a label, then by its value.
        self._indexes: dict[tuple[str, str], dict[str, dict[Kind, None]]] = {}

    def __iter__(self) -> Iterator[Kind]:
        return chain.from_iterable(each.values() for each in self._kinds.values())

    @property
    def namespaces(self) -> list[str]:
        """The namespaces that have pods."""
        return list(self._kinds)

    def find(self, resident: Resident) -> Kind | None:
        """The kind that looks like this."""
        return self._kinds.get(resident.namespace, {}).get(resident)

    def add(self, kind: Kind) -> None:
        """Take one in."""
        namespace = kind.resident.namespace
        self._kinds.setdefault(namespace, {})[kind.resident] = kind
        for key, value in kind.resident.labels:
            index = self._indexes.get((namespace, key))
            if index is not None:
                index.setdefault(value, {})[kind] = None

    def drop(self, kind: Kind) -> None:
        """Forget one."""
        namespace = kind.resident.namespace
        del self._kinds[namespace][kind.resident]
        for key, value in kind.resident.labels:
            index = self._indexes.get((namespace, key))
            if index is not None:
                del index[value][kind]
                if not index[value]:
                    del index[value]
        if not self._kinds[namespace]:
            del self._kinds[namespace]

    def candidates(self, namespace: str, selector: Selector) -> Iterable[Kind]:
        """Those of one namespace that a selector may select."""
        kinds = self._kinds.get(namespace, {})
        if not selector.wanted or not kinds:
            return kinds.values()
        wanted = selector.wanted[0]
        index = self._index(namespace, wanted.key)
        return chain.from_iterable(index.get(value, {}) for value in wanted.values)

    def _index(self, namespace: str, key: str) -> dict[str, dict[Kind, None]]:
        index = self._indexes.get((namespace, key))
        if index is None:
            if len(self._indexes) >= _MOST_INDEXES:
                self._indexes.clear()
            index = self._indexes[namespace, key] = {}
            for kind in self._kinds[namespace].values():
                if key in kind.labels:
                    index.setdefault(kind.labels[key], {})[kind] = None
        return index
