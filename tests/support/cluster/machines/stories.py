"""Stories of nodes that come and go. They hold whichever provider the machines come from.

    class TestStories(NodeStories):
        ...  # nothing of its own

A folder of tests has fixtures for its provider: `node_groups`, and where the provider needs one, a `cluster`.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from support.cluster.buffers import buffer_path
from support.cluster.nodes import LEAVING, QUICK, NodeGroups, Start, taints, translated
from support.cluster.vpas import metric_value, wait_for_further_passes
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.waiting import until
from testbed.workloads import container, disruption_budget, pod
from trellis.cli.main import trellis

# Moments at which a process is killed, in seconds after something to do has come.
KILLS = (0.3, 0.9, 1.7, 2.6, 4.0)


class NodeStories:
    """The stories, as tests."""

    @pytest.fixture
    def autoscaler(self, namespace: str, node_groups: NodeGroups, nodes: Start) -> Start:
        """Starts a node autoscaler with the provider of these groups, which removes nodes within seconds."""

        def start(*flags: str) -> Controller:
            return nodes(namespace, *node_groups.flags, *QUICK, *flags)

        return start

    def test_pods_get_nodes(self, node_groups: NodeGroups, autoscaler: Start) -> None:
        node_groups.declare()
        autoscaler()
        node_groups.deploy("web", 3, cpu="900m")
        until("the pods to run", lambda: len(node_groups.running()) == 3)
        assert len(node_groups.nodes()) == 2

    def test_a_burst_of_pods_gets_as_many_nodes_as_it_fills(self, node_groups: NodeGroups, autoscaler: Start) -> None:
        node_groups.declare(maxSize=10)
        controller = autoscaler()
        node_groups.deploy("web", 24)
        until("the pods to run", lambda: len(node_groups.running()) == 24)
        wait_for_further_passes(controller, "trellis_nodes", 2)
        # A pass may begin before all pods are there, and then leaves a part of a node free.
        assert 6 <= len(node_groups.nodes()) <= 7

    def test_the_capacity_of_a_buffer_is_used_at_once_and_kept(
        self, cluster: Cluster, namespace: str, node_groups: NodeGroups, autoscaler: Start
    ) -> None:
        node_groups.declare()
        autoscaler()
        create_buffer(cluster, namespace, node_groups, "spare", 3)
        until("its capacity", lambda: node_groups.is_provisioned("spare"))
        [name] = node_groups.ready_nodes()
        node_groups.deploy("web", 3)
        until("the pods to run", lambda: len(node_groups.running()) == 3)
        assert {pod["spec"]["nodeName"] for pod in node_groups.pods()} == {name}
        until("its capacity again", lambda: len(node_groups.ready_nodes()) == 2 and node_groups.is_provisioned("spare"))

    def test_a_group_keeps_its_minimum(self, node_groups: NodeGroups, autoscaler: Start) -> None:
        node_groups.declare(minSize=1)
        controller = autoscaler()
        node_groups.deploy("web", 2, cpu="1500m")
        until("the pods to run", lambda: len(node_groups.running()) == 2)
        node_groups.scale("web", 0)
        until("one node to go", lambda: len(node_groups.nodes()) == 1)
        until("the reason", lambda: metric_value(controller, "trellis_nodes_nodes", reason="GroupAtMinimum") > 0)
        assert len(node_groups.nodes()) == 1

    def test_a_dedicated_buffer_keeps_what_its_pods_do_not_use(
        self, cluster: Cluster, namespace: str, node_groups: NodeGroups, autoscaler: Start
    ) -> None:
        """What another controller translated for a selector; it takes chunks back as pods come."""
        node_groups.declare()
        autoscaler()
        create_buffer(cluster, namespace, node_groups, "own", 6)
        until("its capacity", lambda: len(node_groups.ready_nodes()) == 2 and node_groups.is_provisioned("own"))
        node_groups.deploy("web", 4)
        resize_buffer(cluster, namespace, node_groups, "own", 2)
        until("the pods to run", lambda: len(node_groups.running()) == 4)
        until(
            "no more nodes than are needed", lambda: len(node_groups.nodes()) == 2 and node_groups.is_provisioned("own")
        )

    def test_nodes_of_a_buffer_go_when_its_window_ends(
        self, cluster: Cluster, namespace: str, node_groups: NodeGroups, autoscaler: Start
    ) -> None:
        node_groups.declare()
        autoscaler()
        create_buffer(cluster, namespace, node_groups, "day", 4)
        until("its capacity", lambda: node_groups.is_provisioned("day"))
        resize_buffer(cluster, namespace, node_groups, "day", 0)
        until("the nodes to go", lambda: not node_groups.nodes())

    def test_a_drain_waits_for_a_disruption_budget(
        self, cluster: Cluster, namespace: str, node_groups: NodeGroups, autoscaler: Start
    ) -> None:
        node_groups.declare()
        controller = autoscaler()
        cluster.api.create(disruption_budget("web", minAvailable="100%"), namespace)
        node_groups.deploy("web", 3, cpu="900m")
        until("the pods to run", lambda: len(node_groups.running()) == 3)
        # One is left on each node, and both would fit on one.
        node_groups.scale("web", 2)
        until("the pod to go", lambda: len(node_groups.pods()) == 2)
        uids = {pod["metadata"]["uid"] for pod in node_groups.pods()}
        reason = {"reason": "DisruptionBudgetExhausted"}
        until("the reason", lambda: metric_value(controller, "trellis_nodes_nodes", **reason) > 0)
        assert len(node_groups.nodes()) == 2
        assert {pod["metadata"]["uid"] for pod in node_groups.pods()} == uids
        path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/web"
        cluster.api.patch(path, {"spec": {"minAvailable": 1}})
        until("the node to go", lambda: len(node_groups.nodes()) == 1)
        until("the pods to run", lambda: len(node_groups.running()) == 2)

    def test_pods_get_nodes_of_another_group_if_one_fails(self, node_groups: NodeGroups, autoscaler: Start) -> None:
        node_groups.declare_with_failing("RefuseOrders")
        controller = autoscaler("--max-node-provision-time=8s")
        node_groups.deploy("web", 2)
        until("the pods to run", lambda: len(node_groups.running()) == 2)
        assert metric_value(controller, "trellis_nodes_group_backoff_seconds") > 0
        assert {node_groups.get_group(node) for node in node_groups.nodes().values()} == {node_groups.group}

    def test_nodes_that_fail_to_start_are_released_and_replaced(
        self, node_groups: NodeGroups, autoscaler: Start
    ) -> None:
        node_groups.declare_with_failing("FailToStart")
        autoscaler("--max-node-provision-time=8s")
        node_groups.deploy("web", 1)
        until("the pod to run", lambda: len(node_groups.running()) == 1)
        until(
            "the failed node to go",
            lambda: {node_groups.get_group(node) for node in node_groups.nodes().values()} == {node_groups.group},
        )

    def test_kills_at_any_step_order_nothing_twice_and_lose_nothing(
        self, node_groups: NodeGroups, autoscaler: Start
    ) -> None:
        node_groups.declare(maxSize=20)
        for at in KILLS:
            node_groups.deploy(f"web-{at}".replace(".", "-"), 4)
            kill_after(autoscaler(), at)
        autoscaler("--scale-down-enabled=false")
        until("the pods to run", lambda: len(node_groups.running()) == 4 * len(KILLS))
        assert len(node_groups.nodes()) == len(KILLS)

    def test_kills_at_any_step_of_a_removal_leave_no_mark_and_no_node_too_few(
        self, node_groups: NodeGroups, autoscaler: Start
    ) -> None:
        node_groups.declare(maxSize=20)
        controller = autoscaler("--scale-down-enabled=false")
        node_groups.deploy("web", 16)
        until("the pods to run", lambda: len(node_groups.running()) == 16)
        controller.process.kill()
        node_groups.scale("web", 5)
        until("pods to go", lambda: len(node_groups.pods()) == 5)
        for at in KILLS:
            kill_after(autoscaler(), 2 * at)
        autoscaler()
        until("two nodes", lambda: len(node_groups.nodes()) == 2)
        until("the pods to run", lambda: len(node_groups.running()) == 5)
        until("no mark", lambda: not any(LEAVING in taints(node) for node in node_groups.nodes().values()))

    def test_two_leaders_order_no_more_than_one(self, node_groups: NodeGroups, autoscaler: Start) -> None:
        """Neither elects a leader: each believes that it is the only one."""
        node_groups.declare(maxSize=20)
        first, second = autoscaler("--scale-down-enabled=false"), autoscaler("--scale-down-enabled=false")
        node_groups.deploy("web", 12)
        until("the pods to run", lambda: len(node_groups.running()) == 12)
        for controller in (first, second):
            wait_for_further_passes(controller, "trellis_nodes", 2)
        assert len(node_groups.nodes()) == 3

    def test_a_group_scales_to_zero_and_back(self, node_groups: NodeGroups, autoscaler: Start) -> None:
        node_groups.declare()
        autoscaler()
        node_groups.deploy("web", 1)
        for _ in range(2):
            until("the pod to run", lambda: len(node_groups.running()) == 1)
            node_groups.scale("web", 0)
            until("no node", lambda: not node_groups.nodes())
            node_groups.scale("web", 1)
        until("the pod to run", lambda: len(node_groups.running()) == 1)

    def test_explanations_and_dumps_have_the_groups_of_the_provider(
        self, cluster: Cluster, namespace: str, node_groups: NodeGroups, autoscaler: Start, tmp_path: Path
    ) -> None:
        node_groups.declare(maxSize=3)
        autoscaler("--scale-down-enabled=false")
        node_groups.deploy("web", 1)
        cluster.api.create(pod("huge", container(cpu="40", memory="64Mi"), **node_groups.placement), namespace)
        until("the pod to run", lambda: len(node_groups.running()) == 1)
        [name] = node_groups.nodes()
        access, flags = ("--kubeconfig", str(cluster.kubeconfig)), node_groups.flags
        dump = str(tmp_path / "dump.jsonl.gz")
        assert CliRunner().invoke(trellis, ["dump", "-o", dump, *access, *flags]).exit_code == 0
        for source in ((*access, *flags), ("--dump", dump)):
            group = explain(f"node/{name}", *source)["node"]["group"]
            assert (group["name"].rpartition("/")[2], group["size"], group["most"]) == (node_groups.group, 1, 3)
            placement = explain("pod/huge", "-n", namespace, *source)["placement"]
            assert placement["decision"]["reason"]["code"] == "NoGroupFits"
            refused = [own.rpartition("/")[2] for refusal in placement["refused"] for own in refusal["groups"]]
            assert node_groups.group in refused


def explain(*arguments: str) -> Any:
    """The answer of `trellis explain` as data; it may be partial in a cluster without other components."""
    result = CliRunner().invoke(trellis, ["explain", *arguments, "-o", "json"])
    assert result.exit_code in (0, 1), result.output
    return json.loads(result.stdout)


def create_buffer(cluster: Cluster, namespace: str, node_groups: NodeGroups, name: str, chunks: int) -> None:
    """A Buffer whose translation another controller has written."""
    document, status = translated(name, chunks, node_groups.pod_spec())
    cluster.api.create(document, namespace)
    cluster.api.patch(buffer_path(namespace, name) + "/status", {"status": status})


def resize_buffer(cluster: Cluster, namespace: str, node_groups: NodeGroups, name: str, chunks: int) -> None:
    _, status = translated(name, chunks, node_groups.pod_spec())
    cluster.api.patch(buffer_path(namespace, name) + "/status", {"status": status})


def kill_after(controller: Controller, seconds: float) -> None:
    """Kill -9 at a moment of its work: it is not the time that matters, but that there are several."""
    deadline = time.monotonic() + seconds
    until("the moment", lambda: time.monotonic() >= deadline, seconds + 5)
    controller.process.kill()
