"""What must be true of how much room a Buffer keeps? One way to say it, and amounts that can be had."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trellis.api.buffer import (
    BufferCapacity,
    NodeClassCapacity,
    PercentCapacity,
    PodTemplateSpec,
    ReplicaCapacity,
    ReplicaShorthand,
)
from trellis.api.fields import Rule, rule
from trellis.api.problems import FORBIDDEN, INVALID, REQUIRED, SUSPICIOUS, Key, Problem
from trellis.base.errors import InvalidInput
from trellis.base.quantity import Quantity


def exactly_one(given: dict[str, object]) -> Iterator[Problem]:
    """One problem unless exactly one of the named fields is there."""
    present = [name for name, value in given.items() if value is not None]
    names = ", ".join(given)
    if not present:
        yield Problem((), REQUIRED, f"exactly one of {names} must be given")
    for name in present[1:]:
        yield Problem((name,), FORBIDDEN, f"exactly one of {names} may be given, and {present[0]} is")


@rule(
    BufferCapacity,
    "replicas",
    "nodeClass",
    "pods",
    says="exactly one of replicas, nodeClass, pods must be given",
    cel="(has(self.replicas) ? 1 : 0) + (has(self.nodeClass) ? 1 : 0) + (has(self.pods) ? 1 : 0) == 1",
)
def one_capacity(capacity: BufferCapacity) -> Iterator[Problem]:
    """The three ways to state room exclude one another."""
    yield from exactly_one({"replicas": capacity.replicas, "nodeClass": capacity.node_class, "pods": capacity.pods})


@rule(
    ReplicaCapacity,
    "exactly",
    "percent",
    says="exactly one of exactly, percent must be given",
    cel="has(self.exactly) != has(self.percent)",
)
def one_replica_count(capacity: ReplicaCapacity) -> Iterator[Problem]:
    """A number or a share, not both."""
    yield from exactly_one({"exactly": capacity.exactly, "percent": capacity.percent})


def _ordered_counts(counts: PercentCapacity | ReplicaShorthand) -> Iterator[Problem]:
    low, high = counts.min_count, counts.max_count
    if low is not None and high is not None and low > high:
        yield Problem(("maxCount",), INVALID, f"must not be below minCount, which is {low}", high)


_COUNTS_CEL = "!has(self.minCount) || !has(self.maxCount) || self.minCount <= self.maxCount"


@rule(PercentCapacity, "minCount", "maxCount", says="minCount is above maxCount", cel=_COUNTS_CEL)
def percent_bounds_are_ordered(capacity: PercentCapacity) -> Iterator[Problem]:
    """No count lies between a minimum and a lower maximum."""
    yield from _ordered_counts(capacity)


@rule(ReplicaShorthand, "minCount", "maxCount", says="minCount is above maxCount", cel=_COUNTS_CEL)
def shorthand_bounds_are_ordered(capacity: ReplicaShorthand) -> Iterator[Problem]:
    """The same in the shorthand."""
    yield from _ordered_counts(capacity)


@rule(
    NodeClassCapacity,
    "totalCpu",
    "totalMem",
    says="totalCpu and totalMem must be above zero",
    cel=(
        "quantity(string(self.totalCpu)).isGreaterThan(quantity('0')) && "
        "quantity(string(self.totalMem)).isGreaterThan(quantity('0'))"
    ),
)
def totals_are_above_zero(capacity: NodeClassCapacity) -> Iterator[Problem]:
    """A chunk needs both resources; a total of zero leaves none."""
    for name, total in (("totalCpu", capacity.total_cpu), ("totalMem", capacity.total_mem)):
        if total is not None and not Quantity.parse(total):
            yield Problem((name,), INVALID, "must be above zero", total)


@rule(
    NodeClassCapacity,
    "totalCpu",
    "totalMem",
    "perChunkResources",
    says="a chunk must not exceed a total",
    cel=(
        "!has(self.perChunkResources) || ((!('cpu' in self.perChunkResources) || "
        "quantity(string(self.perChunkResources['cpu'])).compareTo(quantity(string(self.totalCpu))) <= 0) && "
        "(!('memory' in self.perChunkResources) || "
        "quantity(string(self.perChunkResources['memory'])).compareTo(quantity(string(self.totalMem))) <= 0))"
    ),
)
def chunk_fits_the_totals(capacity: NodeClassCapacity) -> Iterator[Problem]:
    """Not one chunk of that size would be within the limits."""
    chunk = capacity.per_chunk_resources or {}
    for resource, name, total in (
        ("cpu", "totalCpu", capacity.total_cpu),
        ("memory", "totalMem", capacity.total_mem),
    ):
        size = chunk.get(resource)
        if size is not None and total is not None and Quantity.parse(size) > Quantity.parse(total):
            rule_text = f"must not exceed {name}, which is {total}"
            yield Problem(("perChunkResources", Key(resource)), INVALID, rule_text, size)


@rule(NodeClassCapacity, "perChunkResources", says="a chunk must have cpu or memory above zero")
def chunk_is_not_empty(capacity: NodeClassCapacity) -> Iterator[Problem]:
    """Any number of empty chunks would fit, so the Buffer would have no size."""
    chunk = capacity.per_chunk_resources
    if chunk is None:
        return
    if not any(Quantity.parse(chunk.get(resource, 0)) for resource in ("cpu", "memory")):
        yield Problem(("perChunkResources",), INVALID, "must have cpu or memory above zero", chunk)


@rule(PodTemplateSpec, "containers", says="requests and limits must be quantities, and each container needs a name")
def containers_can_be_read(spec: PodTemplateSpec) -> Iterator[Problem]:
    """A pod that cannot be read has no size, and the Buffer would never become ready."""
    for index, container in enumerate(spec.containers or ()):
        if not container.get("name"):
            yield Problem(("containers", index, "name"), REQUIRED, "name must be given")
        resources = container.get("resources")
        if isinstance(resources, dict):
            yield from (each.below(("containers", index, "resources")) for each in _resource_problems(resources))


def _resource_problems(resources: dict[str, Any]) -> Iterator[Problem]:
    for part in ("requests", "limits"):
        amounts = resources.get(part)
        for name, amount in amounts.items() if isinstance(amounts, dict) else ():
            try:
                if Quantity.parse(amount) < Quantity.ZERO:
                    yield Problem((part, Key(name)), INVALID, "must not be negative", amount)
            except InvalidInput as error:
                yield Problem((part, Key(name)), INVALID, error.rule, amount)
    if resources.get("claims"):
        yield Problem(("claims",), SUSPICIOUS, "room for devices cannot be kept, so the Buffer never becomes ready")


RULES: tuple[Rule[Any], ...] = (
    one_capacity,
    one_replica_count,
    percent_bounds_are_ordered,
    shorthand_bounds_are_ordered,
    totals_are_above_zero,
    chunk_fits_the_totals,
    chunk_is_not_empty,
    containers_can_be_read,
)
