"""The node autoscaler on Machines of the real Cluster API: they come, become nodes, are drained and go."""

from __future__ import annotations

from pathlib import Path

from support.cluster.machines.cluster_api import ClusterApiGroups
from support.cluster.machines.external_grpc import GroupServer
from support.cluster.nodes import QUICK, Start, translated
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.waiting import until

WANTED = "nodes.trellis.x-k8s.io/wanted-replicas"


def test_machines_come_from_zero_for_pods_and_go_again_by_another_kubeconfig(
    cluster: Cluster, namespace: str, machine_groups: ClusterApiGroups, nodes: Start
) -> None:
    # The account of the autoscaler has no right to Machines: those are in the management cluster.
    machine_groups.declare()
    nodes(namespace, *QUICK, *machine_groups.flags, f"--cluster-api-kubeconfig={cluster.kubeconfig}")
    machine_groups.deploy("web", 5)
    until("the pods to run", lambda: len(machine_groups.running()) == 5)
    assert len(machine_groups.nodes()) == 2
    assert machine_groups.deployment()["spec"]["replicas"] == 2

    with cluster.api.watch(machine_groups.cluster_api.path("machines")) as versions:
        machine_groups.scale("web", 3)
        until("one node to go", lambda: len(machine_groups.nodes()) == 1)
        until("its Machine to go", lambda: len(machine_groups.machines()) == 1)
        until("the pods to run again", lambda: len(machine_groups.running()) == 3)
        machine_groups.scale("web", 0)
        until("all nodes to go", lambda: not machine_groups.nodes() and not machine_groups.machines())
    assert machine_groups.deployment()["spec"]["replicas"] == 0
    assert_only_released_machines_were_deleted(versions)


def test_a_buffer_is_kept_on_machines(
    cluster: Cluster, namespace: str, machine_groups: ClusterApiGroups, nodes: Start
) -> None:
    machine_groups.grant()
    machine_groups.declare()
    nodes(namespace, *machine_groups.flags)
    document, status = translated("spare", 4, machine_groups.pod_spec())
    cluster.api.create(document, namespace)
    path = f"/apis/autoscaling.x-k8s.io/v1alpha1/namespaces/{namespace}/buffers/spare/status"
    cluster.api.patch(path, {"status": status})
    until("the capacity", lambda: machine_groups.is_provisioned("spare"))
    assert len(machine_groups.ready_nodes()) == 1


def test_pods_that_a_blocked_drain_waits_for_get_a_machine(
    cluster: Cluster, namespace: str, machine_groups: ClusterApiGroups, nodes: Start
) -> None:
    machine_groups.grant()
    machine_groups.declare()
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    cluster.api.create(budget, namespace)
    nodes(namespace, *machine_groups.flags)
    machine_groups.deploy("web", 1, cpu="1500m")
    until("the pod to run", lambda: len(machine_groups.running()) == 1)
    [first] = machine_groups.machines()
    cluster.api.delete(machine_groups.cluster_api.path("machines", first))
    until("the drain to begin", lambda: machine_groups.machines()[first]["status"]["phase"] == "Deleting")

    # It would wait for a replica that takes the place of the Machine, which waits for this very pod.
    machine_groups.scale("web", 2)
    until("both pods to run", lambda: len(machine_groups.running()) == 2)
    until("the first Machine to go", lambda: first not in machine_groups.machines())
    until("the pods to run again", lambda: len(machine_groups.running()) == 2)
    until("the order to be finished", lambda: WANTED not in machine_groups.deployment()["metadata"]["annotations"])
    assert machine_groups.deployment()["spec"]["replicas"] == len(machine_groups.machines()) == 2


def test_a_client_orders_and_removes_machines_through_the_server(
    namespace: str, machine_groups: ClusterApiGroups, nodes: Start, tmp_path: Path
) -> None:
    machine_groups.declare()
    server = GroupServer(machine_groups.cluster, namespace, tmp_path, machine_groups.flags)
    try:
        nodes(namespace, *QUICK, *server.client_flags)
        machine_groups.deploy("web", 5)
        until("the pods to run", lambda: len(machine_groups.running()) == 5)
        assert len(machine_groups.nodes()) == 2
        with machine_groups.cluster.api.watch(machine_groups.cluster_api.path("machines")) as versions:
            machine_groups.scale("web", 0)
            until("all nodes to go", lambda: not machine_groups.nodes() and not machine_groups.machines())
        assert machine_groups.deployment()["spec"]["replicas"] == 0
        assert_only_released_machines_were_deleted(versions)
        assert "forbidden" not in server.running.read_logs()
    finally:
        server.close()


def assert_only_released_machines_were_deleted(versions: list[Json]) -> None:
    """Every Machine that was deleted had been released before."""
    deleted = [machine["metadata"] for machine in versions if "deletionTimestamp" in machine["metadata"]]
    assert deleted
    assert all("nodes.trellis.x-k8s.io/released" in metadata["annotations"] for metadata in deleted)
