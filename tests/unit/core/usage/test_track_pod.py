"""The tracked fields of a pod."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from trellis.api.kube.decoder import decode_object
from trellis.api.kube.observed_pods import ObservedPod
from trellis.core.cluster.pod_resources import parse_cpu_millicores, parse_memory_bytes, read_memory_request
from trellis.core.usage.tracked_pods import TrackedContainer, TrackedPod, track_pod

REQUESTS = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}}
MIB = 1024.0 * 1024.0


def pod(spec: dict[str, Any], **status: Any) -> ObservedPod:
    body = {"metadata": {"name": "web-0", "namespace": "shop", "uid": "u1"}, "spec": spec, "status": status}
    return decode_object(msgspec.json.encode(body), ObservedPod)


def test_containers_and_native_sidecars_are_followed_and_init_containers_are_not() -> None:
    spec = {
        "initContainers": [
            {"name": "migrate", "resources": REQUESTS},
            {"name": "proxy", "restartPolicy": "Always", "resources": REQUESTS},
        ],
        "containers": [{"name": "app", "resources": REQUESTS}, {"name": "log", "resources": REQUESTS}],
    }
    result = track_pod(pod(spec, conditions=[{"type": "Ready", "status": "True"}]), "web")
    containers = tuple(TrackedContainer(name, 64 * MIB, 100.0) for name in ("app", "log", "proxy"))
    assert result == TrackedPod("shop", "web-0", "u1", "web", True, containers)


def test_the_start_time_of_a_pod_is_in_its_status_or_else_its_creation() -> None:
    times = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    body = {"metadata": {"name": "web-0", **times}, "status": {"startTime": "2026-01-01T00:10:00Z"}}
    assert track_pod(decode_object(msgspec.json.encode(body), ObservedPod), "web").started == 1_767_226_200.0
    del body["status"]
    assert track_pod(decode_object(msgspec.json.encode(body), ObservedPod), "web").started == 1_767_225_600.0
    assert math.isnan(track_pod(pod({}), "web").started)


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_pod_that_is_not_ready_is_tracked_as_not_ready(status: str) -> None:
    assert not track_pod(pod({}, conditions=[{"type": "Ready", "status": status}]), "web").ready
    assert not track_pod(pod({}, conditions=[{"type": "ContainersReady", "status": "True"}]), "web").ready
    assert not track_pod(pod({}), "web").ready


def test_allocated_resources_count_before_requests_in_the_spec() -> None:
    spec = {"containers": [{"name": "app", "resources": REQUESTS}]}
    resized = {"name": "app", "resources": {"requests": {"memory": "96Mi"}}}
    assert read_memory_request(pod(spec, containerStatuses=[resized]), "app") == 96 * MIB
    assert read_memory_request(pod(spec, containerStatuses=[{"name": "app"}]), "app") == 64 * MIB
    without = {"name": "app", "resources": {"requests": {"cpu": "1"}}}
    assert math.isnan(read_memory_request(pod(spec, containerStatuses=[without]), "app"))


def test_a_sidecar_is_reported_among_the_init_containers() -> None:
    spec = {"initContainers": [{"name": "proxy", "restartPolicy": "Always", "resources": REQUESTS}]}
    resized = {"name": "proxy", "resources": {"requests": {"memory": "96Mi"}}}
    assert read_memory_request(pod(spec, initContainerStatuses=[resized]), "proxy") == 96 * MIB


def test_without_a_request_there_is_no_number() -> None:
    for spec in ({"containers": [{"name": "app"}]}, {"containers": [{"name": "app", "resources": {"requests": {}}}]}):
        assert math.isnan(read_memory_request(pod(spec), "app"))
    assert math.isnan(read_memory_request(pod({}), "app"))


def test_pod_level_resources_change_nothing() -> None:
    spec = {"containers": [{"name": "app"}], "resources": {"requests": {"cpu": "2", "memory": "4Gi"}}}
    result = track_pod(pod(spec, resources={"requests": {"memory": "4Gi"}}), "web")
    assert [(container.name, math.isnan(container.memory_request)) for container in result.containers] == [
        ("app", True)
    ]


@pytest.mark.parametrize(("text", "expected"), [("1.5", 1500.0), ("250m", 250.0), ("0", 0.0), ("", None), ("?", None)])
def test_cpu_is_read_as_millicores_and_nonsense_as_nothing(text: str, expected: float | None) -> None:
    result = parse_cpu_millicores(text)
    assert math.isnan(result) if expected is None else result == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("1Gi", 1024 * MIB), ("1e3", 1000.0), ("0", 0.0), ("1500m", 2.0), ("", None), ("much", None)]
)
def test_memory_is_read_as_bytes_and_nonsense_as_nothing(text: str, expected: float | None) -> None:
    result = parse_memory_bytes(text)
    assert math.isnan(result) if expected is None else result == expected
