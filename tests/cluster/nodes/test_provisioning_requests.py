"""ProvisioningRequests on a real control plane, under the account that is shipped: conditions as queues read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import testbed
from support.cluster.nodes import NodeGroups, Start
from support.cluster.rights import grant_switch
from support.cluster.updaters import events
from support.cluster.vpas import wait_for_further_passes
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.waiting import until
from testbed.workloads import container, pod
from trellis.install.permissions import PROVISIONING_REQUESTS
from trellis.runtime.recorder import read_recording
from trellis.sim.replay.replay import replay

DEFINITION = Path(testbed.__file__).parent / "definitions" / "provisioningrequests.yaml"
ON = ("--enable-provisioning-requests", "--provisioning-request-initial-backoff-time=3s")
ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CHECK = "check-capacity.autoscaling.x-k8s.io"
CONSUMES = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS = "autoscaling.x-k8s.io/provisioning-class-name"


@pytest.fixture
def served(cluster: Cluster, namespace: str) -> None:
    cluster.install_definitions([DEFINITION])
    grant_switch(cluster, "nodes", PROVISIONING_REQUESTS.key, namespace)


def create_request(cluster: Cluster, groups: NodeGroups, name: str, count: int, kind: str, **parameters: str) -> None:
    """A request as Kueue creates it: first the template, then the request that names it."""
    template: Json = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": f"ppt-{name}"}}
    template["template"] = {"metadata": {"labels": {"app": name}}, "spec": groups.pod_spec("900m")}
    cluster.api.create(template, groups.namespace)
    spec = {
        "provisioningClassName": kind,
        "podSets": [{"podTemplateRef": {"name": f"ppt-{name}"}, "count": count}],
        "parameters": parameters,
    }
    request = {"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": {"name": name}}
    cluster.api.create({**request, "spec": spec}, groups.namespace)


def create_consumers(cluster: Cluster, groups: NodeGroups, request: str, count: int) -> None:
    for number in range(count):
        annotations = {CONSUMES: request, CLASS: ATOMIC}
        made = pod(
            f"{request}-{number}",
            container(cpu="900m", memory="64Mi"),
            annotations=annotations,
            **groups.placement,
        )
        cluster.api.create(made, groups.namespace)


def conditions(cluster: Cluster, namespace: str, name: str) -> dict[str, tuple[str, str]]:
    path = f"/apis/autoscaling.x-k8s.io/v1/namespaces/{namespace}/provisioningrequests/{name}"
    written: list[dict[str, Any]] = cluster.api.get(path).get("status", {}).get("conditions", [])
    return {condition["type"]: (condition["status"], condition["reason"]) for condition in written}


@pytest.mark.usefixtures("served")
def test_an_atomic_request_gets_all_of_its_nodes_and_its_pods_run_on_them(
    cluster: Cluster, namespace: str, node_groups: NodeGroups, nodes: Start, tmp_path: Path
) -> None:
    file = tmp_path / "nodes.jsonl.gz"
    node_groups.declare(maxSize=3)
    controller = nodes(namespace, *ON, f"--record={file}")
    create_request(cluster, node_groups, "large", 7, ATOMIC)
    until(
        "the refusal",
        lambda: conditions(cluster, namespace, "large").get("Provisioned") == ("False", "CapacityIsNotFound"),
    )
    assert not node_groups.nodes()

    create_request(cluster, node_groups, "job", 4, ATOMIC)
    until("the order", lambda: conditions(cluster, namespace, "job").get("Provisioned", ("",))[0] == "True")
    assert conditions(cluster, namespace, "job") == {
        "Accepted": ("True", "Accepted"),
        "Provisioned": ("True", "CapacityIsProvisioned"),
    }
    until("the nodes", lambda: len(node_groups.ready_nodes()) == 2)
    create_consumers(cluster, node_groups, "job", 4)
    until("the pods to run", lambda: len(node_groups.running()) == 4)
    until(
        "the end of the booking",
        lambda: conditions(cluster, namespace, "job").get("BookingExpired") == ("True", "CapacityBookingConsumed"),
    )
    assert len(node_groups.nodes()) == 2
    assert conditions(cluster, namespace, "large")["Provisioned"] == ("False", "CapacityIsNotFound")
    for reason in ("CapacityIsNotFound", "CapacityIsProvisioned", "CapacityBookingConsumed"):
        until(f"the event {reason}", lambda reason=reason: events(cluster, namespace, reason) or None)  # type: ignore[misc]
    controller.process.stop()
    report = replay(read_recording(file))
    assert str(report) == f"{report.decisions} decisions, no differences"
    assert b"OrderedForProvisioningRequests" in b"".join(read_recording(file))


@pytest.mark.usefixtures("served")
def test_a_check_capacity_request_fails_or_is_provisioned_by_what_is_there(
    cluster: Cluster, namespace: str, node_groups: NodeGroups, nodes: Start
) -> None:
    node_groups.declare()
    controller = nodes(namespace, *ON)
    create_request(cluster, node_groups, "once", 2, CHECK, noRetry="true")
    until("the failure", lambda: conditions(cluster, namespace, "once").get("Failed") == ("True", "CapacityIsNotFound"))
    create_request(cluster, node_groups, "patient", 2, CHECK)
    until("the refusal", lambda: conditions(cluster, namespace, "patient").get("Provisioned", ("",))[0] == "False")
    assert not node_groups.nodes()

    node_groups.deploy("web", 1, cpu="100m")
    until("the capacity", lambda: conditions(cluster, namespace, "patient").get("Provisioned", ("",))[0] == "True")
    assert conditions(cluster, namespace, "patient")["Provisioned"] == ("True", "CapacityIsFound")

    # What is booked is not free for other pods.
    node_groups.deploy("other", 1, cpu="1")
    until("the pod to run", lambda: len(node_groups.running()) == 2)
    create_request(cluster, node_groups, "second", 2, CHECK)
    until("the refusal", lambda: conditions(cluster, namespace, "second").get("Provisioned", ("",))[0] == "False")
    wait_for_further_passes(controller, "trellis_nodes", 1)
    assert conditions(cluster, namespace, "once") == {
        "Accepted": ("True", "Accepted"),
        "Failed": ("True", "CapacityIsNotFound"),
    }
