"""Containers that run out of memory on a real node: killed by the kernel, sized by the recommender and the updater."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.cluster.controllers import shipped_controllers
from support.cluster.updaters import NO_LEASE, updaters
from support.cluster.vpas import (
    EVERY_SECOND,
    get_memory_target,
    metric_value,
    wait_for_further_passes,
)
from support.node.memory import (
    LOW_MINIMUM,
    MIB,
    ask_for_memory,
    count_restarts,
    has_limit,
    hold_when_asked,
    holds_memory,
    is_down,
    is_running,
    leak,
    list_resizes,
    memory_vpa,
    read_memory_limit,
    read_state,
    read_status,
    wait_for_only_pod,
)
from support.node.pods import container, create_deployment, pod_spec, wait_for_pod
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.node import cgroups
from testbed.node.real_node import RealNode
from testbed.waiting import until

Start = Callable[..., Controller]

SMALL = {"cpu": "50m", "memory": "100Mi"}
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


@pytest.mark.req("AR-21")
def test_one_kill_makes_one_recommendation_and_one_resize_and_the_container_lives(
    cluster: Cluster, node: RealNode, namespace: str, recommender: Start, updater: Start
) -> None:
    cluster.api.create(memory_vpa("web", "InPlaceOrRecreate"), namespace)
    recommender_controller = recommender(namespace)
    updater_controller = updater(namespace, NO_LEASE)
    with cluster.api.watch(f"/api/v1/namespaces/{namespace}/pods") as versions:
        app = container(command=hold_when_asked(NEEDED_MIB), requests=SMALL, limits=SMALL)
        create_deployment(cluster, namespace, "web", pod_spec(app))
        pod = wait_for_only_pod(cluster, namespace, "web")
        name = pod["metadata"]["name"]
        assert has_limit(node.get_pod_cgroup(pod), 100 * MIB)
        ask_for_memory(node.get_container_cgroup(pod, "app"))
        until("the kernel to kill", lambda: count_kills(node, pod) == 1)
        pod = wait_for_pod(cluster, namespace, name, lambda pod: is_running(pod, restarts=1))
        assert read_status(pod)["lastState"]["terminated"]["reason"] == "OOMKilled"

        target = until("a recommendation above what it had", lambda: raised_target(cluster, namespace, 100 * MIB))
        assert target > NEEDED_MIB * MIB
        until("the kernel to follow", lambda: has_limit(node.get_pod_cgroup(pod), target))
        kernel = node.get_container_cgroup(pod, "app")
        until("the container's cgroup to follow", lambda: has_limit(kernel, target))
        ask_for_memory(kernel)
        until("the container to hold what it needs", lambda: holds_memory(node, pod, NEEDED_MIB))
        wait_for_further_passes(recommender_controller)
        wait_for_further_passes(updater_controller, "vpa_updater")
    assert kernel.count_oom_kills() == 0
    assert metric_value(recommender_controller, "trellis_recommender_oom_kills_total", result="Accepted") == 1
    assert get_memory_target(cluster, namespace, "web") == target
    assert [(read_memory_limit(version), read_state(version)) for version in list_resizes(versions)] == [
        (target, "running")
    ]
    assert {(version["metadata"]["uid"], count_restarts(version)) for version in versions[-1:]} == {
        (pod["metadata"]["uid"], 1)
    }


def test_a_leak_is_given_more_until_max_allowed_and_a_crash_loop_of_another_cause_nothing(
    cluster: Cluster, node: RealNode, namespace: str, recommender: Start, updater: Start
) -> None:
    most = 300 * MIB
    for name in ("leak", "failing"):
        cluster.api.create(memory_vpa(name, "InPlaceOrRecreate", max_allowed=str(most)), namespace)
    recommender_controller = recommender(namespace)
    # Deployments of one replica each: kubelet and the back-off take most of the time.
    updater_controller = updater(namespace, NO_LEASE)
    with cluster.api.watch(f"/api/v1/namespaces/{namespace}/pods", labelSelector="app=leak") as versions:
        small = {"cpu": "200m", "memory": "64Mi"}
        commands = {"leak": leak(mib_per_second=50), "failing": ("sh", "-c", "sleep 3; exit 1")}
        for name, command in commands.items():
            app = container(command=command, requests=small, limits=small)
            create_deployment(cluster, namespace, name, pod_spec(app))
        leaking, failing = (wait_for_only_pod(cluster, namespace, name) for name in commands)
        until("the largest limit in the kernel", lambda: has_limit(node.get_pod_cgroup(leaking), most))
        restarts = count_restarts(versions[-1])
        wait_for_pod(cluster, namespace, leaking["metadata"]["name"], lambda pod: is_down(pod, restarts))
        wait_for_further_passes(recommender_controller)
        wait_for_further_passes(updater_controller, "vpa_updater")
    limits = [read_memory_limit(version) for version in list_resizes(versions)]
    assert limits == sorted(set(limits))
    assert limits[-1] == get_memory_target(cluster, namespace, "leak") == most
    assert {read_state(version) for version in list_resizes(versions)} == {"running"}
    assert has_limit(node.get_pod_cgroup(leaking), most)

    pod = wait_for_only_pod(cluster, namespace, "failing")
    assert pod["metadata"]["uid"] == failing["metadata"]["uid"]
    assert count_restarts(pod) >= 1
    assert get_memory_target(cluster, namespace, "failing") <= 64 * MIB
    assert metric_value(updater_controller, "vpa_updater_evicted_pods_total") == 0


def count_kills(node: RealNode, pod: Json) -> int:
    """How often the kernel has killed; version 1 counts in the cgroup of the container, which ends with it."""
    if cgroups.is_version_2():
        return node.get_pod_cgroup(pod).count_oom_kills()
    return node.get_container_cgroup(pod, "app").count_oom_kills()


def raised_target(cluster: Cluster, namespace: str, least: int) -> int | None:
    target = get_memory_target(cluster, namespace, "web")
    return target if target > least else None
