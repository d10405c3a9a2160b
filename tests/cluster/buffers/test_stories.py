"""The two stories of the Buffers proposal, by their own manifests, from the object to pods that need not wait."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from support.cluster.buffers import Start as StartBuffers
from support.cluster.buffers import buffer_controllers, count_chunks, get_requests
from support.cluster.nodes import NodeGroups, Start
from support.worlds.providers.kwok_nodes import group
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.errors import Refused
from testbed.waiting import until
from testbed.workloads import container, job

# As the proposal has them, to the letter.
STORY_1: Final = """
apiversion: autoscaling.x-k8s.io/v1alpha1
kind: Buffer
metadata:
  name: my-deployment-buffer
  namespace: my-namespace
spec:
  targetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: my-deployment
  type: buffer.x-k8s.io/active-capacity
  recreationStrategy: keep-empty
  replicaBasedBufferSpec:
    replicasCountPercentage: 10
    minCount: 1
"""
STORY_2: Final = """
apiversion: autoscaling.x-k8s.io/v1alpha1
kind: Buffer
metadata:
  name: testing-capacity
  namespace: my-namespace
spec:
  targetRef:
    apiVersion: apps/v1
    kind: CustomComputeClass
    name: my-custom-class
  type: buffer.x-k8s.io/active-capacity
  recreationStrategy: keep-empty
  nodeClassBufferSpec:
    totalCpu: 40
    totalMem: 5120Mi
"""
NAMESPACE: Final = "my-namespace"
ONE: Final = "my-deployment-buffer"
TWO: Final = "testing-capacity"
CLASS: Final = {"cloud.google.com/compute-class": "my-custom-class"}


@pytest.fixture
def buffers(cluster: Cluster, tmp_path: Path) -> Iterator[StartBuffers]:
    with buffer_controllers(cluster, tmp_path) as start:
        yield start


@pytest.fixture
def stories(cluster: Cluster) -> Iterator[NodeGroups]:
    """The stories' namespace, with a node group for the Deployment and one that is the class."""
    cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
    until("pods to be possible", lambda: cluster.api.find(account))
    node_groups = NodeGroups(cluster, NAMESPACE)
    declare(node_groups)
    yield node_groups
    node_groups.close()
    cluster.delete_namespace(NAMESPACE)


def declare(node_groups: NodeGroups) -> None:
    usual: Json = {
        "minSize": 0,
        "maxSize": 12,
        "bootTime": "2s",
        "taints": [{"key": NAMESPACE, "effect": "NoSchedule"}],
    }
    documents = [
        group(
            "serving",
            **usual,
            resources={"cpu": "2", "memory": "4Gi"},
            labels={"node_groups": node_groups.group, "tier": "web"},
        ),
        group(
            "ci",
            **usual,
            resources={"cpu": "7900m", "memory": "64Gi"},
            labels={"node_groups": node_groups.group, **CLASS},
        ),
    ]
    config: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "groups", "namespace": NAMESPACE}}
    node_groups.cluster.api.apply({**config, "data": {"groups.yaml": yaml.safe_dump_all(documents)}})


def checked(directory: Path, story: str) -> str:
    """What `trellis check` says of a manifest."""
    file = directory / "story.yaml"
    file.write_text(story)
    command = [str(Path(sys.executable).with_name("trellis")), "check", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def mended(cluster: Cluster, directory: Path, story: str) -> dict[str, Any]:
    """The manifest with what `trellis check` says must be, which the API server says too."""
    assert "apiversion" in checked(directory, story)
    with pytest.raises((Refused, KeyError)):
        cluster.api.create(yaml.safe_load(story), NAMESPACE)
    fixed = story.replace("apiversion:", "apiVersion:")
    assert "no problems" in checked(directory, fixed)
    result: dict[str, Any] = yaml.safe_load(fixed)
    return result


def ready_nodes_of(node_groups: NodeGroups, name: str) -> set[str]:
    """The ready nodes of a group."""
    marks = {"serving": {"tier": "web"}, "ci": CLASS}[name]
    nodes = node_groups.nodes()
    return {node for node in node_groups.ready_nodes() if marks.items() <= nodes[node]["metadata"]["labels"].items()}


@pytest.mark.req("BF-46", "BF-47")
@pytest.mark.req("BF-48", "BF-49")
def test_both_stories_run_by_their_own_manifests(
    cluster: Cluster, stories: NodeGroups, nodes: Start, buffers: StartBuffers, tmp_path: Path
) -> None:
    node_groups = stories
    nodes(NAMESPACE)
    buffers(NAMESPACE)

    # Story 1: two replicas fill a node, ten of them five.
    web = {"tolerations": node_groups.tolerations, "nodeSelector": {"tier": "web"}}
    node_groups.deploy("my-deployment", 10, cpu="900m", placement=web)
    until("the Deployment to run", lambda: len(node_groups.running()) == 10)
    assert len(ready_nodes_of(node_groups, "serving")) == 5
    cluster.api.create(mended(cluster, tmp_path, STORY_1), NAMESPACE)
    until("room for a tenth", lambda: count_chunks(cluster, NAMESPACE, ONE) == 1 and node_groups.is_provisioned(ONE))
    before = ready_nodes_of(node_groups, "serving")
    assert len(before) == 6
    # What an HPA does. The pod does not wait for a node, and the buffer is made anew behind it: 10 % of 11 are 2.
    node_groups.scale("my-deployment", 11)
    until("the pod to run", lambda: len(node_groups.running()) == 11)
    assert {pod["spec"]["nodeName"] for pod in node_groups.pods()} == before
    until("a tenth of eleven", lambda: count_chunks(cluster, NAMESPACE, ONE) == 2)
    until("room for it", lambda: len(ready_nodes_of(node_groups, "serving")) == 7 and node_groups.is_provisioned(ONE))

    # Story 2: the class has no node yet; once it has, chunks are as large as its nodes take.
    cluster.api.create(mended(cluster, tmp_path, STORY_2), NAMESPACE)
    until("chunks that fit the nodes", lambda: count_chunks(cluster, NAMESPACE, TWO) == 6)
    assert get_requests(cluster, NAMESPACE, TWO)["cpu"] == "6666m"
    until("room for them", lambda: len(ready_nodes_of(node_groups, "ci")) == 6 and node_groups.is_provisioned(TWO))
    before = ready_nodes_of(node_groups, "ci")
    # One-off tasks of the CI start on nodes that are there, and what they take is made anew.
    for number in range(3):
        task = job(f"task-{number}", container(cpu="6", memory="64Mi"))
        task["spec"]["template"]["spec"] |= {"tolerations": node_groups.tolerations, "nodeSelector": CLASS}
        cluster.api.create(task, NAMESPACE)
    until("the tasks to run", lambda: len(node_groups.running()) == 14)
    tasks = [pod for pod in node_groups.pods() if pod["metadata"]["name"].startswith("task-")]
    assert {task["spec"]["nodeName"] for task in tasks} <= before
    until("the capacity again", lambda: len(ready_nodes_of(node_groups, "ci")) == 9 and node_groups.is_provisioned(TWO))
