"""One real node for all tests of a run, and a namespace for each test.

`make node-test` starts the node and its control plane in a sandbox and runs these tests inside. Anywhere else they are
skipped, with the reason.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.cluster import Cluster
from testbed.node import sandbox
from testbed.node.real_node import RealNode
from testbed.node.running import find_cluster

# What a test may take at most: containers start and stop in their own time.
MOST_SECONDS = 300.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, give them their time, and skip them where there is no node."""
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    reason = "" if sandbox.DIRECTORY_VARIABLE in os.environ else sandbox.find_problem() or "`make node-test` runs it"
    for item in here:
        item.add_marker(pytest.mark.node)
        item.add_marker(pytest.mark.timeout(MOST_SECONDS))
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """The control plane beside the node."""
    return find_cluster()


@pytest.fixture(scope="session")
def node(cluster: Cluster) -> RealNode:
    """The node."""
    return RealNode(cluster)


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of this test's own, in which pods can be created at once."""
    test = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_"))[:40].strip("-")
    name = cluster.create_namespace(test)
    yield name
    cluster.delete_namespace(name)
