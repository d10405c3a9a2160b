"""The recommenders' stories in the whole simulator: cycles, weeks, rooms that are taken, phases of runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.worlds.simulated_cluster import BEGIN, GIB, container, container_demand, shape, workload
from support.worlds.simulated_workloads import SimulatedRun, vpa
from trellis.core.usage.columns import FloatColumn
from trellis.sim.fleet import SimulatedWorkload

HOUR = 3600.0
DAY = 24 * HOUR


def times(days: float, step: float) -> FloatColumn:
    """When each step begins."""
    return BEGIN + step * np.arange(int(days * DAY / step), dtype=np.float64)


def played(name: str, workload: SimulatedWorkload, **more: Any) -> SimulatedRun:
    """The workload under a recommender of that name."""
    reference: dict[str, Any] = {"target": workload.name, "kind": workload.kind}
    chosen: dict[str, Any] = {} if name == "default" else {"recommenders": [{"name": name}]}
    return SimulatedRun(workload, vpa("InPlaceOrRecreate", **reference, **chosen), **more)


@pytest.mark.req("CR-23")
def test_percentile_and_window_of_the_default_recommender_can_be_set() -> None:
    # One hour in three is busy; the last day was quiet, and used little memory.
    when = times(4, HOUR)
    early = when < BEGIN + 3 * DAY
    cpu = np.where(early & (when // HOUR % 3 == 0), 2.0, 0.2)
    web = workload("web", 2, demand=(container_demand(cpu, np.where(early, 4.0, 1.0) * GIB, steps=len(when)),))

    def final(**settings: str) -> tuple[float, float]:
        flags = {name.replace("_", "-"): text for name, text in settings.items()}
        made = played("default", web, steps=len(when), step=HOUR, every=4 * HOUR, settings=flags)
        return float(made.target()[-1]), float(made.target(resource="memory")[-1])

    usual = final()
    assert usual[0] > 2.0
    assert usual[1] > 4 * GIB
    assert final(target_cpu_percentile="0.5")[0] < 0.4
    assert final(cpu_histogram_decay_half_life="3h")[0] < 0.4
    assert final(memory_aggregation_interval="6h", memory_histogram_decay_half_life="2h")[1] < 2 * GIB


@pytest.mark.req("CR-24")
def test_a_recommender_that_knows_the_cycle_spends_less_time_above_request_in_a_spike() -> None:
    when = times(4, HOUR / 4)
    spiky = np.where(when // HOUR % 24 == 10, 2.0, 0.2)
    web = workload("web", 2, demand=(container_demand(spiky, GIB, steps=len(when)),))
    soon = {"seasonal": {"history-needed": "24h"}}
    default, seasonal = (
        played(name, web, steps=len(when), step=HOUR / 4, every=HOUR, parameters=soon)
        for name in ("default", "seasonal")
    )
    assert default.totals.time_over.cpu > 0.04
    # It has to see the spike of a day first.
    assert seasonal.totals.time_over.cpu < 0.4 * default.totals.time_over.cpu
    assert seasonal.totals.overrun.cpu < 0.4 * default.totals.overrun.cpu


@pytest.mark.req("CR-25")
def test_requests_are_lower_on_a_quiet_weekend() -> None:
    when = times(10, HOUR / 2)
    weekday = (when // DAY + 3) % 7
    hour = when // HOUR % 24
    week = np.where((weekday < 5) & (hour >= 9) & (hour < 18), 2.0, 0.2)
    web = workload("web", 2, demand=(container_demand(week, GIB, steps=len(when)),))
    default, seasonal = (
        played(name, web, steps=len(when), step=HOUR / 2, every=4 * HOUR) for name in ("default", "seasonal")
    )
    # Charts have fewer points than steps; noon of the second Saturday.
    noon = int(np.argmin(abs(default.times - (8 * DAY + 4 * HOUR))))
    assert seasonal.requested()[noon] < 0.5
    assert default.requested()[noon] > 2.0
    assert seasonal.totals.requested.cpu < 0.6 * default.totals.requested.cpu


@pytest.mark.req("CR-25", "CR-26")
def test_a_pod_sized_to_the_idle_phase_is_evicted_when_the_spike_comes_and_the_headroom_is_taken() -> None:
    when = times(16, 2 * HOUR)
    spiky = np.where((when - BEGIN) // DAY % 10 == 5, 4.0, 1.0) * GIB
    web = workload("web", 2, demand=(container_demand(0.2, spiky, steps=len(when)),))
    # Others wait for room from the seventh day on, and use what they get.
    filler = workload(
        "filler",
        12,
        container(cpu="100m"),
        kind="Job",
        runs=((BEGIN + 7 * DAY, 20 * DAY),),
        demand=(container_demand(0.05, 0.98 * GIB, steps=len(when)),),
    )
    default, seasonal = (
        played(
            name,
            web,
            others=(filler,),
            nodes=(shape("16", "16Gi"),),
            steps=len(when),
            step=2 * HOUR,
            every=4 * HOUR,
        )
        for name in ("default", "seasonal")
    )
    assert default.totals.pressed_out + default.totals.evictions >= 2
    assert seasonal.totals.pressed_out + seasonal.totals.evictions == 0
    assert seasonal.totals.time_over.memory < default.totals.time_over.memory


@pytest.mark.req("CR-24", "CR-25")
@pytest.mark.parametrize(("period", "days"), [(10, 70), (14, 84)])
def test_memory_that_cycles_longer_than_the_window_is_followed_with_less_shortage_and_less_set_aside(
    period: int, days: int
) -> None:
    when = times(days, 3 * HOUR)
    peak = (when - BEGIN) // DAY % period == 5
    web = workload("web", 2, demand=(container_demand(0.2, np.where(peak, 4.0, 1.0) * GIB, steps=len(when)),))
    held = {"seasonal": {"longest-memory-cycle": "0s"}}
    default, seasonal, maximum = (
        played(name, web, steps=len(when), step=3 * HOUR, every=3 * HOUR, parameters=given)
        for name, given in (("default", {}), ("seasonal", {}), ("seasonal", held))
    )
    # Default is late at every peak; who follows the cycle is late at the first alone, as who holds the maximum.
    assert default.totals.time_over.memory > 0.005
    assert seasonal.totals.time_over.memory < 0.4 * default.totals.time_over.memory
    assert seasonal.totals.oom_kills + seasonal.totals.restarts <= default.totals.oom_kills + default.totals.restarts
    # The whole run, with the three peaks that it takes to recognise a cycle.
    assert seasonal.totals.requested.memory < 0.8 * maximum.totals.requested.memory
    last = default.times > (days - 2 * period) * DAY
    followed, all_the_time = (np.nanmean(run.requested(resource="memory")[last]) for run in (seasonal, maximum))
    assert followed < 0.5 * all_the_time
    assert followed < np.nanmean(default.requested(resource="memory")[last])


@pytest.mark.req("CR-25")
def test_a_cycle_that_breaks_is_held_at_its_maximum_again() -> None:
    when = times(80, 3 * HOUR)
    day = (when - BEGIN) // DAY
    # Every ten days until the sixth peak, which comes three days early.
    peak = np.where(day < 50, day % 10 == 5, day % 10 == 2)
    web = workload("web", 2, demand=(container_demand(0.2, np.where(peak, 4.0, 1.0) * GIB, steps=len(when)),))
    seasonal = played("seasonal", web, steps=len(when), step=3 * HOUR, every=3 * HOUR)
    target = seasonal.target(resource="memory")
    days = seasonal.times / DAY
    assert target[(days > 47) & (days < 51)].max() < 1.5 * GIB
    assert target[days > 53].min() > 4 * GIB


@pytest.mark.req("CR-27")
def test_a_proactive_recommender_raises_before_the_next_phase_and_default_only_after_it() -> None:
    step, gap, runs = 300.0, 3 * HOUR, 4
    cpu = np.repeat([0.3, 2.0, 0.5], [6, 4, 2])
    begins = [BEGIN + number * gap + step for number in range(runs)]
    etl = workload(
        "etl",
        1,
        container(cpu="300m"),
        kind="Job",
        demand=(container_demand(cpu, GIB, steps=12, by_age=True),),
        runs=tuple((begin, HOUR) for begin in begins),
    )
    # Histories that forget a run within hours, as those of a day do when runs are days apart.
    quick = {"cpu-histogram-decay-half-life": "10m", "min-replicas": "1"}
    default, phases = (
        played(name, etl, steps=int(runs * gap / step), step=step, every=step, settings=quick)
        for name in ("default", "phases")
    )
    last = round((begins[-1] - BEGIN) / step)
    busy = last + 7
    assert default.target()[busy - 1] < 1.0
    assert default.target()[busy + 4] > 2.0
    assert phases.target()[busy - 1] > 2.0
    assert phases.target()[last + 2] < 1.0
    assert phases.requested()[busy] > 2.0
