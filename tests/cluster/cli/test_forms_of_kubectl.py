"""`trellis version`, objects as kubectl names them, and completion, on a real API server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from support.cluster.vpas import vpa
from testbed import workloads
from testbed.cluster import Cluster
from trellis import __version__
from trellis.cli.main import trellis


@pytest.fixture
def shop(cluster: Cluster, namespace: str) -> str:
    """A Deployment and its VPA."""
    cluster.api.create(workloads.deployment("web", replicas=2), namespace)
    cluster.api.create(vpa("web", updatePolicy={"updateMode": "Off"}), namespace)
    cluster.wait_for_ready_pods(namespace, "web", 2)
    return namespace


def run(cluster: Cluster, *arguments: str) -> Result:
    return CliRunner().invoke(trellis, [*arguments, "--kubeconfig", str(cluster.kubeconfig)])


def test_a_workload_is_explained_by_its_short_kind(cluster: Cluster, shop: str) -> None:
    result = run(cluster, "explain", "deploy/web", "-n", shop, "-o", "json")
    assert result.exit_code in (0, 1), result.output  # nobody knows what containers use
    document: Any = json.loads(result.stdout)
    assert (document["workload"]["replicas"], document["workload"]["ready"]) == (2, 2)
    assert (document["vpa"]["name"], len(document["pods"])) == ("web", 2)
    older = run(cluster, "explain", "vpa", "web", "-n", shop).output.splitlines()
    assert run(cluster, "explain", "vpa/web", "-n", shop).output.splitlines()[2:6] == older[2:6]


def test_the_version_has_the_server_and_its_components(cluster: Cluster, shop: str) -> None:
    container = {"name": "main", "image": "trellis:9.8.7", "command": ["trellis", "updater"]}
    deployment = workloads.deployment("my-updater", replicas=1)
    deployment["spec"]["template"]["spec"]["containers"] = [container]
    cluster.api.create(deployment, shop)
    result = run(cluster, "version", "-n", shop, "-o", "json")
    document: Any = json.loads(result.stdout)
    assert (result.exit_code, document["client"]["version"]) == (0, __version__), result.stderr
    assert document["server"]["version"].startswith("v1.")
    [component] = document["components"]
    assert (component["component"], component["version"], component["deployment"]) == ("updater", "9.8.7", "my-updater")


def test_namespaces_and_objects_are_completed(cluster: Cluster, shop: str) -> None:
    completer = ShellComplete(trellis, {}, "trellis", "")
    words = ["explain", "--kubeconfig", str(cluster.kubeconfig), "-n"]
    assert shop in [item.value for item in completer.get_completions(words, shop[:3])]
    assert [item.value for item in completer.get_completions([*words, shop], "vpa/")] == ["vpa/web"]
