"""Topology domains, and the base of the rules that open or close them.

A domain is the set of nodes with the same value of a label. A rule decides which domains a pod may use. While equal
pods are placed one after the other, each placement may open or close domains.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from trellis.core.usage.columns import BoolColumn, IntColumn


class DomainRule(ABC):
    """One rule. `codes` has the domain of each node, 0 for none, and `open` whether each domain may be used.

    A rule that never `changes`, however many equal pods are placed, need not record them.
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
    def record_placed(self, number: int) -> bool:
        """Record a pod on a node; returns whether a domain has opened or closed."""


def count_pods_per_domain(codes: IntColumn, size: int, counts: npt.NDArray[np.int32]) -> IntColumn:
    """The number of pods in each domain. Pods on nodes in no domain are not counted."""
    totals = np.bincount(codes, weights=counts, minlength=size).astype(np.int64)
    totals[0] = 0
    return totals
