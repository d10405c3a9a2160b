"""`window` sizes CPU by the last hours, weighted by load, and memory by the tolerance of kills."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from trellis.core.recommend.amounts import CPU, MEMORY
from trellis.core.recommend.parameters import ParameterValue
from trellis.core.recommend.protocol import Estimates
from trellis.core.recommend.recommenders.default import DefaultRecommender
from trellis.core.recommend.recommenders.window import WindowRecommender
from trellis.core.usage.columns import FloatColumn
from trellis.testing.estimates import request_estimates
from trellis.testing.rows import GIB, NOW, UsageExample, build_rows

DAYS = 14
HOURS = DAYS * 24
BUCKET = 1.05  # what percentiles are as fine as
MARGIN = 1.15


def estimated(
    cpu: Sequence[float] | FloatColumn, memory: Sequence[float] | FloatColumn = (), **given: ParameterValue
) -> Estimates:
    return request_estimates(
        WindowRecommender(DefaultRecommender()),
        build_rows([UsageExample(cpu, memory)]),
        {name.replace("_", "-"): value for name, value in given.items()},
    )


def now_and_then(busy: float, idle: float, share: int) -> FloatColumn:
    """Busy in one hour of so many."""
    return np.where(np.arange(HOURS) % share == 0, busy, idle)


def test_rare_load_counts_by_its_share_of_the_work() -> None:
    # One hour in ten: nine in ten samples are idle, but 99 % of the CPU time is spent in the busy ones.
    used = now_and_then(busy=2.0, idle=0.002, share=10)
    assert estimated(used).target[CPU, 0] == pytest.approx(2000 * MARGIN, rel=BUCKET - 1)


def test_a_small_share_of_the_work_does_not_count() -> None:
    # The same rhythm, but that the hours between do nearly all the work: 0.9 of it is within their usage.
    used = now_and_then(busy=1.0, idle=0.8, share=30)
    assert estimated(used).target[CPU, 0] == pytest.approx(800 * MARGIN, rel=BUCKET - 1)


def test_the_percentile_and_the_margin_are_parameters() -> None:
    used = now_and_then(busy=1.0, idle=0.8, share=30)
    everything = estimated(used, target_cpu_percentile=1.0, recommendation_margin_fraction=0.0)
    assert everything.target[CPU, 0] == pytest.approx(1000, rel=BUCKET - 1)


def test_usage_before_the_window_does_not_count() -> None:
    used = np.where(np.arange(HOURS) < HOURS - 4 * 24, 4.0, 0.2)
    assert estimated(used).target[CPU, 0] < 300
    assert estimated(used, cpu_half_life=7 * 86400.0).target[CPU, 0] > 4000


@pytest.mark.parametrize(
    ("tolerance", "least", "most"),
    [("minimal", 4.0, 4.4 * 1.01), ("low", 1.0, 1.1 * 1.01), ("intermediate", 2.0, 2.2 * 1.01)],
)
def test_memory_is_sized_by_the_tolerance_of_kills(tolerance: str, least: float, most: float) -> None:
    memory = np.full(HOURS, 1.0)
    memory[-3 * 24] = 4.0  # one hour of a week
    result = estimated([0.1] * HOURS, memory * GIB, oom_tolerance=tolerance).target[MEMORY, 0] / GIB
    assert least <= result <= most


def test_higher_tolerance_of_kills_never_requests_more() -> None:
    draw = np.random.default_rng(5)
    memory = draw.lognormal(0.0, 0.5, HOURS) * GIB
    targets = [estimated([0.1] * HOURS, memory, oom_tolerance=item).target[MEMORY, 0] for item in ("minimal", "low")]
    assert targets[0] >= targets[1]


def test_memory_before_the_window_is_forgotten() -> None:
    memory = np.full(HOURS, GIB)
    memory[24] = 4 * GIB
    assert estimated([0.1] * HOURS, memory).target[MEMORY, 0] < 1.2 * GIB
    assert estimated([0.1] * HOURS, memory, memory_window=14 * 86400.0).target[MEMORY, 0] >= 4 * GIB


def test_with_too_little_history_the_estimate_is_that_of_default_and_explained() -> None:
    used = UsageExample([0.5] * 12, [3e8] * 12)
    result, rows = request_estimates(WindowRecommender(DefaultRecommender()), build_rows([used])), build_rows([used])
    assert result.target.tolist() == request_estimates(DefaultRecommender(), rows).target.tolist()
    assert (result.explanation["cpu"], result.explanation["memory"]) == (["too little history"],) * 2


def test_the_explanation_has_the_origin_of_estimates() -> None:
    result = estimated([0.5] * HOURS, [3e8] * HOURS)
    assert (result.explanation["cpu"], result.explanation["memory"]) == (["window"], ["peaks"])
    assert result.explanation["days"][0] == pytest.approx(DAYS, abs=0.1)


def test_a_later_pass_within_the_hour_uses_the_cache() -> None:
    recommender, rows = (
        WindowRecommender(DefaultRecommender()),
        build_rows([UsageExample([0.5] * HOURS, [3e8] * HOURS)]),
    )
    first, second = request_estimates(recommender, rows, now=NOW), request_estimates(recommender, rows, now=NOW + 60.0)
    assert first.target.tolist() == second.target.tolist()
