"""`trellis nodes` removes a real node: its pods are evicted and end in their own time, and then the node goes.

The node belongs to a group of the provider kwok, which releases a node by deleting its object. kubelet runs on, and
does not register again. Containers that were left would run on as well. The tests share one drain.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from click.testing import CliRunner

from support.cluster.controllers import shipped_controllers
from support.cluster.nodes import QUICK, taints
from support.cluster.vpas import until_value, wait_for_further_passes
from support.node.drains import (
    NEVER_END,
    DrainWitness,
    end_in,
    get_order,
    is_terminating,
    observe_drain,
    read_reports,
    reporting_deployment,
)
from support.worlds.providers.kwok_nodes import group
from testbed.client import Json
from testbed.cluster import Cluster, is_ready
from testbed.kwok.nodes import Node
from testbed.node import sandbox
from testbed.node.real_node import RealNode
from testbed.waiting import until
from testbed.workloads import disruption_budget
from trellis.api.kinds.kwok_node_group import GROUP_LABEL
from trellis.cli.main import trellis
from trellis.core.nodes.state.readiness import LEAVING_TAINT

GROUP = "machines"
OTHER_NODE = "other"

# Of thirty seconds of grace one needs so many; another is killed when its grace period is over.
ENDING_SECONDS = 4
SHORT_GRACE_SECONDS = 8
LONG_GRACE_SECONDS = 30


class Drain(NamedTuple):
    """A drain from its beginning to its end: pods by Deployment, and what `trellis explain node` said on the way."""

    witness: DrainWitness
    reports: Path
    pods: dict[str, list[Json]]
    replacements: dict[str, list[Json]]
    explained_before: Any
    explained_meanwhile: Any

    @property
    def all_pods(self) -> list[Json]:
        """Those that were on the node."""
        return [pod for pods in self.pods.values() for pod in pods]


@pytest.fixture(scope="module")
def drain(cluster: Cluster, node: RealNode, tmp_path_factory: pytest.TempPathFactory) -> Drain:
    """The node is drained, first held up by a disruption budget that allows no eviction."""
    namespace = cluster.create_namespace("drain")
    reports = sandbox.get_directory() / "reports"
    reports.mkdir()
    budget = cluster.api.get_path(cluster.api.create(disruption_budget("guarded", minAvailable=2), namespace))
    pods = create_pods(cluster, namespace, reports)
    cluster.add_nodes(Node(name=OTHER_NODE, cpu="8", memory="16Gi"))
    path = f"/api/v1/nodes/{node.name}"
    cluster.api.patch(path, {"metadata": {"labels": {GROUP_LABEL: GROUP}}})
    declare_group(cluster)

    all_pods = [pod for of_name in pods.values() for pod in of_name]
    logs = tmp_path_factory.mktemp("nodes")
    with (
        shipped_controllers(cluster, logs, "nodes", lambda _: ["--scan-interval=1s", *QUICK]) as start,
        observe_drain(cluster, node, namespace, all_pods) as witness,
    ):
        before = explain_node(cluster, node)
        controller = start("")
        until_value(controller, "trellis_nodes_nodes", 1, outcome="Unneeded", reason="DisruptionBudgetExhausted")
        wait_for_further_passes(controller, "trellis_nodes")
        assert LEAVING_TAINT not in taints(cluster.api.get(path))
        cluster.api.patch(budget, {"spec": {"minAvailable": 1}})
        until("an eviction", lambda: any(is_terminating(pod) for pod in witness.pods))
        meanwhile = explain_node(cluster, node)
        until("the node to be removed", lambda: not witness.samples[-1].has_node)
        until("the end of its cgroups", lambda: not witness.samples[-1].in_kernel)
        replacements = {name: cluster.wait_for_ready_pods(namespace, name, len(pods[name])) for name in pods}
    witness.print_timeline(all_pods)
    return Drain(witness, reports, pods, replacements, before, meanwhile)


def test_a_node_is_kept_while_a_disruption_budget_allows_no_eviction(drain: Drain) -> None:
    assert drain.explained_before["outcome"] == "Unneeded"
    assert drain.explained_before["laterDecision"]["reason"]["code"] == "DisruptionBudgetExhausted"
    assert drain.explained_before["group"]["name"] == GROUP


def test_pods_are_evicted_after_the_node_is_tainted(drain: Drain) -> None:
    tainted = next(get_order(version) for version in drain.witness.nodes if LEAVING_TAINT in taints(version))
    for pod in drain.all_pods:
        eviction = drain.witness.get_eviction(pod["metadata"]["uid"])
        assert get_order(eviction) > tainted
        [reason] = {
            condition["reason"]
            for condition in eviction["status"]["conditions"]
            if condition["type"] == "DisruptionTarget"
        }
        assert reason == "EvictionByEvictionAPI"
    assert drain.explained_meanwhile["outcome"] == "Leaving"
    assert "going" in {pod["fate"] for pod in drain.explained_meanwhile["pods"]}


def test_a_container_that_needs_time_to_end_has_it(drain: Drain) -> None:
    [pod] = drain.pods["slow"]
    reports = read_reports(drain.reports, pod)
    assert ENDING_SECONDS <= reports["ended"] - reports["asked"] < LONG_GRACE_SECONDS
    assert drain.witness.get_end(pod["metadata"]["uid"])[1] == 0


def test_a_container_that_does_not_end_is_killed_after_its_grace_period(drain: Drain) -> None:
    [pod] = drain.pods["deaf"]
    reports = read_reports(drain.reports, pod)
    assert SHORT_GRACE_SECONDS - 1 < reports["alive"] - reports["asked"] < LONG_GRACE_SECONDS
    assert drain.witness.get_end(pod["metadata"]["uid"])[1] == 137


def test_a_disruption_budget_lets_pods_go_one_after_the_other(drain: Drain) -> None:
    evictions = sorted(get_order(drain.witness.get_eviction(pod["metadata"]["uid"])) for pod in drain.pods["guarded"])
    replaced = [
        get_order(next(filter(is_ready, drain.witness.get_versions(pod["metadata"]["uid"]))))
        for pod in drain.replacements["guarded"]
    ]
    assert evictions[0] < min(replaced) < evictions[1]


def test_replacements_run_on_another_node(drain: Drain, node: RealNode) -> None:
    assert {pod["spec"]["nodeName"] for pod in drain.all_pods} == {node.name}
    replacements = [pod for pods in drain.replacements.values() for pod in pods]
    assert {pod["spec"]["nodeName"] for pod in replacements} == {OTHER_NODE}


def test_a_node_is_removed_only_after_its_last_container_has_ended(drain: Drain) -> None:
    witness = drain.witness
    with_node = [sample for sample in witness.samples if sample.has_node]
    without_node = [sample for sample in witness.samples if not sample.has_node]
    assert len(with_node[0].running) == len(drain.all_pods)
    assert not any(sample.running for sample in without_node)
    removed = get_order(witness.nodes[-1])
    for pod in drain.all_pods:
        end, _ = witness.get_end(pod["metadata"]["uid"])
        assert get_order(end) < removed
    # The longest to end had the node until then. kubelet removes the cgroup of the pod a moment after that.
    [deaf] = drain.pods["deaf"]
    assert read_reports(drain.reports, deaf)["alive"] < without_node[0].at


def create_pods(cluster: Cluster, namespace: str, reports: Path) -> dict[str, list[Json]]:
    """Pods that end in different ways, Ready on the only node."""
    for made in (
        reporting_deployment("slow", end_in(ENDING_SECONDS), reports, grace_seconds=LONG_GRACE_SECONDS),
        reporting_deployment("deaf", NEVER_END, reports, grace_seconds=SHORT_GRACE_SECONDS),
        reporting_deployment("guarded", end_in(1), reports, grace_seconds=LONG_GRACE_SECONDS, replicas=2),
    ):
        cluster.api.create(made, namespace)
    counts = {"slow": 1, "deaf": 1, "guarded": 2}
    return {name: cluster.wait_for_ready_pods(namespace, name, count) for name, count in counts.items()}


def declare_group(cluster: Cluster) -> None:
    """The node's group, where `trellis nodes` and `trellis explain` look for it."""
    document = group(GROUP, resources={"cpu": "2", "memory": "4Gi"}, minSize=0, maxSize=1)
    metadata = {"name": "trellis-kwok-node-groups", "namespace": "kube-system"}
    data = {"groups.yaml": yaml.safe_dump(document)}
    cluster.api.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def explain_node(cluster: Cluster, node: RealNode) -> Any:
    """What `trellis explain node` says of it."""
    command = ["explain", "node", node.name, "--json", "--kubeconfig", str(cluster.kubeconfig)]
    result = CliRunner().invoke(trellis, command)
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.output)["node"]
