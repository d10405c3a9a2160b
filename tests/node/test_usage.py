"""Usage of a pod that really runs, through kubelet, cAdvisor and metrics-server into a recommendation."""

from __future__ import annotations

import time
from pathlib import Path

from support.cluster.controllers import shipped_controllers
from support.cluster.vpas import count_samples, get_target, vpa
from support.node.pods import container, create_deployment, pod_spec
from support.oracles.recommendations import ExactHistogram, amount
from testbed.cluster import Cluster
from testbed.node.real_node import RealNode
from testbed.waiting import until
from trellis.core.recommend.settings import DefaultSettings

# Holds 40 MiB and uses all CPU that it is given.
LOAD = ("sh", "-c", "dd if=/dev/zero of=/dev/shm/held bs=1M count=40 2>/dev/null; while :; do :; done")

CORES = 0.25

# How far a sample may be from the kernel's count over the whole time: it is of ten seconds of it.
CPU_TOLERANCE = 0.1
MEMORY_TOLERANCE = 0.05

# Without the least that a pod is recommended, which is more memory than this one holds.
FLAGS = (
    "--recommender-interval=1s",
    "--pod-recommendation-min-cpu-millicores=1",
    "--pod-recommendation-min-memory-mb=1",
)


def recommend_cpu(cores: float) -> int:
    """What upstream's rules make of steady usage, in millicores: the end of its histogram bin, and the margin."""
    return _recommend(cores, first_bin=0.01, scale=1000.0)


def recommend_memory(usage: float) -> int:
    """The same in bytes."""
    return _recommend(usage, first_bin=1e7, scale=1.0)


def _recommend(usage: float, first_bin: float, scale: float) -> int:
    histogram = ExactHistogram(first_bin, 176, half_life=86400.0)
    histogram.add(0.0, usage, 1.0)
    base = amount(histogram.percentile(0.9) * scale)
    return base + amount(base * DefaultSettings().margin_fraction)


def test_a_recommendation_is_what_the_kernel_counted_with_upstreams_margins(
    cluster: Cluster, node: RealNode, namespace: str, tmp_path: Path
) -> None:
    size = {"cpu": f"{CORES * 1000:.0f}m", "memory": "128Mi"}
    create_deployment(cluster, namespace, "load", pod_spec(container(command=LOAD, requests=size, limits=size)))
    cluster.api.create(vpa("load", updatePolicy={"updateMode": "Off"}), namespace)
    [pod] = cluster.wait_for_ready_pods(namespace, "load")
    kernel = node.get_container_cgroup(pod, "app")
    before, began = kernel.read_cpu_statistics(), time.monotonic()
    with shipped_controllers(cluster, tmp_path, "recommender", lambda _: FLAGS) as start:
        start(namespace)
        until("two samples", lambda: count_samples(cluster, namespace, "load-app") >= 2)
        cpu, memory = until("a recommendation", lambda: get_target(cluster, namespace, "load"))
    used = (kernel.read_cpu_statistics().used_seconds - before.used_seconds) / (time.monotonic() - began)
    held = kernel.read_memory_usage()
    # On a busy machine a pod may be given less than its limit for a while; the target is what it had at its best.
    least, most = recommend_cpu(used * (1 - CPU_TOLERANCE)), recommend_cpu(CORES * (1 + CPU_TOLERANCE))
    assert least <= cpu <= most
    assert recommend_memory(held * (1 - MEMORY_TOLERANCE)) <= memory <= recommend_memory(held * (1 + MEMORY_TOLERANCE))
