"""Whom does a recommender serve, and who of them waits for its history?"""

from __future__ import annotations

import msgspec

from trellis.api.resolve import DEFAULT_RECOMMENDER
from trellis.core.model.keys import Key


class Scope(msgspec.Struct, frozen=True):
    """Whom this process serves: the recommenders it is, and the namespaces it looks at.

    `totals` is set where it keeps the histories of whole workloads for Hvpas although it does not serve `default`.
    """

    recommenders: frozenset[str]
    namespace: str = ""
    ignored: frozenset[str] = frozenset()
    totals: bool = False

    @property
    def keeps_totals(self) -> bool:
        """Whether histories of whole workloads are kept and published here: only one process can write them."""
        return self.totals or DEFAULT_RECOMMENDER in self.recommenders

    def covers(self, namespace: str) -> bool:
        """Whether objects of a namespace are ours to look at."""
        return namespace == self.namespace if self.namespace else namespace not in self.ignored


class Waiting(msgspec.Struct, frozen=True):
    """VPAs whose history is being fetched, and those whose history could not be, with the problem."""

    fetching: frozenset[Key] = frozenset()
    without: frozenset[Key] = frozenset()
    problem: str = ""
