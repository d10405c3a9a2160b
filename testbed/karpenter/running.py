"""Starts Karpenter, and writes the objects that it works by.

Karpenter acts on a whole cluster: of several processes that are started for one cluster, one leads. It serves metrics
and probes on all interfaces.
"""

from __future__ import annotations

import http.client
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import msgspec

from testbed.client import Json
from testbed.cluster import Cluster
from testbed.components import ADDRESS
from testbed.processes import Process, reserve_ports
from testbed.programs import building
from testbed.programs.versions import KARPENTER, KARPENTER_DEFINITIONS
from testbed.waiting import until

NODE_CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
NODE_POOLS: Final = "/apis/karpenter.sh/v1/nodepools"
NODE_CLASSES: Final = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"

INSTANCE_TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
# The instance types that there are, with what pods may request on them.
SMALL: Final = "testbed.small"
LARGE: Final = "testbed.large"
_OFFERED: Final = {SMALL: (2, 4), LARGE: (4, 16)}
# What the kwok provider takes off, in millicores and MiB.
_RESERVED: Final = (100, 10)


def install_definitions(cluster: Cluster) -> None:
    """Install Karpenter's own definitions, CapacityBuffers among them, and wait until they are served."""
    program = building.ensure_programs([KARPENTER_DEFINITIONS])[KARPENTER_DEFINITIONS.name]
    text = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    file = cluster.directory / f"karpenter-definitions-{os.getpid()}.yaml"
    file.write_text(text)
    cluster.install_definitions([file])


@contextmanager
def run_karpenter(cluster: Cluster, log: Path) -> Iterator[Process]:
    """Karpenter with the gate for CapacityBuffers, from when it is healthy until the end of the block."""
    program = building.ensure_programs([KARPENTER])[KARPENTER.name]
    metrics, health = reserve_ports(2)
    instance_types = cluster.directory / f"karpenter-instance-types-{os.getpid()}.json"
    instance_types.write_bytes(msgspec.json.encode(_build_instance_types()))
    environment = {
        "INSTANCE_TYPES_FILE_PATH": str(instance_types),
        "KUBECONFIG": str(cluster.kubeconfig),
        "SYSTEM_NAMESPACE": "kube-system",
        "LEADER_ELECTION_NAMESPACE": "kube-system",
        "METRICS_PORT": str(metrics),
        "HEALTH_PROBE_PORT": str(health),
        "FEATURE_GATES": "CapacityBuffer=true",
        # The cluster is small, and tests wait for it.
        "BATCH_IDLE_DURATION": "200ms",
    }
    process = Process([program], log, environment)
    try:
        until("Karpenter to be healthy", lambda: _is_healthy(process, health))
        yield process
    finally:
        process.stop()


def build_node_class(name: str, registration_delay: str = "1s") -> Json:
    """A node class of the kwok provider; its nodes appear after the delay."""
    return {
        "apiVersion": "karpenter.kwok.sh/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": {"name": name},
        "spec": {"nodeRegistrationDelay": registration_delay},
    }


def build_node_class_reference(name: str) -> Json:
    """A reference to it, as in a NodePool or a group of claims."""
    return {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": name}


def build_node_pool(name: str, node_class: str, taint: str, labels: Mapping[str, str] | None = None) -> Json:
    """A NodePool of large nodes, with a taint. Nodes that are empty go at once."""
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": "0s",
                "budgets": [{"nodes": "100%"}],
            },
            "template": {
                "metadata": {"labels": dict(labels or {})},
                "spec": {
                    "nodeClassRef": build_node_class_reference(node_class),
                    "requirements": [{"key": INSTANCE_TYPE_LABEL, "operator": "In", "values": [LARGE]}],
                    "taints": [{"key": taint, "effect": "NoSchedule"}],
                    "expireAfter": "Never",
                },
            },
        },
    }


def _build_instance_types() -> list[Json]:
    """The file of the kwok provider, with a price for each type in one zone."""
    offering = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a"]},
    ]
    millicores, mebibytes = _RESERVED
    return [
        {
            "name": name,
            "architecture": "amd64",
            "operatingSystems": ["linux"],
            "resources": {
                "cpu": f"{cores * 1000 + millicores}m",
                "memory": f"{gibibytes * 1024 + mebibytes}Mi",
                "ephemeral-storage": "20Gi",
                "pods": "110",
            },
            "offerings": [{"Price": cores * 0.05, "Available": True, "Requirements": offering}],
        }
        for name, (cores, gibibytes) in _OFFERED.items()
    ]


def _is_healthy(process: Process, port: int) -> bool:
    process.check()
    try:
        with closing(http.client.HTTPConnection(ADDRESS, port, timeout=5.0)) as connection:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.client.OK
    except OSError:
        return False
