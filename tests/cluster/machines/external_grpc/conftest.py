"""Node groups behind a server of the external gRPC protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.machines.external_grpc import ExternalGrpcNodeGroups
from testbed.cluster import Cluster


@pytest.fixture
def machines(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[ExternalGrpcNodeGroups]:
    machines = ExternalGrpcNodeGroups(cluster, namespace, tmp_path)
    yield machines
    machines.close()


@pytest.fixture
def node_groups(machines: ExternalGrpcNodeGroups) -> ExternalGrpcNodeGroups:
    """The same for stories."""
    return machines
