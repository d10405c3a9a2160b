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
from trellis.core.hvpa.ladder import Ladder, next_count
from trellis.core.hvpa.memory import HvpaDecision
from trellis.core.hvpa.steps import (
    MIN_CHANGE,
    STABILIZATION_WINDOW,
    HeldStep,
    StepDirection,
    WorkloadShape,
    closed_directions,
    describe_step,
    is_below_min_change,
    step_directions,
)
from trellis.core.hvpa.view import ContainerView, HvpaSettings, HvpaView, ResolvedHvpa, sum_containers
from trellis.core.recommend.amounts import ResourceAmounts


def size_replica(
    meaning: ResolvedHvpa, totals: ResourceAmounts, targets: ResourceAmounts, *, count: int, present: ResourceAmounts
) -> ResourceAmounts:
    """What a replica gets at this count. A resource without a total keeps what it has, if it has anything."""
    ways = {"cpu": meaning.hvpa.cpu, "memory": meaning.hvpa.memory}
    sized = dict(present)
    for name, total in totals.items():
        sized[name] = _size_resource(ways[name], meaning.ladders.by_resource[name], count, total, targets.get(name, 0))
    return sized


def _size_resource(way: ReplicaSizing, ladder: Ladder, count: int, total: int, target: int) -> int:
    """Rounded up to a whole millicore or byte, so that no total is undercut."""
    share, least = -(-total // count), ladder.least(count)
    if way is ReplicaSizing.SHARE:
        return max(min(share, ladder.most_of_count(count)), least)
    return max(min(max(share, target), ladder.most_of_bucket(count)), least)


class NextStep(msgspec.Struct, frozen=True):
    """The shape to have, and what is held back of the one that was asked for."""

    shape: WorkloadShape
    blocked: tuple[HeldStep, ...] = ()


def current_shape(view: HvpaView) -> WorkloadShape:
    """What the workload has: as decided, or as it was before if a step is on its way; else as its pods are.

    On its way pods may have grown already, which is no demand.
    """
    decided = view.memory.decided
    if decided is not None:
        for shape in (decided.shape, decided.came):
            if shape.count == view.replicas:
                return shape
    return WorkloadShape(
        view.replicas, {**sum_containers(view.containers, "requests"), **sum_containers(view.containers, "published")}
    )


def desired_shape(view: HvpaView, totals: ResourceAmounts, stands: WorkloadShape) -> WorkloadShape:
    """Count and size for these totals, whatever is open.

    The count that is kept is the decided one, not one that another client wrote.
    """
    decided = view.memory.decided
    current = stands.count if decided is None else decided.shape.count
    count = next_count(view.meaning.ladders, totals, current, view.meaning.hvpa.down.overlap_percent)
    return WorkloadShape(count, _size(view, totals, stands, count))


def choose_step(view: HvpaView, demand: StabilizedDemand, stands: WorkloadShape, now: float) -> NextStep:
    """The step that may be taken."""
    hvpa, ladders, binary = view.meaning.hvpa, view.meaning.ladders, view.meaning.binary
    desired = desired_shape(view, demand.totals, stands)
    blocked = list(_blocked_by_stabilization(view, demand, stands, desired))
    shut = closed_directions(hvpa, now)
    against = [way for way in step_directions(stands, desired) if way in shut]
    blocked += [HeldStep(way, shut[way], describe_step(stands, desired, binary=binary)) for way in against]
    reached = _restrict_direction(view, demand.totals, stands, desired, against[0]) if against else desired
    if any(way in shut for way in step_directions(stands, reached)):
        return NextStep(stands, tuple(blocked))
    if is_below_min_change(stands, reached, ladders, hvpa.down.min_change_percent):
        return NextStep(
            stands, (*blocked, HeldStep(StepDirection.DOWN, MIN_CHANGE, describe_step(stands, reached, binary=binary)))
        )
    return NextStep(reached, tuple(blocked))


def _restrict_direction(
    view: HvpaView, totals: ResourceAmounts, stands: WorkloadShape, desired: WorkloadShape, shut: StepDirection
) -> WorkloadShape:
    """As much of a step as does not go the way that is shut.

    If that is up, replicas keep as much of what they have as their totals need: a count that is too low for its totals
    is no reason to hold a resource to what the count may have. If it is down, a count in no bucket has no bounds, and
    shares at it are below those of the lower count that can hold the totals.
    """
    down, has = shut is StepDirection.DOWN, stands.totals
    count = max(desired.count, stands.count) if down else min(desired.count, stands.count)
    if view.meaning.ladders.configured(count):
        size = dict(_size(view, totals, stands, count))
    elif down:
        size = {**stands.size, **{name: -(-total // count) for name, total in totals.items()}}
    else:
        return stands
    for name in size.keys() & has.keys():
        if down:
            size[name] = max(size[name], -(-has[name] // count))
        else:
            size[name] = min(max(size[name], -(-totals.get(name, 0) // count)), has[name] // count)
    return WorkloadShape(count, size)


def _size(view: HvpaView, totals: ResourceAmounts, stands: WorkloadShape, count: int) -> ResourceAmounts:
    targets = sum_containers(view.containers, "target")
    return size_replica(view.meaning, totals, targets, count=count, present=stands.size)


def _blocked_by_stabilization(
    view: HvpaView, demand: StabilizedDemand, stands: WorkloadShape, desired: WorkloadShape
) -> tuple[HeldStep, ...]:
    """What the totals of this very moment would do, if nothing had to be waited for."""
    if demand.present == demand.totals:
        return ()
    sooner = desired_shape(view, demand.present, stands)
    if is_below_min_change(desired, sooner, view.meaning.ladders, view.meaning.hvpa.down.min_change_percent):
        return ()
    step = describe_step(desired, sooner, binary=view.meaning.binary)
    return tuple(HeldStep(way, STABILIZATION_WINDOW, step) for way in step_directions(desired, sooner))


def split_amount(amount: int, weights: Sequence[int]) -> list[int]:
    """Whole parts in proportion; left-over units go to the largest remainders, and among equals to the first."""
    total = sum(weights)
    if not total:
        weights, total = [1] * len(weights), len(weights)
    parts = [amount * weight // total for weight in weights]
    left = amount - sum(parts)
    by_remainder = sorted(range(len(parts)), key=lambda at: -(amount * weights[at] % total))
    for at in by_remainder[:left]:
        parts[at] += 1
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


READY_FIRST = Reason("ReadyFirst", "Replicas keep their larger size until the new ones are Ready.")
GROW_FIRST = Reason("GrowFirst", "Replicas grow before there are fewer of them.")


class ShapeTransition(msgspec.Struct, frozen=True):
    """The count and the size of now, on the way to what was decided; why it is not all of it, and until when."""

    count: int
    size: ResourceAmounts
    reason: Reason | None = None
    look: float | None = None


def plan_transition(
    view: HvpaView, decided: HvpaDecision, totals: ResourceAmounts, now: float, settings: HvpaSettings
) -> ShapeTransition:
    """What is done now. Resources without a total have no size of their own to wait for."""
    count, size = decided.shape.count, decided.shape.size
    has = {**sum_containers(view.containers, "requests"), **sum_containers(view.containers, "published")}
    larger = {name: max(amount, has.get(name, 0)) for name, amount in size.items()}
    if count < view.replicas:
        least = sum_containers(view.containers, "least")
        # Not the larger of both: what was published may be more than any node has, and so many replicas need less.
        grows = any(size[name] > least.get(name, 0) for name in totals)
        return ShapeTransition(view.replicas, size, GROW_FIRST) if grows else ShapeTransition(count, size)
    if larger != size and decided.grew is not None:
        until = decided.grew + settings.ready_patience
        if count > view.replicas or (not view.all_ready and now < until):
            return ShapeTransition(count, larger, READY_FIRST, until)
    return ShapeTransition(count, size)
