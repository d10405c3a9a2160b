"""Parts about an Hvpa: where demand comes from, the count and the size that follow, and what holds steps back.

Totals and sizes are quantities. A total that an edge stands for is the largest whole one that a count can hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from trellis.base.reasons import Reason
from trellis.core.explain.explanation.values import ExplanationPart, QuantityTexts


class HpaSourcePart(ExplanationPart, frozen=True):
    """The HPA that drives an Hvpa.

    `owner` is the Hvpa that it belongs to, if to any, and `owned` whether that is this one. `totals` are what it asks
    for, `since` when, `ratio` is the highest of current over target among its metrics, and
    `resources` are those that its metrics speak of.
    """

    name: str
    owned: bool
    owner: str = ""
    totals: QuantityTexts = {}
    since: str = ""
    ratio: float | None = None
    resources: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    min_replicas: int = 1
    max_replicas: int = 0


class VpaSourcePart(ExplanationPart, frozen=True):
    """The VPA that recommends for an Hvpa: for a pod and for the whole workload.

    Of the resources in `held` no total is published, so that it is that of the first pass. `scaled_by` is the
    recommender by whose target our own history of the whole workload is scaled. Owners are as of an HPA.
    """

    name: str
    owned: bool
    owner: str = ""
    totals: QuantityTexts = {}
    target: QuantityTexts = {}
    held: tuple[str, ...] = ()
    scaled_by: str = ""


class ScaleRequestPart(ExplanationPart, frozen=True):
    """A count that was written to the Hvpa's scale without an HPA, while it counts.

    `totals` are what it asks for, `since` when, and `condition_message` is the message of the controller.
    """

    totals: QuantityTexts = {}
    since: str = ""
    condition_message: str = ""


class CountCapacityPart(ExplanationPart, frozen=True):
    """A count, the most that one replica may have there, and the most that all of them hold."""

    count: int
    most: str
    total: str


class DemandPart(ExplanationPart, frozen=True):
    """One resource: what is asked for in total, the count that it needs alone, and the size that follows.

    `requested` is the higher one of the sources in `by`; `total` is what the plan goes by, which differs during a
    window. `above` and `up_to` are the edges of `count`, `kept_above` the total down to which the decided
    count is kept, and `keeps` is whether this one is above it. `share` is the total divided by the decided count, and a
    share has from `least` to `most` there. `held` is whether the size is not what follows from these, because a step is
    held back.
    """

    resource: str
    requested: str
    total: str
    has: str
    count: int
    up_to: str
    by: tuple[str, ...] = ()
    above: str = ""
    kept_above: str = ""
    keeps: bool = False
    limited: bool = False
    sizing: str = ""
    share: str = ""
    target: str = ""
    least: str = ""
    most: str = ""
    size: str = ""
    held: bool = False


class HvpaContainerPart(ExplanationPart, frozen=True):
    """A container: what it requests on average, what the VPA recommends, what is published and what it is to have.

    One that is not `scaled` neither counts nor changes.
    """

    container: str
    scaled: bool
    requests: QuantityTexts = {}
    target: QuantityTexts = {}
    published: QuantityTexts = {}
    planned: QuantityTexts = msgspec.field(default_factory=dict)


class HeldStepPart(ExplanationPart, frozen=True):
    """A step that is not taken, why, and until when at the latest if that is known."""

    direction: str
    reason: Reason
    details: str = ""
    until: str = ""


class CountChangePart(ExplanationPart, frozen=True):
    """Another count, and the totals it takes: `upwards` one above any of these, else all at or below them."""

    count: int
    upwards: bool
    totals: QuantityTexts


class HvpaPart(ExplanationPart, frozen=True):
    """An Hvpa. `replicas` is what runs, `count` and `size` what is decided, `wish` is `spec.replicas`.

    `capacities` are counts and what they hold, by resource; of many, those around the present one. `binary` is whether
    the buckets are written in Gi rather than in G. `stored` is what the controller last wrote into the status.
    """

    name: str
    target: str
    replicas: int | None = None
    pods: int = 0
    ready: int = 0
    wish: int | None = None
    problem: Reason | None = None
    problem_details: str = ""
    yields: Reason | None = None
    rivals: tuple[str, ...] = ()
    hpa: HpaSourcePart | None = None
    vpa: VpaSourcePart | None = None
    scale_request: ScaleRequestPart | None = None
    verdict: Reason | None = None
    details: str = ""
    count: int = 0
    size: QuantityTexts = {}
    notes: tuple[Reason, ...] = ()
    blocked: tuple[HeldStepPart, ...] = ()
    demands: tuple[DemandPart, ...] = ()
    containers: tuple[HvpaContainerPart, ...] = ()
    count_changes: tuple[CountChangePart, ...] = ()
    capacities: Mapping[str, tuple[CountCapacityPart, ...]] = msgspec.field(default_factory=dict)
    binary: bool = False
    overlap_percent: int = 0
    min_change_percent: int = 0
    conditions: tuple[Mapping[str, Any], ...] = ()
    stored_blocked: tuple[Mapping[str, Any], ...] = ()
    next_check: str = ""
