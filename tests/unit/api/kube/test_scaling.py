from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from trellis.api.kube.decoder import decode_object
from trellis.api.kube.scaling import HorizontalPodAutoscaler, Scale


def test_a_scale_gives_its_selector_as_text() -> None:
    body = b'{"spec":{"replicas":3},"status":{"replicas":2,"selector":"app=web,tier in (a)"}}'
    scale = decode_object(body, Scale)
    assert (scale.spec.replicas, scale.status.replicas, scale.status.selector) == (
        3,
        2,
        "app=web,tier in (a)",
    )


def hpa(spec: dict[str, Any], status: dict[str, Any] | None = None) -> HorizontalPodAutoscaler:
    body = {"metadata": {"name": "web", "generation": 1}, "spec": spec, "status": status or {}}
    return decode_object(msgspec.json.encode(body), HorizontalPodAutoscaler)


def test_an_autoscaler_names_its_target_bounds_and_behavior() -> None:
    spec = hpa(
        {
            "scaleTargetRef": {"apiVersion": "autoscaling.x-k8s.io/v1alpha1", "kind": "Hvpa", "name": "web"},
            "minReplicas": 2,
            "maxReplicas": 9,
            "behavior": {
                "scaleDown": {
                    "stabilizationWindowSeconds": 0,
                    "selectPolicy": "Min",
                    "policies": [{"type": "Percent", "value": 50, "periodSeconds": 15}],
                    "tolerance": "50m",
                }
            },
        }
    ).spec
    assert (spec.scale_target_ref.kind, spec.scale_target_ref.name) == ("Hvpa", "web")
    assert (spec.min_replicas, spec.max_replicas) == (2, 9)
    assert spec.behavior is not None
    assert spec.behavior.scale_up is None
    down = spec.behavior.scale_down
    assert down is not None
    assert (down.stabilization_window_seconds, down.select_policy, down.tolerance) == (0, "Min", "50m")
    assert (down.policies[0].value, down.policies[0].period_seconds) == (50, 15)


@pytest.mark.parametrize(
    ("metric", "key", "name"),
    [
        ({"type": "Resource", "resource": {"name": "cpu"}}, "resource", "cpu"),
        (
            {"type": "ContainerResource", "containerResource": {"name": "memory"}},
            "containerResource",
            "memory",
        ),
        ({"type": "Pods", "pods": {"metric": {"name": "rps"}}}, "pods", "rps"),
        ({"type": "Object", "object": {"metric": {"name": "queue"}}}, "object", "queue"),
        ({"type": "External", "external": {"metric": {"name": "lag"}}}, "external", "lag"),
    ],
)
def test_each_metric_type_has_its_source(metric: dict[str, Any], key: str, name: str) -> None:
    metric[key]["target"] = {"type": "AverageValue", "averageValue": "10"}
    [read] = hpa({"metrics": [metric]}).spec.metrics
    assert read.source is not None
    assert name == (read.source.metric.name if read.source.metric else read.source.name)
    assert (read.source.target.type, read.source.target.average_value) == ("AverageValue", "10")


def test_the_ratio_of_a_metric_can_be_read_from_spec_and_status() -> None:
    container = {"name": "cpu", "container": "app"}
    read = hpa(
        {
            "metrics": [
                {
                    "type": "ContainerResource",
                    "containerResource": {
                        **container,
                        "target": {"type": "Utilization", "averageUtilization": 70},
                    },
                }
            ]
        },
        {
            "lastScaleTime": "2026-03-01T10:00:00Z",
            "currentReplicas": 3,
            "desiredReplicas": 4,
            "currentMetrics": [
                {
                    "type": "ContainerResource",
                    "containerResource": {
                        **container,
                        "current": {"averageUtilization": 35, "averageValue": "350m"},
                    },
                }
            ],
            "conditions": [{"type": "ScalingActive", "status": "True"}],
        },
    )
    wanted, current = read.spec.metrics[0].container_resource, read.status.current_metrics[0].container_resource
    assert wanted is not None
    assert current is not None
    assert (wanted.container, current.container) == ("app", "app")
    assert (wanted.target.average_utilization, current.current.average_utilization) == (70, 35)
    assert current.current.average_value == "350m"
    assert (read.status.current_replicas, read.status.desired_replicas) == (3, 4)
    assert read.status.last_scale_time == datetime(2026, 3, 1, 10, tzinfo=UTC)


def test_null_current_metrics_of_a_new_hpa_read_as_empty() -> None:
    read = hpa({"maxReplicas": 3}, {"currentReplicas": 1, "desiredReplicas": 0, "currentMetrics": None})
    assert (read.status.current_metrics, read.status.current_replicas, read.spec.max_replicas) == ((), 1, 3)
