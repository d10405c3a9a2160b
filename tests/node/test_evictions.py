"""Evictions on a real node: containers take their time to end, and disruption budgets hold meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from support.cluster.admission import admission_controllers, wait_for_current_advice, wait_for_webhook_calls
from support.cluster.updaters import NO_LEASE, Start, advise, by_uid, updaters
from support.cluster.vpas import metric_value, vpa, wait_for_further_passes
from support.node.pods import container, create_deployment, pod_spec
from testbed.client import Json
from testbed.cluster import Cluster, is_ready
from testbed.controllers import Controller
from testbed.node.kernel import KernelResources
from testbed.node.real_node import RealNode
from testbed.waiting import until

MIB = 2**20

# Of the thirty seconds of grace it takes so many.
ENDING_SECONDS = 4
SLOW_END = ("sh", "-c", f"trap 'sleep {ENDING_SECONDS}; exit 0' TERM; while :; do sleep 0.1; done")
GRACE_SECONDS = 30


@pytest.fixture
def sizing_updater(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Start `trellis updater` beside the webhook, so that the successors of evicted pods have the recommended size."""
    with admission_controllers(cluster, tmp_path) as admission, updaters(cluster, tmp_path) as updater:

        def start(namespace: str, *flags: str) -> Controller:
            admission(namespace)
            wait_for_webhook_calls(cluster, namespace)
            wait_for_current_advice(cluster, namespace)
            return updater(namespace, *flags)

        yield start


@pytest.mark.req("AR-20")
def test_evicted_pods_have_their_time_to_end_and_disruption_budgets_hold(
    cluster: Cluster, node: RealNode, namespace: str, sizing_updater: Start
) -> None:
    before = {}
    size = {"cpu": "50m", "memory": "64Mi"}
    # Of the one a pod may be away, of the other none.
    for name, least in (("web", 1), ("guarded", 2)):
        app = container(command=SLOW_END, requests=size, limits=size)
        create_deployment(
            cluster, namespace, name, pod_spec(app, terminationGracePeriodSeconds=GRACE_SECONDS), replicas=2
        )
        cluster.api.create(disruption_budget(name, least), namespace)
        cluster.api.create(vpa(name, updatePolicy={"updateMode": "Recreate"}), namespace)
        advise(cluster, namespace, name, "100m", "96Mi")
    for name in ("web", "guarded"):
        before[name] = by_uid(cluster.wait_for_ready_pods(namespace, name, 2))
    with cluster.api.watch(f"/api/v1/namespaces/{namespace}/pods") as versions:
        controller = sizing_updater(namespace, NO_LEASE)
        refused = "vpa_updater_failed_eviction_attempts_total"
        until("a refused eviction", lambda: metric_value(controller, refused, vpa_name="guarded") >= 1)
        until("two evictions", lambda: metric_value(controller, "vpa_updater_evicted_pods_total") == 2)
        until("their end", lambda: all(not node.get_pod_cgroup(pod).exists() for pod in before["web"].values()))
        after = cluster.wait_for_ready_pods(namespace, "web", 2)
        wait_for_further_passes(controller, "vpa_updater")
    assert not by_uid(after).keys() & before["web"].keys()
    for pod in after:
        assert node.get_pod_cgroup(pod).read_resources() == KernelResources(100, 100, 96 * MIB)
    assert by_uid(cluster.list_pods(namespace, "guarded")).keys() == before["guarded"].keys()
    assert min(count_available(versions, "web")) == 1
    assert min(count_available(versions, "guarded")) == 2

    evicted = [read_end(versions, uid) for uid in before["web"]]
    for asked, ended in evicted:
        # Times are whole seconds.
        assert timedelta(seconds=ENDING_SECONDS - 1) <= ended - asked < timedelta(seconds=GRACE_SECONDS)
    # The second one was asked to end when the first one's successor was there, or later.
    first, second = sorted(evicted)
    successor = min(read_creation(pod) for pod in after)
    assert first[0] <= successor <= second[0]


def disruption_budget(name: str, least: int) -> Json:
    """A PodDisruptionBudget for the pods of a Deployment."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": name}}},
    }


def count_available(versions: list[Json], app: str) -> list[int]:
    """How many Ready pods that are not terminating there were, after each change once all were there."""
    available: dict[str, bool] = {}
    counts = []
    for pod in versions:
        if pod["metadata"]["labels"]["app"] == app:
            available[pod["metadata"]["uid"]] = is_ready(pod) and "deletionTimestamp" not in pod["metadata"]
            if len(available) >= 2:
                counts.append(sum(available.values()))
    return counts


def read_end(versions: list[Json], uid: str) -> tuple[datetime, datetime]:
    """When a pod was asked to end, and when its container did."""
    of_pod = [pod for pod in versions if pod["metadata"]["uid"] == uid and "deletionTimestamp" in pod["metadata"]]
    # The deadline is shortened when the pod is removed.
    deadline = datetime.fromisoformat(of_pod[0]["metadata"]["deletionTimestamp"])
    asked = deadline - timedelta(seconds=of_pod[0]["metadata"]["deletionGracePeriodSeconds"])
    states = [status["state"] for pod in of_pod for status in pod["status"]["containerStatuses"]]
    [ended] = {state["terminated"]["finishedAt"] for state in states if "terminated" in state}
    return asked, datetime.fromisoformat(ended)


def read_creation(pod: Json) -> datetime:
    return datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
