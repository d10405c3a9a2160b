"""Parts about a Buffer: how many chunks and why, the shape of one, the schedule, and the headroom for them.

Amounts are quantities; what a chunk requests is what the scheduler would count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trellis.base.reasons import Reason
from trellis.core.explain.explanation.values import ExplanationPart, ObstaclePart, QuantityTexts, ReasonPart


class CapacityPart(ExplanationPart, frozen=True):
    """What the capacity asks for, in the `way` that it is stated: `exactly`, `percent`, `nodeClass` or `pods`.

    `count` is what that comes to before anything limits it, 0 if it is not known; `replicas` are those of the target.
    Of a class of nodes: the `totals`, the `chunk` if it is given, the `labels` of
    its nodes, how many `nodes` there are, and what the `smallest` of them leaves for pods.
    """

    way: str
    count: int = 0
    replicas: int | None = None
    percent: int = 0
    least: int = 0
    most: int | None = None
    totals: QuantityTexts = {}
    chunk: QuantityTexts = {}
    labels: Mapping[str, str] = {}
    nodes: int = 0
    smallest: QuantityTexts = {}


class ChunkContainerPart(ExplanationPart, frozen=True):
    """A container of a chunk: what it requests, and what it requests in the pod or template that shows the shape.

    One that starts `boosted` requests so much of CPU when a node is sought for it.
    """

    name: str
    requests: QuantityTexts
    shown: QuantityTexts = {}
    boosted: bool = False


class ChunkPart(ExplanationPart, frozen=True):
    """One chunk: what it is shaped like, what it requests in all, and what else decides where it may run.

    `like` is the pod that shows the shape, `governor` what sizes new pods.
    """

    source: Reason
    requests: QuantityTexts
    containers: tuple[ChunkContainerPart, ...]
    like: str = ""
    governor: str = ""
    placement: Mapping[str, Any] = {}
    labels: Mapping[str, str] = {}


class SchedulePart(ExplanationPart, frozen=True):
    """When the Buffer counts: windows as they are written, whether one is open, and when that changes."""

    windows: tuple[Mapping[str, str], ...]
    open: bool
    next_change: str = ""


class HeadroomPart(ExplanationPart, frozen=True):
    """The headroom for the chunks of a Buffer.

    Of all `nodes`, `fitting_nodes` would take a chunk if they were empty. `chunks` fit now, on `nodes_used`; None where
    not all pods are known. `kept_on_top` is of a minimum alone: the chunks that an autoscaler has to keep beside all
    pods if it knows `KeepEmpty` only.
    """

    nodes: int
    fitting_nodes: int
    chunks: int | None = None
    nodes_used: int = 0
    obstacles: tuple[ObstaclePart, ...] = ()
    kept_on_top: int | None = None


class CostPart(ExplanationPart, frozen=True):
    """Cost of an hour of capacity of this size, at prices of a core-hour and a GiB-hour."""

    hourly: float
    currency: str
    prices: str
    core_hour: float
    gib_hour: float


class BufferPart(ExplanationPart, frozen=True):
    """A Buffer. `desired_chunks` is the number that its capacity asks for, `chunks` the number within limits.

    `totals` is what the chunks request. `on_top` says that they are kept beside running pods. Pods that match
    `filled_by` fill the Buffer, and request what is in `filled`. `skip_reason` is set if Trellis does not translate the
    Buffer. `stored_chunks` are those in its status, and `is_stored` is whether the status equals this translation.
    """

    name: str
    strategy: str
    target: str = ""
    skip_reason: ReasonPart | None = None
    ready: ReasonPart | None = None
    is_ready: bool = False
    requested_capacity: CapacityPart | None = None
    desired_chunks: int = 0
    chunks: int = 0
    on_top: bool = True
    notes: tuple[ReasonPart, ...] = ()
    limited: ReasonPart | None = None
    limited_by: tuple[str, ...] = ()
    filled_by: str = ""
    filled: QuantityTexts = {}
    schedule: SchedulePart | None = None
    chunk: ChunkPart | None = None
    totals: QuantityTexts = {}
    cost: CostPart | None = None
    headroom: HeadroomPart | None = None
    conditions: tuple[Mapping[str, Any], ...] = ()
    stored_chunks: int | None = None
    is_stored: bool = False
    last_full: str = ""
