"""Topology domains, and the base of the rules that open or close them.

A domain is the set of nodes with the same value of a label. A rule says of every domain whether a pod may go there.
While equal pods are placed one after the other, the rule is told of each and says whether a domain has opened or
closed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

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


def pods_per_domain(codes: IntColumn, size: int, counts: npt.NDArray[np.int32]) -> IntColumn:
    """How many pods there are in each domain; none are counted for nodes that are in none."""
    totals = np.bincount(codes, weights=counts, minlength=size).astype(np.int64)
    totals[0] = 0
    return totals
