"""Memory by its highest peaks, and by steady growth up to the horizon."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from support.worlds.vpas import NAMESPACE, START, World
from trellis.core.recommend.forecast.memory_peaks import PeakRule, forecast_growth, size_memory_by_peaks
from trellis.core.recommend.registry import create_built_in_recommenders
from trellis.core.usage.columns import FloatColumn
from trellis.core.usage.samples import Samples

HOUR = 3600.0
GIB = 2.0**30
DAYS = 21
LOWER, TARGET, UPPER = 0, 1, 2

amounts = arrays(np.float64, (3, 100), elements=st.floats(1.0, 1e12), fill=st.just(1e9))


def forecast_at(values: FloatColumn, ahead: float) -> float:
    return float(forecast_growth(values[np.newaxis], ahead)[0])


def bounds(highest: FloatColumn, rule: PeakRule) -> FloatColumn:
    """Of one container, by the highest usage of its hours."""
    result = size_memory_by_peaks(np.repeat(highest[np.newaxis, np.newaxis], 5, axis=1).astype(np.float32), rule)
    return result[:, 0]


def test_steady_growth_is_followed_to_the_horizon() -> None:
    values = 100.0 + 2.0 * np.arange(96.0)
    assert forecast_at(values, 48.0) == pytest.approx(100.0 + 2.0 * (95.0 + 48.0))


def test_a_little_noise_hides_no_growth() -> None:
    draw = np.random.default_rng(2)
    values = 100.0 + 2.0 * np.arange(96.0) + draw.normal(0.0, 5.0, 96)
    assert forecast_at(values, 24.0) == pytest.approx(100.0 + 2.0 * 119.0, rel=0.05)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(np.full(96, 100.0), id="steady"),
        pytest.param(200.0 - np.arange(96.0), id="falling"),
        pytest.param(np.where(np.arange(96) % 24 < 9, 200.0, 100.0), id="a rhythm"),
        pytest.param(100.0 + 0.01 * np.arange(96.0), id="what any margin covers"),
        pytest.param(np.where(np.arange(96.0) < 56, np.nan, np.arange(96.0)), id="too young to tell"),
    ],
)
def test_unsteady_growth_is_not_forecast(values: FloatColumn) -> None:
    assert np.isnan(forecast_at(values, 24.0))


def test_growth_that_has_begun_anew_is_not_followed_across_the_fall() -> None:
    assert np.isnan(forecast_at(np.concatenate([np.arange(60.0), np.arange(36.0)]) + 10.0, 24.0))


@given(amounts, st.floats(0.0, 300.0))
def test_growth_is_expected_above_the_middle_or_not_at_all(values: FloatColumn, ahead: float) -> None:
    result = forecast_growth(values, ahead)
    grows = ~np.isnan(result)
    assert (result[grows] >= values[grows, -72:].mean(axis=1) * (1 - 1e-9)).all()


def test_memory_is_the_highest_peak_of_the_window_and_the_margin() -> None:
    highest = np.full(400, GIB)
    highest[-200] = 3 * GIB
    assert bounds(highest, PeakRule(window=240, margin=0.1))[TARGET] == pytest.approx(3.3 * GIB)
    assert bounds(highest, PeakRule(window=120, margin=0.1))[TARGET] == pytest.approx(1.1 * GIB)


def test_slightly_oversized_memory_is_not_lowered() -> None:
    highest = np.full(400, GIB)
    highest[-200] = 1.05 * GIB
    assert bounds(highest, PeakRule(window=120, margin=0.0))[TARGET] == pytest.approx(1.05 * GIB)


def test_a_peak_that_is_rare_makes_no_running_pod_too_small() -> None:
    highest = np.full(400, GIB)
    highest[-50] = 3 * GIB
    lower, target, _ = bounds(highest, PeakRule(margin=0.1))
    assert (lower, target) == (pytest.approx(1.1 * GIB), pytest.approx(3.3 * GIB))


def test_a_pod_that_growth_will_outgrow_is_too_small() -> None:
    highest = GIB * (1 + 0.02 * np.arange(400.0))
    lower, target, upper = bounds(highest, PeakRule(margin=0.1, horizon=100.0))
    then = GIB * (1 + 0.02 * 499.0)
    assert lower == pytest.approx(then, rel=1e-3)
    assert target == pytest.approx(1.1 * then, rel=1e-3)
    assert upper > target


@given(amounts)
def test_current_usage_always_fits_and_bounds_are_in_order(values: FloatColumn) -> None:
    result = size_memory_by_peaks(np.repeat(values[:, np.newaxis], 5, axis=1).astype(np.float32), PeakRule())
    assert (result[LOWER] <= result[TARGET]).all()
    assert (result[TARGET] <= result[UPPER]).all()
    assert (result[TARGET] >= values.max(axis=1).astype(np.float32)).all()


def leaking(**spec: Any) -> World:
    """A VPA whose container needs half a GiB more every day, for three weeks."""
    shop = World(*create_built_in_recommenders().values())
    shop.apply(recommenders=[{"name": "seasonal", "parameters": {"growth-horizon": "96h"}}], **spec)
    shop.model.keep_history([(NAMESPACE, "web")])
    shop.run_pods()
    hours = np.arange(DAYS * 24.0)
    named = ([NAMESPACE] * len(hours), ["web-0"] * len(hours), ["app"] * len(hours))
    shop.now = START + DAYS * 24 * HOUR
    leak = GIB * (1 + hours / 48)
    shop.model.ingest(Samples(*named, START + HOUR * hours, np.full(len(hours), 0.1), leak), shop.now)
    shop.run()
    return shop


def test_a_leak_is_sized_for_the_horizon() -> None:
    then = GIB * (1 + (DAYS + 4) / 2)
    assert int(leaking().target()["memory"]) >= then


def test_a_leak_is_sized_for_no_more_than_is_allowed() -> None:
    policy = {"containerPolicies": [{"containerName": "app", "maxAllowed": {"memory": "4Gi"}}]}
    shop = leaking(resourcePolicy=policy)
    assert shop.target()["memory"] == "4Gi"
    assert int(shop.advice()["app"]["uncappedTarget"]["memory"]) > 10 * GIB
