"""Ticks of charts that are drawn without scripts."""

from __future__ import annotations

from trellis.reports.html.axes import choose_ticks, choose_time_ticks, format_tick

DAY = 86400.0
MONDAY = 20458 * DAY  # 5 January 2026


def test_ticks_are_round_and_reach_up_to_the_top() -> None:
    assert [format_tick(value) for value in choose_ticks(6.3, 4)] == ["0", "2", "4", "6"]
    assert [format_tick(value) for value in choose_ticks(0.8, 4)] == ["0", "0.2", "0.4", "0.6", "0.8"]


def test_times_are_midnights_over_days_and_hours_over_a_day() -> None:
    assert [text for text, _ in choose_time_ticks(MONDAY + 5, MONDAY + 14 * DAY, 4)] == [
        "6 Jan",
        "10 Jan",
        "14 Jan",
        "18 Jan",
    ]
    assert [text for text, _ in choose_time_ticks(MONDAY + 3600, MONDAY + DAY, 4)] == [
        "06:00",
        "12:00",
        "18:00",
        "6 Jan",
    ]


def test_a_time_without_a_round_moment_has_no_tick() -> None:
    assert choose_time_ticks(MONDAY + 1, MONDAY + 2, 4) == []
