"""An Hvpa with a modelled HPA and VPA, on virtual time: it settles, stays, and never holds less than is needed."""

from __future__ import annotations

from fractions import Fraction

import pytest

from support.builders.manifests import STORY_2, bucket
from support.worlds.hvpas import GIGA, NOW, HpaModel, VpaModel, World, amounts, meaning
from trellis.core.hvpa.demand.hpa import HPA_BOUNDS
from trellis.core.hvpa.plan import LIMITED
from trellis.core.recommend.amounts import ResourceAmounts

MINUTE, HOUR = 60.0, 3600.0
BASE_USAGE = bucket((1, 8), (0, 1), (0, "13.6G"))


def on_cpu(percent: int = 80, least: int = 1) -> HpaModel:
    return HpaModel({"cpu": percent}, min_replicas=least)


@pytest.mark.req("HV-13", "HV-38", "HV-33")
def test_story_1_goes_to_three_replicas_of_eight_cores_and_stays() -> None:
    world = World(meaning(), 2, amounts("6", "1G"), cpu=19_200, hpa=on_cpu(), startup=20)
    world.run(HOUR)
    assert {state[:2] for state in world.states} == {(2, 6000), (3, 8000)}
    assert world.state[:2] == (3, 8000)
    assert world.spec_replicas == 3


@pytest.mark.req("HV-28")
@pytest.mark.parametrize("percent", [0, 10])
def test_base_usage_settles_at_what_each_replica_needs_and_never_below(percent: int) -> None:
    means = meaning(BASE_USAGE, scaleDown={"minChangePercent": percent})
    size = amounts("1", "5G")
    world = World(means, 2, size, memory=8 * GIGA, base=2 * GIGA, vpa=VpaModel(), startup=20)
    world.run(3 * HOUR)
    sizes = [(count, memory) for count, _, memory in world.states]
    assert sizes[0] == (3, 6 * GIGA)
    least = 14 * GIGA // 3 + 1
    assert min(sizes) == sizes[-1]
    assert (3, least) <= sizes[-1] < (3, least * 10 // 9)
    assert percent or sizes[-1] == (3, least)


@pytest.mark.req("HV-36")
@pytest.mark.parametrize("startup", [0.0, 300.0])
def test_a_target_that_falls_slowly_makes_nothing_run_away(startup: float) -> None:
    vpa = VpaModel(decay=Fraction(999, 1000), target={"cpu": 12_000})
    world = World(meaning(), 2, amounts("6", "1G"), cpu=24_000, vpa=vpa, startup=startup)
    world.run(2 * HOUR)
    assert {state[:2] for state in world.states} == {(3, 8000)}


@pytest.mark.req("HV-36")
def test_nor_does_the_vpa_of_a_user_whose_totals_come_late() -> None:
    def late_totals(now: float) -> ResourceAmounts:
        return amounts(cpu="24") if now > NOW + HOUR else {}

    vpa = VpaModel(decay=Fraction(999, 1000), target={"cpu": 12_000}, reports_totals=False, resources=("cpu",))
    world = World(meaning(), 2, amounts("6", "1G"), cpu=24_000, vpa=vpa, totals=late_totals)
    world.run(3 * HOUR)
    assert {state[:2] for state in world.states} == {(3, 8000)}


@pytest.mark.req("HV-39")
def test_the_hpas_total_decays_where_the_hpa_cannot_say_less() -> None:
    world = World(meaning(*STORY_2), 1, amounts("500m", "1G"), cpu=700, hpa=on_cpu())
    assert world.run(20 * MINUTE).state[:2] == (1, 875)
    world.cpu = 50
    assert world.run(20 * MINUTE).state[:2] == (1, 63)
    assert world.run(HOUR).state[:2] == (1, 63)


@pytest.mark.req("HV-41")
def test_bounds_of_an_hpa_are_no_wishes_and_no_reason_to_write_for_ever() -> None:
    world = World(meaning(), 2, amounts("3125m", "1G"), cpu=5000, hpa=on_cpu(least=10))
    world.run(HOUR)
    assert {state[:2] for state in world.states} == {(2, 3125)}
    assert world.writes == 1
    assert world.last is not None
    assert HPA_BOUNDS in world.last.summary.notes


def test_an_hpa_wakes_up_a_workload_that_had_nothing_to_do() -> None:
    world = World(meaning(*STORY_2), 1, amounts("500m", "1G"), cpu=0, hpa=on_cpu())
    assert world.run(20 * MINUTE).state[:2] == (1, 1)
    world.cpu = 8000
    count, cpu, _ = world.run(10 * MINUTE).state
    assert 10_000 / 1.1 <= count * cpu <= 10_000 / 0.9, "but for the HPA's tolerance"


def test_an_hpa_that_proposed_more_than_fits_is_not_limited_for_ever() -> None:
    world = World(meaning(), 2, amounts("6", "1G"), cpu=150_000, hpa=on_cpu(), startup=5)
    world.run(HOUR)
    assert world.last is not None
    assert (world.state[:2], LIMITED in world.last.summary.notes) == ((8, 24_000), False)


@pytest.mark.req("HV-43")
@pytest.mark.parametrize("creeps", [0, GIGA // 500])
def test_a_dip_shorter_than_the_window_changes_nothing(creeps: int) -> None:
    def live(world: World) -> None:
        world.memory += creeps
        world.cpu = 9000 if 600 <= world.now - NOW < 780 else 19_200

    vpa = VpaModel(resources=("memory",))
    world = World(meaning(), 3, amounts("8", "1G"), cpu=19_200, memory=GIGA, hpa=on_cpu(), vpa=vpa)
    world.run(30 * MINUTE, live)
    assert {state[:2] for state in world.states} == {(3, 8000)}
    assert (len({memory for _, _, memory in world.states}) > 5) == bool(creeps)


@pytest.mark.req("HV-45")
def test_ready_pods_hold_what_is_needed_while_more_and_smaller_ones_come() -> None:
    world = World(meaning(), 2, amounts("6", "1G"), cpu=12_000, vpa=VpaModel(resources=("cpu",)), startup=40)
    world.run(10 * MINUTE)
    world.cpu = 12_001
    world.run(10 * MINUTE)
    assert [state[:2] for state in world.path()] == [(2, 6000), (3, 4001)]
    assert min(requests["cpu"] for requests in world.least) >= 12_000


@pytest.mark.req("HV-45")
def test_survivors_grow_before_others_go() -> None:
    vpa = VpaModel(resources=("cpu",), decay=Fraction(0))
    world = World(meaning(), 3, amounts("5", "1G"), cpu=15_000, vpa=vpa)
    world.run(10 * MINUTE)
    world.cpu = 10_500
    world.run(20 * MINUTE)
    assert world.state[:2] == (2, 5250)
    assert min(requests["cpu"] for requests in world.least) >= 10_500
