"""DaemonSets and CronJobs in scenarios: what they come to, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from support.builders.scenarios import compiled, scenario, workload
from trellis.api.registry import SCENARIO
from trellis.api.validation import validate
from trellis.sim.run import simulate

HOUR = 3_600.0
BEGIN = 1_780_272_000.0  # 1 June 2026
NIGHTLY = {"schedule": "0 */6 * * *", "length": "90m"}


def without_replicas(**fields: Any) -> dict[str, Any]:
    document = workload(**fields)
    del document["spec"]["workloads"][0]["replicas"]
    return document


def wrong(document: dict[str, Any]) -> list[str]:
    return [str(problem) for problem in validate(SCENARIO, document) if problem.is_error]


def test_a_daemon_set_has_one_pod_on_each_node() -> None:
    document = without_replicas(kind="DaemonSet")
    document["spec"]["nodes"] = [{"name": "node", "cpu": "4", "memory": "8Gi", "count": 3}]
    (result, *_) = simulate(compiled(document)).variants
    (agent,) = result.workloads
    assert agent.kind == "DaemonSet"
    assert agent.chart is not None
    assert set(agent.chart.pods[1:]) == {3}


def test_a_vpa_for_each_workload_sizes_a_daemon_set_too() -> None:
    sized = {"name": "sized", "forEach": [{"spec": {"updatePolicy": {"updateMode": "InPlaceOrRecreate"}}}]}
    document = without_replicas(kind="DaemonSet")
    document["spec"] |= {
        "nodes": [{"name": "node", "cpu": "4", "memory": "8Gi", "count": 3}],
        "policies": [sized],
        "intervals": {"recommender": "10m", "updater": "10m"},
    }
    fixed, recommended = simulate(compiled(document)).variants
    assert recommended.fleet.requested.cpu < 0.8 * fixed.fleet.requested.cpu
    assert recommended.workloads[0].totals.resizes >= 3


def test_the_assumed_nodes_have_capacity_beside_daemon_sets() -> None:
    web = {"name": "web", "replicas": 24, "containers": [{"name": "app", "requests": {"cpu": "1", "memory": "1Gi"}}]}
    agent = {
        "name": "agent",
        "kind": "DaemonSet",
        "containers": [{"name": "agent", "requests": {"cpu": "4", "memory": "1Gi"}}],
    }
    alone, beside = (compiled(scenario(workloads=workloads)).nodes[0].count for workloads in ([web], [web, agent]))
    assert (alone, beside) == (4, 8)


def test_a_cron_job_runs_by_its_schedule() -> None:
    (simulated,) = compiled(workload(kind="CronJob", runs={**NIGHTLY, "timeZone": "Asia/Kolkata"})).workloads
    # Half past: India is five and a half hours ahead.
    assert [(begin - BEGIN) / HOUR for begin, _ in simulated.runs] == [0.5, 6.5, 12.5, 18.5]
    assert {length for _, length in simulated.runs} == {5400.0}
    assert simulated.cron is not None
    assert simulated.cron.concurrency == "Allow"
    assert simulated.demand[0].by_age


def test_a_cron_job_sets_the_runs_of_its_jobs() -> None:
    runs = {**NIGHTLY, "concurrencyPolicy": "Replace", "startingDeadline": "5m", "completions": 6}
    (simulated,) = compiled(workload(kind="CronJob", runs=runs)).workloads
    assert simulated.cron is not None
    assert (simulated.cron.concurrency, simulated.cron.deadline, simulated.completions, simulated.replicas) == (
        "Replace",
        300.0,
        6,
        2,
    )


def test_a_suspended_cron_job_has_no_runs() -> None:
    (simulated,) = compiled(workload(kind="CronJob", runs={**NIGHTLY, "suspend": True})).workloads
    assert simulated.runs == ()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "DaemonSet"}, "one pod on each node"),
        ({"kind": "CronJob"}, "must be given for a CronJob"),
        ({"kind": "CronJob", "runs": {"every": "1h", "length": "5m"}}, "runs.schedule: Required value"),
        ({"kind": "CronJob", "runs": {**NIGHTLY, "first": "1h"}}, "is allowed only with kind: Job"),
        ({"kind": "CronJob", "runs": {**NIGHTLY, "schedule": "at noon"}}, "a schedule has five fields"),
        ({"kind": "CronJob", "runs": {**NIGHTLY, "timeZone": "Mars/Olympus"}}, "not a time zone"),
        ({"kind": "CronJob", "runs": NIGHTLY, "rollouts": {"every": "6h"}}, "each run has new pods"),
        ({"kind": "Job", "runs": {**NIGHTLY, "every": "6h"}}, "is allowed only with kind: CronJob"),
        ({"kind": "Job", "runs": {"length": "5m"}}, "runs.every: Required value"),
        ({"runs": NIGHTLY}, "is allowed only with kind: Job or CronJob"),
    ],
)
def test_contradicting_fields_are_refused(fields: dict[str, Any], message: str) -> None:
    assert any(message in text for text in wrong(workload(**fields)))
