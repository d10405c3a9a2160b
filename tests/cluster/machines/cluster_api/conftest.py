"""Groups of Machines on the control plane that all tests share, each test with a Cluster API of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.machines.cluster_api import ClusterApiGroups, cluster_api_groups
from testbed.cluster import Cluster


@pytest.fixture
def machine_groups(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[ClusterApiGroups]:
    """Groups of Machines for one test, with a Cluster API of its own."""
    with cluster_api_groups(cluster, namespace, tmp_path) as groups:
        yield groups


@pytest.fixture
def node_groups(machine_groups: ClusterApiGroups) -> ClusterApiGroups:
    """The same for stories; the account of the autoscaler may change them."""
    machine_groups.grant()
    return machine_groups
