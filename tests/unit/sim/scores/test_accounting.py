"""Sums over steps, and the charts that are made on the way."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders.fleets import BEGIN, fleet, workload
from trellis.sim.fleet import SimulationClock
from trellis.sim.results import SimulationTotals
from trellis.sim.scores.accounting import ContainerNumbers, StepAmounts, UsageAccounting, sum_step
from trellis.sim.scores.charts import MOST_MARKS, MOST_POINTS, ChartBuilder, ChartMarks

NOTHING = np.zeros(2)


def measured(
    requested: float, wanted: float, used: float, *, places: tuple[int, ...] = (0,), halted: tuple[int, ...] = ()
) -> StepAmounts:
    """So many containers alike; of CPU as given, of memory a quarter of what was requested."""
    ones, others = np.ones(len(places)), np.ones(len(halted))
    return StepAmounts(
        np.array(places, dtype=np.int64),
        np.stack((ones * requested, ones * 4.0)),
        np.stack((ones * wanted, ones)),
        np.stack((ones * used, ones)),
        ones * wanted > ones * used,
        np.array(halted, dtype=np.int64),
        np.stack((others * requested, others * 4.0)),
    )


def one_of(steps: int) -> UsageAccounting:
    return UsageAccounting(
        fleet([workload("web", np.zeros(1))], steps=steps, step=3600.0), ContainerNumbers([("app",)])
    )


def test_means_shares_and_money_are_of_the_time_that_is_scored() -> None:
    accounting = one_of(4)
    for wanted, used in ((0.5, 0.5), (0.5, 0.5), (1.5, 1.0), (3.0, 1.0)):
        accounting.add(sum_step(measured(1.0, wanted, used), 1))
    totals = accounting.total_workload(0, SimulationTotals(oom_kills=2))
    assert (totals.requested.cpu, totals.used.cpu, totals.slack.cpu) == (1.0, 0.75, 0.25)
    assert totals.footprint.cpu == pytest.approx(4.0 / 3.0)
    assert (totals.time_over.cpu, totals.time_over.memory) == (0.5, 0.0)
    assert totals.overrun.cpu == pytest.approx(2.5 / 5.5)
    assert (totals.throttled_seconds, totals.container_seconds) == (7200.0, 14400.0)
    assert totals.oom_kills == 2
    assert totals.money == pytest.approx(4 * 0.0316, rel=1e-6)
    assert accounting.total_fleet(SimulationTotals()) == msgspec.structs.replace(totals, oom_kills=0)


def test_a_container_that_waits_for_its_restart_is_paid_for_and_uses_nothing() -> None:
    running, waiting = one_of(1), one_of(1)
    running.add(sum_step(measured(1.0, 1.5, 1.0), 1))
    waiting.add(sum_step(measured(1.0, 1.5, 1.0, halted=(0, 0)), 1))
    alone, more = running.total_fleet(SimulationTotals()), waiting.total_fleet(SimulationTotals())
    assert (more.requested.cpu, more.requested.memory) == (3.0, 12.0)
    assert (more.slack.cpu, more.slack.memory) == (2.0, 11.0)
    assert more.money == pytest.approx(3 * alone.money)
    assert (more.used, more.time_over, more.container_seconds) == (alone.used, alone.time_over, alone.container_seconds)
    charting = ChartBuilder(SimulationClock(BEGIN, 3600.0, 1, BEGIN), ContainerNumbers([("app",)]))
    charting.add(0, sum_step(measured(1.0, 1.5, 1.0, halted=(0, 0)), 1), 0, NOTHING)
    assert charting.build_fleet_chart([0]).requested_cpu == [3.0]
    assert charting.build_workload_chart(0, ("app",), [], 0).lines[0].requested == [1.0]


def test_without_usage_there_is_no_footprint_and_without_scored_steps_totals_are_zero() -> None:
    accounting = one_of(1)
    assert accounting.total_fleet(SimulationTotals()).requested.cpu == 0.0
    accounting.add(sum_step(measured(1.0, 0.0, 0.0), 1))
    totals = accounting.total_fleet(SimulationTotals())
    assert math.isnan(totals.footprint.cpu)
    assert totals.time_over.cpu == 0.0


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0, 9), st.floats(0, 9)), max_size=30))
def test_sums_of_places_are_those_of_all_containers(rows: list[tuple[int, float, float]]) -> None:
    places, requested, used = (np.array(column) for column in zip(*rows, strict=True)) if rows else np.zeros((3, 0))
    both = np.stack((requested, requested)), np.stack((used, used))
    nobody = np.zeros(0, dtype=np.int64)
    nothing = np.zeros(len(rows), dtype=np.bool_)
    step = StepAmounts(places.astype(np.int64), both[0], both[1], both[1], nothing, nobody, np.zeros((2, 0)))
    sums = sum_step(step, 3)
    assert sums.containers.sum() == len(rows)
    assert np.allclose(sums.amounts.sum(axis=2)[0], requested.sum())
    assert np.allclose(sums.amounts.sum(axis=2)[1], used.sum())


def test_places_number_containers_one_after_the_other() -> None:
    places = ContainerNumbers([("app", "proxy"), ("app",)])
    assert [places.find(0, "app"), places.find(0, "proxy"), places.find(1, "app")] == [0, 1, 2]
    assert places.find(1, "proxy") == -1
    assert list(places.list_numbers(1)) == [2]


def test_a_chart_has_few_points_however_long_the_run() -> None:
    steps = 3 * MOST_POINTS + 5
    places = ContainerNumbers([("app",)])
    charting = ChartBuilder(SimulationClock(BEGIN, 60.0, steps, BEGIN), places)
    for number in range(steps):
        used = 2.0 if number == 0 else 1.0
        charting.add(number, sum_step(measured(3.0, used, used, places=(0, 0)), 1), 1, np.array([8.0, 9.0]))
    chart = charting.build_workload_chart(0, ("app",), [], 0)
    cpu = chart.lines[0]
    assert len(chart.times) == len(cpu.used) == -(-steps // 4) <= MOST_POINTS
    assert chart.times[1] == BEGIN + 240.0
    assert (cpu.used[0], cpu.peak[0], cpu.requested[0]) == (1.25, 2.0, 3.0)
    assert chart.pods[0] == 2.0
    assert math.isnan(cpu.target[0])
    fleet_chart = charting.build_fleet_chart([0])
    assert (fleet_chart.used_cpu[0], fleet_chart.requested_cpu[0], fleet_chart.offered_cpu[0]) == (2.5, 6.0, 8.0)
    assert fleet_chart.pending[-1] == 1.0


def test_a_chart_shows_gaps_and_ends_where_the_run_was_stopped() -> None:
    charting = ChartBuilder(SimulationClock(BEGIN, 60.0, 10, BEGIN), ContainerNumbers([("app",)]))
    charting.add(0, sum_step(measured(1.0, 1.0, 1.0), 1), 0, NOTHING)
    charting.advice[:, 0, 0] = (1.0, 0.5, 2.0)
    charting.add(1, sum_step(measured(1.0, 1.0, 1.0, places=()), 1), 0, NOTHING)
    line = charting.build_workload_chart(0, ("app",), [], 0).lines[0]
    assert len(line.used) == 2
    assert math.isnan(line.used[1])
    assert math.isnan(line.target[0])
    assert (line.target[1], line.lower[1], line.upper[1]) == (1.0, 0.5, 2.0)


def test_marks_say_why() -> None:
    marking = ChartMarks(1)
    marking.note_reason("uid", "OutsideBounds", "below")
    marking.mark(0, 1.0, "evicted", "uid")
    marking.mark(0, 2.0, "killed")
    marks, left_out = marking.select_marks(0)
    assert [(mark.what, mark.why, mark.text) for mark in marks] == [
        ("evicted", "OutsideBounds", "below"),
        ("killed", "", ""),
    ]
    assert left_out == 0


def test_thinned_marks_keep_rare_kinds_and_spread_frequent_ones_over_time() -> None:
    marking = ChartMarks(1)
    for number in range(10 * MOST_MARKS):
        marking.mark(0, float(number), "killed" if number % 500 == 0 else "resized")
    marks, left_out = marking.select_marks(0)
    assert len(marks) + left_out == 10 * MOST_MARKS
    assert len(marks) == MOST_MARKS
    assert sum(mark.what == "killed" for mark in marks) == 4
    assert [mark.time for mark in marks] == sorted(mark.time for mark in marks)
    assert marks[-1].time > 9.9 * MOST_MARKS
