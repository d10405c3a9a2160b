"""Workloads when an updater is killed in mid-pass, or is not reached by what it watches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.admission import wait_for_current_advice, wait_for_webhook_calls
from support.cluster.updaters import Start, by_uid, create_vpa_with_advice, events, requests, updaters
from support.cluster.vpas import metric_value, vpa_path
from testbed.cluster import Cluster, is_ready
from testbed.waiting import until
from testbed.workloads import container, deployment, disruption_budget

WORKLOADS = [f"app-{number}" for number in range(12)]
REPLICAS = 3
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/vpa-updater"
LEADER = (
    "--leader-elect",
    "--leader-elect-lease-duration=8s",
    "--leader-elect-renew-deadline=6s",
    "--leader-elect-retry-period=1s",
)


@pytest.fixture
def updater(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Start `trellis updater` for the VPAs of one namespace."""
    with updaters(cluster, tmp_path) as start:
        yield start
    if cluster.api.find(LEASE):
        cluster.api.delete(LEASE)


def forget_eviction_in_flight(cluster: Cluster, namespace: str) -> None:
    """A budget waits two minutes for the end of a pod that was let go, also if nobody lived to ask for it."""
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    for budget in cluster.api.list_items(budgets):
        if budget.get("status", {}).get("disruptedPods"):
            name = budget["metadata"]["name"]
            cluster.api.patch(f"{budgets}/{name}/status", {"status": {"disruptedPods": None}})


def test_a_leader_that_is_killed_in_mid_pass_is_replaced_and_no_workload_falls_below_its_minimum(
    cluster: Cluster, namespace: str, admission: Start, updater: Start
) -> None:
    admission(namespace)
    wait_for_webhook_calls(cluster, namespace)
    for name in WORKLOADS:
        cluster.api.create(deployment(name, container(), replicas=REPLICAS), namespace)
        cluster.api.create(disruption_budget(name, minAvailable=REPLICAS - 1), namespace)
    before = {uid for name in WORKLOADS for uid in by_uid(cluster.wait_for_ready_pods(namespace, name, REPLICAS))}
    for name in WORKLOADS:
        create_vpa_with_advice(cluster, namespace, name, "Initial")
    wait_for_current_advice(cluster, namespace)
    # One at a time and slowly, so that there is a middle. Both are there before there is anything to do.
    slowly = ("--eviction-rate-limit=2", "--concurrent-writes=2")
    first = updater(namespace, *LEADER, *slowly)
    until("the first to lead", lambda: cluster.api.find(LEASE))
    second = updater(namespace, *LEADER, *slowly)
    for name in WORKLOADS:
        cluster.api.patch(vpa_path(namespace, name), {"spec": {"updatePolicy": {"updateMode": "Recreate"}}})
    until("the first evictions", lambda: metric_value(first, "vpa_updater_evicted_pods_total") >= 5)
    holder = cluster.api.get(LEASE)["spec"]["holderIdentity"]
    first.process.kill()

    def replaced() -> bool:
        # Until there is another leader all that budgets wait for is of the dead, also what is noted only now.
        forget_eviction_in_flight(cluster, namespace)
        return bool(cluster.api.get(LEASE)["spec"]["holderIdentity"] != holder)

    until("the second to lead", replaced)
    evicted_by_second = 0.0

    def done() -> bool:
        nonlocal evicted_by_second
        serving = Counter(
            pod["metadata"]["labels"]["app"]
            for pod in cluster.api.list_items(f"/api/v1/namespaces/{namespace}/pods")
            if is_ready(pod) and "deletionTimestamp" not in pod["metadata"]
        )
        assert all(serving[name] >= 1 for name in WORKLOADS), serving
        evicted_by_second = metric_value(second, "vpa_updater_evicted_pods_total")
        return all(requests(cluster, namespace, name) == ["250m"] * REPLICAS for name in WORKLOADS)

    # More than the two minutes that a budget may wait for a pod all the same.
    until("all pods to be sized", done, 300.0)
    assert evicted_by_second > 0
    names = [event["involvedObject"]["uid"] for event in events(cluster, namespace, "EvictedByVPA")]
    assert len(names) == len(set(names))
    assert set(names) <= before
