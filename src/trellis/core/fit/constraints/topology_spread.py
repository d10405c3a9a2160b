"""Topology spread constraints with `DoNotSchedule`; those with `ScheduleAnyway` keep no pod from a node.

The rules and defaults of `PodTopologySpread` in Kubernetes 1.36: a node that the pod's node selector or affinity
refuses is in no domain, and one whose taints the pod does not tolerate is.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.placement import TopologySpreadConstraint
from trellis.api.kube.pods import PodSpec
from trellis.base.selectors import Selector
from trellis.core.fit.constraints.pod_affinity import build_selector_with_keys, read_selector
from trellis.core.fit.constraints.topology_domains import DomainRule, count_pods_per_domain
from trellis.core.usage.columns import BoolColumn, IntColumn

_REQUIRED: Final = "DoNotSchedule"
_HONOR: Final = "Honor"


class SpreadConstraint(msgspec.Struct, frozen=True, gc=False):
    """The domain with the most pods may have `max_skew` more of them than the one with the fewest.

    With fewer domains than `min_domains` it is compared with zero.
    """

    selector: Selector
    key: str
    max_skew: int
    min_domains: int = 1
    honors_node_affinity: bool = True
    honors_node_taints: bool = False

    @property
    def counts_pods(self) -> bool:
        """Whether it counts pods: the scheduler counts none for an empty selector."""
        return bool(self.selector.requirements)


def read_spread_constraints(spec: PodSpec, metadata: ObjectMeta) -> tuple[SpreadConstraint, ...]:
    """The constraints with `DoNotSchedule`, in their order."""
    return tuple(
        _constraint(constraint, metadata, f"spec.topologySpreadConstraints[{at}]")
        for at, constraint in enumerate(spec.topology_spread_constraints)
        if constraint.when_unsatisfiable == _REQUIRED
    )


def _constraint(constraint: TopologySpreadConstraint, metadata: ObjectMeta, path: str) -> SpreadConstraint:
    keys = constraint.match_label_keys
    return SpreadConstraint(
        selector=read_selector(
            path, lambda: build_selector_with_keys(constraint.label_selector, metadata.labels, keys)
        ),
        key=constraint.topology_key,
        max_skew=constraint.max_skew,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        honors_node_affinity=constraint.node_affinity_policy in ("", _HONOR),
        honors_node_taints=constraint.node_taints_policy == _HONOR,
    )


class TopologySpreadRule(DomainRule):
    """Open where one more pod does not exceed the skew.

    `counted` are the nodes whose pods count. `counts_itself` says whether the pod is one of those that are spread.
    """

    def __init__(
        self,
        codes: IntColumn,
        size: int,
        counts: npt.NDArray[np.int32],
        counted: BoolColumn,
        rule: SpreadConstraint,
        *,
        counts_itself: bool,
    ) -> None:
        inside = codes[counted]
        self._counted = counted
        self._totals = count_pods_per_domain(inside, size, counts[counted])
        self._domains = np.flatnonzero(np.bincount(inside, minlength=size))
        self._compares = len(self._domains) >= max(rule.min_domains, 1)
        self._max = rule.max_skew - counts_itself
        self._lowest, self._at_lowest = 0, 0
        self._find_lowest()
        super().__init__(codes, self._find_open(), changes=counts_itself and rule.counts_pods)

    def record_placed(self, number: int) -> bool:
        """Count a pod in its domain, which may raise the lowest count of all domains."""
        if not (self.changes and self._counted[number]):
            return False
        domain = self.codes[number]
        self._totals[domain] += 1
        if self._compares and self._totals[domain] == self._lowest + 1:
            self._at_lowest -= 1
            if not self._at_lowest:
                self._find_lowest()
                self.open[:] = self._find_open()
                return True
        before = self.open[domain]
        self.open[domain] = self._totals[domain] - self._lowest <= self._max
        return bool(before != self.open[domain])

    def _find_lowest(self) -> None:
        if self._compares:
            totals = self._totals[self._domains]
            self._lowest = int(totals.min())
            self._at_lowest = int(np.count_nonzero(totals == self._lowest))

    def _find_open(self) -> BoolColumn:
        is_open: BoolColumn = self._totals - self._lowest <= self._max
        is_open[0] = False
        return is_open
