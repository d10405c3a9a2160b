"""Passes come at their interval, never overlap, and go on when one fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from support import virtual_time
from trellis.base.errors import InternalError
from trellis.runtime.passes import PassReport, Periodic


def run_loop(
    run_pass: Callable[[], Coroutine[Any, Any, None]],
    interval: float,
    seconds: float,
    *,
    jitter: float = 0.0,
    limit: float | None = None,
    draw: Callable[[], float] = lambda: 0.0,
    wake_at: float | None = None,
) -> list[PassReport]:
    """The reports of a loop that is cancelled after so many seconds."""

    async def main() -> list[PassReport]:
        reports: list[PassReport] = []
        periodic = Periodic("test", run_pass, interval, on_pass=reports.append, jitter=jitter, limit=limit, draw=draw)
        if wake_at is not None:
            asyncio.get_running_loop().call_later(wake_at, periodic.wake)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(seconds):
                await periodic.run()
        assert not reports or periodic.last == reports[-1]
        return reports

    return virtual_time.run(main())


async def quick() -> None:
    return


def starts(reports: list[PassReport]) -> list[float]:
    return [report.started for report in reports]


def test_the_interval_is_from_start_to_start() -> None:
    async def takes_two_seconds() -> None:
        await asyncio.sleep(2)

    reports = run_loop(takes_two_seconds, 10, 35)
    assert starts(reports) == [0.0, 10.0, 20.0, 30.0]
    assert {report.seconds for report in reports} == {2.0}


def test_an_overlong_pass_is_followed_at_once_and_never_overlapped() -> None:
    running = 0

    async def takes_25_seconds() -> None:
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(25)
        running -= 1

    reports = run_loop(takes_25_seconds, 10, 80)
    assert starts(reports) == [0.0, 25.0, 50.0]
    assert [report.error for report in reports] == [None, None, None]


def test_a_pass_that_fails_is_recorded_and_the_next_one_runs() -> None:
    passes = 0

    async def fails_twice() -> None:
        nonlocal passes
        passes += 1
        if passes in (2, 3):
            raise ZeroDivisionError("a bug")

    reports = run_loop(fails_twice, 10, 35)
    assert starts(reports) == [0.0, 10.0, 20.0, 30.0]
    assert [report.failures for report in reports] == [0, 1, 2, 0]
    assert [str(report.error or "") for report in reports] == ["", "a bug", "a bug", ""]


def test_jitter_makes_intervals_longer_by_up_to_its_share() -> None:
    draws = iter([0.0, 0.5, 1.0, 0.0])
    reports = run_loop(quick, 10, 34, jitter=0.2, draw=lambda: next(draws))
    assert starts(reports) == [0.0, 10.0, 21.0, 33.0]


def test_a_pass_beyond_its_limit_is_cancelled_and_counts_as_failed() -> None:
    cancelled = 0

    async def hangs() -> None:
        nonlocal cancelled
        try:
            await asyncio.Event().wait()
        finally:
            cancelled += 1

    reports = run_loop(hangs, 10, 15, limit=4)
    assert [type(report.error) for report in reports] == [TimeoutError, TimeoutError]
    assert [report.seconds for report in reports] == [4.0, 4.0]
    assert cancelled == 2


def test_a_loop_that_is_woken_does_not_wait_for_its_interval() -> None:
    assert starts(run_loop(quick, 10, 15, wake_at=3.0)) == [0.0, 3.0, 13.0]


def test_a_wake_up_during_a_pass_leads_to_another_pass() -> None:
    async def takes_five_seconds() -> None:
        await asyncio.sleep(5)

    assert starts(run_loop(takes_five_seconds, 10, 14, wake_at=3.0)) == [0.0, 5.0]


def test_cancelling_a_loop_cancels_its_pass_and_waits_for_it() -> None:
    ended: list[float] = []

    async def takes_its_time_to_stop() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(1)
            ended.append(asyncio.get_running_loop().time())

    assert run_loop(takes_its_time_to_stop, 10, 5) == []
    assert ended == [6.0]


def test_a_loop_without_an_interval_is_a_bug() -> None:
    with pytest.raises(InternalError, match="interval"):
        Periodic("test", quick, 0, on_pass=lambda _: None)
