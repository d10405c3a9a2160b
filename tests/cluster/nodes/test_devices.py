"""Pods with resource claims on a real control plane: the real scheduler allocates devices of the nodes they get."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.nodes import QUICK, NodeGroups, Start
from support.cluster.updaters import events
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.waiting import until
from testbed.workloads import container, deployment, pod
from trellis.runtime.recorder import read_recording
from trellis.sim.replay.replay import replay

API = "resource.k8s.io/v1"
SLICES = f"/apis/{API}/resourceslices"


class Devices:
    """A driver of one namespace, whose devices the test publishes for the nodes of the group."""

    def __init__(self, cluster: Cluster, groups: NodeGroups) -> None:
        self.cluster, self.groups, self.namespace = cluster, groups, groups.namespace
        # The class has another name than the driver: the group says which is whose.
        self.driver, self.device_class = f"{groups.namespace}.example.com", f"gpu.{groups.namespace}"
        expression = {"cel": {"expression": f'device.driver == "{self.driver}"'}}
        self._create("DeviceClass", self.device_class, {"selectors": [expression]})
        self._create_template("one")
        self._create_template("picky", selectors=[expression])

    def publish(self) -> int:
        """Publish the devices of nodes that are ready and have none yet; returns how many nodes have some."""
        published = set(self._list_slices())
        for name in self.groups.ready_nodes():
            if name not in published:
                pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
                devices = [{"name": f"gpu-{number}"} for number in range(2)]
                spec = {"driver": self.driver, "nodeName": name, "pool": pool, "devices": devices}
                self._create("ResourceSlice", name, spec)
                published.add(name)
        return len(published)

    def claims(self, template: str) -> Json:
        """Fields of a pod's spec."""
        return {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}], **self.groups.placement}

    def count_allocated(self) -> int:
        """The devices that claims of the namespace have."""
        claims = self.cluster.api.list_items(f"/apis/{API}/namespaces/{self.namespace}/resourceclaims")
        allocations = (claim.get("status", {}).get("allocation", {}) for claim in claims)
        return sum(len(allocation.get("devices", {}).get("results", ())) for allocation in allocations)

    def close(self) -> None:
        for name in self._list_slices():
            self.cluster.api.delete(f"{SLICES}/{name}")
        self.cluster.api.delete(f"/apis/{API}/deviceclasses/{self.device_class}")

    def _create_template(self, name: str, **request: object) -> None:
        exactly = {"deviceClassName": self.device_class, **request}
        spec = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
        self._create("ResourceClaimTemplate", name, spec, self.namespace)

    def _create(self, kind: str, name: str, spec: Json, namespace: str = "") -> None:
        document = {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}
        self.cluster.api.create(document, namespace)

    def _list_slices(self) -> list[str]:
        items = self.cluster.api.list_items(SLICES)
        return [item["metadata"]["name"] for item in items if item["spec"]["driver"] == self.driver]


@pytest.fixture
def devices(cluster: Cluster, node_groups: NodeGroups) -> Iterator[Devices]:
    made = Devices(cluster, node_groups)
    try:
        yield made
    finally:
        made.close()


def test_pods_with_claims_get_nodes_with_as_many_devices_and_others_are_left_alone(
    node_groups: NodeGroups, nodes: Start, devices: Devices, tmp_path: Path
) -> None:
    cluster, namespace = devices.cluster, devices.namespace
    file = tmp_path / "nodes.jsonl.gz"
    declared = {"deviceClass": devices.device_class, "driver": devices.driver, "count": 2}
    node_groups.declare(devices=[declared])
    controller = nodes(namespace, *QUICK, f"--record={file}")
    usual = container(cpu="10m", memory="16Mi")
    cluster.api.create(deployment("train", usual, replicas=4, **devices.claims("one")), namespace)
    until("two nodes with devices", lambda: devices.publish() == 2)
    until("the pods to run", lambda: len(node_groups.running()) == 4)
    assert len(node_groups.nodes()) == 2
    assert devices.count_allocated() == 4

    cluster.api.create(pod("picky", usual, **devices.claims("picky")), namespace)
    until(
        "the reason of the pod",
        lambda: any(
            "it has selectors, which are not evaluated" in event["message"]
            for event in events(cluster, namespace, "NotTriggerScaleUp")
        ),
    )

    cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods/picky")
    # The pods that stay are on one node, or one of them moves to where devices are left.
    node_groups.scale("train", 2)
    until("the node to go that is not needed", lambda: len(node_groups.nodes()) == 1 and devices.count_allocated() == 2)
    until("the pods to run", lambda: len(node_groups.running()) == 2)

    controller.process.stop()
    report = replay(read_recording(file))
    assert str(report) == f"{report.decisions} decisions, no differences"
    assert b"ResourceClaimsNotModelled" in b"".join(read_recording(file))
