"""What holds for any buckets, states and demand."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders.hvpas import buckets, shapes, sizings, totals
from support.worlds.hvpas import Follower, decided, meaning, view
from trellis.api.buckets import RESOURCES, find_falling_totals, list_replica_steps
from trellis.api.kinds.hvpa import Bucket
from trellis.core.hvpa import HvpaMemory, HvpaPlan, Ladders, ResolvedHvpa
from trellis.core.hvpa.demand.recent_totals import DemandWindow, add_sample, read_extreme
from trellis.core.hvpa.ladder import find_desired_count
from trellis.core.hvpa.next_step import split_amount
from trellis.core.hvpa.plan import LIMITED
from trellis.core.recommend.amounts import ResourceAmounts

AT_ONCE = {"stabilizationWindow": "0s", "minChangePercent": 0, "overlapPercent": 0}


def asked(
    means: ResolvedHvpa, replicas: int, size: ResourceAmounts, total: ResourceAmounts, target: ResourceAmounts
) -> HvpaPlan:
    return decided(view(replicas, size, target, total, meaning=means))


def held(made: HvpaPlan) -> ResourceAmounts:
    return made.shape.totals


@pytest.mark.req("HV-07")
@given(buckets(), totals())
def test_the_count_is_the_smallest_that_holds_every_total(
    written: list[dict[str, Any]], total: ResourceAmounts
) -> None:
    read = [msgspec.convert(bucket, Bucket) for bucket in written]
    assert not any(find_falling_totals(read, name) for name in RESOURCES)
    units = {"cpu": 1000, "memory": 1}
    wanted = 0
    for name in RESOURCES:
        steps = [step for bucket in read for step in list_replica_steps(bucket, name)]
        holding = [step.count for step in steps if step.maximum_total * units[name] >= total[name]]
        wanted = max(wanted, min(holding, default=steps[-1].count))
    assert find_desired_count(Ladders.from_buckets(read), total) == wanted


@pytest.mark.req("HV-08", "HV-15", "HV-16", "HV-30")
@given(buckets(), totals(), totals(), sizings(), st.integers(1, 20))
def test_what_is_allocated_is_what_was_asked_for_within_the_bounds(
    written: list[dict[str, Any]],
    total: ResourceAmounts,
    target: ResourceAmounts,
    sizing: dict[str, str],
    replicas: int,
) -> None:
    means = meaning(*written, replicaSize=sizing, scaleDown=AT_ONCE)
    made = asked(means, replicas, total, total, target)
    count, limited = made.shape.count, LIMITED in made.summary.notes
    for name in RESOURCES:
        size, ladder = made.shape.size[name], means.ladders.by_resource[name]
        assert ladder.minimum_at(count) <= size <= ladder.maximum_in_bucket(count)
        assert limited or count * size >= total[name]
        if sizing[name] == "Share":
            assert size <= max(ladder.maximum_at(count), ladder.minimum_at(count))
            assert count * size < total[name] + count or size == ladder.minimum_at(count)
        else:
            assert size >= min(target[name], ladder.maximum_in_bucket(count))


@pytest.mark.req("HV-34")
@given(buckets(), totals(), st.integers(0, 500), totals(), st.tuples(st.integers(1, 20), st.integers(0, 100)))
def test_more_demand_never_gets_less_of_anything(
    written: list[dict[str, Any]], total: ResourceAmounts, more: int, target: ResourceAmounts, present: tuple[int, int]
) -> None:
    replicas, overlap = present
    means = meaning(*written, scaleDown={**AT_ONCE, "overlapPercent": overlap})
    before = asked(means, replicas, total, total, target)
    after = asked(means, replicas, total, {**total, "cpu": total["cpu"] + more}, target)
    for name in RESOURCES:
        assert held(after)[name] >= held(before)[name] - (before.shape.count - 1)


@given(buckets(), totals(), totals(), shapes(), shapes())
def test_outside_the_bands_the_plan_depends_on_totals_alone(
    written: list[dict[str, Any]],
    total: ResourceAmounts,
    target: ResourceAmounts,
    one: tuple[int, ResourceAmounts],
    other: tuple[int, ResourceAmounts],
) -> None:
    means = meaning(*written, scaleDown=AT_ONCE)
    assert asked(means, *one, total, target).shape == asked(means, *other, total, target).shape


@pytest.mark.req("HV-33")
@given(buckets(), totals(), totals(), sizings(), shapes())
def test_a_plan_is_its_own_fixed_point(
    written: list[dict[str, Any]],
    total: ResourceAmounts,
    target: ResourceAmounts,
    sizing: dict[str, str],
    begins: tuple[int, ResourceAmounts],
) -> None:
    follower = Follower(meaning(*written, replicaSize=sizing), *begins)
    for _ in range(8):  # the window of five minutes, and what is begun after it
        follower.follow(total, target)
    state = follower.state
    for _ in range(8):
        made = follower.follow(total, target)
        assert (follower.state, made.actions[1:]) == (state, ())
    held_back = {step.reason.code for step in made.summary.blocked}
    assert held_back <= {"MinChange"}
    assert made.requeue_at is None


@given(buckets(), st.lists(st.tuples(totals(), totals(), st.booleans()), min_size=3, max_size=12), sizings())
def test_no_path_of_demand_starves_or_runs_away_even_if_memory_is_lost(
    written: list[dict[str, Any]], path: list[tuple[ResourceAmounts, ResourceAmounts, bool]], sizing: dict[str, str]
) -> None:
    means = meaning(*written, replicaSize=sizing)
    first = means.ladders.ranges[0][0]
    follower, highest = Follower(means, first, {"cpu": 0, "memory": 0}), first
    for total, target, lost in path:
        highest = max(highest, find_desired_count(means.ladders, total))
        follower.memory = HvpaMemory() if lost else follower.memory
        made = follower.follow(total, target)
        assert made.shape.count <= highest
        if LIMITED not in made.summary.notes:
            assert all(held(made)[name] >= total[name] for name in RESOURCES)


@given(
    buckets(),
    st.lists(st.tuples(totals(), totals()), min_size=2, max_size=10),
    sizings(),
    st.sampled_from(["scaleUp", "scaleDown"]),
    shapes(),
)
def test_a_way_that_is_shut_is_not_gone(
    written: list[dict[str, Any]],
    path: list[tuple[ResourceAmounts, ResourceAmounts]],
    sizing: dict[str, str],
    shut: str,
    begins: tuple[int, ResourceAmounts],
) -> None:
    follower = Follower(meaning(*written, replicaSize=sizing, **{shut: {"updateMode": "Off"}}), *begins)
    had: ResourceAmounts = {name: begins[0] * amount for name, amount in begins[1].items()}
    for total, target in path:
        made = follower.follow(total, target)
        gets, rounding = held(made), 20
        for name in RESOURCES:
            if shut == "scaleDown":
                assert gets[name] >= had[name] - rounding
            else:
                assert gets[name] <= had[name] + rounding
                assert gets[name] >= min(had[name], total[name]) - rounding or LIMITED in made.summary.notes
        had = gets if follower.replicas == made.shape.count else had  # else the step is still on its way
    settled = [follower.follow(*path[-1]).shape for _ in range(10)][-3:]
    assert settled[0] == settled[1] == settled[2]


@pytest.mark.req("HV-25")
@given(st.integers(0, 10**12), st.lists(st.integers(0, 10**9), min_size=1, max_size=6))
def test_containers_sum_to_the_size_and_none_is_off_by_a_unit(amount: int, weights: list[int]) -> None:
    parts = split_amount(amount, weights)
    assert sum(parts) == amount
    whole = sum(weights) or len(weights)
    shares = [Fraction(amount * weight, whole) for weight in (weights if sum(weights) else [1] * len(weights))]
    assert all(abs(part - share) < 1 for part, share in zip(parts, shares, strict=True))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 40)), min_size=1), st.booleans())
def test_a_window_knows_the_extreme_of_what_was_present_in_it(path: list[tuple[int, int]], lowest: bool) -> None:
    window: DemandWindow = ()
    now, present = 0.0, list[tuple[int, float]]()
    for amount, later in path:
        now += later
        present = [*present[:-1], *((count, now) for count, _ in present[-1:]), (amount, now)]
        window = add_sample(window, amount, now, 60, lowest=lowest)
        inside: Iterable[int] = [count for count, until in present if until > now - 60]
        assert read_extreme(window) == (min(inside) if lowest else max(inside))
