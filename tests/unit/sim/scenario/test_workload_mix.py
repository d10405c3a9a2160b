"""Which workloads a mix comes to: shares, sizes and requests as people write them."""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.builders.scenarios import compiled, list_problems, scenario
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.pods import PodTemplateSpec
from trellis.api.scenario.workloads import DrawnFactor, DrawnSize, FleetMix, MixShares, OverRequests, ScenarioWorkload
from trellis.base.quantities import Quantity
from trellis.sim.scenario.workload_mix import draw_archetypes, draw_workloads


def drawn(mix: FleetMix, seed: int = 1) -> list[ScenarioWorkload]:
    return list(draw_workloads(mix, seed))


def request(workload: ScenarioWorkload, resource: str) -> float:
    container = (workload.containers or [])[0]
    return float(Quantity.parse((container.requests or {})[resource]).exact())


def test_shares_are_kept_as_exactly_as_the_count_allows() -> None:
    archetypes = draw_archetypes(FleetMix(count=40, shares=MixShares(steady=1, daily=2, batch=1)))
    assert Counter(archetypes) == {"daily": 20, "steady": 10, "batch": 10}
    assert Counter(archetypes[:8]) == {"daily": 4, "steady": 2, "batch": 2}


def test_the_default_mix_has_every_sort() -> None:
    names = {name.rpartition("-")[0] for name in (workload.name for workload in drawn(FleetMix(count=60)))}
    assert names == {"steady", "daily", "weekly", "spiky", "trend", "leak", "batch", "deploys", "slow-start"}


def test_a_larger_fleet_leaves_those_that_were_there_as_they_were() -> None:
    small, large = (drawn(FleetMix(count=count)) for count in (10, 30))
    assert large[:10] == small


def test_another_seed_draws_others() -> None:
    assert drawn(FleetMix(count=5), 1) != drawn(FleetMix(count=5), 2)


def test_namespaces_are_taken_in_turn() -> None:
    result = drawn(FleetMix(count=5, namespaces=["a", "b"]))
    assert [workload.namespace for workload in result] == ["a", "b", "a", "b", "a"]


def test_most_are_small_and_few_are_large() -> None:
    mix = FleetMix(count=600, shares=MixShares(steady=1), cpu=DrawnSize(median="150m", spread=0.7))
    requests = np.asarray([request(workload, "cpu") for workload in drawn(mix)])
    assert requests.mean() > 1.2 * np.median(requests)


def test_requests_lie_above_usage_as_far_as_configured() -> None:
    def median(factor: float) -> float:
        over = OverRequests(cpu=DrawnFactor(median=factor, spread=0.1))
        mix = FleetMix(count=200, shares=MixShares(steady=1), over_requests=over)
        return float(np.median([request(workload, "cpu") for workload in drawn(mix)]))

    assert median(4.0) == pytest.approx(2 * median(2.0), rel=0.35)


def test_limits_are_set_for_the_configured_share() -> None:
    for share in (0.0, 1.0):
        mix = FleetMix(count=20, limited=share, shares=MixShares(daily=1, batch=1))
        containers = [(workload.containers or [])[0] for workload in drawn(mix)]
        assert {container.limits is not None for container in containers} == {bool(share)}


@settings(max_examples=15)
@given(st.integers(0, 2**53))
def test_whatever_is_drawn_is_a_scenario_that_could_have_been_written(seed: int) -> None:
    result = drawn(FleetMix(count=18), seed)
    written = [msgspec.to_builtins(item) for item in result]
    assert list_problems(scenario(workloads=written)) == []
    for workload in compiled(scenario(workloads=written, duration="2d", step="30m")).workloads:
        assert convert_object(workload.template, PodTemplateSpec).spec.containers
        for demand in workload.demand:
            assert np.isfinite(demand.cpu).all()
            assert np.isfinite(demand.memory).all()
            assert (demand.cpu >= 0).all()
            assert (demand.memory >= 0).all()
