"""Chooses the next step of a workload: its count, the size of replicas and containers, and the order of both changes.

Where one direction is closed, the totals that would go that way stay as they are, and the rest of the step is taken.
The shape is never chosen anew for what the replicas have: that may be more than was asked for, by a target or by a
minimum, and would grow with each pass.

The size of a replica is its share of the total, or what the VPA recommends where that is more. The defaults take the
share of CPU and the larger of both for memory, because every replica has a base usage of memory: shares of a total that
was measured with fewer replicas would be eaten up by it. Containers get parts in proportion to the VPA's targets, which
sum to the size.

Ready pods never hold less than is needed in between. More and smaller replicas: the old ones keep their size until the
new ones are Ready. Fewer and larger ones: all grow before any goes, however long that takes, because pods that cannot
grow are not enough when they are fewer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from trellis.api.resolve import ReplicaSizing
from trellis.base.reasons import Reason
from trellis.core.hvpa.demand.stabilization import StabilizedDemand
from trellis.core.hvpa.ladder import Ladder, find_next_count
from trellis.core.hvpa.remembered_state import HvpaDecision
from trellis.core.hvpa.steps import (
    MIN_CHANGE,
    STABILIZATION_WINDOW,
    HeldStep,
    StepDirection,
    WorkloadShape,
    describe_step,
    find_closed_directions,
    is_below_min_change,
    list_step_directions,
)
from trellis.core.hvpa.view import ContainerView, HvpaSettings, HvpaView, ResolvedHvpa, sum_containers
from trellis.core.recommend.amounts import ResourceAmounts


def size_replica(
    meaning: ResolvedHvpa, totals: ResourceAmounts, targets: ResourceAmounts, *, count: int, present: ResourceAmounts
) -> ResourceAmounts:
    """What a replica gets at this count. A resource without a total keeps what it has, if it has anything."""
    sizings = {"cpu": meaning.hvpa.cpu, "memory": meaning.hvpa.memory}
    sized = dict(present)
    for name, total in totals.items():
        sized[name] = _size_resource(
            sizings[name], meaning.ladders.by_resource[name], count, total, targets.get(name, 0)
        )
    return sized


def _size_resource(sizing: ReplicaSizing, ladder: Ladder, count: int, total: int, target: int) -> int:
    """Rounded up to a whole millicore or byte, so that no total is undercut."""
    share, minimum = -(-total // count), ladder.minimum_at(count)
    if sizing is ReplicaSizing.SHARE:
        return max(min(share, ladder.maximum_at(count)), minimum)
    return max(min(max(share, target), ladder.maximum_in_bucket(count)), minimum)


class NextStep(msgspec.Struct, frozen=True):
    """The shape of the next step, and the steps that are held back."""

    shape: WorkloadShape
    blocked: tuple[HeldStep, ...] = ()


def find_current_shape(view: HvpaView) -> WorkloadShape:
    """The shape of the workload: the decided one, or the previous one during a step; else that of its pods.

    During a step pods may have grown already, which is no demand.
    """
    decided = view.memory.decided
    if decided is not None:
        for shape in (decided.shape, decided.previous_shape):
            if shape.count == view.replicas:
                return shape
    return WorkloadShape(
        view.replicas, {**sum_containers(view.containers, "requests"), **sum_containers(view.containers, "published")}
    )


def find_desired_shape(view: HvpaView, totals: ResourceAmounts, existing_shape: WorkloadShape) -> WorkloadShape:
    """Count and size for these totals, whatever is open.

    The count that is kept is the decided one, not one that another client wrote.
    """
    decided = view.memory.decided
    current = existing_shape.count if decided is None else decided.shape.count
    count = find_next_count(view.meaning.ladders, totals, current, view.meaning.hvpa.down.overlap_percent)
    return WorkloadShape(count, _size_at(view, totals, existing_shape, count))


def choose_step(view: HvpaView, demand: StabilizedDemand, existing_shape: WorkloadShape, now: float) -> NextStep:
    """The step that may be taken."""
    hvpa, ladders, binary = view.meaning.hvpa, view.meaning.ladders, view.meaning.binary
    desired = find_desired_shape(view, demand.totals, existing_shape)
    blocked = list(_blocked_by_stabilization(view, demand, existing_shape, desired))
    closed = find_closed_directions(hvpa, now)
    closed_steps = [direction for direction in list_step_directions(existing_shape, desired) if direction in closed]
    blocked += [
        HeldStep(direction, closed[direction], describe_step(existing_shape, desired, binary=binary))
        for direction in closed_steps
    ]
    permitted_shape = (
        _restrict_direction(view, demand.totals, existing_shape, desired, closed_steps[0]) if closed_steps else desired
    )
    if any(direction in closed for direction in list_step_directions(existing_shape, permitted_shape)):
        return NextStep(existing_shape, tuple(blocked))
    if is_below_min_change(existing_shape, permitted_shape, ladders, hvpa.down.min_change_percent):
        return NextStep(
            existing_shape,
            (
                *blocked,
                HeldStep(StepDirection.DOWN, MIN_CHANGE, describe_step(existing_shape, permitted_shape, binary=binary)),
            ),
        )
    return NextStep(permitted_shape, tuple(blocked))


def _restrict_direction(
    view: HvpaView,
    totals: ResourceAmounts,
    existing_shape: WorkloadShape,
    desired: WorkloadShape,
    closed_direction: StepDirection,
) -> WorkloadShape:
    """As much of a step as does not go the way that is shut.

    If that is up, replicas keep as much of what they have as their totals need: a count that is too low for its totals
    is no reason to hold a resource to what the count may have. If it is down, a count in no bucket has no bounds, and
    shares at it are below those of the lower count that can hold the totals.
    """
    down, existing_totals = closed_direction is StepDirection.DOWN, existing_shape.totals
    count = max(desired.count, existing_shape.count) if down else min(desired.count, existing_shape.count)
    if view.meaning.ladders.is_configured(count):
        size = dict(_size_at(view, totals, existing_shape, count))
    elif down:
        size = {**existing_shape.size, **{name: -(-total // count) for name, total in totals.items()}}
    else:
        return existing_shape
    for name in size.keys() & existing_totals.keys():
        if down:
            size[name] = max(size[name], -(-existing_totals[name] // count))
        else:
            size[name] = min(max(size[name], -(-totals.get(name, 0) // count)), existing_totals[name] // count)
    return WorkloadShape(count, size)


def _size_at(view: HvpaView, totals: ResourceAmounts, existing_shape: WorkloadShape, count: int) -> ResourceAmounts:
    targets = sum_containers(view.containers, "target")
    return size_replica(view.meaning, totals, targets, count=count, present=existing_shape.size)


def _blocked_by_stabilization(
    view: HvpaView, demand: StabilizedDemand, existing_shape: WorkloadShape, desired: WorkloadShape
) -> tuple[HeldStep, ...]:
    """The step for the current totals, if the stabilization windows hold it back."""
    if demand.current == demand.totals:
        return ()
    unstabilized = find_desired_shape(view, demand.current, existing_shape)
    if is_below_min_change(desired, unstabilized, view.meaning.ladders, view.meaning.hvpa.down.min_change_percent):
        return ()
    step = describe_step(desired, unstabilized, binary=view.meaning.binary)
    return tuple(
        HeldStep(direction, STABILIZATION_WINDOW, step) for direction in list_step_directions(desired, unstabilized)
    )


def split_amount(amount: int, weights: Sequence[int]) -> list[int]:
    """Whole parts in proportion; left-over units go to the largest remainders, and among equals to the first."""
    total = sum(weights)
    if not total:
        weights, total = [1] * len(weights), len(weights)
    parts = [amount * weight // total for weight in weights]
    remainder = amount - sum(parts)
    by_remainder = sorted(range(len(parts)), key=lambda position: -(amount * weights[position] % total))
    for position in by_remainder[:remainder]:
        parts[position] += 1
    return parts


def split_among_containers(
    size: ResourceAmounts, totals: ResourceAmounts, containers: Sequence[ContainerView]
) -> Mapping[str, ResourceAmounts]:
    """What to publish for each container. A resource without a total stays as it was published.

    Without targets the proportion is that of the requests.
    """
    parts: dict[str, dict[str, int]] = {container.name: {} for container in containers if container.scaled}
    scaled = [container for container in containers if container.scaled]
    for resource, amount in size.items():
        if resource not in totals:
            for container in scaled:
                if resource in container.published:
                    parts[container.name][resource] = container.published[resource]
            continue
        recommended = any(resource in container.target for container in scaled)
        weights = [(container.target if recommended else container.requests).get(resource, 0) for container in scaled]
        for container, part in zip(scaled, split_amount(amount, weights), strict=True):
            parts[container.name][resource] = part
    return parts


WAIT_FOR_READY_REPLICAS = Reason(
    "WaitForReadyReplicas", "Replicas keep their larger size until the new replicas are Ready."
)
RESIZE_BEFORE_SCALE_IN = Reason("ResizeBeforeScaleIn", "Replicas grow before their number falls.")


class ShapeTransition(msgspec.Struct, frozen=True):
    """The count and size to apply now, and the reason and time limit if that is not the decided shape yet."""

    count: int
    size: ResourceAmounts
    reason: Reason | None = None
    requeue_at: float | None = None


def plan_transition(
    view: HvpaView, decided: HvpaDecision, totals: ResourceAmounts, now: float, settings: HvpaSettings
) -> ShapeTransition:
    """The part of the decision that is applied now. Resources without a total are not waited for."""
    count, size = decided.shape.count, decided.shape.size
    existing_size = {**sum_containers(view.containers, "requests"), **sum_containers(view.containers, "published")}
    larger = {name: max(amount, existing_size.get(name, 0)) for name, amount in size.items()}
    if count < view.replicas:
        min_requests = sum_containers(view.containers, "min_requests")
        # Not the larger of both: what was published may be more than any node has, and this many replicas need less.
        must_grow_first = any(size[name] > min_requests.get(name, 0) for name in totals)
        return (
            ShapeTransition(view.replicas, size, RESIZE_BEFORE_SCALE_IN)
            if must_grow_first
            else ShapeTransition(count, size)
        )
    if larger != size and decided.grew_at is not None:
        until = decided.grew_at + settings.ready_patience
        if count > view.replicas or (not view.all_ready and now < until):
            return ShapeTransition(count, larger, WAIT_FOR_READY_REPLICAS, until)
    return ShapeTransition(count, size)
