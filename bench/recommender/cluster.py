"""A control plane with a number of VPAs, whose pods use something, and metrics-server reporting it.

Every VPA has a Deployment. What its pods use goes up and down by a third at each scrape, as it does in life: with
usage that stands still nothing would have to be written after the first pass.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from bench.measurement import CannotMeasure
from bench.recommender.week_of_history import checkpoint
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.control_plane import ControlPlane
from testbed.errors import Refused
from testbed.keeper import list_definitions
from testbed.kwok import annotations as ask
from testbed.kwok.nodes import Node
from testbed.scratch import scratch
from testbed.waiting import until
from testbed.workloads import container, deployment

PODS_OF_A_NODE = 300
VPAS_OF_A_NAMESPACE = 50
CONTAINER = "app"
SAME_RUN_SECONDS = 16

# Seconds until usage of all pods must be reported: thousands of pods take minutes, on a busy machine many.
PATIENCE = 1800

# The API server's own count of requests, and how those look that have changed something.
REQUESTS = "apiserver_request_total{"
WRITE = re.compile(r'code="20\d".*verb="(?:APPLY|PATCH|POST|PUT)"')

API_VERSION = "autoscaling.k8s.io/v1"
ALL_VPAS = f"/apis/{API_VERSION}/verticalpodautoscalers"
VPAS = f"/apis/{API_VERSION}/namespaces/{{}}/verticalpodautoscalers"
CHECKPOINTS = f"/apis/{API_VERSION}/namespaces/{{}}/verticalpodautoscalercheckpoints"


class Size(msgspec.Struct, frozen=True):
    """How many there are; pods are dealt out to the VPAs one by one."""

    vpas: int
    pods: int

    def __str__(self) -> str:
        return f"{self.vpas:,} VPAs, {self.pods:,} pods"

    def namespace(self, vpa: int) -> str:
        return f"team-{vpa // VPAS_OF_A_NAMESPACE}"

    def namespaces(self) -> list[str]:
        return sorted({self.namespace(vpa) for vpa in range(self.vpas)})

    @property
    def nodes(self) -> int:
        return -(-self.pods // PODS_OF_A_NODE)

    def replicas(self, vpa: int) -> int:
        return self.pods // self.vpas + (vpa < self.pods % self.vpas)


@contextmanager
def populated(size: Size, report: Callable[[str], None]) -> Iterator[tuple[Cluster, Path]]:
    """The cluster, from when usage of every pod is reported, and a directory for files."""
    nodes = tuple(Node(name=f"node-{i}", pods=PODS_OF_A_NODE) for i in range(size.nodes))
    started = time.monotonic()
    with scratch() as directory, ControlPlane(directory, initial_nodes=nodes, definitions=list_definitions()) as plane:
        cluster = plane.cluster
        for namespace in size.namespaces():
            cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        account = f"/api/v1/namespaces/{size.namespaces()[-1]}/serviceaccounts/default"
        until("the last namespace", lambda: cluster.api.find(account))
        run_concurrently(cluster.api.create, _objects(size))
        report(f"{size}: created after {time.monotonic() - started:.0f} s")
        # While thousands of pods are created scrapes time out, and metrics-server forgets those pods for a while.
        wait_for_usage(cluster, size)
        report(f"{size}: usage of all reported after {time.monotonic() - started:.0f} s")
        yield cluster, directory


def count_recommended(cluster: Cluster) -> int:
    """How many VPAs have a recommendation."""
    return sum("recommendation" in vpa.get("status", {}) for vpa in cluster.api.list_items(ALL_VPAS))


def wait_for_usage(cluster: Cluster, size: Size) -> None:
    """Until usage of every pod is reported."""
    wait_for("usage of every pod", lambda: count_reported(cluster) == size.pods, PATIENCE, every=5.0)


def count_reported(cluster: Cluster) -> int:
    """How many pods metrics-server knows the usage of."""
    try:
        return len(cluster.api.list_items("/apis/metrics.k8s.io/v1beta1/pods"))
    except Refused:  # metrics-server has not scraped yet
        return 0


def count_writes(cluster: Cluster) -> tuple[int, int]:
    """How many statuses of VPAs, and how many checkpoints, the API server has written since it started."""
    text: str = cluster.api.send("GET", "/metrics")["message"]
    lines = [line for line in text.splitlines() if line.startswith(REQUESTS) and WRITE.search(line)]

    def count(labels: str) -> int:
        return sum(int(float(line.rpartition(" ")[2])) for line in lines if labels in line)

    return (
        count('resource="verticalpodautoscalers",scope="resource",subresource="status"'),
        count('resource="verticalpodautoscalercheckpoints"'),
    )


def rewind(cluster: Cluster, size: Size) -> None:
    """As before any recommender ran, but with a week of history: no statuses, and checkpoints for all."""
    run_concurrently(cluster.api.delete, map(CHECKPOINTS.format, size.namespaces()))
    vpas = (f"{VPAS.format(size.namespace(i))}/web-{i}/status" for i in range(size.vpas))
    run_concurrently(lambda path: cluster.api.patch(path, {"status": None}), vpas)
    now = datetime.now(UTC)
    saved = (
        (checkpoint(f"web-{i}", CONTAINER, _millicores(i) / 1e3, _mebibytes(i) * 2**20, now), size.namespace(i))
        for i in range(size.vpas)
    )
    run_concurrently(lambda one: cluster.api.create(*one), saved)


def wait_for(subject: str, condition: Callable[[], bool], seconds: float, every: float = 2.0) -> None:
    """Wait, asking rarely: the answers are megabytes, and those who are measured share the processor."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise CannotMeasure(f"waited {seconds:g} s for {subject}")
        time.sleep(every)


def run_concurrently(action: Callable[[Any], object], subjects: Iterable[Any]) -> None:
    """Do it to all of them, some at a time; the first failure is raised."""
    with ThreadPoolExecutor(SAME_RUN_SECONDS) as threads:
        for _ in threads.map(action, subjects):
            pass


def _objects(size: Size) -> Iterator[Json]:
    for i in range(size.vpas):
        usage = {
            ask.USAGE_CPU: f"{_millicores(i)}m",
            ask.USAGE_MEMORY: f"{_mebibytes(i)}Mi",
            ask.USAGE_SPREAD: "0.33",
        }
        workload = deployment(
            f"web-{i}",
            container(CONTAINER, cpu="50m", memory="64Mi"),
            replicas=size.replicas(i),
            annotations=usage,
            # Placed by hand, which spares the scheduler's share of the work.
            nodeName=f"node-{i % size.nodes}",
        )
        metadata = {"name": f"web-{i}", "namespace": size.namespace(i)}
        yield workload | {"metadata": metadata}
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"web-{i}"}
        spec = {"targetRef": target, "updatePolicy": {"updateMode": "Off"}}
        yield {"apiVersion": API_VERSION, "kind": "VerticalPodAutoscaler", "metadata": metadata, "spec": spec}


def _millicores(vpa: int) -> int:
    return 20 + vpa % 400


def _mebibytes(vpa: int) -> int:
    return 50 + vpa % 900
