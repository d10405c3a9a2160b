"""Into which domains may a pod be put, and what changes when it is?

A domain is the nodes that have the same value of a label. Each rule says of every domain whether it is open; putting
pods that are alike one after the other, it is told of each and says whether that has opened or closed any.

The rules are those of `PodTopologySpread` and `InterPodAffinity` in Kubernetes 1.36.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from trellis.core.fit.spread_rules import SpreadRule
from trellis.core.usage.columns import BoolColumn, IntColumn


class DomainRule(ABC):
    """One rule. `codes` has the domain of each node, 0 for none, and `open` whether each domain may be used.

    One that never `changes`, however many pods of the kind are put, need not be told of them.
    """

    def __init__(self, codes: IntColumn, is_open: BoolColumn, *, changes: bool) -> None:
        self.codes = codes
        self.open = is_open
        self.changes = changes

    @property
    def mask(self) -> BoolColumn:
        """The nodes that may be used."""
        return self.open[self.codes]

    @abstractmethod
    def take(self, number: int) -> bool:
        """Note that the pod was put on a node that may be used; whether other nodes may be used now."""


class Apart(DomainRule):
    """Closed where there is a pod to keep away from, or one that keeps this one away."""

    def __init__(self, codes: IntColumn, size: int, counts: npt.NDArray[np.int32], *, from_self: bool) -> None:
        is_open = totals(codes, size, counts) == 0
        # A node without the label is in nobody's domain.
        is_open[0] = True
        super().__init__(codes, is_open, changes=from_self)

    def take(self, number: int) -> bool:
        """Pods that keep away from their like close their domain."""
        domain = self.codes[number]
        if not self.changes or domain == 0:
            return False
        self.open[domain] = False
        return True


class Near(DomainRule):
    """Open where there is a pod to be near to; for the `first` of a group everywhere, until it has a place."""

    def __init__(self, codes: IntColumn, size: int, counts: npt.NDArray[np.int32], *, first: bool) -> None:
        is_open = np.ones(size, dtype=np.bool_) if first else totals(codes, size, counts) > 0
        is_open[0] = False
        super().__init__(codes, is_open, changes=first)

    def take(self, number: int) -> bool:
        """All others follow the first."""
        if not self.changes:
            return False
        self.changes = False
        self.open[:] = False
        self.open[self.codes[number]] = True
        return True


class Spread(DomainRule):
    """Open where one more would not be too many beside the domain with the fewest.

    `among` are the nodes whose pods count. `is_like` says whether the pod is one of those that are spread.
    """

    def __init__(
        self,
        codes: IntColumn,
        size: int,
        counts: npt.NDArray[np.int32],
        among: BoolColumn,
        rule: SpreadRule,
        *,
        is_like: bool,
    ) -> None:
        inside = codes[among]
        self._among = among
        self._totals = totals(inside, size, counts[among])
        self._domains = np.flatnonzero(np.bincount(inside, minlength=size))
        self._compares = len(self._domains) >= max(rule.fewest_domains, 1)
        self._most = rule.most_skew - is_like
        self._fewest, self._with_fewest = 0, 0
        self._find_fewest()
        super().__init__(codes, self._all_open(), changes=is_like and rule.counts_pods)

    def take(self, number: int) -> bool:
        """One more in the node's domain, and perhaps in none of them as few as before."""
        if not (self.changes and self._among[number]):
            return False
        domain = self.codes[number]
        self._totals[domain] += 1
        if self._compares and self._totals[domain] == self._fewest + 1:
            self._with_fewest -= 1
            if not self._with_fewest:
                self._find_fewest()
                self.open[:] = self._all_open()
                return True
        before = self.open[domain]
        self.open[domain] = self._totals[domain] - self._fewest <= self._most
        return bool(before != self.open[domain])

    def _find_fewest(self) -> None:
        if self._compares:
            there = self._totals[self._domains]
            self._fewest = int(there.min())
            self._with_fewest = int(np.count_nonzero(there == self._fewest))

    def _all_open(self) -> BoolColumn:
        found: BoolColumn = self._totals - self._fewest <= self._most
        found[0] = False
        return found


def totals(codes: IntColumn, size: int, counts: npt.NDArray[np.int32]) -> IntColumn:
    """How many pods there are in each domain; none are counted for nodes that are in none."""
    found = np.bincount(codes, weights=counts, minlength=size).astype(np.int64)
    found[0] = 0
    return found
