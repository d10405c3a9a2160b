"""Resizes on the testbed are actuated, or come to rest as a test asks."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.client import STRATEGIC_PATCH
from testbed.cluster import Cluster
from testbed.errors import Refused
from testbed.kwok import annotations as ask
from testbed.waiting import until
from testbed.workloads import container, pod

Json = dict[str, Any]

OLD = {"cpu": "100m", "memory": "128Mi"}
NEW = {"cpu": "250m", "memory": "256Mi"}


def test_a_resize_is_actuated_in_the_status(cluster: Cluster, namespace: str) -> None:
    cluster.api.create(pod("web", container("app"), container("other")), namespace)
    cluster.wait_for_ready_pods(namespace, "web")
    changed = _resize(cluster, namespace, "web", NEW)
    settled = until("the resize", lambda: _settled(cluster, namespace, "web", NEW))
    assert _status(settled)["resources"] == {"requests": NEW}
    assert _status(settled)["allocatedResources"] == NEW
    assert _status(settled)["restartCount"] == 0
    assert _status(settled, "other")["resources"] == {"requests": OLD}
    assert settled["status"]["observedGeneration"] == changed["metadata"]["generation"]


def test_limits_and_sidecars_are_resized_too(cluster: Cluster, namespace: str) -> None:
    resources = {"requests": OLD, "limits": NEW}
    sidecar = container("mesh", restartPolicy="Always", resources=resources)
    setup = container("setup")
    cluster.api.create(pod("web", container("app", resources=resources), initContainers=[setup, sidecar]), namespace)
    cluster.wait_for_ready_pods(namespace, "web")
    larger = {"requests": OLD | {"cpu": "150m"}, "limits": NEW | {"cpu": "300m"}}
    path = f"/api/v1/namespaces/{namespace}/pods/web/resize"
    patch = {
        "containers": [{"name": "app", "resources": larger}],
        "initContainers": [{"name": "mesh", "resources": larger}],
    }
    cluster.api.patch(path, {"spec": patch}, STRATEGIC_PATCH)
    settled = until("the resize", lambda: _settled(cluster, namespace, "web", larger["requests"]))
    statuses = {status["name"]: status for status in settled["status"]["initContainerStatuses"]}
    assert _status(settled)["resources"] == larger
    assert statuses["mesh"]["resources"] == larger
    assert "terminated" in statuses["setup"]["state"]


@pytest.mark.parametrize("reason", [ask.DEFERRED, ask.INFEASIBLE])
def test_a_resize_waits_with_a_reason_on_demand(cluster: Cluster, namespace: str, reason: str) -> None:
    cluster.api.create(pod("web", annotations={ask.RESIZE: reason}), namespace)
    cluster.wait_for_ready_pods(namespace, "web")
    changed = _resize(cluster, namespace, "web", NEW)
    condition = until("the condition", lambda: _condition(cluster, namespace, "web", "PodResizePending"))
    assert condition["reason"] == reason
    assert condition["observedGeneration"] == changed["metadata"]["generation"]
    waiting = cluster.api.get(_path(namespace, "web"))
    assert _status(waiting)["resources"] == {"requests": OLD}
    assert _status(waiting)["allocatedResources"] == OLD

    cluster.api.annotate(_path(namespace, "web"), {ask.RESIZE: None})
    until("the resize", lambda: _settled(cluster, namespace, "web", NEW))
    until("the condition to go", lambda: _condition(cluster, namespace, "web", "PodResizePending") is None)


def test_taking_back_a_deferred_resize_settles_it(cluster: Cluster, namespace: str) -> None:
    cluster.api.create(pod("web", annotations={ask.RESIZE: ask.DEFERRED}), namespace)
    cluster.wait_for_ready_pods(namespace, "web")
    _resize(cluster, namespace, "web", NEW)
    until("the condition", lambda: _condition(cluster, namespace, "web", "PodResizePending"))
    _resize(cluster, namespace, "web", OLD)
    until("the condition to go", lambda: _condition(cluster, namespace, "web", "PodResizePending") is None)


def test_a_resize_can_be_allocated_and_not_actuated(cluster: Cluster, namespace: str) -> None:
    cluster.api.create(pod("web", annotations={ask.RESIZE: ask.IN_PROGRESS}), namespace)
    cluster.wait_for_ready_pods(namespace, "web")
    _resize(cluster, namespace, "web", NEW)
    until("the condition", lambda: _condition(cluster, namespace, "web", "PodResizeInProgress"))
    going = cluster.api.get(_path(namespace, "web"))
    assert _status(going)["allocatedResources"] == NEW
    assert _status(going)["resources"] == {"requests": OLD}


def test_a_held_resize_leaves_no_trace(cluster: Cluster, namespace: str) -> None:
    for name, held in {"held": {ask.RESIZE: ask.HELD}, "free": {}}.items():
        cluster.api.create(pod(name, annotations=held), namespace)
        cluster.wait_for_ready_pods(namespace, name)
        _resize(cluster, namespace, name, NEW)
    # Held was asked for first: once the other is done, it would have been too.
    until("the other resize", lambda: _settled(cluster, namespace, "free", NEW))
    held_pod = cluster.api.get(_path(namespace, "held"))
    assert _status(held_pod)["allocatedResources"] == OLD
    assert not [
        condition for condition in held_pod["status"]["conditions"] if condition["type"].startswith("PodResize")
    ]


def test_pod_level_resources_are_resized(cluster: Cluster, namespace: str) -> None:
    cluster.api.create(pod("web", container("app", resources={}), resources={"requests": OLD}), namespace)
    (before,) = cluster.wait_for_ready_pods(namespace, "web")
    assert before["status"]["allocatedResources"] == OLD
    cluster.api.patch(f"{_path(namespace, 'web')}/resize", {"spec": {"resources": {"requests": NEW}}}, STRATEGIC_PATCH)

    def resized() -> Json | None:
        status: Json = cluster.api.get(_path(namespace, "web"))["status"]
        return status if status["resources"] == {"requests": NEW} else None

    assert until("the resize", resized)["allocatedResources"] == NEW


def test_a_resize_beyond_the_node_is_refused_by_the_api_server(cluster: Cluster, namespace: str) -> None:
    cluster.api.create(pod("web"), namespace)
    cluster.wait_for_ready_pods(namespace, "web")
    with pytest.raises(Refused, match="didn't have enough allocatable resources: cpu") as refusal:
        _resize(cluster, namespace, "web", {"cpu": "1000"})
    assert refusal.value.status == 403


def _path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def _resize(cluster: Cluster, namespace: str, name: str, requests: Json) -> Json:
    body = {"spec": {"containers": [{"name": "app", "resources": {"requests": requests}}]}}
    return cluster.api.patch(f"{_path(namespace, name)}/resize", body, STRATEGIC_PATCH)


def _status(value: Json, name: str = "app") -> Json:
    result: Json = next(status for status in value["status"]["containerStatuses"] if status["name"] == name)
    return result


def _settled(cluster: Cluster, namespace: str, name: str, requests: Json) -> Json | None:
    result = cluster.api.get(_path(namespace, name))
    return result if _status(result)["resources"].get("requests") == requests else None


def _condition(cluster: Cluster, namespace: str, name: str, kind: str) -> Json | None:
    conditions = cluster.api.get(_path(namespace, name))["status"]["conditions"]
    return next((condition for condition in conditions if condition["type"] == kind), None)
