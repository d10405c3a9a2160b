"""Sparklines of usage in the page of advised requests."""

from __future__ import annotations

import re

import numpy as np

from trellis.core.advice.sizes import OVER_REQUESTED, ResourceAdvice
from trellis.core.advice.survey.usage_summaries import POINTS, UsageSummary
from trellis.reports.advice.sparklines import HEIGHT, draw_usage

CHANGE = ResourceAdvice(
    reason=OVER_REQUESTED, request_before=1000.0, limit_before=np.nan, estimate=500.0, request=500.0, limit=np.nan
)


def summary(cpu: list[float]) -> UsageSummary:
    column = np.array(cpu, dtype=np.float32)
    return UsageSummary(0.0, 3600.0, column, np.full(len(cpu), np.nan, dtype=np.float32))


def test_usage_and_both_requests_share_one_scale() -> None:
    drawing = draw_usage(summary([250.0] * POINTS), "cpu", "CPU", CHANGE)
    assert "CPU: highest usage 250m to 250m, requested 1, advised 500m" in drawing
    before, after = (int(y) for y in re.findall(r'class="(?:before|after)" d="M0 (\d+)H', drawing))
    (top,) = re.findall(rf'class="usage" d="M0 {HEIGHT}V(\d+)', drawing)
    heights = [HEIGHT - before, HEIGHT - after, HEIGHT - int(top)]
    assert heights[0] == 2 * heights[1]
    assert abs(heights[1] - 2 * heights[2]) <= 1


def test_a_gap_in_the_history_is_a_gap_in_the_drawing() -> None:
    values = [250.0] * 20 + [np.nan] * 8 + [250.0] * 20
    assert draw_usage(summary(values), "cpu", "CPU", CHANGE).count('class="usage"') == 2


def test_nothing_is_drawn_without_history() -> None:
    assert draw_usage(None, "cpu", "CPU", CHANGE) == ""
    assert draw_usage(summary([1.0] * POINTS), "memory", "Memory", CHANGE) == ""
