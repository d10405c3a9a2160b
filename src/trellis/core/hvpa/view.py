"""The view of a workload that its Hvpa decides by, the resolved Hvpa, and the settings of the controller.

Frozen values, read once: no plan looks at anything newer. Amounts are whole millicores and bytes, times are seconds
since 1970. An Hvpa may have been stored before a validation rule existed, so that it is validated again when read.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import msgspec

from trellis.api.buckets import uses_binary_units
from trellis.api.kinds.hvpa import Hvpa
from trellis.api.registry import HVPA
from trellis.api.resolve import EffectiveHvpa, resolve_hvpa
from trellis.api.schema.fields import INT32_MAX
from trellis.api.validation import validate
from trellis.base.reasons import Reason, Severity
from trellis.core.hvpa.ladder import Ladders
from trellis.core.hvpa.memory import HvpaMemory
from trellis.core.recommend.amounts import ResourceAmounts


class HvpaSettings(msgspec.Struct, frozen=True):
    """Settings of the controller."""

    # How long pods may take to become Ready before the next step goes ahead without them, and wishes are read again.
    ready_patience: float = 60.0
    # Below the first an HPA's ratio says how much too much there is. Between both the HPA itself sees nothing to do.
    low_ratio: Fraction = Fraction(9, 10)
    high_ratio: Fraction = Fraction(11, 10)
    # An HPA writes its status after its wish. So long a wish waits for the metrics that explain it.
    status_patience: float = 5.0


class ResolvedHvpa(msgspec.Struct, frozen=True):
    """What an Hvpa says, read once for as long as it is not edited; `binary` is whether it is written in Gi or in G."""

    hvpa: EffectiveHvpa
    ladders: Ladders
    binary: bool = False

    @classmethod
    def of(cls, hvpa: EffectiveHvpa) -> ResolvedHvpa:
        """The meaning of a valid Hvpa."""
        return cls(hvpa, Ladders.of(hvpa.buckets), uses_binary_units(hvpa.buckets))


class ContainerView(msgspec.Struct, frozen=True):
    """One container of the pods.

    `scaled` is whether its policy has the mode `Auto`; others neither count nor change. `target` and `total` are the
    VPA's, for a pod and for the whole workload. `requests` is what a pod has on average, `least` what the pod with the
    least has. `published` is what the Hvpa's status says.
    """

    name: str
    scaled: bool = True
    target: ResourceAmounts = {}
    total: ResourceAmounts = {}
    requests: ResourceAmounts = {}
    least: ResourceAmounts = {}
    published: ResourceAmounts = {}


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


class HvpaView(msgspec.Struct, frozen=True):
    """All that a plan is made from.

    `replicas` is the target's count as its `/scale` says, `pods` how many there are and `ready` how many of these are
    Ready. `wish` is the Hvpa's `spec.replicas`, and `wisher` the field manager that wrote it, if that is known and not
    the Hvpa controller. `totals` is what the recommender wrote into the Hvpa's status where the VPA's has none. `oom`
    is when a pod was last killed for memory, and `yields` why another autoscaler comes first, which is one of the
    `rivals`. `edited` is whether a pod has lost the requests that were decided since the last plan.
    """

    meaning: ResolvedHvpa
    replicas: int
    pods: int
    ready: int
    containers: tuple[ContainerView, ...] = ()
    wish: int | None = None
    hpa: HpaView | None = None
    totals: ResourceAmounts = {}
    oom: float | None = None
    yields: Reason | None = None
    rivals: tuple[str, ...] = ()
    edited: bool = False
    memory: HvpaMemory = HvpaMemory()
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


def sum_containers(containers: tuple[ContainerView, ...], field: str) -> ResourceAmounts:
    """What one pod has of each resource, over the containers that are scaled; those say nothing that have none."""
    amounts_by_resource: dict[str, int] = {}
    for container in containers:
        if container.scaled:
            amounts: ResourceAmounts = getattr(container, field)
            for resource, amount in amounts.items():
                amounts_by_resource[resource] = amounts_by_resource.get(resource, 0) + amount
    return amounts_by_resource


HVPA_REFUSED = Reason("HvpaRefused", "The Hvpa breaks a rule, and its target is left alone.", Severity.WARNING)


def read_hvpa(hvpa: Hvpa) -> tuple[ResolvedHvpa | None, str]:
    """The resolved Hvpa, or the reason why it cannot be used."""
    spec = msgspec.to_builtins(hvpa.spec)
    problems = [
        str(problem) for problem in validate(HVPA, {"metadata": {"name": "x"}, "spec": spec}) if problem.is_error
    ]
    return (None, "; ".join(problems)) if problems else (ResolvedHvpa.of(resolve_hvpa(hvpa)), "")
