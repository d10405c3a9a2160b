"""What always holds of an Hvpa, in a closed loop and for any buckets, policies, states and paths of demand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hvpa_strategies import buckets, policies, shapes, sizings, totals
from hvpa_world import Follower, HpaModel, VpaModel, World, meaning
from trellis.api.buckets import RESOURCES
from trellis.core.hvpa import Direction, Memory
from trellis.core.hvpa.counts import limited
from trellis.core.hvpa.plan import LIMITED
from trellis.core.recommend.capping.limit_ranges import Counts

FEW = settings(max_examples=50, deadline=None)
LOOPS = settings(max_examples=8, deadline=None)
OPEN = st.just("Auto")
HOUR = 3600.0
MEGA = 10**6
# An HPA may at least double what it asks for at each step, and at most so many doublings lie between any two demands
# of these tests; the decay after them takes a step or two.
MOST_STEPS = 16


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A workload with an HPA, a VPA or both. Its VPA forgets fast: a constant demand soon has constant totals."""
    means = meaning(*draw(buckets(25, 25 * MEGA)), **draw(policies()))
    sources = draw(st.sampled_from([("hpa",), ("vpa",), ("hpa", "vpa")]))
    named = draw(st.sampled_from([("cpu",), ("memory",), ("cpu", "memory")]))
    hpa = HpaModel(dict.fromkeys(named, draw(st.sampled_from([50, 80, 120]))), max_replicas=64)
    vpa = VpaModel(Fraction(115, 100), Fraction(1, 2))
    size = {"cpu": draw(st.integers(50, 6000)), "memory": draw(st.integers(50, 6000)) * MEGA}
    return World(
        means,
        draw(st.integers(1, 8)),
        size,
        base=draw(st.sampled_from([0, 20 * MEGA, 100 * MEGA])),
        hpa=hpa if "hpa" in sources else None,
        vpa=vpa if "vpa" in sources else None,
        startup=draw(st.sampled_from([0.0, 20.0, 300.0])),
    )


DEMAND = st.tuples(st.integers(20, 40_000), st.integers(20, 40_000))


@pytest.mark.req("HV-33", "HV-38")
@LOOPS
@given(worlds(), st.lists(DEMAND, min_size=1, max_size=2), st.booleans())
def test_constant_demand_comes_to_rest_in_few_steps_and_no_state_is_left_and_come_back_to(
    world: World, demand: list[tuple[int, int]], forgets: bool
) -> None:
    for cpu, memory in demand:
        world.cpu, world.memory = cpu, memory * MEGA
        begun = len(world.states)
        world.run(1.5 * HOUR)
        path = world.path(begun)
        assert len(set(path)) == len(path) <= MOST_STEPS
        begun = len(world.states)
        world.run(0.25 * HOUR)
        assert world.path(begun) == [world.state]
        world.kept = Memory() if forgets else world.kept


@pytest.mark.req("HV-28", "HV-30")
@LOOPS
@given(
    buckets(25, 25 * MEGA),
    st.lists(st.integers(20, 40_000), min_size=2, max_size=5),
    st.tuples(st.integers(50, 5000), st.integers(0, 100), st.sampled_from([0.0, 40.0])),
)
def test_whatever_cpu_does_ready_pods_have_the_memory_they_use(
    written: list[dict[str, Any]], path: list[int], memory: tuple[int, int, float]
) -> None:
    work, base, startup = memory
    means = meaning(*written)
    vpa = VpaModel(keeps=Fraction(9, 10))
    size = {"cpu": 100, "memory": (work + base) * MEGA}
    world = World(means, 1, size, memory=work * MEGA, base=base * MEGA, vpa=vpa, startup=startup)

    def holds(_: World) -> None:
        has, uses = sum(pod.requests["memory"] for pod in world.ready), world.usage()["memory"]
        count, ladder = len(world.pods), means.ladders.by_resource["memory"]
        full = means.ladders.configured(count) and has >= count * ladder.most_of_count(count)
        limited = world.last is not None and LIMITED in world.last.verdict.notes
        assert has >= uses or full or limited

    for cpu in path:
        world.cpu = cpu
        world.run(900, holds)


@FEW
@given(
    buckets(),
    policies(),
    shapes(),
    st.lists(st.tuples(totals(), totals()), min_size=2, max_size=10),
)
def test_what_is_allocated_is_never_below_what_is_asked_for_unless_it_is_said_why(
    written: list[dict[str, Any]], policy: dict[str, Any], begins: tuple[int, Counts], path: list[tuple[Counts, Counts]]
) -> None:
    follower = Follower(meaning(*written, **policy), *begins)
    at_once = policy["scaleUp"]["stabilizationWindow"] == "0s"
    for total, target in path:
        made = follower.follow(total, target)
        gets, full = made.shape.totals, limited(follower.means.ladders, total)
        waits = [each for each in made.verdict.blocked if each.direction is Direction.UP]
        assert waits or LIMITED in made.verdict.notes or all(gets[name] >= made.totals[name] for name in RESOURCES)
        assert not at_once or waits or full or all(gets[name] >= total[name] for name in RESOURCES)


@pytest.mark.req("HV-34")
@FEW
@given(
    buckets(),
    policies(OPEN),
    shapes(),
    st.lists(st.tuples(totals(), totals()), min_size=1, max_size=6),
    st.tuples(st.integers(0, 500), st.integers(0, 500)),
)
def test_from_any_state_more_demand_never_gets_less(
    written: list[dict[str, Any]],
    policy: dict[str, Any],
    begins: tuple[int, Counts],
    path: list[tuple[Counts, Counts]],
    more: tuple[int, int],
) -> None:
    follower = Follower(meaning(*written, **policy), *begins)
    for each in path[:-1]:
        follower.follow(*each)
    total, target = path[-1]
    before = follower.asked(total, target)
    after = follower.asked({"cpu": total["cpu"] + more[0], "memory": total["memory"] + more[1]}, target)
    assert after.shape.count >= before.shape.count
    kept = 100 - policy["scaleDown"]["minChangePercent"]  # a step that is worth it takes along what would not be
    for name in RESOURCES:
        assert 100 * after.shape.totals[name] >= kept * (before.shape.totals[name] - (before.shape.count - 1))


@FEW
@given(
    buckets(),
    sizings(),
    st.lists(st.tuples(shapes(), st.lists(totals(), max_size=6)), min_size=2, max_size=2),
    st.tuples(totals(), totals()),
)
def test_outside_the_bands_no_history_is_left_once_the_window_is_over(
    written: list[dict[str, Any]],
    sizing: dict[str, str],
    histories: list[tuple[tuple[int, Counts], list[Counts]]],
    last: tuple[Counts, Counts],
) -> None:
    bands = {"minChangePercent": 0, "overlapPercent": 0}
    means = meaning(*written, replicaSize=sizing, scaleDown=bands)
    ends = []
    for begins, path in histories:
        follower = Follower(means, *begins)
        for total in path:
            follower.follow(total, total)
        ends.append([follower.follow(*last).shape for _ in range(8)][-1])
    assert ends[0] == ends[1]
