"""What always holds of an Hvpa in a closed loop with a modelled HPA and VPA, for any buckets, policies and demand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.builders.hvpas import buckets, policies
from support.worlds.hvpas import HpaModel, VpaModel, World, meaning
from trellis.core.hvpa import HvpaMemory
from trellis.core.hvpa.plan import LIMITED

LOOPS = settings(max_examples=8)
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
def test_constant_demand_settles_in_few_steps_and_no_state_recurs(
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
        world.hvpa_memory = HvpaMemory() if forgets else world.hvpa_memory


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
    vpa = VpaModel(decay=Fraction(9, 10))
    size = {"cpu": 100, "memory": (work + base) * MEGA}
    world = World(means, 1, size, memory=work * MEGA, base=base * MEGA, vpa=vpa, startup=startup)

    def holds(_: World) -> None:
        has, uses = sum(pod.requests["memory"] for pod in world.ready), world.usage()["memory"]
        count, ladder = len(world.pods), means.ladders.by_resource["memory"]
        full = means.ladders.is_configured(count) and has >= count * ladder.maximum_at(count)
        limited = world.last is not None and LIMITED in world.last.summary.notes
        assert has >= uses or full or limited

    for cpu in path:
        world.cpu = cpu
        world.run(900, holds)


@pytest.mark.req("HV-33")
@LOOPS
@given(
    st.sampled_from([20, 50, 80, 120]),
    st.lists(st.integers(10, 150_000), min_size=1, max_size=3),
    st.sampled_from([0.0, 30.0, 300.0]),
    st.tuples(st.booleans(), st.booleans()),
)
def test_with_an_hpa_constant_demand_comes_to_rest(
    percent: int, demand: list[int], startup: float, choices: tuple[bool, bool]
) -> None:
    hpa, (recommended, forgets) = HpaModel({"cpu": percent}), choices
    vpa = VpaModel(Fraction(115, 100), Fraction(1, 2)) if recommended else None
    world = World(meaning(), 1, {"cpu": 1000, "memory": 10**9}, memory=10**9, hpa=hpa, vpa=vpa, startup=startup)
    for cpu in demand:
        world.cpu = cpu
        world.run(900)
        world.hvpa_memory = HvpaMemory() if forgets else world.hvpa_memory
    world.run(1800)
    rested, begun = world.state, len(world.states)
    world.run(600)
    assert set(world.states[begun:]) == {rested}
    count, cpu, _ = rested
    assert count * cpu * Fraction(percent, 100) * Fraction(111, 100) >= world.cpu or count == 8, "but for its tolerance"
