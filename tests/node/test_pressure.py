"""Pressure of a container (PSI), as the kernel keeps it for the cgroup of version 2 that runc makes of each."""

from __future__ import annotations

import pytest

from support.node.pods import BUSY, container, create_pod, pod_spec
from testbed.cluster import Cluster
from testbed.node import cgroups
from testbed.node.real_node import RealNode
from testbed.waiting import until

PRESSURE = [cgroups.ROOT / directory / "cpu.pressure" for directory in ("", "unified")]


@pytest.mark.skipif(not any(file.exists() for file in PRESSURE), reason="this kernel keeps no pressure of cgroups")
def test_a_container_that_its_limit_stops_waits_for_cpu_and_an_idle_one_beside_it_does_not(
    cluster: Cluster, node: RealNode, namespace: str
) -> None:
    size = {"cpu": "50m", "memory": "32Mi"}
    spec = pod_spec(container("busy", BUSY, requests=size, limits=size), container("idle", requests=size, limits=size))
    pod = create_pod(cluster, namespace, "pressed", spec)
    busy, idle = (node.get_container_cgroup(pod, name) for name in ("busy", "idle"))

    def has_waited() -> bool:
        """For two seconds, of which a container that has a core to itself waits for none."""
        return busy.read_pressure("cpu").some_seconds > 2

    until("the busy container to have waited", has_waited)
    assert busy.read_cpu_statistics().throttled_periods > 0
    assert idle.read_pressure("cpu").some_seconds < busy.read_pressure("cpu").some_seconds / 2
