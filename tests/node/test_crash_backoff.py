"""Resizes and crash back-off: what kubelet does with a resize while a container is down, and how the updater copes.

kubernetes#138760: kubelet 1.36 leaves the cgroup of the pod as it is. The container that is started later has its new
limit, and is killed at the old one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.cluster.admission import admission_controllers, wait_for_webhook_calls
from support.cluster.controllers import shipped_controllers
from support.cluster.updaters import NO_LEASE, events, updaters
from support.cluster.vpas import EVERY_SECOND, get_memory_target, metric_value, vpa_path, wait_for_further_passes
from support.node.memory import (
    LOW_MINIMUM,
    MIB,
    STATE,
    STATE_MOUNT,
    count_restarts,
    crash_first,
    has_limit,
    hold,
    hold_later,
    holds_memory,
    is_down,
    is_running,
    list_ends,
    list_resizes,
    memory_vpa,
    read_memory_limit,
    read_state,
    read_status,
    wait_for_only_pod,
)
from support.node.pods import container, create_deployment, pod_spec, resize, wait_for_pod
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.node.real_node import RealNode
from testbed.waiting import until
from trellis.cli.main import trellis

Start = Callable[..., Controller]

SMALL = {"cpu": "50m", "memory": "100Mi"}
LARGE = {"cpu": "50m", "memory": "200Mi"}
LARGER = {"cpu": "50m", "memory": "220Mi"}

# More than the container has, and less than what is recommended after one kill.
NEEDED_MIB = 180


@pytest.fixture
def recommender(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Start `trellis recommender` for the VPAs of one namespace."""
    with shipped_controllers(cluster, tmp_path, "recommender", lambda _: [EVERY_SECOND, LOW_MINIMUM]) as start:
        yield start


@pytest.fixture
def updater(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Start `trellis updater` for the VPAs of one namespace."""
    with updaters(cluster, tmp_path) as start:
        yield start


@pytest.fixture
def sizing_updater(cluster: Cluster, tmp_path: Path, updater: Start) -> Iterator[Start]:
    """The same beside the webhook, so that the successors of evicted pods have the recommended size."""
    with admission_controllers(cluster, tmp_path) as admission:

        def start(namespace: str, *flags: str) -> Controller:
            admission(namespace)
            wait_for_webhook_calls(cluster, namespace)
            return updater(namespace, *flags)

        yield start


def test_kubelet_leaves_the_cgroup_of_a_pod_at_its_old_limit_if_a_resize_lands_in_crash_back_off(
    cluster: Cluster, node: RealNode, namespace: str
) -> None:
    """If this fails, kubelet has mended kubernetes#138760; the updater need not wait for containers of such a node."""
    app = container(command=crash_first(2), requests=SMALL, limits=SMALL, volumeMounts=[STATE_MOUNT])
    cluster.api.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": pod_spec(app, volumes=[STATE])},
        namespace,
    )
    # The first restart comes at once, the second after a back-off.
    pod = wait_for_pod(cluster, namespace, "web", lambda pod: is_down(pod, restarts=1))
    resized = resize(cluster, pod, "app", {"requests": LARGE, "limits": LARGE})
    assert (read_state(resized), count_restarts(resized)) == ("terminated", 1), "the resize came after the back-off"

    pod = wait_for_pod(cluster, namespace, "web", lambda pod: is_running(pod, restarts=2) and is_said_to_be_large(pod))
    until("kubelet to say that it is done", lambda: events(cluster, namespace, "ResizeCompleted"))
    assert has_limit(node.get_container_cgroup(pod, "app"), 200 * MIB)
    version = cluster.api.get(f"/api/v1/nodes/{node.name}")["status"]["nodeInfo"]["kubeletVersion"]
    assert has_limit(node.get_pod_cgroup(pod), 100 * MIB), (
        f"kubelet {version} applies a resize in crash back-off to the cgroup of the pod: kubernetes#138760 is mended. "
        "Say so in docs/concepts/actuation.md; this test is no longer needed."
    )

    resize(cluster, pod, "app", {"requests": LARGER, "limits": LARGER})
    until("another resize to heal the pod", lambda: has_limit(node.get_pod_cgroup(pod), 220 * MIB))


def is_said_to_be_large(pod: Json) -> bool:
    """Whether the status shows the new limit, and no condition a resize."""
    conditions = {condition["type"] for condition in pod["status"]["conditions"]}
    limits = read_status(pod).get("resources", {}).get("limits")
    return bool(limits == LARGE and not conditions & {"PodResizePending", "PodResizeInProgress"})


@pytest.mark.req("AR-21")
@pytest.mark.parametrize(("needed", "steps"), [(NEEDED_MIB, 1), (300, 2)])
def test_a_container_that_needs_more_memory_at_once_is_resized_while_it_runs_and_lives(
    cluster: Cluster, node: RealNode, namespace: str, recommender: Start, updater: Start, *, needed: int, steps: int
) -> None:
    """A resize in back-off would leave the pod at its old limit, and each kill then would raise the recommendation."""
    cluster.api.create(memory_vpa("web", "InPlaceOrRecreate"), namespace)
    recommender(namespace)
    controller = updater(namespace, NO_LEASE)
    with cluster.api.watch(f"/api/v1/namespaces/{namespace}/pods") as versions:
        create_deployment(
            cluster, namespace, "web", pod_spec(container(command=hold(needed), requests=SMALL, limits=SMALL))
        )
        pod = wait_until_it_lives(cluster, node, namespace, needed)
    target = get_memory_target(cluster, namespace, "web")
    report(versions, target)
    # Each step adds 100Mi and a margin of 15 %; kills under a limit that taught already teach nothing more.
    assert needed * MIB < target < needed * MIB * 1.4
    limits = {round(read_memory_limit(version) / 10 / MIB) for version in list_resizes(versions)}
    assert len(limits) == steps
    assert {read_state(version) for version in list_resizes(versions)} == {"running"}
    assert abs(read_memory_limit(pod) - target) <= MIB
    assert metric_value(controller, "vpa_updater_evicted_pods_total") == 0
    assert {version["metadata"]["uid"] for version in versions} == {pod["metadata"]["uid"]}


def test_a_missed_resize_is_repeated_when_the_container_runs_and_kills_before_that_raise_no_recommendation(
    cluster: Cluster, node: RealNode, namespace: str, recommender: Start, updater: Start
) -> None:
    cluster.api.create(memory_vpa("web", "InPlaceOrRecreate"), namespace)
    counted = recommender(namespace)
    app = container(
        command=hold_later(NEEDED_MIB, starts=2, seconds=3), requests=SMALL, limits=SMALL, volumeMounts=[STATE_MOUNT]
    )
    with cluster.api.watch(f"/api/v1/namespaces/{namespace}/pods") as versions:
        create_deployment(cluster, namespace, "web", pod_spec(app, volumes=[STATE]))
        pod = wait_for_only_pod(cluster, namespace, "web")
        name = pod["metadata"]["name"]
        wait_for_pod(cluster, namespace, name, lambda pod: is_down(pod, restarts=1))
        target = until("a recommendation", lambda: get_memory_target(cluster, namespace, "web"))
        # As an updater does that does not wait for the container.
        large = SMALL | {"memory": str(target)}
        resized = resize(cluster, pod, "app", {"requests": large, "limits": large})
        assert (read_state(resized), count_restarts(resized)) == ("terminated", 1), "the resize came after the back-off"

        pod = wait_for_pod(cluster, namespace, name, lambda pod: is_down(pod, restarts=2))
        assert read_status(pod)["resources"]["limits"]["memory"] == str(target)
        assert has_limit(node.get_pod_cgroup(pod), 100 * MIB)
        until(
            "all kills to be taken in",
            lambda: metric_value(counted, "trellis_recommender_oom_kills_total", result="Accepted") >= 3,
        )
        wait_for_further_passes(counted)
        assert get_memory_target(cluster, namespace, "web") == target
        explanation = explain_pod(cluster, pod)
        assert "ResizeMissed" in explanation
        assert "ContainerDown" in explanation

        controller = updater(namespace, NO_LEASE, "--evict-after-container-down=1h")
        pod = wait_until_it_lives(cluster, node, namespace)
    report(versions, target)
    assert get_memory_target(cluster, namespace, "web") == target
    assert [read_state(version) for version in list_resizes(versions)][1:] == ["running"]
    assert read_memory_limit(pod) == target + MIB
    assert metric_value(controller, "vpa_updater_in_place_updated_pods_total") == 1


@pytest.mark.req("AR-21")
def test_a_pod_whose_container_does_not_come_up_is_evicted_and_its_successor_lives(
    cluster: Cluster, node: RealNode, namespace: str, recommender: Start, sizing_updater: Start
) -> None:
    cluster.api.create(memory_vpa("web", "Off"), namespace)
    recommender(namespace)
    controller = sizing_updater(namespace, NO_LEASE, "--evict-after-container-down=1s")
    with cluster.api.watch(f"/api/v1/namespaces/{namespace}/pods") as versions:
        create_deployment(
            cluster, namespace, "web", pod_spec(container(command=hold(NEEDED_MIB), requests=SMALL, limits=SMALL))
        )
        first = wait_for_only_pod(cluster, namespace, "web")
        wait_for_pod(cluster, namespace, first["metadata"]["name"], lambda pod: is_down(pod, restarts=1))
        until("a recommendation", lambda: get_memory_target(cluster, namespace, "web"))
        # The container is in its back-off of ten seconds.
        cluster.api.patch(vpa_path(namespace, "web"), {"spec": {"updatePolicy": {"updateMode": "InPlaceOrRecreate"}}})
        until("an eviction", lambda: metric_value(controller, "vpa_updater_evicted_pods_total") >= 1)
        pod = wait_until_it_lives(cluster, node, namespace)
    target = get_memory_target(cluster, namespace, "web")
    report(versions, target)
    assert pod["metadata"]["uid"] != first["metadata"]["uid"]
    assert count_restarts(pod) == 0
    assert list(list_resizes(versions)) == []
    assert has_limit(node.get_pod_cgroup(pod), target)


def wait_until_it_lives(cluster: Cluster, node: RealNode, namespace: str, needed: int = NEEDED_MIB) -> Json:
    """The pod, once its container has the memory that it needs, and the kernel the limit that the API shows."""

    def find() -> Json | None:
        for pod in cluster.list_pods(namespace, "web"):
            if (
                is_running(pod)
                and holds_memory(node, pod, needed)
                and has_limit(node.get_pod_cgroup(pod), read_memory_limit(pod))
            ):
                return pod
        return None

    return until("the container to live with what it needs", find, 90.0)


def report(versions: list[Json], target: int) -> None:
    """Write what became of the pods, which pytest shows on request."""
    runs = list_ends(versions)
    limits = [round(read_memory_limit(version) / MIB) for version in list_resizes(versions)]
    sys.stdout.write(f"runs {runs}, resizes to {limits} Mi, target {target / MIB:.0f} Mi\n")


def explain_pod(cluster: Cluster, pod: Json) -> str:
    """What `trellis explain pod` prints."""
    metadata = pod["metadata"]
    command = ["explain", "pod", metadata["name"], "-n", metadata["namespace"]]
    result = CliRunner().invoke(trellis, [*command, "--kubeconfig", str(cluster.kubeconfig)])
    assert result.exit_code in (0, 1), (result.output, result.exception)
    return result.output
