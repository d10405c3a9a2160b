"""Management and workload cluster apart: two API servers, and nodes of the one by Machines of the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from support.cluster.machines.cluster_api import ClusterApiGroups, cluster_api_groups
from support.cluster.nodes import QUICK, Start, node_controllers
from support.cluster.vpas import metric_value
from testbed.cluster import Cluster
from testbed.control_plane import BARE, ControlPlane
from testbed.scratch import scratch
from testbed.waiting import until
from trellis.cli.main import trellis

FAILURES = "trellis_nodes_provider_failures_total"


@pytest.fixture
def management() -> Iterator[ControlPlane]:
    """The control plane of Cluster API, which has no nodes."""
    with scratch() as directory, ControlPlane(directory, BARE | {"kube-controller-manager"}) as plane:
        yield plane


@pytest.fixture
def machine_groups(
    management: ControlPlane, cluster: Cluster, namespace: str, tmp_path: Path
) -> Iterator[ClusterApiGroups]:
    """Groups of Machines in the management cluster, for pods of the workload cluster."""
    with cluster_api_groups(cluster, namespace, tmp_path, management.cluster) as groups:
        yield groups


@pytest.fixture
def nodes(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Node autoscalers, which the management cluster refuses for a moment after its restart."""
    with node_controllers(cluster, tmp_path, restarts=True) as start:
        yield start


def test_machines_of_the_management_cluster_are_nodes_of_the_workload_cluster(
    management: ControlPlane, cluster: Cluster, namespace: str, machine_groups: ClusterApiGroups, nodes: Start
) -> None:
    machine_groups.declare()
    flags = (*machine_groups.flags, f"--cluster-api-kubeconfig={machine_groups.create_management_kubeconfig()}")
    controller = nodes(namespace, *QUICK, *flags)
    machine_groups.deploy("web", 5)
    until("the pods to run", lambda: len(machine_groups.running()) == 5)
    assert len(machine_groups.nodes()) == len(machine_groups.machines()) == 2
    assert management.cluster.api.list_items("/api/v1/nodes") == []
    [name, _] = sorted(machine_groups.nodes())
    assert explain(f"node/{name}", "--kubeconfig", str(cluster.kubeconfig), *flags)["node"]["group"]["size"] == 2

    # The management cluster is away: its silence is no order, and no removal.
    management.kill("kube-apiserver")
    until("the provider to be missed", lambda: metric_value(controller, FAILURES, call="groups") > 0)
    machine_groups.scale("web", 1)
    until("pods to go", lambda: len(machine_groups.pods()) == 1)
    passes = metric_value(controller, FAILURES, call="groups")
    until("further passes", lambda: metric_value(controller, FAILURES, call="groups") > passes + 1)
    assert len(machine_groups.nodes()) == 2
    management.start("kube-apiserver")
    management.wait_until_ready()

    until("one node to go", lambda: len(machine_groups.nodes()) == 1)
    until("its Machine to go", lambda: len(machine_groups.machines()) == 1)
    until("the pod to run", lambda: len(machine_groups.running()) == 1)
    machine_groups.scale("web", 0)
    until("all to go", lambda: not machine_groups.nodes() and not machine_groups.machines())


def explain(*arguments: str) -> Any:
    """The answer of `trellis explain` as data."""
    result = CliRunner().invoke(trellis, ["explain", *arguments, "-o", "json"])
    assert result.exit_code in (0, 1), result.output
    return json.loads(result.stdout)
