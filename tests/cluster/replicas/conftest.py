"""An API server of each test's own: replicas share the namespaces of a whole cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testbed.cluster import Cluster
from testbed.control_plane import BARE, ControlPlane, find_audit_directory
from testbed.keeper import list_definitions
from testbed.scratch import scratch


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Nothing makes a pod there but the test. Only here are the rights to member Leases used, so they are logged."""
    definitions, audit = list_definitions(), find_audit_directory()
    with scratch() as directory, ControlPlane(directory, BARE, definitions=definitions, audit=audit) as plane:
        yield plane.cluster
