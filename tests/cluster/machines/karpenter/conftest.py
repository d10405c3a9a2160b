"""A control plane of its own for Karpenter, which would act on pods and CapacityBuffers of other tests.

All workers of a run share it, and each runs a Karpenter, of which one leads.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.machines.claim_groups import ClaimNodeGroups, create_node_classes
from testbed.cluster import Cluster
from testbed.karpenter.running import install_definitions, run_karpenter
from testbed.sharing import shared_cluster


@pytest.fixture(scope="session")
def karpenter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Path]]:
    """A cluster in which Karpenter runs, and Karpenter's log."""
    worker = "PYTEST_XDIST_WORKER" in os.environ
    run = os.environ["PYTEST_XDIST_TESTRUNUID"] if worker else f"pid-{os.getpid()}"
    cluster = shared_cluster(f"{run}-karpenter", os.getppid() if worker else os.getpid())
    install_definitions(cluster)
    log = tmp_path_factory.mktemp("karpenter") / "karpenter.log"
    with run_karpenter(cluster, log):
        create_node_classes(cluster)
        yield cluster, log


@pytest.fixture(scope="session")
def cluster(karpenter: tuple[Cluster, Path]) -> Cluster:
    """The cluster of this folder, in place of that of all other tests."""
    return karpenter[0]


@pytest.fixture(autouse=True)
def shown_log(karpenter: tuple[Cluster, Path]) -> Iterator[None]:
    """Show what Karpenter logs during a test, if it fails."""
    log = karpenter[1]
    begin = log.stat().st_size
    yield
    sys.stdout.write(f"{log.name}:\n{log.read_text(errors='replace')[begin:]}\n")


@pytest.fixture(autouse=True)
def shown_pods(cluster: Cluster, namespace: str) -> Iterator[None]:
    """Show which pods of a test wait, why, and what nodes there are, if it fails."""
    yield
    for pod in cluster.api.list_items(f"/api/v1/namespaces/{namespace}/pods"):
        status = pod["status"]
        sys.stdout.write(
            f"pod {pod['metadata']['name']} {status['phase']} on {pod['spec'].get('nodeName')}, nominated to "
            f"{status.get('nominatedNodeName')}: {status.get('conditions')}\n"
        )
    for node in cluster.api.list_items("/api/v1/nodes"):
        metadata = node["metadata"]
        sys.stdout.write(f"node {metadata['name']} {metadata['labels']} {node['spec'].get('taints')}\n")


@pytest.fixture
def node_groups(cluster: Cluster, namespace: str) -> Iterator[ClaimNodeGroups]:
    """Groups of NodeClaims for one test."""
    node_groups = ClaimNodeGroups(cluster, namespace)
    yield node_groups
    node_groups.close()
