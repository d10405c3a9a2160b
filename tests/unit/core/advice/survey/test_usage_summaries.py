"""Summaries of usage over time: fixed in size, and the highest of all pods."""

from __future__ import annotations

import numpy as np

from trellis.core.advice.survey.usage_summaries import POINTS, UsageSummaries

DAY = 86_400.0


def summaries(days: float = 14) -> UsageSummaries:
    result = UsageSummaries(0.0, days * DAY)
    result.reserve(2)
    return result


def column(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def test_a_step_holds_the_highest_usage_of_any_pod() -> None:
    counted = summaries()
    rows = np.array([0, 0, 1])
    counted.add(rows, column(10.0, 20.0, 30.0), column(100.0, 300.0, 5.0), column(1e9, 5e8, np.nan))
    counted.add(rows[:1], column(40.0), column(200.0), column(2e9))
    first, second = counted.get_summary(0), counted.get_summary(1)
    assert first is not None
    assert second is not None
    assert (first.cpu[0], first.memory[0]) == (300.0, 2e9)
    assert second.cpu[0] == 5.0
    assert np.isnan(second.memory).all()
    assert np.isnan(first.cpu[1:]).all()


def test_the_last_moment_is_in_the_last_step_and_what_is_outside_is_left_out() -> None:
    counted = summaries()
    times = column(-1.0, 14 * DAY, 14 * DAY + 1)
    counted.add(np.zeros(3, dtype=np.int64), times, column(9.0, 7.0, 9.0), column(9.0, 7.0, 9.0))
    summary = counted.get_summary(0)
    assert summary is not None
    assert summary.cpu[-1] == 7.0
    assert np.isnan(summary.cpu[:-1]).all()


def test_a_summary_is_as_large_for_a_year_as_for_an_hour() -> None:
    for days in (1 / 24, 366):
        counted = summaries(days)
        times = np.linspace(0, days * DAY, 10_000)
        counted.add(np.zeros(10_000, dtype=np.int64), times, np.ones(10_000), np.ones(10_000))
        summary = counted.get_summary(0)
        assert summary is not None
        assert summary.cpu.nbytes + summary.memory.nbytes == 2 * 4 * POINTS == 384
        assert (summary.cpu == 1).all()


def test_a_row_without_usage_has_none() -> None:
    assert summaries().get_summary(1) is None
    assert summaries().get_summary(100) is None
