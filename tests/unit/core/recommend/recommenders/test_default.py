"""The default recommender: upstream's numbers, to the digit."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.oracles.recommendations import ExactHistogram, SlowContainer
from trellis.core.recommend.amounts import CPU, LOWER, MEMORY, MIDDLE, UPPER
from trellis.core.recommend.parameters import ParameterValues, read_parameters, share_pod_minimums
from trellis.core.recommend.protocol import Estimates, Rows
from trellis.core.recommend.recommenders.default import DefaultRecommender, add_margin
from trellis.core.recommend.settings import DefaultSettings
from trellis.core.usage.columns import RowKey
from trellis.core.usage.histograms import bins
from trellis.core.usage.histograms.decaying_histograms import HistogramBank
from trellis.core.usage.model import UsageModel

DAY = 86400.0
NOW = 1_700_000_000.0
MEBIBYTE = 1024 * 1024


class History(msgspec.Struct, frozen=True):
    """What one row remembers. Samples are (days ago, value), CPU in cores and memory in bytes."""

    cpu: tuple[tuple[float, float], ...] = ()
    memory: tuple[tuple[float, float], ...] = ()
    span: float = 0.0
    count: int = 0
    total_cpu: tuple[float, ...] = ()


def steady(cpu: float, memory: float, days: float) -> History:
    """A sample a minute, always the same."""
    return History(((0.0, cpu),), ((0.0, memory),), days * DAY, round(days * 1440))


def rows(*histories: History, containers: int = 1, half_life: float = DAY) -> Rows:
    banks = {
        "cpu": HistogramBank(bins.CPU_BINS, half_life),
        "memory": HistogramBank(bins.MEMORY_BINS, half_life),
        "cpu_total": HistogramBank(bins.CPU_TOTAL_BINS, half_life),
        "memory_total": HistogramBank(bins.MEMORY_TOTAL_BINS, half_life),
    }
    for bank in banks.values():
        bank.reserve(len(histories))
    for row, history in enumerate(histories):
        for name, samples in (("cpu", history.cpu), ("memory", history.memory)):
            for days_ago, value in samples:
                weight = 0.1 if name == "cpu" else 1.0
                banks[name].add(np.array([row]), np.array([NOW - days_ago * DAY]), np.array([value]), weight)
        for value in history.total_cpu:
            banks["cpu_total"].add(np.array([row]), np.array([NOW]), np.array([value]), 0.1)
    numbers = np.arange(len(histories))
    sampled = np.array([history.count > 0 for history in histories])
    spans = np.array([history.span for history in histories])
    view = msgspec.structs.replace(
        UsageModel().view(),
        keys=[RowKey("shop", "web", f"c{number}") for number in numbers],
        rows=numbers,
        vpas=np.zeros(len(histories), dtype=np.int64),
        first=np.where(sampled, NOW - spans, np.nan),
        last=np.where(sampled, NOW, np.nan),
        count=np.array([history.count for history in histories]),
        last_oom=np.full(len(histories), np.nan),
        current=np.ones(len(histories), dtype=np.bool_),
        total_rows=np.where([bool(history.total_cpu) for history in histories], numbers, -1),
        history_rows=np.full(len(histories), -1),
        run_rows=np.full(len(histories), -1),
        **banks,
    )
    return Rows(view, np.full(len(histories), float(containers)))


def estimate(given_rows: Rows, figures: DefaultSettings | None = None, **parameters: str) -> Estimates:
    recommender = DefaultRecommender(figures)
    return recommender.estimate(given_rows, values(recommender, **parameters), NOW)


def values(recommender: DefaultRecommender, **parameters: str) -> ParameterValues:
    read = read_parameters(recommender.parameters, {name.replace("_", "-"): text for name, text in parameters.items()})
    assert not read.problems
    return read.values


def triple(result: Estimates, resource: int, row: int = 0) -> tuple[float, ...]:
    return tuple(result.bounds[:, resource, row].tolist())


CPU_GOLD = {
    0.1: ((120, 126, 3150), (125, 126, 252), (125, 126, 141)),
    0.5: ((559, 587, 14675), (585, 587, 1174), (586, 587, 660)),
    1.0: ((1113, 1168, 29200), (1165, 1168, 2336), (1167, 1168, 1314)),
    4.0: ((4522, 4742, 118550), (4732, 4742, 9484), (4740, 4742, 5334)),
}
MEMORY_GOLD = {
    300 * MEBIBYTE: (
        (362642738, 380258472, 9506461800),
        (379499094, 380258472, 760516944),
        (380163425, 380258472, 427790781),
    ),
    1024 * MEBIBYTE: (
        (1181278014, 1238659775, 30966494375),
        (1236186166, 1238659775, 2477319550),
        (1238350168, 1238659775, 1393492246),
    ),
}
AGES = (1 / 24, 1.0, 8.0)


@pytest.mark.parametrize(("usage", "expected"), CPU_GOLD.items())
def test_steady_cpu_gives_upstreams_numbers_after_an_hour_a_day_and_eight_days(usage: float, expected: Any) -> None:
    result = estimate(rows(*(steady(usage, 1e9, days) for days in AGES)))
    assert [triple(result, CPU, row) for row in range(3)] == list(expected)


@pytest.mark.parametrize(("usage", "expected"), MEMORY_GOLD.items())
def test_steady_memory_gives_upstreams_numbers_after_an_hour_a_day_and_eight_days(usage: int, expected: Any) -> None:
    result = estimate(rows(*(steady(1.0, usage, days) for days in AGES)))
    assert [triple(result, MEMORY, row) for row in range(3)] == list(expected)


def test_a_container_that_was_never_sampled_gets_no_recommendation_rather_than_the_minimum() -> None:
    result = estimate(rows(History()))
    assert np.isnan(result.bounds).all()


def test_a_container_with_samples_of_one_resource_gets_estimates_of_it_alone() -> None:
    cpu_only, memory_only = History(((0.0, 1.0),), (), DAY, 1440), History((), ((0.0, 1e9),))
    result = estimate(rows(cpu_only, memory_only))
    assert triple(result, CPU, 0) == (1165, 1168, 2336)
    assert np.isnan(result.bounds[:, MEMORY, 0]).all()
    assert np.isnan(result.bounds[:, CPU, 1]).all()
    assert result.target[MEMORY, 1] > 1e9


def test_the_first_sample_bounds_nothing() -> None:
    """Confidence counts CPU samples alone, so that memory without them is as little trusted."""
    result = estimate(rows(steady(1.0, 1e9, 0), History((), ((0.0, 1e9),))))
    assert triple(result, CPU, 0) == (25, 1168, 1e14)
    assert result.bounds[LOWER, MEMORY].tolist() == [250 * MEBIBYTE] * 2
    assert result.bounds[UPPER, MEMORY].tolist() == [1e14] * 2
    assert result.confidence is not None
    assert result.confidence.tolist() == [0, 0]


def test_idle_containers_get_their_share_of_the_pods_minimum() -> None:
    idle = steady(0.0, 0.0, 8)
    alone, shared = estimate(rows(idle)), estimate(rows(idle, containers=3))
    assert triple(alone, CPU) == (25, 25, 25)
    assert triple(alone, MEMORY) == (250 * MEBIBYTE,) * 3
    assert triple(shared, CPU) == (10, 11, 12)  # above a third of 25: the end of the first bucket and its margin
    assert triple(shared, MEMORY) == (87381333,) * 3


def test_the_minimum_loses_a_millicore_to_rounding_as_upstream() -> None:
    result = estimate(rows(steady(0.0, 0.0, 8), containers=49), DefaultSettings(pod_min_cpu_millicores=49.0))
    # 49 x (1/49) is a little less than 1 in floats.
    assert share_pod_minimums(49.0, 250.0, np.array([49.0]))[CPU].tolist() == [0]
    assert triple(result, CPU)[LOWER] == 10


@pytest.mark.req("CR-23")
def test_the_percentile_can_be_set_for_each_resource() -> None:
    uneven = History(((0.0, 0.1),) * 9 + ((0.0, 4.0),), ((0.0, 1e8),) * 9 + ((0.0, 1e10),), 8 * DAY, 11520)
    usual = estimate(rows(uneven))
    careful = estimate(rows(uneven), target_cpu_percentile="0.99", target_memory_percentile="0.99")
    assert usual.target[CPU, 0] == 126
    assert careful.target[CPU, 0] == 4742
    assert careful.target[MEMORY, 0] > 1e10 > usual.target[MEMORY, 0]


@pytest.mark.req("CR-23")
@pytest.mark.parametrize(("half_life_days", "target"), [(1.0, 126), (30.0, 4742)])
def test_half_lives_are_settings(half_life_days: float, target: float) -> None:
    busy_last_week = History(((7.0, 4.0),) * 5 + ((0.0, 0.1),) * 5, ((0.0, 1e9),), 8 * DAY, 11520)
    result = estimate(rows(busy_last_week, half_life=half_life_days * DAY))
    assert result.target[CPU, 0] == target


def test_a_percentile_above_that_of_the_upper_bound_lifts_the_bound() -> None:
    uneven = History(((0.0, 0.1),) * 97 + ((0.0, 4.0),) * 3, ((0.0, 1e9),), 1000 * DAY, 1_440_000)
    result = estimate(rows(uneven), target_cpu_percentile="0.99")
    lower, target, upper = triple(result, CPU)
    assert lower <= target == upper == 4742


def test_totals_are_a_percentile_with_the_margin_and_at_least_the_containers_minimum() -> None:
    result = estimate(
        rows(
            History(((0.0, 1.0),), ((0.0, 1e9),), DAY, 1440, total_cpu=(5000.0,)),
            History(((0.0, 0.0),), ((0.0, 1e9),), DAY, 1440, total_cpu=(0.0,)),
            steady(1.0, 1e9, 1),
        )
    )
    assert result.totals is not None
    beyond_one_container, idle, without = result.totals[CPU].tolist()
    assert 5_000_000 * 1.15 <= beyond_one_container < 5_000_000 * 1.15 * 1.06
    assert idle == 25
    assert math.isnan(without)
    assert np.isnan(result.totals[MEMORY]).all()


def test_without_rows_that_keep_totals_there_are_none() -> None:
    assert estimate(rows(steady(1.0, 1e9, 1))).totals is None


samples = st.lists(
    st.tuples(st.floats(0, 9), st.one_of(st.floats(0, 1e-3), st.floats(0, 4000), st.sampled_from([0.0, 0.01, 999.0]))),
    max_size=6,
).map(tuple)
histories = st.builds(
    History,
    cpu=samples,
    memory=samples.map(lambda pairs: tuple((days, value * 1e9) for days, value in pairs)),
    span=st.one_of(st.just(0.0), st.floats(0, 40 * DAY)),
    count=st.one_of(st.just(0), st.integers(0, 60_000)),
)
fractions = st.floats(0, 1)
figures = st.builds(
    DefaultSettings,
    target_cpu_percentile=fractions,
    lower_bound_cpu_percentile=fractions,
    upper_bound_cpu_percentile=fractions,
    target_memory_percentile=fractions,
    lower_bound_memory_percentile=fractions,
    upper_bound_memory_percentile=fractions,
    margin_fraction=st.floats(0, 2),
    confidence_interval_cpu=st.floats(60, 10 * DAY),
    confidence_interval_memory=st.floats(60, 10 * DAY),
    pod_min_cpu_millicores=st.one_of(st.integers(0, 500).map(float), st.floats(0, 1e4)),
    pod_min_memory_mebibytes=st.one_of(st.integers(0, 500).map(float), st.floats(0, 1e4)),
)


@given(st.lists(histories, min_size=1, max_size=4), figures, st.integers(1, 60))
def test_columns_equal_the_reference_implementation(
    given: list[History], chosen: DefaultSettings, containers: int
) -> None:
    result = estimate(rows(*given, containers=containers), chosen)
    for row, history in enumerate(given):
        slow = slow_container(history)
        for resource, name in ((CPU, "cpu"), (MEMORY, "memory")):
            expected = slow.estimate(name, chosen, containers)
            if expected is None:
                assert np.isnan(result.bounds[:, resource, row]).all()
            else:
                assert triple(result, resource, row) == expected
                lower, target, upper = triple(result, resource, row)
                assert lower <= target <= upper
    assert np.array_equal(result.bounds, np.trunc(result.bounds), equal_nan=True)
    assert result.target.shape == result.lower.shape == result.upper.shape == (2, len(given))
    assert np.array_equal(result.bounds[MIDDLE], result.target, equal_nan=True)


@given(st.lists(histories, min_size=1, max_size=4), figures, st.integers(1, 60))
def test_the_target_follows_from_the_explanation(
    given: list[History], chosen: DefaultSettings, containers: int
) -> None:
    result = estimate(rows(*given, containers=containers), chosen)
    reason = {name: np.asarray(column) for name, column in result.explanation.items()}
    for resource, name in ((CPU, "cpu"), (MEMORY, "memory")):
        is_known = ~np.isnan(reason[f"{name}-used"])
        raised = np.maximum(add_margin(reason[f"{name}-used"], chosen.margin_fraction), reason[f"least-{name}"])
        assert result.target[resource, is_known].tolist() == raised[is_known].tolist()
        assert np.isnan(result.target[resource, ~is_known]).all()


def slow_container(history: History) -> SlowContainer:
    cpu, memory = ExactHistogram(0.01, 176, DAY), ExactHistogram(1e7, 176, DAY)
    for histogram, pairs, weight in ((cpu, history.cpu, 0.1), (memory, history.memory, 1.0)):
        for days_ago, value in pairs:
            histogram.add(NOW - days_ago * DAY, value, weight)
    span = history.span if history.count else 0.0
    return SlowContainer(cpu, memory, NOW - span, NOW, history.count)
