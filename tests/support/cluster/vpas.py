"""VPAs on a real control plane: tests create them, and read their status."""

from __future__ import annotations

import re
from typing import Any

from testbed.client import Json
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.kwok import annotations as ask
from testbed.waiting import TIMEOUT_SECONDS, until
from trellis.base.quantities import Quantity

GROUP = "/apis/autoscaling.k8s.io/v1"
# Until usage of a new pod shows in metrics.k8s.io: two scrapes of ten seconds, with room for a busy machine.
USAGE_SECONDS = TIMEOUT_SECONDS

EVERY_SECOND = "--recommender-interval=1s"

# In the middle of a wide bucket, with 20 % on both sides, because measured CPU is never quite what was scripted: a busy
# machine counts later than it says. And what upstream's rules make of it, in millicores and bytes.
CORES, MEMORY = 0.026, 300 * 2**20
USAGE = {ask.USAGE_CPU: "26m", ask.USAGE_MEMORY: "300Mi"}
ADVICE = (35, 380_258_472)

_SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def vpa(name: str, *, target: str = "", recommender: str = "", **spec: Any) -> Json:
    """A VPA for the Deployment of its name, or of another; `spec` are further fields."""
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target or name}
    chosen = {"recommenders": [{"name": recommender}]} if recommender else {}
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {"targetRef": ref, **chosen, **spec},
    }


def vpa_path(namespace: str, name: str) -> str:
    """Where a VPA is."""
    return f"{GROUP}/namespaces/{namespace}/verticalpodautoscalers/{name}"


def checkpoint_path(namespace: str, name: str) -> str:
    """Where a checkpoint is; it is called <VPA>-<container>."""
    return f"{GROUP}/namespaces/{namespace}/verticalpodautoscalercheckpoints/{name}"


def get_vpa_status(cluster: Cluster, namespace: str, name: str) -> Json:
    """The status of a VPA, empty while there is none."""
    status: Json = cluster.api.get(vpa_path(namespace, name)).get("status", {})
    return status


def get_container_recommendations(cluster: Cluster, namespace: str, name: str) -> dict[str, Json]:
    """What a VPA recommends, by container."""
    container_recommendations = (
        get_vpa_status(cluster, namespace, name).get("recommendation", {}).get("containerRecommendations", [])
    )
    return {recommendation["containerName"]: recommendation for recommendation in container_recommendations}


def get_target(cluster: Cluster, namespace: str, name: str, container: str = "app") -> tuple[int, int] | None:
    """The target of one container in millicores and bytes; None while there is none, or only half of one."""
    target = get_container_recommendations(cluster, namespace, name).get(container, {}).get("target", {})
    return amounts(target) if {"cpu", "memory"} <= target.keys() else None


def until_advised(cluster: Cluster, namespace: str, name: str, container: str = "app") -> None:
    """Return when a container has the advice for the usual usage.

    The first sample of a pod that a busy machine was slow to start is too low; the second outweighs it.
    """
    what = f"the advice for {container} of {name}"
    until(what, lambda: get_target(cluster, namespace, name, container) == ADVICE, USAGE_SECONDS)


def get_memory_target(cluster: Cluster, namespace: str, name: str, container: str = "app") -> int:
    """The memory target of one container in bytes; 0 while there is none."""
    target = get_container_recommendations(cluster, namespace, name).get(container, {}).get("target", {})
    return Quantity.parse(target.get("memory", "0")).units


def read_conditions(status: Json) -> dict[str, str]:
    """Type and status of each condition."""
    return {condition["type"]: condition["status"] for condition in status.get("conditions", [])}


def amounts(texts: Json) -> tuple[int, int]:
    """Millicores and bytes."""
    return Quantity.parse(texts["cpu"]).milli, Quantity.parse(texts["memory"]).units


def get_checkpoint_status(cluster: Cluster, namespace: str, name: str) -> Json:
    """The status of a checkpoint, empty while there is none."""
    status: Json = (cluster.api.find(checkpoint_path(namespace, name)) or {}).get("status", {})
    return status


def count_samples(cluster: Cluster, namespace: str, name: str) -> int:
    """How many samples a checkpoint has seen."""
    return int(get_checkpoint_status(cluster, namespace, name).get("totalSamplesCount", 0))


def series(controller: Controller, name: str) -> list[tuple[dict[str, str], float]]:
    """Labels and values of all series of one metric."""
    lines = filter(None, map(_SAMPLE.fullmatch, controller.read_metrics().splitlines()))
    return [
        (dict(_LABEL.findall(line["labels"] or "")), float(line["value"])) for line in lines if line["name"] == name
    ]


def metric_value(controller: Controller, name: str, **labels: str) -> float:
    """The sum of the series of a metric that have these labels; 0 if there is none."""
    return sum(number for series_labels, number in series(controller, name) if labels.items() <= series_labels.items())


def until_value(controller: Controller, name: str, expected: float, **labels: str) -> None:
    """Return when a metric says so: what a controller has done it counts a moment later."""
    until(f"{name} {labels} to be {expected:g}", lambda: metric_value(controller, name, **labels) == expected)


def count_passes(controller: Controller, family: str = "vpa_recommender") -> float:
    """How many passes a controller has ended, by how its metrics begin."""
    return metric_value(controller, f"{family}_execution_latency_seconds_count", step="total")


def wait_for_further_passes(controller: Controller, family: str = "vpa_recommender", count: int = 2) -> None:
    """Return after so many more passes. The first may be under way: with two, one has begun and ended since.

    What has not happened by then is not about to happen.
    """
    before = count_passes(controller, family)
    until(f"{count} more passes", lambda: count_passes(controller, family) >= before + count)
