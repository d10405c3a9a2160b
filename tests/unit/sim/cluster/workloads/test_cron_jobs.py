"""CronJobs on the model cluster: Jobs at the times of a schedule, by the concurrency policy."""

from __future__ import annotations

from typing import Any

import pytest

from support.worlds.simulated_cluster import BEGIN, World, container, container_demand, fleet, workload
from trellis.api.kube.workloads import CronJob, Job
from trellis.core.cluster.owners import TargetRef
from trellis.core.cluster.past_pods import build_pod_name_pattern
from trellis.sim.cluster import PodEvent
from trellis.sim.fleet import CronRules, SimulatedWorkload

MINUTE = 60.0


def report(every: float, length: float, count: int = 3, pods: int = 1, **more: Any) -> SimulatedWorkload:
    rules = CronRules("*/10 * * * *", "", more.pop("concurrency", "Allow"), more.pop("deadline", None))
    runs = tuple((BEGIN + number * every, length) for number in range(count))
    demand = (container_demand(by_age=True),)
    return workload("report", pods, container(cpu="100m"), kind="CronJob", runs=runs, cron=rules, demand=demand, **more)


def begun(world: World) -> list[float]:
    return [round(time / MINUTE) for time in world.times(PodEvent.MADE)]


def test_pods_belong_to_a_job_that_belongs_to_the_cron_job() -> None:
    world = World(fleet(report(10 * MINUTE, 5 * MINUTE))).run(30)
    pod = world.get_pod("report")
    owner = pod.metadata.controller
    assert owner is not None
    job = world.workloads["Job", owner.name]
    assert isinstance(job, Job)
    above = job.metadata.controller
    assert above is not None
    cron_job = world.workloads["CronJob", above.name]
    assert isinstance(cron_job, CronJob)
    assert (cron_job.metadata.uid, cron_job.spec.schedule) == (above.uid, "*/10 * * * *")
    pattern = build_pod_name_pattern(TargetRef("shop", "batch/v1", "CronJob", "report"))
    assert pattern is not None
    assert pattern.fullmatch(pod.metadata.name)
    assert pod.spec.restart_policy == "OnFailure"


def test_a_job_that_is_over_is_gone_with_its_pods() -> None:
    world = World(fleet(report(10 * MINUTE, 5 * MINUTE))).run(8 * MINUTE)
    assert world.list_pods("report") == []
    assert not any(kind == "Job" for kind, _ in world.workloads)
    assert world.count(PodEvent.ENDED) == 1


@pytest.mark.parametrize(
    ("policy", "deadline", "times", "at_once"),
    [
        ("Allow", None, [0, 10, 20], 2),
        # What was missed begins when the one before it ends, and the one after that once more.
        ("Forbid", None, [0, 15, 30], 1),
        ("Forbid", 60.0, [0, 20], 1),
        ("Replace", None, [0, 10, 20], 1),
    ],
)
def test_the_concurrency_policy_decides_about_jobs_that_overlap(
    policy: str, deadline: float | None, times: list[int], at_once: int
) -> None:
    world = World(fleet(report(10 * MINUTE, 15 * MINUTE, concurrency=policy, deadline=deadline)))
    most = 0
    for _ in range(60):
        world.run(MINUTE)
        most = max(most, len(world.list_pods("report")))
    assert begun(world) == times
    assert most == at_once
    assert world.list_pods("report") == []


def test_so_many_pods_run_at_a_time_until_so_many_have_ended() -> None:
    world = World(fleet(report(60 * MINUTE, 5 * MINUTE, count=1, pods=2, completions=5)))
    counts = []
    for _ in range(20):
        world.run(MINUTE)
        counts.append(len(world.list_pods("report")))
    assert world.count(PodEvent.ENDED) == 5
    assert max(counts) == 2
    # Two, two and one, five minutes each.
    assert sum(counts) == pytest.approx(25, abs=2)
    assert world.list_pods("report") == []


def test_completions_hold_for_jobs_as_well() -> None:
    runs = ((BEGIN, 5 * MINUTE),)
    job = workload("once", 2, kind="Job", runs=runs, completions=3, demand=(container_demand(by_age=True),))
    world = World(fleet(job)).run(30 * MINUTE)
    assert world.count(PodEvent.ENDED) == 3


def test_a_suspended_cron_job_makes_no_jobs() -> None:
    world = World(fleet(report(10 * MINUTE, 5 * MINUTE, count=0))).run(30 * MINUTE)
    cron_job = world.workloads["CronJob", "report"]
    assert isinstance(cron_job, CronJob)
    assert cron_job.spec.suspend
    assert world.log == []
