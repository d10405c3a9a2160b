"""The slices that governance and usage read: what is in them, and what it means that the rest is not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from trellis.api.kube.decoder import decode_list, decode_object
from trellis.api.kube.observed_pods import ObservedAmounts, ObservedPod
from trellis.api.kube.observed_workloads import ObservedCronJob, ObservedReplicationController, ObservedWorkload
from trellis.core.cluster.store import index_by_owner, key_of
from trellis.kube.resources import OBSERVED_PODS, PODS, REPLICA_SETS


def pod(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **metadata: Any) -> ObservedPod:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec or {}, "status": status or {}}
    return decode_object(msgspec.json.encode(body), ObservedPod)


def test_a_pod_has_a_name_labels_and_a_controller() -> None:
    read = pod(
        name="web-1",
        namespace="shop",
        uid="u1",
        resourceVersion="42",
        creationTimestamp="2026-03-01T10:00:00Z",
        deletionTimestamp="2026-03-01T11:00:00Z",
        labels={"app": "web"},
        annotations={"not": "read"},
        ownerReferences=[
            {"apiVersion": "example.com/v1", "kind": "Fleet", "name": "f", "uid": "1"},
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "2", "controller": True},
            {"apiVersion": "apps/v1", "kind": "Odd", "name": "null", "uid": "3", "controller": False},
        ],
    ).metadata
    assert (read.namespace, read.name, read.uid, read.resource_version) == ("shop", "web-1", "u1", "42")
    assert (read.creation_timestamp, read.labels) == (datetime(2026, 3, 1, 10, tzinfo=UTC), {"app": "web"})
    assert read.deletion_timestamp is not None
    assert read.controller is not None
    assert (read.controller.kind, read.controller.name) == ("ReplicaSet", "web")


def test_owners_without_the_controller_field_are_no_controllers() -> None:
    bare = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "1"}
    assert pod(ownerReferences=[bare, {**bare, "controller": None}]).metadata.controller is None
    assert pod().metadata.controller is None


def test_an_observed_pod_has_the_key_and_owner_of_the_full_pod() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "2", "controller": True}
    read = pod(name="web-1", namespace="shop", ownerReferences=[owner])
    assert (key_of(read), index_by_owner(read)) == (("shop", "web-1"), ("2",))
    assert OBSERVED_PODS.path("shop", "web-1") == PODS.path("shop", "web-1")
    assert REPLICA_SETS.as_metadata().read_as(ObservedWorkload).metadata_only


def test_observed_containers_have_requests_and_sidecars_are_included() -> None:
    resources = {"limits": {"memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "512Mi", "nvidia.com/gpu": "1"}}
    spec = pod(
        {
            "initContainers": [{"name": "migrate"}, {"name": "proxy", "restartPolicy": "Always"}],
            "containers": [{"name": "app", "image": "ignored", "resources": resources}],
            "resources": {"requests": {"cpu": "3"}},
        }
    ).spec
    app, proxy = spec.running
    assert (app.resources.limits, app.resources.requests) == (
        ObservedAmounts("", "1Gi"),
        ObservedAmounts("500m", "512Mi"),
    )
    assert (proxy.name, proxy.is_sidecar, proxy.resources.requests) == ("proxy", True, ObservedAmounts())
    assert pod({"containers": [{"name": "app"}]}).spec.running[0].name == "app"


def test_observed_statuses_have_terminations_and_enforced_resources() -> None:
    killed = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-03-01T10:00:09Z"}}
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    enforced = {"requests": {"cpu": "1", "memory": "1Gi"}}
    [app] = pod(
        status={"containerStatuses": [{"name": "app", "state": waiting, "lastState": killed, "resources": enforced}]}
    ).status.container_statuses
    assert app.state.terminated is None
    assert app.last_state.terminated is not None
    assert (app.last_state.terminated.reason, app.last_state.terminated.finished_at) == (
        "OOMKilled",
        datetime(2026, 3, 1, 10, 0, 9, tzinfo=UTC),
    )
    assert app.resources is not None
    assert app.resources.requests == ObservedAmounts("1", "1Gi")


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", False)])
def test_of_the_conditions_only_readiness_is_kept_and_shared(status: str, ready: bool) -> None:
    others = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "ContainersReady")]
    conditions = [*others, {"type": "Ready", "status": status, "lastTransitionTime": "2026-03-01T10:00:00Z"}]
    one, other = (pod(status={"phase": "Running", "conditions": conditions}).status for _ in range(2))
    assert (one.ready, one.phase) == (ready, "Running")
    assert one.conditions is other.conditions
    assert len(one.conditions) == int(ready)


def test_a_pod_without_conditions_is_not_ready() -> None:
    assert not pod().status.ready
    assert not pod(status={"conditions": [{"type": "PodScheduled", "status": "True"}]}).status.ready


def test_nulls_and_numeric_quantities_are_repaired() -> None:
    read = pod({"containers": [{"name": "app", "resources": {"requests": {"cpu": 1, "memory": None}}}]}, name="a")
    assert read.spec.containers[0].resources.requests == ObservedAmounts("1", "")


def test_an_unreadable_pod_does_not_hide_other_pods() -> None:
    items = [{"metadata": {"name": "good"}}, {"metadata": {"name": "bad"}, "status": {"conditions": 3}}]
    decoded = decode_list(msgspec.json.encode({"items": items}), ObservedPod)
    assert [item.metadata.name for item in decoded.items] == ["good"]
    assert [rejected.name for rejected in decoded.rejected] == ["bad"]


def test_workloads_are_read_as_far_as_they_select() -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app"}]}}
    metadata = {"name": "web", "namespace": "shop"}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template, "replicas": 3}
    deployment = decode_object(msgspec.json.encode({"metadata": metadata, "spec": spec}), ObservedWorkload)
    assert deployment.spec.selector is not None
    assert deployment.spec.selector.match_labels == {"app": "web"}
    plain = {"metadata": metadata, "spec": {"selector": {"app": "web"}, "template": template}}
    assert decode_object(msgspec.json.encode(plain), ObservedReplicationController).spec.selector == {"app": "web"}
    nightly = {"metadata": metadata, "spec": {"jobTemplate": {"spec": {"template": template}}}}
    cron_job = decode_object(msgspec.json.encode(nightly), ObservedCronJob)
    assert cron_job.spec.job_template.spec.template.metadata.labels == {"app": "web"}
