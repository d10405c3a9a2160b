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
from trellis.core.hvpa.remembered_state import HvpaMemory
from trellis.core.recommend.amounts import ResourceAmounts


class HvpaSettings(msgspec.Struct, frozen=True):
    """Settings of the controller."""

    # How long pods may take to become Ready before the next step goes ahead without them, and wishes are read again.
    ready_patience: float = 60.0
    # Below the first an HPA's ratio says how much too much there is. Between both the HPA itself sees nothing to do.
    low_ratio: Fraction = Fraction(9, 10)
    high_ratio: Fraction = Fraction(11, 10)
    # An HPA writes its status after its wish. Seconds that a wish waits for the metrics that explain it.
    status_patience: float = 5.0


class ResolvedHvpa(msgspec.Struct, frozen=True):
    """The meaning of an Hvpa, resolved once per generation; `binary` is whether it is written in Gi or in G."""

    hvpa: EffectiveHvpa
    ladders: Ladders
    binary: bool = False

    @classmethod
    def from_effective(cls, hvpa: EffectiveHvpa) -> ResolvedHvpa:
        """The meaning of a valid Hvpa."""
        return cls(hvpa, Ladders.from_buckets(hvpa.buckets), uses_binary_units(hvpa.buckets))


class ContainerView(msgspec.Struct, frozen=True):
    """One container of the pods.

    `scaled` is whether its policy has the mode `Auto`; others neither count nor change. `target` and `total_target` are
    the VPA's, for a pod and for the whole workload. `requests` are the average of the pods, `min_requests` their
    lowest. `published` are the requests in the Hvpa's status.
    """

    name: str
    scaled: bool = True
    target: ResourceAmounts = {}
    total_target: ResourceAmounts = {}
    requests: ResourceAmounts = {}
    min_requests: ResourceAmounts = {}
    published: ResourceAmounts = {}


class HpaView(msgspec.Struct, frozen=True):
    """An HPA pointed at the Hvpa.

    `ratio` is the highest of current over target among its metrics; None if it has none. `resources` are those of its
    metrics. `stabilizes` is set if it is the user's and waits before it scales down. `ratios` has the ratio of each
    resource by its own metrics, if all of them are utilizations. `desired_replicas` is the count in its status.
    """

    ratio: Fraction | None
    resources: frozenset[str]
    min_replicas: int = 1
    max_replicas: int = INT32_MAX
    stabilizes: bool = False
    ratios: Mapping[str, Fraction] = {}
    desired_replicas: int | None = None


class HvpaView(msgspec.Struct, frozen=True):
    """The input of a plan.

    `replicas` is the target's count in its `/scale`, `pods` how many exist and `ready` how many of these are Ready.
    `spec_replicas` is the Hvpa's own, and `scale_writer` the field manager that wrote it, if that is known and not the
    Hvpa controller. `published_totals` are those in the Hvpa's status, for a VPA without totals. `conflict` is why
    another autoscaler comes first, which is one of those `conflicting`. `requests_edited` is whether a pod has lost the
    decided requests since the last plan.
    """

    meaning: ResolvedHvpa
    replicas: int
    pods: int
    ready: int
    containers: tuple[ContainerView, ...] = ()
    spec_replicas: int | None = None
    hpa: HpaView | None = None
    published_totals: ResourceAmounts = {}
    last_oom_kill: float | None = None
    conflict: Reason | None = None
    conflicting: tuple[str, ...] = ()
    requests_edited: bool = False
    memory: HvpaMemory = HvpaMemory()
    scale_writer: str = ""

    @property
    def all_ready(self) -> bool:
        """Whether all replicas exist and are Ready."""
        return self.ready == self.pods == self.replicas

    def limit_to_capacity(self, resource: str, total: int) -> int:
        """The total that replicas have, limited to what their count can hold: the start of a window.

        A target may give them more than their count could hold as shares. Started from that, the count would rise with
        each restart of a controller.
        """
        ladders = self.meaning.ladders
        if not ladders.is_configured(self.replicas):
            return total
        return min(total, ladders.by_resource[resource].capacity_at(self.replicas))


def sum_containers(containers: tuple[ContainerView, ...], field: str) -> ResourceAmounts:
    """The sum of a field over the scaled containers, by resource; resources that none has are absent."""
    amounts_by_resource: dict[str, int] = {}
    for container in containers:
        if container.scaled:
            amounts: ResourceAmounts = getattr(container, field)
            for resource, amount in amounts.items():
                amounts_by_resource[resource] = amounts_by_resource.get(resource, 0) + amount
    return amounts_by_resource


HVPA_REFUSED = Reason("HvpaRefused", "The Hvpa is invalid, so its target is not changed.", Severity.WARNING)


def read_hvpa(hvpa: Hvpa) -> tuple[ResolvedHvpa | None, str]:
    """The resolved Hvpa, or the reason why it cannot be used."""
    spec = msgspec.to_builtins(hvpa.spec)
    problems = [
        str(problem) for problem in validate(HVPA, {"metadata": {"name": "x"}, "spec": spec}) if problem.is_error
    ]
    return (None, "; ".join(problems)) if problems else (ResolvedHvpa.from_effective(resolve_hvpa(hvpa)), "")
