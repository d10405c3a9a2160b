"""Crashing containers on a control plane whose kubelets lose resizes meanwhile, as kubelet 1.36 does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.cluster.updaters import NO_LEASE, Start, advise, by_uid, events, updaters, wait_for_two_passes
from support.cluster.vpas import metric_value, vpa
from testbed.client import STRATEGIC_PATCH, Json
from testbed.cluster import Cluster
from testbed.kwok import annotations as ask
from testbed.waiting import until
from testbed.workloads import container, deployment
from trellis.cli.main import trellis

SMALL = {"cpu": "100m", "memory": "128Mi"}
LARGE = {"cpu": "100m", "memory": "512Mi"}
NUDGED = {"cpu": "101m", "memory": "513Mi"}


@pytest.fixture
def updater(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Start `trellis updater` for the VPAs of one namespace."""
    with updaters(cluster, tmp_path) as start:
        yield start


def crashed(cluster: Cluster, namespace: str, mode: str) -> dict[str, Json]:
    """Two pods whose containers wait in their back-off, and a VPA that wants them larger."""
    app = container(resources={"requests": SMALL, "limits": SMALL})
    cluster.api.create(deployment("web", app, replicas=2), namespace)
    pods = by_uid(cluster.wait_for_ready_pods(namespace, "web", 2))
    for pod in pods.values():
        cluster.api.annotate(path_of(pod), {ask.CRASHED: "app"})
    until("the crashes", lambda: all("terminated" in status["state"] for status in statuses(cluster, namespace)))
    cluster.api.create(vpa("web", updatePolicy={"updateMode": mode}), namespace)
    return pods


def path_of(pod: Json) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def statuses(cluster: Cluster, namespace: str) -> list[Json]:
    return [pod["status"]["containerStatuses"][0] for pod in cluster.list_pods(namespace, "web")]


def cgroup_limits(pod: Json) -> Json:
    """The limits in the cgroup of a pod, whatever its status says."""
    [message] = [condition["message"] for condition in pod["status"]["conditions"] if condition["type"] == ask.CGROUP]
    limits: Json = json.loads(message)["app"]
    return limits


def in_cgroup(cluster: Cluster, namespace: str) -> list[Json]:
    return [cgroup_limits(pod) for pod in cluster.list_pods(namespace, "web")]


def cgroup_history(versions: list[Json]) -> dict[str, list[Json]]:
    """The limits that the cgroup of each pod had one after the other, by uid."""
    history: dict[str, list[Json]] = {}
    for pod in versions:
        limits = history.setdefault(pod["metadata"]["uid"], [])
        if limits[-1:] != [cgroup_limits(pod)]:
            limits.append(cgroup_limits(pod))
    return history


def explained(cluster: Cluster, namespace: str) -> str:
    [pod, _] = cluster.list_pods(namespace, "web")
    command = ["explain", "pod", pod["metadata"]["name"], "-n", namespace, "--kubeconfig", str(cluster.kubeconfig)]
    result = CliRunner().invoke(trellis, command)
    assert result.exit_code in (0, 1), (result.output, result.exception)
    return result.output


@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "InPlace"])
def test_a_pod_is_resized_when_its_container_runs_again(
    cluster: Cluster, namespace: str, updater: Start, mode: str
) -> None:
    before = crashed(cluster, namespace, mode)
    advise(cluster, namespace, "web", "100m", "512Mi")
    controller = updater(namespace, NO_LEASE, "--evict-after-container-down=1h")
    until("the Event", lambda: events(cluster, namespace, "ContainerDown"))
    wait_for_two_passes(controller)
    assert in_cgroup(cluster, namespace) == [SMALL] * 2
    assert [status["resources"]["limits"] for status in statuses(cluster, namespace)] == [SMALL] * 2
    assert "ContainerDown" in explained(cluster, namespace)
    for pod in before.values():
        cluster.api.annotate(path_of(pod), {ask.CRASHED: None})
    until("the cgroups to follow", lambda: in_cgroup(cluster, namespace) == [LARGE] * 2)
    wait_for_two_passes(controller)
    assert in_cgroup(cluster, namespace) == [LARGE] * 2
    assert by_uid(cluster.list_pods(namespace, "web")).keys() == before.keys()
    assert metric_value(controller, "vpa_updater_evicted_pods_total") == 0


def test_a_pod_whose_container_stays_down_is_evicted(cluster: Cluster, namespace: str, updater: Start) -> None:
    before = crashed(cluster, namespace, "InPlaceOrRecreate")
    advise(cluster, namespace, "web", "100m", "512Mi")
    with cluster.api.watch(f"/api/v1/namespaces/{namespace}/pods", labelSelector="app=web") as versions:
        controller = updater(namespace, NO_LEASE, "--evict-after-container-down=2s")
        until("an eviction", lambda: metric_value(controller, "vpa_updater_evicted_pods_total") >= 1)
        until("its end", lambda: before.keys() - by_uid(cluster.list_pods(namespace, "web")).keys())
    # Their successors run, so those may be resized.
    crashed_pods = [pod for pod in versions if pod["metadata"]["uid"] in before]
    assert all(pod["spec"]["containers"][0]["resources"]["limits"] == SMALL for pod in crashed_pods)


def test_a_resize_that_was_missed_is_written_once_more_also_after_a_restart_of_the_updater(
    cluster: Cluster, namespace: str, updater: Start
) -> None:
    before = crashed(cluster, namespace, "InPlace")
    for pod in before.values():
        resources = {"requests": LARGE, "limits": LARGE}
        patch = {"spec": {"containers": [{"name": "app", "resources": resources}]}}
        cluster.api.patch(f"{path_of(pod)}/resize", patch, STRATEGIC_PATCH)
    until(
        "the status", lambda: [status["resources"]["limits"] for status in statuses(cluster, namespace)] == [LARGE] * 2
    )
    for pod in before.values():
        cluster.api.annotate(path_of(pod), {ask.CRASHED: None})
    cluster.wait_for_ready_pods(namespace, "web", 2)
    assert in_cgroup(cluster, namespace) == [SMALL] * 2
    advise(cluster, namespace, "web", "100m", "512Mi")
    assert "ResizeMissed" in explained(cluster, namespace)
    # The updater recommends what the pods had before the nudge, with bounds that leave no room, so each pod has the
    # nudged size for a moment only, and the two pods not at the same time: a watch shows it, a poll may miss it.
    with cluster.api.watch(f"/api/v1/namespaces/{namespace}/pods", labelSelector="app=web") as versions:
        # The updater starts only now: it reads all of it from the pods.
        controller = updater(namespace, NO_LEASE)
        expected = {uid: [SMALL, NUDGED, LARGE] for uid in before}
        until("the cgroups to follow and to go back", lambda: cgroup_history(list(versions)) == expected)
        wait_for_two_passes(controller)
    assert cgroup_history(versions) == expected
    assert by_uid(cluster.list_pods(namespace, "web")).keys() == before.keys()
    assert metric_value(controller, "vpa_updater_in_place_updated_pods_total") == 4
    assert metric_value(controller, "vpa_updater_evicted_pods_total") == 0
