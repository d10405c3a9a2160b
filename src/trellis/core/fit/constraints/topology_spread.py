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
from trellis.core.fit.constraints.pod_affinity import read_selector, selector_with_keys
from trellis.core.fit.constraints.topology_domains import DomainRule, pods_per_domain
from trellis.core.usage.columns import BoolColumn, IntColumn

_REQUIRED: Final = "DoNotSchedule"
_HONOR: Final = "Honor"


class SpreadConstraint(msgspec.Struct, frozen=True, gc=False):
    """The domain with the most of the pods may have `most_skew` more of them than the one with the fewest.

    With fewer domains than `fewest_domains` it is compared with none at all.
    """

    selector: Selector
    key: str
    most_skew: int
    fewest_domains: int = 1
    heeds_affinity: bool = True
    heeds_taints: bool = False

    @property
    def counts_pods(self) -> bool:
        """Whether there are pods it counts: the scheduler counts none for a selector of everything."""
        return bool(self.selector.requirements)


def spread_constraints(spec: PodSpec, metadata: ObjectMeta) -> tuple[SpreadConstraint, ...]:
    """The constraints that keep a pod from nodes, in their order."""
    return tuple(
        _constraint(constraint, metadata, f"spec.topologySpreadConstraints[{at}]")
        for at, constraint in enumerate(spec.topology_spread_constraints)
        if constraint.when_unsatisfiable == _REQUIRED
    )


def _constraint(written: TopologySpreadConstraint, metadata: ObjectMeta, place: str) -> SpreadConstraint:
    keys = written.match_label_keys
    return SpreadConstraint(
        selector=read_selector(place, lambda: selector_with_keys(written.label_selector, metadata.labels, keys)),
        key=written.topology_key,
        most_skew=written.max_skew,
        fewest_domains=1 if written.min_domains is None else written.min_domains,
        heeds_affinity=written.node_affinity_policy in ("", _HONOR),
        heeds_taints=written.node_taints_policy == _HONOR,
    )


class TopologySpreadRule(DomainRule):
    """Open where one more would not be too many beside the domain with the fewest.

    `among` are the nodes whose pods count. `is_like` says whether the pod is one of those that are spread.
    """

    def __init__(
        self,
        codes: IntColumn,
        size: int,
        counts: npt.NDArray[np.int32],
        among: BoolColumn,
        rule: SpreadConstraint,
        *,
        is_like: bool,
    ) -> None:
        inside = codes[among]
        self._among = among
        self._totals = pods_per_domain(inside, size, counts[among])
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
        is_open: BoolColumn = self._totals - self._fewest <= self._most
        is_open[0] = False
        return is_open
