"""A kind of target from another package, on a real control plane: a wheel beside Trellis, with the right to read it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.cluster.buffers import Start, buffer_controllers, count_chunks, find_buffer_condition, get_requests
from support.wheels import build_wheel, install
from testbed.access.rights import wait_until_granted
from testbed.access.shipped_accounts import ROOT
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.waiting import until

EXAMPLE = ROOT / "examples" / "buffer-target"
GROUP = "games.example.com"


@pytest.fixture
def controller(
    cluster: Cluster, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Start]:
    work = tmp_path_factory.mktemp("wheel")
    install(build_wheel(EXAMPLE, work), work / "site")
    monkeypatch.setenv("PYTHONPATH", str(work / "site"))
    with buffer_controllers(cluster, tmp_path) as start:
        yield start


@pytest.fixture
def games(cluster: Cluster) -> Iterator[None]:
    """The kind, which has neither a scale nor a template, and the right to read it."""
    anything: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    names = {"kind": "GameServerSet", "plural": "gameserversets", "singular": "gameserverset"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gameserversets.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    cluster.api.apply(definition)
    role, binding = yaml.safe_load_all((EXAMPLE / "deploy" / "role.yaml").read_text())
    for document in (role, binding):
        cluster.api.apply(document)
    wait_until_granted(cluster.api, "system:serviceaccount:kube-system:trellis-buffers", [role])
    until("the kind to be served", lambda: "GameServerSet" in str(cluster.api.find(f"/apis/{GROUP}/v1")))
    yield
    cluster.api.delete(cluster.api.get_path(definition))


@pytest.mark.usefixtures("games")
def test_a_buffer_keeps_headroom_for_a_kind_that_another_package_knows(
    cluster: Cluster, namespace: str, controller: Start
) -> None:
    game = {"image": "example/chess:3", "perServer": {"cpu": "2", "memory": "1Gi"}}
    chess = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "GameServerSet",
        "metadata": {"name": "chess"},
        "spec": {"game": game},
        "status": {"running": 12},
    }
    cluster.api.create(chess, namespace)
    made = yaml.safe_load((EXAMPLE / "deploy" / "buffer.yaml").read_text())
    made["metadata"]["namespace"] = namespace
    cluster.api.create(made, namespace)
    controller(namespace)
    until("three chunks", lambda: count_chunks(cluster, namespace, "chess") == 3)
    assert get_requests(cluster, namespace, "chess") == {"cpu": "2", "memory": "1Gi"}
    assert find_buffer_condition(cluster, namespace, "chess") == ("True", "BufferReady")
    path = f"/apis/{GROUP}/v1/namespaces/{namespace}/gameserversets/chess"
    cluster.api.patch(path, {"status": {"running": 20}})
    until("five chunks", lambda: count_chunks(cluster, namespace, "chess") == 5)
