"""The smaller kinds: usage, leases, events, namespaces, webhooks, upstream's buffers."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from trellis.api.kube.capacity_buffers import CapacityBuffer
from trellis.api.kube.coordination import Event, Lease, Namespace
from trellis.api.kube.decoder import decode_object
from trellis.api.kube.metrics import PodMetrics
from trellis.api.kube.webhooks import MutatingWebhookConfiguration


def test_pod_metrics_keep_every_digit_of_usage() -> None:
    body = {
        "metadata": {"name": "web-0", "namespace": "shop", "creationTimestamp": "2026-03-01T10:00:09Z"},
        "timestamp": "2026-03-01T10:00:00Z",
        "window": "15.02s",
        "containers": [{"name": "app", "usage": {"cpu": "123456789n", "memory": "204800Ki"}}],
    }
    read = decode_object(msgspec.json.encode(body), PodMetrics)
    assert (read.timestamp, read.window) == (datetime(2026, 3, 1, 10, tzinfo=UTC), "15.02s")
    assert read.containers[0].usage == {"cpu": "123456789n", "memory": "204800Ki"}


def test_lease_times_have_microseconds() -> None:
    body = {
        "spec": {
            "holderIdentity": "trellis-0_abc",
            "leaseDurationSeconds": 15,
            "renewTime": "2026-03-01T10:00:00.123456Z",
            "leaseTransitions": 2,
        }
    }
    spec = decode_object(msgspec.json.encode(body), Lease).spec
    assert spec.renew_time == datetime(2026, 3, 1, 10, 0, 0, 123456, tzinfo=UTC)
    assert (spec.holder_identity, spec.lease_duration_seconds, spec.lease_transitions) == (
        "trellis-0_abc",
        15,
        2,
    )


def test_a_lease_without_holder_has_no_renew_time() -> None:
    spec = decode_object(b'{"metadata":{"name":"vpa-updater"},"spec":{"holderIdentity":null}}', Lease).spec
    assert (spec.holder_identity, spec.renew_time) == ("", None)


def test_events_of_old_and_new_writers_are_read_alike() -> None:
    about = {
        "kind": "Pod",
        "namespace": "shop",
        "name": "web-0",
        "uid": "1",
        "fieldPath": "spec.containers{app}",
    }
    old = {
        "involvedObject": about,
        "reason": "Evicted",
        "message": "The node was low on memory",
        "source": {"component": "kubelet", "host": "node-1"},
        "firstTimestamp": "2026-03-01T10:00:00Z",
        "lastTimestamp": "2026-03-01T10:05:00Z",
        "count": 3,
        "type": "Warning",
        "eventTime": None,
    }
    new = {
        "involvedObject": about,
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": "2026-03-01T10:05:00.000001Z",
        "reportingComponent": "trellis-updater",
        "type": "Normal",
    }
    first = decode_object(msgspec.json.encode(old), Event)
    second = decode_object(msgspec.json.encode(new), Event)
    assert (first.involved_object.name, first.involved_object.field_path) == ("web-0", "spec.containers{app}")
    assert (first.reason, first.type, first.count, first.source.component) == (
        "Evicted",
        "Warning",
        3,
        "kubelet",
    )
    assert (first.last_timestamp, first.event_time) == (datetime(2026, 3, 1, 10, 5, tzinfo=UTC), None)
    assert (second.last_timestamp, second.reporting_component) == (None, "trellis-updater")
    assert second.event_time == datetime(2026, 3, 1, 10, 5, 0, 1, tzinfo=UTC)


def test_a_terminating_namespace_has_its_phase() -> None:
    read = decode_object(b'{"metadata":{"name":"shop"},"status":{"phase":"Terminating"}}', Namespace)
    assert (read.metadata.name, read.status.phase) == ("shop", "Terminating")


def test_a_webhook_configuration_is_read_from_its_top_level_list() -> None:
    body = {
        "metadata": {"name": "vpa-webhook-config"},
        "webhooks": [
            {
                "name": "vpa.k8s.io",
                "clientConfig": {
                    "caBundle": "LS0t",
                    "service": {"namespace": "kube-system", "name": "vpa-webhook", "port": 8443},
                },
                "rules": [
                    {
                        "operations": ["CREATE"],
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "resources": ["pods"],
                    }
                ],
                "failurePolicy": "Ignore",
                "sideEffects": "None",
                "timeoutSeconds": 10,
                "admissionReviewVersions": ["v1"],
                "namespaceSelector": {
                    "matchExpressions": [
                        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
                    ]
                },
            }
        ],
    }
    [webhook] = decode_object(msgspec.json.encode(body), MutatingWebhookConfiguration).webhooks
    assert webhook.client_config.service is not None
    assert (webhook.client_config.service.name, webhook.client_config.service.port) == ("vpa-webhook", 8443)
    assert (webhook.client_config.ca_bundle, webhook.failure_policy) == ("LS0t", "Ignore")
    assert (webhook.rules[0].operations, webhook.rules[0].api_groups) == (("CREATE",), ("",))
    assert webhook.namespace_selector is not None
    assert webhook.namespace_selector.match_expressions[0].values == ("kube-system",)


def test_a_capacity_buffer_distinguishes_zero_from_absent_and_accepts_numeric_limits() -> None:
    body = {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "spec": {
            "scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"},
            "replicas": 0,
            "limits": {"cpu": 4, "memory": "8Gi"},
        },
        "status": {
            "podTemplateRef": {"name": "capacitybuffer-web-pod-template"},
            "podTemplateGeneration": 2,
            "replicas": 3,
            "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
            "conditions": [{"type": "ReadyForProvisioning", "status": "True"}],
        },
    }
    read = decode_object(msgspec.json.encode(body), CapacityBuffer)
    assert read.spec.scalable_ref is not None
    assert (read.spec.scalable_ref.api_group, read.spec.scalable_ref.kind) == ("apps", "Deployment")
    assert (read.spec.replicas, read.spec.percentage, read.spec.pod_template_ref) == (0, None, None)
    assert read.spec.limits == {"cpu": "4", "memory": "8Gi"}
    assert read.status.pod_template_ref is not None
    assert (read.status.pod_template_generation, read.status.replicas) == (2, 3)
    assert read.status.conditions[0].type == "ReadyForProvisioning"
