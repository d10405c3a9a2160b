"""The queue of events: order, ties, cancelling, and time that never goes back."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.base.errors import InternalError
from trellis.sim.kernel import Kernel, Priority


def test_events_of_one_time_run_by_priority_and_then_in_the_order_scheduled() -> None:
    kernel, done = Kernel(0.0), []
    for name, time, priority in (
        ("updater", 5.0, Priority.UPDATER),
        ("second", 5.0, Priority.KUBELET),
        ("third", 5.0, Priority.KUBELET),
        ("first", 4.0, Priority.UPDATER),
    ):
        kernel.at(time, lambda name=name: done.append(name), priority)  # type: ignore[misc]
    kernel.run_until(5.0)
    assert done == ["first", "second", "third", "updater"]


def test_an_event_scheduled_by_an_event_for_the_same_time_runs_in_the_same_run() -> None:
    kernel = Kernel(0.0)
    done: list[float] = []

    def ask() -> None:
        kernel.after(0.0, lambda: done.append(kernel.now))

    kernel.at(1.0, ask)
    kernel.run_until(1.0)
    assert done == [1.0]
    assert kernel.now == 1.0


def test_a_cancelled_event_does_not_run_and_an_executed_event_is_not_pending() -> None:
    kernel, done = Kernel(0.0), []
    cancelled, other = kernel.at(1.0, lambda: done.append("cancelled")), kernel.at(1.0, lambda: done.append("other"))
    cancelled.cancel()
    assert (cancelled.is_pending, other.is_pending) == (False, True)
    kernel.run_until(2.0)
    assert done == ["other"]
    assert (other.is_pending, kernel.now, kernel.executed_events) == (False, 2.0, 1)


@pytest.mark.parametrize("time", [0.5, -math.inf, math.nan])
def test_an_event_in_the_past_is_refused(time: float) -> None:
    kernel = Kernel(1.0)
    with pytest.raises(InternalError, match="cannot be scheduled at"):
        kernel.at(time, lambda: None)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3), st.integers(0, 5)), max_size=40))
def test_time_never_goes_back_and_no_event_is_lost(events: list[tuple[int, int, int]]) -> None:
    kernel, times = Kernel(0.0), []

    def happen(again: int) -> None:
        times.append(kernel.now)
        if again:
            kernel.after(again, lambda: happen(0))

    for time, priority, again in events:
        kernel.at(time, lambda again=again: happen(again), priority)  # type: ignore[misc]
    for until in (3.0, 3.0, 1.0, 100.0):
        kernel.run_until(until)
    assert times == sorted(times)
    assert len(times) == len(events) + sum(bool(again) for _, _, again in events)
    assert kernel.now == 100.0
