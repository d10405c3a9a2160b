from __future__ import annotations

from typing import Any

import msgspec
import pytest

from trellis.api.kube.decoder import decode_object
from trellis.api.kube.meta import LabelSelector
from trellis.api.kube.nodes import Node
from trellis.api.kube.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)

TEMPLATE: dict[str, Any] = {
    "metadata": {"creationTimestamp": None, "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "100m"}}}]},
}


@pytest.mark.parametrize("kind", [Deployment, ReplicaSet, StatefulSet])
def test_a_replicated_workload_has_count_selector_and_template(
    kind: type[Deployment | ReplicaSet | StatefulSet],
) -> None:
    body = {
        "metadata": {"name": "web"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
        "status": {"replicas": 5, "readyReplicas": 4, "availableReplicas": 3, "observedGeneration": 2},
    }
    read = decode_object(msgspec.json.encode(body), kind)
    assert read.spec.replicas == 0, "zero replicas are not an absent count"
    assert read.spec.selector == LabelSelector(match_labels={"app": "web"})
    assert read.spec.template.spec.containers[0].resources.requests == {"cpu": "100m"}
    assert (read.status.replicas, read.status.ready_replicas, read.status.available_replicas) == (5, 4, 3)


def test_a_manifest_without_replicas_says_nothing_about_the_count() -> None:
    assert decode_object(b'{"spec":{"template":{}}}', Deployment).spec.replicas is None


def test_a_stateful_set_names_the_claims_of_its_pods() -> None:
    body = b'{"spec":{"volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{"storageClassName":"fast"}}]}}'
    assert [claim.metadata.name for claim in decode_object(body, StatefulSet).spec.volume_claim_templates] == ["data"]


def test_a_replication_controller_selects_by_a_plain_map() -> None:
    body = {"spec": {"replicas": 2, "selector": {"app": "web"}, "template": TEMPLATE}}
    read = decode_object(msgspec.json.encode(body), ReplicationController)
    assert (read.spec.replicas, read.spec.selector) == (2, {"app": "web"})


def test_a_daemon_set_counts_nodes() -> None:
    body = {
        "spec": {
            "selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
            "template": TEMPLATE,
        },
        "status": {"desiredNumberScheduled": 7, "numberReady": 6, "numberAvailable": 5},
    }
    read = decode_object(msgspec.json.encode(body), DaemonSet)
    assert read.spec.selector is not None
    assert read.spec.selector.match_expressions[0].operator == "Exists"
    assert (read.status.desired_number_scheduled, read.status.number_ready) == (7, 6)


def test_a_job_counts_by_parallelism_and_a_cron_job_holds_a_jobs_template() -> None:
    job = {"parallelism": 4, "completions": 8, "suspend": True, "template": TEMPLATE}
    read = decode_object(msgspec.json.encode({"spec": job, "status": {"active": 3, "failed": 1}}), Job)
    assert (read.spec.parallelism, read.spec.completions, read.spec.suspend) == (4, 8, True)
    assert (read.status.active, read.status.failed) == (3, 1)
    cron = {"spec": {"schedule": "0 3 * * *", "timeZone": "Europe/Berlin", "jobTemplate": {"spec": job}}}
    made = decode_object(msgspec.json.encode(cron), CronJob)
    assert (made.spec.schedule, made.spec.time_zone) == ("0 3 * * *", "Europe/Berlin")
    assert made.spec.job_template.spec.template.metadata.labels == {"app": "web"}


def test_a_node_reports_what_pods_may_request_and_what_it_refuses() -> None:
    body = {
        "metadata": {"name": "node-1", "labels": {"topology.kubernetes.io/zone": "a"}},
        "spec": {
            "providerID": "kwok://node-1",
            "unschedulable": True,
            "taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule", "timeAdded": "2026-03-01T10:00:00Z"}],
        },
        "status": {
            "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"},
            "allocatable": {"cpu": "3920m", "memory": "15Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "Unknown", "lastHeartbeatTime": "2026-03-01T10:00:00Z"}],
            "nodeInfo": {"kubeletVersion": "v1.36.1", "operatingSystem": "linux", "architecture": "arm64"},
            "images": [{"names": ["ignored"], "sizeBytes": 1}],
        },
    }
    node = decode_object(msgspec.json.encode(body), Node)
    assert (node.spec.provider_id, node.spec.unschedulable) == ("kwok://node-1", True)
    assert (node.spec.taints[0].key, node.spec.taints[0].effect) == ("gpu", "NoSchedule")
    assert (node.status.capacity["cpu"], node.status.allocatable["cpu"]) == ("4", "3920m")
    assert (node.status.conditions[0].type, node.status.conditions[0].status) == ("Ready", "Unknown")
    assert (node.status.node_info.kubelet_version, node.status.node_info.architecture) == ("v1.36.1", "arm64")
