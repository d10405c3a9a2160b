"""One real control plane for all tests of a run, and a namespace for each test.

Tests that wait for real controllers should run side by side: `pytest -n 4 --dist worksteal tests/cluster`. All workers
use the same control plane. Each begins with a stretch of its own, so that those who take turns are mostly in one.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path

import pytest

from support.cluster.admission import admission_controllers
from support.cluster.controllers import DENIED, shipped_controllers
from support.cluster.nodes import NodeGroups, Start, node_controllers
from testbed import prometheus as prometheus_server
from testbed.access import upstream_accounts
from testbed.cluster import Cluster
from testbed.control_plane import BARE, ControlPlane
from testbed.controllers import Controller, run_controller
from testbed.errors import HarnessError
from testbed.node import sandbox
from testbed.programs import building
from testbed.programs.versions import (
    BY_NAME,
    CLUSTER_API,
    KARPENTER_PROGRAMS,
    NEEDED,
    NODE_PROGRAMS,
    PROMETHEUS,
    PROMTOOL,
    UPSTREAM_RECOMMENDER,
    Program,
)
from testbed.scratch import scratch
from testbed.sharing import shared_cluster

# Which programs a fixture starts; those of the others are not compiled.
PROGRAMS: dict[str, tuple[Program, ...]] = {
    "cluster": NEEDED,
    "own_api_server": NEEDED,
    "karpenter": (*NEEDED, *KARPENTER_PROGRAMS),
    "node_programs": (*NEEDED, *NODE_PROGRAMS),
    "prometheus": (PROMETHEUS, PROMTOOL),
    "promtool": (PROMTOOL,),
    "upstream_recommender": (UPSTREAM_RECOMMENDER,),
    "machine_groups": (*NEEDED, CLUSTER_API),
}


# What a test may take at most. It waits for real programs and for its turn with what a cluster has once, on a machine
# that others use as well; what takes too long says so much earlier, by what it waited for.
MOST_SECONDS = 900.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder their time."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(MOST_SECONDS))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Compile before the first test starts: a cold build takes minutes, and a test may not.

    Capturing is off meanwhile, so that its progress can be seen. If it fails, the fixtures say why.
    """
    fixtures = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    if sandbox.find_problem():
        fixtures.discard("node_programs")
    wanted = {program for name in PROGRAMS.keys() & fixtures for program in PROGRAMS[name]}
    if not wanted or session.config.option.collectonly:
        return
    capturing = session.config.pluginmanager.getplugin("capturemanager")
    with capturing.global_and_fixture_disabled() if capturing else nullcontext():
        try:
            building.ensure_programs(program for program in BY_NAME.values() if program in wanted)
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


@pytest.fixture
def node_programs() -> None:
    """Have what a real node runs of."""
    sandbox.fetch_programs()


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Callable[..., prometheus_server.Prometheus]]:
    """Start a Prometheus that knows the samples of an OpenMetrics text; flags of its own may follow."""
    with ExitStack() as servers:

        def start(openmetrics: str, *flags: str) -> prometheus_server.Prometheus:
            directory = tmp_path / f"prometheus-{len(list(tmp_path.glob('prometheus-*')))}"
            directory.mkdir()
            return servers.enter_context(prometheus_server.serving(directory, openmetrics, *flags))

        yield start


@pytest.fixture(scope="session")
def promtool() -> Path:
    """Prometheus' own tool, which checks rules and runs their unit tests."""
    return building.ensure_programs([PROMTOOL])[PROMTOOL.name]


@pytest.fixture
def upstream_recommender(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[..., Controller]]:
    """Start upstream's recommender for the VPAs of one namespace, under an account with its own rights.

    Its log is shown if the test fails.
    """
    started: list[Controller] = []
    with ExitStack() as controllers:

        def start(namespace: str, *flags: str) -> Controller:
            log = tmp_path / f"upstream-recommender-{len(started)}.log"
            own = [f"--vpa-object-namespace={namespace}", *flags]
            command, kubeconfig = (
                [upstream_accounts.RECOMMENDER.path()],
                upstream_accounts.RECOMMENDER.kubeconfig(cluster),
            )
            started.append(controllers.enter_context(run_controller(command, kubeconfig, log, own)))
            return started[-1]

        yield start
    for controller in started:
        sys.stdout.write(f"{controller.process.log.name}:\n{controller.read_logs()}\n")


@pytest.fixture
def recommender(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[..., Controller]]:
    """Start `trellis recommender` for the VPAs of one namespace, under the account and the roles that Trellis ships.

    A right that is missing fails the test. The log is shown if it fails.
    """
    usual = ["--recommender-interval=5s"]
    with shipped_controllers(cluster, tmp_path, "recommender", lambda _: usual, never=(DENIED,)) as start:
        yield start


@pytest.fixture
def admission(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Controller]]:
    """Start `trellis admission-controller` for one namespace, under the account and the roles that Trellis ships.

    Tests side by side take turns: a cluster has one webhook configuration. A right that is missing, or an error of our
    own, fails the test, but for one that starts its API server anew: that forbids everything until it has read its
    roles. The log is shown if it fails.
    """
    with admission_controllers(cluster, tmp_path, restarts="own_api_server" in request.fixturenames) as start:
        yield start


@pytest.fixture
def nodes(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Starts node autoscalers, and ends them."""
    with node_controllers(cluster, tmp_path) as start:
        yield start


@pytest.fixture
def node_groups(cluster: Cluster, namespace: str) -> Iterator[NodeGroups]:
    """Groups of nodes for one test."""
    node_groups = NodeGroups(cluster, namespace)
    yield node_groups
    node_groups.close()
