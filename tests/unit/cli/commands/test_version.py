"""`trellis version`: the client, the server, and the components that a cluster runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from support.api_server.server import ModelServer
from support.builders.dumps import hide
from trellis import __version__
from trellis.cli.commands import version
from trellis.cli.main import trellis
from trellis.controllers.admission.settings import AdmissionSettings
from trellis.controllers.buffers import settings as buffers
from trellis.controllers.hvpa import settings as hvpa
from trellis.controllers.nodes import settings as nodes
from trellis.controllers.recommender import settings as recommender
from trellis.controllers.updater import settings as updater
from trellis.kube.client import Client
from trellis.sources.cluster.installed_components import COMPONENTS_BY_LEASE


def deployment(server: ModelServer, name: str, image: str, *command: str, namespace: str = "kube-system") -> None:
    container = {"name": "main", "image": image, "command": list(command)}
    spec = {"replicas": 2, "template": {"spec": {"containers": [container]}}}
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    server.put(path, {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec, "status": {"readyReplicas": 1}})


@pytest.fixture
def server() -> ModelServer:
    server = ModelServer()
    server.objects["/version"] = {"major": "1", "minor": "34", "gitVersion": "v1.34.2"}
    deployment(server, "trellis-updater", "example.com/trellis:0.1.0", "trellis", "updater")
    deployment(server, "vpa-recommender", "registry/vpa-recommender:1.5.0@sha256:abc", "/recommender")
    deployment(server, "web", "shop/web:3", "serve", namespace="shop")
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/vpa-updater"
    holder = {"holderIdentity": "trellis-updater-5d8f7c9b64-x7k2p_6f1e"}
    server.put(lease, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": holder})
    return server


@pytest.fixture
def run(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    @asynccontextmanager
    async def connected(*_: object) -> AsyncIterator[tuple[Client, str]]:
        yield server.client, "shop"

    monkeypatch.setattr(version, "open_chosen_client", connected)
    return lambda *arguments: CliRunner().invoke(trellis, ["version", *arguments])


def test_components_are_found_by_their_deployments(run: Callable[..., Result]) -> None:
    result = run("-o", "json")
    document: Any = json.loads(result.stdout)
    assert (result.exit_code, document["client"]["version"]) == (0, __version__)
    assert document["server"]["version"].startswith("v1.")
    found = {item["component"]: item for item in document["components"]}
    assert found.keys() == {"updater", "recommender"}
    assert (found["updater"]["version"], found["recommender"]["version"]) == ("0.1.0", "1.5.0")
    assert (found["updater"]["ready"], found["updater"]["replicas"]) == (1, 2)
    assert (found["updater"]["leader"], found["recommender"]["leader"]) == ("trellis-updater-5d8f7c9b64-x7k2p_6f1e", "")


@pytest.mark.parametrize(("renewed", "found"), [("2999-01-01T00:00:00Z", True), ("2020-01-01T00:00:00Z", False)])
def test_a_process_outside_of_the_cluster_is_found_by_the_lease_that_it_renews(
    run: Callable[..., Result], server: ModelServer, renewed: str, found: bool
) -> None:
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/trellis-nodes"
    spec = {"holderIdentity": "laptop_1", "renewTime": renewed, "leaseDurationSeconds": 15}
    server.put(lease, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec})
    components = {item["component"]: item for item in json.loads(run("-o", "json").stdout)["components"]}
    assert ("nodes" in components) is found
    if found:
        assert (components["nodes"]["leader"], components["nodes"]["deployment"]) == ("laptop_1", "")
        rows = [line.split() for line in run().stdout.splitlines()]
        assert ["nodes", "-", "-", "kube-system/-", "-", "laptop_1"] in rows


def test_a_pod_of_a_deployment_with_a_longer_name_is_not_its_leader(
    run: Callable[..., Result], server: ModelServer
) -> None:
    deployment(server, "trellis", "trellis:1", "trellis", "updater")
    components = {item["deployment"]: item for item in json.loads(run("-o", "json").stdout)["components"]}
    assert components["trellis"]["leader"] == ""
    assert components["trellis-updater"]["leader"].startswith("trellis-updater-")


def test_the_leases_are_those_of_the_components() -> None:
    assert {
        recommender.LEASE: "recommender",
        updater.LEASE: "updater",
        AdmissionSettings().presence.status_lease_name: "admission-controller",
        hvpa.LEASE: "hvpa",
        buffers.LEASE: "buffers",
        nodes.LEASE: "nodes",
    } == COMPONENTS_BY_LEASE


def test_the_text_is_a_table(run: Callable[..., Result]) -> None:
    lines = run().stdout.splitlines()
    assert lines[0].startswith(f"client  {__version__} (Python 3.")
    assert lines[1].startswith("server  v1.")
    assert lines[3].split() == ["component", "version", "ready", "deployment", "image", "leader"]
    assert lines[4].split()[:4] == ["updater", "0.1.0", "1/2", "kube-system/trellis-updater"]


def test_on_a_narrow_terminal_what_is_known_of_a_component_stands_below_its_name(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Result]
) -> None:
    monkeypatch.setattr(version, "get_wrap_width", lambda: 60)
    lines = run().stdout.splitlines()
    assert lines[3:6] == ["updater", "  version: 0.1.0", "  ready: 1/2"]
    assert max(map(len, lines)) <= 60


def test_a_namespace_limits_the_components(run: Callable[..., Result]) -> None:
    assert "The cluster runs no component of Trellis or of upstream's VPA." in run("-n", "shop").stdout
    assert len(json.loads(run("-n", "kube-*", "-o", "json").stdout)["components"]) == 2


def test_forbidden_deployments_are_a_partial_answer(run: Callable[..., Result], server: ModelServer) -> None:
    hide(server)
    result = run("-o", "json")
    assert result.exit_code == 1
    assert "Deployments in all namespaces: may not be read" in result.stderr
    assert len(json.loads(result.stdout)["components"]) == 2  # those of kube-system


def test_the_client_alone_asks_no_cluster(tmp_path: Path) -> None:
    arguments = ["version", "--client", "--kubeconfig", str(tmp_path / "none")]
    result = CliRunner().invoke(trellis, arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"client  {__version__}")


def test_without_a_cluster_the_client_is_printed_all_the_same(tmp_path: Path) -> None:
    result = CliRunner().invoke(trellis, ["version", "--kubeconfig", str(tmp_path / "none")])
    assert (result.exit_code, result.stdout.split()[:2]) == (1, ["client", __version__])
    assert "no such file" in result.stderr


def test_a_cluster_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def never(*_: object) -> AsyncIterator[tuple[Client, str]]:
        await asyncio.Event().wait()
        yield ModelServer().client, ""

    monkeypatch.setattr(version, "open_chosen_client", never)
    monkeypatch.setattr(version, "_TIMEOUT", 0.01)
    result = CliRunner().invoke(trellis, ["version"])
    assert (result.exit_code, "did not answer within" in result.stderr) == (1, True)
