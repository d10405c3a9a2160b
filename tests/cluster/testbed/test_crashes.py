"""Containers on the testbed crash and come back as a test asks, and a resize meanwhile does not reach the cgroup."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import msgspec

from testbed.client import STRATEGIC_PATCH, Json
from testbed.cluster import Cluster
from testbed.kwok import annotations as ask
from testbed.waiting import until
from testbed.workloads import container, pod
from trellis.api.kube.pods import Pod
from trellis.core.cluster.missed_resizes import is_missed, read_resize_time

OLD = {"cpu": "100m", "memory": "128Mi"}
NEW = {"cpu": "200m", "memory": "256Mi"}
PATH = "/api/v1/namespaces/{}/pods/web"


def status(pod: Json) -> Json:
    [only] = pod["status"]["containerStatuses"]
    return dict(only)


def limits(cluster: Cluster, namespace: str) -> Json:
    """What the cgroup of the pod has, as the kernel would say it."""
    conditions = cluster.api.get(PATH.format(namespace))["status"]["conditions"]
    [message] = [condition["message"] for condition in conditions if condition["type"] == ask.CGROUP]
    return dict(json.loads(message)["app"])


def resize(cluster: Cluster, namespace: str, amounts: Json) -> None:
    resources = {"requests": amounts, "limits": amounts}
    patch = {"spec": {"containers": [{"name": "app", "resources": resources}]}}
    cluster.api.patch(f"{PATH.format(namespace)}/resize", patch, STRATEGIC_PATCH)


def test_a_resize_of_a_container_that_is_down_is_reported_as_done_and_does_not_reach_the_cgroup(
    cluster: Cluster, namespace: str
) -> None:
    path = PATH.format(namespace)
    cluster.api.create(pod("web", container(resources={"requests": OLD, "limits": OLD})), namespace)
    cluster.wait_for_ready_pods(namespace, "web")
    assert limits(cluster, namespace) == OLD
    cluster.api.annotate(path, {ask.CRASHED: "app"})
    until("the crash", lambda: "terminated" in status(cluster.api.get(path))["state"])
    resize(cluster, namespace, NEW)
    until("the status", lambda: status(cluster.api.get(path))["resources"]["limits"] == NEW)
    cluster.api.annotate(path, {ask.CRASHED: None})
    cluster.wait_for_ready_pods(namespace, "web")
    result = cluster.api.get(path)
    assert status(result)["restartCount"] == 1
    assert status(result)["lastState"]["terminated"]["reason"] == "OOMKilled"
    assert limits(cluster, namespace) == OLD
    assert is_missed(msgspec.convert(result, Pod))

    started = datetime.fromisoformat(status(result)["state"]["running"]["startedAt"])
    until("the second of the start to be over", lambda: datetime.now(UTC).timestamp() >= started.timestamp() + 1)
    again = NEW | {"memory": "257Mi"}
    resize(cluster, namespace, again)
    until("the cgroup to follow", lambda: limits(cluster, namespace) == again)
    healed = msgspec.convert(cluster.api.get(path), Pod)
    assert is_missed(healed) is False
    assert read_resize_time(healed) is not None
