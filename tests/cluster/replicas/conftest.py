"""An API server of each test's own: replicas share the namespaces of a whole cluster."""

from __future__ import annotations

import pytest

from testbed.cluster import Cluster
from testbed.control_plane import ControlPlane
from testbed.keeper import list_definitions


@pytest.fixture
def cluster(own_api_server: ControlPlane) -> Cluster:
    """Nothing makes a pod there but the test."""
    cluster = own_api_server.cluster
    cluster.install_definitions(list_definitions())
    return cluster
