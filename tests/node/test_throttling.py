"""Throttling as kubelet reports it, compared with the kernel's own counts."""

from __future__ import annotations

import time

import pytest

from support.node.kubelet import Sample, read_cadvisor
from support.node.pods import BUSY, container, create_pod, pod_spec
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.node import cgroups
from testbed.node.real_node import RealNode
from testbed.waiting import until

PERIODS = "container_cpu_cfs_periods_total"
THROTTLED = "container_cpu_cfs_throttled_periods_total"

# Two seconds in which every period ends early.
OFTEN = 20


def wait_for_sample(cluster: Cluster, node: RealNode, pod: Json, container: str) -> dict[str, Sample]:
    """The metrics of a container, read from the kernel after the call: cAdvisor reads every ten seconds or so."""
    called = time.time()

    def read() -> dict[str, Sample] | None:
        samples = read_cadvisor(cluster, node.name, pod, container)
        return samples if THROTTLED in samples and samples[THROTTLED].time > called else None

    return until(f"cAdvisor to read {container}", read)


def test_kubelet_reports_the_throttling_that_the_kernel_counts(
    cluster: Cluster, node: RealNode, namespace: str
) -> None:
    small, large = ({"cpu": cpu, "memory": "32Mi"} for cpu in ("100m", "500m"))
    pod = create_pod(
        cluster,
        namespace,
        "web",
        pod_spec(container("throttled", BUSY, limits=small), container("free", limits=large)),
    )
    throttled = node.get_container_cgroup(pod, "throttled")
    until("it to be throttled often", lambda: throttled.read_cpu_statistics().throttled_periods > OFTEN)
    reports = {}
    for name in ("throttled", "free"):
        kernel = node.get_container_cgroup(pod, name)
        before = kernel.read_cpu_statistics()
        reported = wait_for_sample(cluster, node, pod, name)
        after = kernel.read_cpu_statistics()
        assert before.periods <= reported[PERIODS].value <= after.periods
        assert before.throttled_periods <= reported[THROTTLED].value <= after.throttled_periods
        reports[name] = reported
    assert reports["throttled"][THROTTLED].value > OFTEN
    assert reports["free"][THROTTLED].value < 0.05 * reports["free"][PERIODS].value


@pytest.mark.skipif(not cgroups.is_version_2(), reason="the kernel counts pressure by container with cgroup v2 alone")
def test_kubelet_reports_the_pressure_that_the_kernel_counts(cluster: Cluster, node: RealNode, namespace: str) -> None:
    limits = {"cpu": "100m", "memory": "32Mi"}
    pod = create_pod(cluster, namespace, "web", pod_spec(container("throttled", BUSY, limits=limits)))
    kernel = node.get_container_cgroup(pod, "throttled")
    before = kernel.read_pressure("cpu").some_seconds
    reported = wait_for_sample(cluster, node, pod, "throttled")
    assert (
        before
        <= reported["container_pressure_cpu_waiting_seconds_total"].value
        <= kernel.read_pressure("cpu").some_seconds
    )
