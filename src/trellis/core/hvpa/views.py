"""What is known of a workload when its Hvpa decides? Frozen values, read once: no plan looks at anything newer.

Amounts are whole millicores and bytes, times are seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import msgspec

from trellis.api.buckets import is_binary
from trellis.api.fields import INT32_MAX
from trellis.api.resolve import EffectiveHvpa
from trellis.base.reason import Reason
from trellis.core.hvpa.ladders import Ladders
from trellis.core.hvpa.memory import Memory
from trellis.core.recommend.capping.limit_ranges import Counts


class Meaning(msgspec.Struct, frozen=True):
    """What an Hvpa says, read once for as long as it is not edited; `binary` is whether it is written in Gi or in G."""

    hvpa: EffectiveHvpa
    ladders: Ladders
    binary: bool = False

    @classmethod
    def of(cls, hvpa: EffectiveHvpa) -> Meaning:
        """The meaning of a valid Hvpa."""
        return cls(hvpa, Ladders.of(hvpa.buckets), is_binary(hvpa.buckets))


class ContainerView(msgspec.Struct, frozen=True):
    """One container of the pods.

    `scaled` is whether its policy has the mode `Auto`; others neither count nor change. `target` and `total` are the
    VPA's, for a pod and for the whole workload. `requests` is what a pod has on average, `least` what the pod with the
    least has. `published` is what the Hvpa's status says.
    """

    name: str
    scaled: bool = True
    target: Counts = {}
    total: Counts = {}
    requests: Counts = {}
    least: Counts = {}
    published: Counts = {}


class HpaView(msgspec.Struct, frozen=True):
    """An HPA pointed at the Hvpa.

    `ratio` is the highest of current over target among its metrics; None if it has none. `resources` are those that
    its metrics speak of. `stabilizes` is set if it is the user's and waits before it scales down. `own` has the ratio
    of each resource by its own metrics, if all of them are utilizations. `desired` is the count that it worked out
    from these metrics; None if it does not say.
    """

    ratio: Fraction | None
    resources: frozenset[str]
    min_replicas: int = 1
    max_replicas: int = INT32_MAX
    stabilizes: bool = False
    own: Mapping[str, Fraction] = {}
    desired: int | None = None


class View(msgspec.Struct, frozen=True):
    """All that a plan is made from.

    `replicas` is the target's count as its `/scale` says, `pods` how many there are and `ready` how many of these are
    Ready. `wish` is the Hvpa's `spec.replicas`, and `wisher` the field manager that wrote it, if that is known and not
    the Hvpa controller. `totals` is what the recommender wrote into the Hvpa's status where the VPA's has none. `oom`
    is when a pod was last killed for memory, and `yields` why another autoscaler comes first, which is one of the
    `rivals`. `edited` is whether a pod has lost the requests that were decided since the last plan.
    """

    meaning: Meaning
    replicas: int
    pods: int
    ready: int
    containers: tuple[ContainerView, ...] = ()
    wish: int | None = None
    hpa: HpaView | None = None
    totals: Counts = {}
    oom: float | None = None
    yields: Reason | None = None
    rivals: tuple[str, ...] = ()
    edited: bool = False
    memory: Memory = Memory()
    wisher: str = ""

    @property
    def all_ready(self) -> bool:
        """Whether as many pods as there should be are there, and all of them Ready."""
        return self.ready == self.pods == self.replicas

    def at_most_held(self, resource: str, total: int) -> int:
        """What replicas have, as a total to start from: no more than their count can hold.

        A target may give them more than their count could hold as shares. Started from that, the count would rise with
        each restart of a controller.
        """
        ladders = self.meaning.ladders
        if not ladders.configured(self.replicas):
            return total
        return min(total, ladders.by_resource[resource].holds(self.replicas))


def summed(containers: tuple[ContainerView, ...], what: str) -> Counts:
    """What one pod has of each resource, over the containers that are scaled; those say nothing that have none."""
    found: dict[str, int] = {}
    for each in containers:
        if each.scaled:
            amounts: Counts = getattr(each, what)
            for resource, amount in amounts.items():
                found[resource] = found.get(resource, 0) + amount
    return found
