"""What Prometheus holds of a cluster, as text: usage of containers and the series of kube-state-metrics.

Workloads are Deployments of two containers each, spread evenly over namespaces, with a day and a night of CPU and a
memory of their own size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec
import numpy as np

DAY = 86_400
_MIB = 2.0**20
_CONTAINERS = ("app", "proxy")


class Generated(msgspec.Struct, frozen=True):
    """So many workloads in so many namespaces, watched for some days until a time, with a scrape every few seconds."""

    workloads: int
    namespaces: int
    days: int
    until: int
    every: int = 150

    @property
    def containers(self) -> int:
        """How many there are in one pod of each."""
        return self.workloads * len(_CONTAINERS)

    def pods(self) -> Iterator[tuple[str, str, str]]:
        """Namespace, workload and pod of each."""
        for number in range(self.workloads):
            name = f"web-{number}"
            yield f"team-{number % self.namespaces}", name, f"{name}-7d4b9c6f5d-x2k9p"

    def times(self) -> np.ndarray:
        """When it was scraped."""
        return np.arange(self.until - self.days * DAY, self.until + 1, self.every)


def openmetrics(of: Generated) -> Iterator[str]:
    """Families one after the other, as the format wants it, each series in the order of time."""
    times = of.times()
    stamps = times.tolist()
    draw = np.random.default_rng(11)
    yield "# TYPE container_cpu_usage_seconds counter\n"
    for namespace, _, pod in of.pods():
        for container in _CONTAINERS:
            wave = np.sin(2 * math.pi * (times / DAY + draw.uniform()))
            rate = draw.lognormal(-2, 1) * (1 + 0.5 * wave) * draw.lognormal(0, 0.2, len(times))
            series = f"container_cpu_usage_seconds_total{_labels(namespace, pod, container)}"
            yield _lines(series, stamps, np.cumsum(rate * of.every).tolist())
    yield "# TYPE container_memory_working_set_bytes gauge\n"
    for namespace, _, pod in of.pods():
        for container in _CONTAINERS:
            wave = np.sin(2 * math.pi * (times / DAY + draw.uniform()))
            used = 200 * _MIB * draw.lognormal(0, 0.7) * (1 + 0.05 * wave) * draw.lognormal(0, 0.02, len(times))
            series = f"container_memory_working_set_bytes{_labels(namespace, pod, container)}"
            yield _lines(series, stamps, np.round(used).tolist())
    yield from _state(of, [stamp for stamp in stamps if stamp > of.until - 3600])


def _state(of: Generated, stamps: list[int]) -> Iterator[str]:
    def family(name: str, rows: Iterator[tuple[str, float]]) -> Iterator[str]:
        yield f"# TYPE {name} gauge\n"
        for labels, value in rows:
            yield _lines(f"{name}{{{labels}}}", stamps, [value] * len(stamps))

    pods = list(of.pods())
    yield from family(
        "kube_pod_owner",
        ((f'namespace="{n}",pod="{p}",owner_kind="ReplicaSet",owner_name="{w}-7d4b9c6f5d"', 1) for n, w, p in pods),
    )
    yield from family(
        "kube_replicaset_owner",
        (
            (f'namespace="{n}",replicaset="{w}-7d4b9c6f5d",owner_kind="Deployment",owner_name="{w}"', 1)
            for n, w, _ in pods
        ),
    )
    yield from family("kube_deployment_spec_replicas", ((f'namespace="{n}",deployment="{w}"', 1) for n, w, _ in pods))
    every = [(n, p, c) for n, _, p in pods for c in _CONTAINERS]
    yield from family(
        "kube_pod_container_info", ((f'namespace="{n}",pod="{p}",container="{c}"', 1) for n, p, c in every)
    )
    yield from family(
        "kube_pod_container_resource_requests",
        (
            (f'namespace="{n}",pod="{p}",container="{c}",resource="{resource}",unit="{unit}"', value)
            for n, p, c in every
            for resource, unit, value in (("cpu", "core", 0.5), ("memory", "byte", 2**29))
        ),
    )
    yield from family("kube_pod_status_phase", ((f'namespace="{n}",pod="{p}",phase="Running"', 1) for n, _, p in pods))


def _labels(namespace: str, pod: str, container: str) -> str:
    return f'{{namespace="{namespace}",pod="{pod}",container="{container}"}}'


def _lines(series: str, stamps: list[int], values: list[float]) -> str:
    return "".join([f"{series} {value:.10g} {stamp}\n" for stamp, value in zip(stamps, values, strict=True)])
