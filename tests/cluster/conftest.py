"""One real control plane for all tests of a run, and a namespace for each test.

Tests that wait for real controllers should run side by side: `pytest -n 4 tests/cluster`. All workers use
the same control plane.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from testbed import building
from testbed.cluster import Cluster
from testbed.control_plane import BARE, ControlPlane
from testbed.errors import HarnessError
from testbed.scratch import scratch
from testbed.sharing import shared_cluster

NEEDS_PROGRAMS = {"cluster", "own_api_server"}


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Compile before the first test starts: a cold build takes minutes, and a test may not.

    Capturing is off meanwhile, so that its progress can be seen. If it fails, the fixtures say why.
    """
    wanted = any(NEEDS_PROGRAMS & set(getattr(item, "fixturenames", ())) for item in session.items)
    if not wanted or session.config.option.collectonly:
        return
    capturing = session.config.pluginmanager.getplugin("capturemanager")
    with capturing.global_and_fixture_disabled() if capturing else nullcontext():
        try:
            building.ensure()
        except HarnessError:
            return


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """The control plane of this run: three large nodes, our definitions, metrics-server."""
    worker = "PYTEST_XDIST_WORKER" in os.environ
    run = os.environ["PYTEST_XDIST_TESTRUNUID"] if worker else f"pid-{os.getpid()}"
    return shared_cluster(run, os.getppid() if worker else os.getpid())


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of this test's own, in which pods can be created at once."""
    test = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_"))[:40].strip("-")
    name = cluster.create_namespace(test)
    yield name
    cluster.delete_namespace(name)


@pytest.fixture
def own_api_server() -> Iterator[ControlPlane]:
    """An API server that a test may kill and start again. It has no controllers and no nodes."""
    with scratch() as directory, ControlPlane(directory, BARE) as plane:
        yield plane
