"""The CPU and memory usage of pods, as a test scripts it.

kwok evaluates these expressions (CEL) at every scrape and serves the result as the kubelet's
/metrics/resource would look. metrics-server reads it and computes rates from the CPU counters.
"""

from __future__ import annotations

from testbed.client import Json
from testbed.kwok.annotations import USAGE_CPU, USAGE_MEMORY, USAGE_SPREAD
from testbed.kwok.nodes import USAGE_PATH

API_VERSION = "kwok.x-k8s.io/v1alpha1"

# metrics-server drops a container whose CPU counter or memory is zero, as one it knows nothing about. kwok's
# counters begin at zero, which would cost a new pod a whole scrape more until its first sample.
NEVER_ZERO = "0.001"
IDLE_CPU, IDLE_MEMORY = "1m", "1Mi"
NODE_MEMORY_BYTES = 100 * 2**20


def build_usage() -> list[Json]:
    """The objects for kwok's configuration."""
    return [_annotated_usage(), _resource_metrics()]


def _annotated_usage() -> Json:
    cpu, memory = _build_expression(USAGE_CPU, IDLE_CPU), _build_expression(USAGE_MEMORY, IDLE_MEMORY)
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterResourceUsage",
        "metadata": {"name": "annotated"},
        "spec": {"usages": [{"usage": {"cpu": {"expression": cpu}, "memory": {"expression": memory}}}]},
    }


def _build_expression(annotation: str, idle: str) -> str:
    """A CEL expression: the container's annotation, else the pod's, else idle; zero if the pod does not run."""
    key, pod_key = f'"{annotation}." + container.name', f'"{annotation}"'
    notes = "pod.metadata.annotations"
    result = f'{key} in {notes} ? {notes}[{key}] : ({pod_key} in {notes} ? {notes}[{pod_key}] : "{idle}")'
    spread = f'"{USAGE_SPREAD}" in {notes} ? double({notes}["{USAGE_SPREAD}"]) * (2.0 * Rand() - 1.0) : 0.0'
    return f'pod.status.phase == "Running" ? Quantity({result}) * (1.0 + ({spread})) : Quantity("0")'


def _resource_metrics() -> Json:
    container = {"container": "container.name", "namespace": "pod.metadata.namespace", "pod": "pod.metadata.name"}
    pod = {"namespace": "pod.metadata.namespace", "pod": "pod.metadata.name"}
    cpu, memory = "cpu_usage_seconds_total", "memory_working_set_bytes"
    metrics = [
        _build_metric("scrape_error", "gauge", "node", "0.0", {}),
        _build_metric(
            "container_start_time_seconds",
            "gauge",
            "container",
            "UnixSecond(pod.metadata.creationTimestamp)",
            container,
        ),
        _build_metric(
            f"container_{cpu}",
            "counter",
            "container",
            f'pod.CumulativeUsage("cpu", container.name) + {NEVER_ZERO}',
            container,
        ),
        _build_metric(f"container_{memory}", "gauge", "container", 'pod.Usage("memory", container.name)', container),
        _build_metric(f"pod_{cpu}", "counter", "pod", f'pod.CumulativeUsage("cpu") + {NEVER_ZERO}', pod),
        _build_metric(f"pod_{memory}", "gauge", "pod", 'pod.Usage("memory")', pod),
        _build_metric(f"node_{cpu}", "counter", "node", f'node.CumulativeUsage("cpu") + {NEVER_ZERO}', {}),
        _build_metric(f"node_{memory}", "gauge", "node", f'node.Usage("memory") + {NODE_MEMORY_BYTES}.0', {}),
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": "Metric",
        "metadata": {"name": "resource"},
        "spec": {"path": USAGE_PATH.format(node="{nodeName}"), "metrics": metrics},
    }


def _build_metric(name: str, kind: str, dimension: str, value: str, labels: dict[str, str]) -> Json:
    return {
        "name": name,
        "kind": kind,
        "dimension": dimension,
        "help": f"As the kubelet reports {name}.",
        "value": value,
        "labels": [{"name": label, "value": expression} for label, expression in labels.items()],
    }
