"""Many Machines ordered and removed while the autoscaler is killed at random moments, again and again.

`MACHINES_NODES` (40), `MACHINES_KILLS` (5) and `MACHINES_SEED` (1) make it larger, or another run; see CONTRIBUTING.md.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from support.cluster.machines.cluster_api import ClusterApiGroups
from support.cluster.nodes import LEAVING, QUICK, Start, taints
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.waiting import until
from testbed.workloads import container, deployment, disruption_budget

NODES = int(os.environ.get("MACHINES_NODES", "40"))
KILLS = int(os.environ.get("MACHINES_KILLS", "5"))
SEED = int(os.environ.get("MACHINES_SEED", "1"))
# A tenth of the nodes has a pod that its budget protects.
GUARDED = NODES // 10
# A machine in two seconds, on a machine that does much else.
PATIENCE_SECONDS = 300.0 + 4.0 * NODES
# Between two kills: in the first seconds a process fills its caches, decides, orders and marks.
LONGEST_LIFE_SECONDS = 12.0

RELEASED = "nodes.trellis.x-k8s.io/released"
NAMED = "cluster.x-k8s.io/delete-machine"
WANTED = "nodes.trellis.x-k8s.io/wanted-replicas"
FLAGS = (*QUICK, "--max-scale-down-parallelism=100", "--max-drain-parallelism=20")


class Killer:
    """Runs the autoscaler, and kills it at random moments until a condition holds or its kills are used up."""

    def __init__(self, start: Callable[..., Controller]) -> None:
        self._start = start
        self._random = Random(SEED)  # noqa: S311
        self.kills = 0

    def run(self, condition: str, holds: Callable[[], Any], kills: int) -> None:
        """Kill so many times while it does not hold, then let one process bring it about."""
        controller = self._start()
        for _ in range(kills):
            moment = time.monotonic() + self._random.uniform(0.2, LONGEST_LIFE_SECONDS)
            until("the moment", lambda moment=moment: time.monotonic() >= moment, LONGEST_LIFE_SECONDS + 5)  # type: ignore[misc]
            controller.process.kill()
            self.kills += 1
            controller = self._start()
        until(condition, holds, PATIENCE_SECONDS)
        controller.process.kill()


@pytest.mark.timeout(4 * PATIENCE_SECONDS + 2 * KILLS * LONGEST_LIFE_SECONDS)
def test_kills_at_random_moments_order_no_machine_twice_and_lose_none(
    cluster: Cluster, namespace: str, machine_groups: ClusterApiGroups, nodes: Start
) -> None:
    machine_groups.grant()
    machine_groups.declare(maxSize=2 * NODES)
    machines, api = machine_groups.cluster_api.path("machines"), cluster.api
    killer = Killer(lambda *flags: nodes(namespace, *FLAGS, *machine_groups.flags, *flags))
    with api.watch(machines, timeoutSeconds="36000") as versions:
        machine_groups.deploy("web", NODES, cpu="1500m")
        until("all pods to wait", lambda: count_unschedulable(machine_groups) == NODES, PATIENCE_SECONDS)
        killer.run("all pods to run", lambda: len(machine_groups.running()) == NODES, KILLS // 2)
        assert len({machine["metadata"]["name"] for machine in list(versions)}) == NODES
        assert not list_deleted(versions)

        guard(machine_groups)
        until("the guarded pods to run", lambda: len(list_guarded(machine_groups)) == GUARDED, PATIENCE_SECONDS)
        guarded = list_guarded(machine_groups)
        machine_groups.scale("web", 0)
        until("the others to go", lambda: len(machine_groups.pods()) == GUARDED, PATIENCE_SECONDS)
        killer.run("the empty nodes to go", lambda: len(machine_groups.machines()) == GUARDED, KILLS - KILLS // 2)

        # A process that is not killed finishes what is left, and has nothing more to do.
        nodes(namespace, *FLAGS, *machine_groups.flags)
        until("all to be settled", lambda: is_settled(machine_groups), PATIENCE_SECONDS)
        deleted = list_deleted(versions)
    assert killer.kills == KILLS
    assert list_guarded(machine_groups) == guarded
    assert len(deleted) == NODES - GUARDED
    assert all(RELEASED in machine["metadata"]["annotations"] for machine in deleted)
    left = machine_groups.machines()
    assert {machine["status"]["nodeRef"]["name"] for machine in left.values()} == set(guarded.values())
    assert {machine["metadata"]["name"] for machine in list(versions)} == left.keys() | {
        machine["metadata"]["name"] for machine in deleted
    }


def count_unschedulable(groups: ClusterApiGroups) -> int:
    return sum(
        any(condition.get("reason") == "Unschedulable" for condition in pod["status"].get("conditions", ()))
        for pod in groups.pods()
    )


def guard(groups: ClusterApiGroups) -> None:
    """Small pods, each on a node of its own, which a disruption budget lets go of under no circumstances."""
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "guarded"}}}
            ]
        }
    }
    own = container(cpu="100m", memory="64Mi")
    made = deployment("guarded", own, replicas=GUARDED, affinity=apart, **groups.placement)
    groups.cluster.api.create(disruption_budget("guarded", maxUnavailable=0), groups.namespace)
    groups.cluster.api.create(made, groups.namespace)


def list_guarded(groups: ClusterApiGroups) -> dict[str, str]:
    """The nodes of the guarded pods that run, by the pods' uids."""
    pods = groups.cluster.list_pods(groups.namespace, "guarded")
    return {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods if pod["status"]["phase"] == "Running"}


def list_deleted(versions: list[Json]) -> list[Json]:
    """The Machines of which a version was being deleted, as they were then."""
    deleting = {own["metadata"]["name"]: own for own in list(versions) if "deletionTimestamp" in own["metadata"]}
    return list(deleting.values())


def is_settled(groups: ClusterApiGroups) -> bool:
    """Whether Machines, Nodes and replicas are the same number, and nothing is marked."""
    machines, found, group = groups.machines(), groups.nodes(), groups.deployment()
    annotations = [*iterate_annotations(machines), group["metadata"]["annotations"]]
    return (
        len(machines) == len(found) == group["spec"]["replicas"] == GUARDED
        and not any(mark in own for own in annotations for mark in (RELEASED, NAMED, WANTED))
        and not any(LEAVING in taints(node) for node in found.values())
    )


def iterate_annotations(machines: dict[str, Json]) -> Iterator[Json]:
    for machine in machines.values():
        yield machine["metadata"].get("annotations", {})
