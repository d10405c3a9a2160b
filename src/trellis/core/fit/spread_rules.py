"""How evenly must pods like this one lie over the domains?

The constraints with `DoNotSchedule`; the others are wishes. The defaults are those of the scheduler of Kubernetes 1.36:
a node that the pod's own selector or affinity refuses is in no domain, one whose taints it does not tolerate is.
"""

from __future__ import annotations

from typing import Final

import msgspec

from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.placement import TopologySpreadConstraint
from trellis.api.kube.pods import PodSpec
from trellis.base.selectors import Selector
from trellis.core.fit.pod_terms import read, selector_with_keys

_REQUIRED: Final = "DoNotSchedule"
_HONOR: Final = "Honor"


class SpreadRule(msgspec.Struct, frozen=True, gc=False):
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


def spread_rules(spec: PodSpec, metadata: ObjectMeta) -> tuple[SpreadRule, ...]:
    """The constraints that keep a pod from nodes, in their order."""
    return tuple(
        _rule(each, metadata, f"spec.topologySpreadConstraints[{at}]")
        for at, each in enumerate(spec.topology_spread_constraints)
        if each.when_unsatisfiable == _REQUIRED
    )


def _rule(written: TopologySpreadConstraint, metadata: ObjectMeta, place: str) -> SpreadRule:
    keys = written.match_label_keys
    return SpreadRule(
        selector=read(place, lambda: selector_with_keys(written.label_selector, metadata.labels, keys)),
        key=written.topology_key,
        most_skew=written.max_skew,
        fewest_domains=1 if written.min_domains is None else written.min_domains,
        heeds_affinity=written.node_affinity_policy in ("", _HONOR),
        heeds_taints=written.node_taints_policy == _HONOR,
    )
