"""Runs of the Jobs and CronJobs of a dump, within the time that is simulated.

The length of a run is known from Jobs that have ended, or from how long usage of their pods was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from trellis.api.kube.workloads import CronJob, Job, JobSpec
from trellis.core.cluster.dump_format import ContainerHistory
from trellis.sim.fleet import CronRules, SimulationClock
from trellis.sim.scenario.workloads import ALLOW, list_firings

JobRuns = tuple[tuple[float, float], ...]

# The length of a run where none is known.
ASSUMED_SECONDS: Final = 600.0
_SHORTEST: Final = 1.0
_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_ZONES: Final = ("TZ=", "CRON_TZ=")
_FAILED: Final = "Failed"


def read_cron_rules(cron_job: CronJob) -> CronRules:
    """The rules of a CronJob, its schedule in five fields; without a time zone it is in UTC."""
    spec, zone, schedule = cron_job.spec, cron_job.spec.time_zone, cron_job.spec.schedule
    if schedule.startswith(_ZONES):
        prefix, _, schedule = schedule.partition(" ")
        zone = prefix.partition("=")[2]
    schedule = _MACROS.get(schedule.strip(), schedule)
    return CronRules(schedule, zone, spec.concurrency_policy or ALLOW, spec.starting_deadline_seconds)


def list_cron_times(rules: CronRules, clock: SimulationClock) -> tuple[float, ...]:
    """The times of a schedule within the simulated time; raises `InvalidSchedule`."""
    return tuple(list_firings(rules.schedule, rules.time_zone or "UTC", clock))


def draw_cron_runs(times: Sequence[float], lengths: Sequence[float], draw: np.random.Generator) -> JobRuns:
    """Runs at these times, each of a length drawn from those that are known."""
    drawn = draw.choice(lengths or (ASSUMED_SECONDS,), len(times))
    return tuple(zip(times, drawn.tolist(), strict=True))


def find_job_run(job: Job, clock: SimulationClock, now: float) -> JobRuns:
    """The one run of a Job within the simulated time; one that still runs does so until the end."""
    began = job.status.start_time
    if began is None:
        return ()
    ended = find_end(job)
    begin, end = max(began.timestamp(), clock.begin), now if ended is None else ended
    if begin >= clock.end or end <= clock.begin:
        return ()
    return ((begin, max((end - begin) / count_waves(job.spec), _SHORTEST)),)


def measure_run_lengths(jobs: Iterable[Job], spec: JobSpec, series: Iterable[ContainerHistory]) -> list[float]:
    """The length of each run of a pod: by Jobs that have succeeded, else by how long pods were measured."""
    spans = [
        job.status.completion_time.timestamp() - job.status.start_time.timestamp()
        for job in jobs
        if job.status.completion_time is not None and job.status.start_time is not None
    ]
    if spans:
        return [max(span / count_waves(spec), _SHORTEST) for span in spans]
    return [
        float(one_series.times[-1] - one_series.times[0]) + _apart(one_series)
        for one_series in series
        if len(one_series) > 1
    ]


def find_end(job: Job) -> float | None:
    """When a Job ended, well or not; None while it runs."""
    if job.status.completion_time is not None:
        return job.status.completion_time.timestamp()
    for condition in job.status.conditions:
        if condition.type == _FAILED and condition.status == "True" and condition.last_transition_time is not None:
            return condition.last_transition_time.timestamp()
    return None


def count_waves(spec: JobSpec) -> int:
    """The number of pods that run one after the other."""
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    completions = parallelism if spec.completions is None else spec.completions
    return max(math.ceil(completions / max(parallelism, 1)), 1)


def _apart(series: ContainerHistory) -> float:
    return float(np.median(np.diff(series.times)))
