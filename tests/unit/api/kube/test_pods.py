from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from trellis.api.kube.decoder import decode_object
from trellis.api.kube.pods import READY, RESIZE_IN_PROGRESS, RESIZE_PENDING, Pod, PodTemplate


def pod(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **metadata: Any) -> Pod:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec or {},
        "status": status or {},
    }
    return decode_object(msgspec.json.encode(body), Pod)


def test_metadata_distinguishes_the_controller_from_other_owners() -> None:
    read = pod(
        name="web-7d9f-abcde",
        namespace="shop",
        uid="0b0e",
        resourceVersion="42",
        generation=3,
        creationTimestamp="2026-03-01T10:00:00Z",
        deletionTimestamp="2026-03-01T11:00:00+01:00",
        labels={"app": "web"},
        annotations={"vpaObservedContainers": "app, proxy"},
        ownerReferences=[
            {"apiVersion": "example.com/v1", "kind": "Fleet", "name": "f", "uid": "1"},
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "web-7d9f",
                "uid": "2",
                "controller": True,
            },
        ],
    ).metadata
    assert (read.namespace, read.name, read.uid, read.resource_version) == (
        "shop",
        "web-7d9f-abcde",
        "0b0e",
        "42",
    )
    assert read.generation == 3
    assert read.creation_timestamp == read.deletion_timestamp == datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert read.labels == {"app": "web"}
    assert read.controller is not None
    assert (read.controller.kind, read.controller.name) == ("ReplicaSet", "web-7d9f")


def test_a_pod_without_owners_has_no_controller() -> None:
    assert pod(name="bare").metadata.controller is None


def test_a_native_sidecar_is_distinguished_from_an_init_container() -> None:
    read = pod(
        {
            "initContainers": [
                {"name": "migrate", "resources": {"requests": {"cpu": "1"}}},
                {"name": "proxy", "restartPolicy": "Always", "startupProbe": {"httpGet": {"port": 15021}}},
            ],
            "containers": [{"name": "app"}],
        }
    )
    migrate, proxy = read.spec.init_containers
    assert (migrate.is_sidecar, proxy.is_sidecar) == (False, True)
    assert proxy.startup_probe is not None
    assert migrate.startup_probe is None
    assert migrate.resources.requests == {"cpu": "1"}


def test_container_resources_and_resize_policy_are_read() -> None:
    [app] = pod(
        {
            "containers": [
                {
                    "name": "app",
                    "image": "ignored",
                    "env": [{"name": "SECRET", "value": "ignored"}],
                    "ports": [{"containerPort": 53, "hostPort": 53, "hostIP": "10.0.0.1", "protocol": "UDP"}],
                    "resources": {
                        "limits": {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"},
                        "requests": {"cpu": "500m", "memory": "512Mi"},
                        "claims": [{"name": "gpu", "request": "one"}],
                    },
                    "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}],
                    "readinessProbe": {"exec": {"command": ["true"]}},
                }
            ]
        }
    ).spec.containers
    assert app.resources.limits == {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"}
    assert app.resources.requests == {"cpu": "500m", "memory": "512Mi"}
    assert [claim.name for claim in app.resources.claims] == ["gpu"]
    assert [(p.resource_name, p.restart_policy) for p in app.resize_policy] == [("memory", "RestartContainer")]
    assert (app.ports[0].host_port, app.ports[0].host_ip, app.ports[0].protocol) == (53, "10.0.0.1", "UDP")
    assert app.readiness_probe is not None


def test_everything_the_scheduler_filters_by_is_read() -> None:
    expression = {"key": "zone", "operator": "In", "values": ["a", "b"]}
    term = {
        "labelSelector": {"matchLabels": {"app": "web"}},
        "topologyKey": "kubernetes.io/hostname",
        "namespaces": ["shop"],
        "namespaceSelector": {},
        "matchLabelKeys": ["pod-template-hash"],
    }
    spec = pod(
        {
            "nodeName": "node-1",
            "nodeSelector": {"disk": "ssd"},
            "hostNetwork": True,
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [expression]}]
                    },
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 5, "preference": {"matchExpressions": [expression]}}
                    ],
                },
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [term],
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "podAffinityTerm": term}],
                },
            },
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 60}],
            "topologySpreadConstraints": [
                {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 3}
            ],
            "schedulerName": "other",
            "priorityClassName": "high",
            "priority": 1000,
            "runtimeClassName": "gvisor",
            "overhead": {"cpu": "250m"},
            "resources": {"requests": {"cpu": "3"}},
            "schedulingGates": [{"name": "example.com/wait"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
            "os": {"name": "linux"},
            "terminationGracePeriodSeconds": 0,
        }
    ).spec
    assert spec.affinity is not None
    node, anti = spec.affinity.node_affinity, spec.affinity.pod_anti_affinity
    assert node is not None
    assert node.required is not None
    assert node.required.node_selector_terms[0].match_expressions[0].values == ("a", "b")
    assert (node.preferred[0].weight, node.preferred[0].preference.match_expressions[0].key) == (5, "zone")
    assert anti is not None
    assert anti.required[0] == anti.preferred[0].pod_affinity_term
    assert anti.required[0].topology_key == "kubernetes.io/hostname"
    assert anti.required[0].match_label_keys == ("pod-template-hash",)
    assert anti.required[0].namespace_selector is not None, "an empty selector means all, an absent one none"
    assert spec.tolerations[0].toleration_seconds == 60
    assert (
        spec.topology_spread_constraints[0].max_skew,
        spec.topology_spread_constraints[0].min_domains,
    ) == (2, 3)
    assert spec.resources is not None
    assert (spec.overhead, spec.resources.requests) == ({"cpu": "250m"}, {"cpu": "3"})
    assert (spec.node_selector, spec.node_name, spec.host_network) == ({"disk": "ssd"}, "node-1", True)
    assert (spec.scheduler_name, spec.priority_class_name, spec.priority) == ("other", "high", 1000)
    assert (spec.runtime_class_name, spec.scheduling_gates[0].name) == ("gvisor", "example.com/wait")
    assert spec.resource_claims[0].resource_claim_template_name == "one-gpu"
    assert spec.os is not None
    assert spec.os.name == "linux"
    assert spec.termination_grace_period_seconds == 0, "zero, not absent: the pod is killed at once"


def test_volumes_show_what_binds_a_pod_to_a_node_or_zone() -> None:
    data, scratch, host, made, config = pod(
        {
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}},
                {"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
                {"name": "host", "hostPath": {"path": "/var/log"}},
                {"name": "made", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                {"name": "config", "configMap": {"name": "web"}},
            ]
        }
    ).spec.volumes
    assert data.persistent_volume_claim is not None
    assert data.persistent_volume_claim.claim_name == "data-web-0"
    assert scratch.empty_dir is not None
    assert (scratch.empty_dir.medium, scratch.empty_dir.size_limit) == ("Memory", "1Gi")
    assert host.host_path is not None
    assert made.ephemeral is not None
    assert (config.host_path, config.empty_dir, config.persistent_volume_claim, config.ephemeral) == (None,) * 4


def test_an_oom_kill_is_in_the_last_state() -> None:
    [app] = pod(
        status={
            "containerStatuses": [
                {
                    "name": "app",
                    "ready": False,
                    "started": True,
                    "restartCount": 4,
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": {
                        "terminated": {
                            "exitCode": 137,
                            "reason": "OOMKilled",
                            "startedAt": "2026-03-01T10:00:00Z",
                            "finishedAt": "2026-03-01T10:00:09Z",
                        }
                    },
                }
            ]
        }
    ).status.container_statuses
    killed = app.last_state.terminated
    assert killed is not None
    assert killed.started_at is not None
    assert killed.finished_at is not None
    assert (killed.reason, (killed.finished_at - killed.started_at).total_seconds()) == ("OOMKilled", 9)
    assert app.state.waiting is not None
    assert app.state.waiting.reason == "CrashLoopBackOff"
    assert (app.ready, app.started, app.restart_count) == (False, True, 4)


def test_a_pending_resize_shows_spec_allocated_and_actual_resources() -> None:
    read = pod(
        spec={"containers": [{"name": "app", "resources": {"requests": {"cpu": "2"}}}]},
        status={
            "observedGeneration": 2,
            "phase": "Running",
            "qosClass": "Burstable",
            "startTime": "2026-03-01T10:00:00Z",
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "lastTransitionTime": "2026-03-01T10:01:00Z",
                    "lastProbeTime": None,
                },
                {
                    "type": "PodResizePending",
                    "status": "True",
                    "reason": "Deferred",
                    "message": "not enough cpu",
                },
            ],
            "initContainerStatuses": [{"name": "proxy", "resources": {"requests": {"cpu": "10m"}}}],
            "containerStatuses": [
                {
                    "name": "app",
                    "allocatedResources": {"cpu": "1500m"},
                    "resources": {"requests": {"cpu": "1"}},
                }
            ],
        },
        name="web-0",
    )
    status = read.status
    pending, ready = status.find_condition(RESIZE_PENDING), status.find_condition(READY)
    assert pending is not None
    assert ready is not None
    assert (pending.status, pending.reason) == ("True", "Deferred")
    assert status.find_condition(RESIZE_IN_PROGRESS) is None
    assert ready.last_transition_time == datetime(2026, 3, 1, 10, 1, tzinfo=UTC)
    assert status.start_time == datetime(2026, 3, 1, 10, tzinfo=UTC)
    [app] = status.container_statuses
    assert app.resources is not None
    assert read.spec.containers[0].resources.requests == {"cpu": "2"}
    assert (app.allocated_resources, app.resources.requests) == ({"cpu": "1500m"}, {"cpu": "1"})
    assert status.init_container_statuses[0].resources is not None
    assert (status.observed_generation, status.phase, status.qos_class) == (2, "Running", "Burstable")


def test_status_resources_are_none_before_the_kubelet_reports() -> None:
    [app] = pod(status={"containerStatuses": [{"name": "app"}]}).status.container_statuses
    assert app.resources is None


def test_an_empty_pod_reads_as_empties_and_not_as_none() -> None:
    read = pod()
    assert (dict(read.metadata.labels), dict(read.spec.node_selector), read.spec.containers) == ({}, {}, ())


def test_the_shared_empty_map_is_immutable() -> None:
    labels: Any = pod().metadata.labels
    with pytest.raises(TypeError):
        labels["app"] = "web"


def test_a_slice_of_a_pod_cannot_be_changed() -> None:
    read: Any = pod(name="web-0")
    with pytest.raises(AttributeError):
        read.metadata.name = "web-1"


def test_an_encoded_slice_has_wire_names_and_no_absent_fields() -> None:
    spec = {
        "containers": [{"name": "app", "ports": [{"hostPort": 80, "hostIP": "10.0.0.1"}]}],
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    }
    assert msgspec.json.decode(msgspec.json.encode(pod(spec).spec)) == spec


def test_a_stored_template_is_read_in_spite_of_its_null_timestamp() -> None:
    body = b'{"metadata":{"name":"t"},"template":{"metadata":{"creationTimestamp":null,"labels":{"a":"b"}}}}'
    read = decode_object(body, PodTemplate)
    assert (read.template.metadata.creation_timestamp, read.template.metadata.labels) == (None, {"a": "b"})
