"""The server of node groups on a real control plane, with the account that an installation gives it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.machines.external_grpc import ExternalGrpcNodeGroups
from support.cluster.nodes import QUICK, Start
from testbed.cluster import Cluster
from testbed.waiting import until


@pytest.fixture
def machines(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[ExternalGrpcNodeGroups]:
    """Groups of kwok behind the server."""
    machines = ExternalGrpcNodeGroups(cluster, namespace, tmp_path)
    yield machines
    machines.close()


def test_nodes_are_ordered_and_removed_through_the_server_with_its_own_rights(
    namespace: str, nodes: Start, machines: ExternalGrpcNodeGroups
) -> None:
    machines.declare()
    nodes(namespace, *QUICK, *machines.flags)
    machines.deploy("web", 4, cpu="900m")
    until("the pods to run", lambda: len(machines.running()) == 4)
    assert len(machines.ready_nodes()) == 2
    machines.scale("web", 0)
    until("all nodes to be removed", lambda: not machines.nodes())
    machines.server.process.stop()
    logs = machines.server.read_logs()
    assert "stopped reason=SIGTERM left=nothing" in logs
    assert "forbidden" not in logs
