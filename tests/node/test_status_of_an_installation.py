"""`trellis status`, `trellis doctor` and `trellis top` on an installation whose pods really run.

Metrics come from the pods through the API server's proxy, states and logs from the kubelet.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from click.testing import CliRunner

from support.node.install import NAMESPACE, installed
from testbed.cluster import Cluster
from testbed.node.real_node import RealNode
from testbed.waiting import until
from trellis import __version__
from trellis.cli.main import trellis
from trellis.runtime.manager.settings import COMPONENTS

FLAGS = {
    "recommender": ("--leader-elect=true", "--recommender-interval=1s"),
    "updater": ("--leader-elect=true", "--updater-interval=1s"),
    "admission": ("--webhook-timeout-seconds=30",),
}
UPDATER = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/vpa-updater"
# Those that tests side by side, on the same control plane, may cause: objects, nodes without groups.
OTHERS = {"VpasWithoutRecommendation", "ComponentMissing", "NoPriority"}


def test_an_installation_that_works_and_one_that_does_not(cluster: Cluster, node: RealNode, namespace: str) -> None:
    def ask(command: str, *arguments: str) -> str:
        kubeconfig = ["--kubeconfig", str(cluster.kubeconfig)]
        environment = {"COLUMNS": "80"}
        result = CliRunner().invoke(
            trellis, [command, *arguments, *kubeconfig], env=environment, catch_exceptions=False
        )
        assert result.stdout, result.stderr
        return result.stdout

    def status() -> Any:
        return json.loads(ask("status", "-o", "json"))

    with installed(cluster, node, namespace, FLAGS):
        until("all passes to be known", lambda: has_passes(status()))
        sys.stdout.write(ask("status", "--probe") + ask("doctor") + ask("top", "-n", NAMESPACE))
        found = status()
        check_components(found)
        assert found["unknown"] == []
        assert "CertificateExpired" not in list_reasons(found)
        accounts = next(
            item for item in json.loads(ask("doctor", "-o", "json"))["checks"] if item["check"] == "accounts"
        )
        assert accounts["findings"] == []
        check_failures(cluster, status)
        sys.stdout.write(ask("status"))


def has_passes(found: Any) -> bool:
    passing = {"recommender", "updater", "nodes"}
    rows = {row["component"]: row for row in found["components"]}
    return all(rows[component]["lastPassAgeSeconds"] is not None for component in passing) and all(
        rows[component]["ready"] == 1 for component in COMPONENTS
    )


def check_components(found: Any) -> None:
    for row in found["components"]:
        assert (row["provider"], row["ready"], row["replicas"]) == ("Trellis", 1, 1), row
        assert row["versions"] == [__version__], row
        if row["component"] != "admission":
            assert row["leaders"], row


def list_reasons(found: Any) -> list[str]:
    return [finding["reason"] for finding in found["findings"] if finding["reason"] not in OTHERS]


def check_failures(cluster: Cluster, status: Callable[[], Any]) -> None:
    """A flag that is wrong, and then an image that is wrong, each with what the kubelet and the log say."""

    def find(reason: str) -> Any:
        return next((item for item in status()["findings"] if item["reason"] == reason), None)

    change_updater(cluster, "add", "/args/-", "--updater-interval=never")
    until(
        "the crash to be found",
        lambda: find("ComponentCrashes") is not None and "never" in find("ComponentCrashes")["message"],
    )
    change_updater(cluster, "replace", "/image", "localhost/absent:none")
    until("the image to be found", lambda: find("ImageNotPulled"))
    assert "localhost/absent:none" in find("ImageNotPulled")["message"]


def change_updater(cluster: Cluster, operation: str, path: str, value: str) -> None:
    patch = [{"op": operation, "path": f"/spec/template/spec/containers/0{path}", "value": value}]
    cluster.api.patch(UPDATER, patch, "application/json-patch+json")
