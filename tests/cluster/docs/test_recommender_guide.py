"""The guide to the recommender shows what a real control plane shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import yaml

from support.cluster.vpas import (
    USAGE_SECONDS,
    get_container_recommendations,
    get_memory_target,
    get_vpa_status,
    vpa_path,
)
from testbed.access.shipped_accounts import ROOT
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.kwok import annotations as ask
from testbed.waiting import until

GUIDE: Final = (ROOT / "docs" / "guides" / "recommender.md").read_text()
# Whoever starts there sees the same.
BEGINNING: Final = ROOT / "docs" / "getting-started.md"
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
SHOWN: Final = re.compile(r"^\$ kubectl get vpa web\n(NAME .*)\n(web .*)$", re.MULTILINE)
MIB: Final = 1024 * 1024


def shown(page: str) -> dict[str, str]:
    """The columns that a page shows, without the age."""
    [(names, cells)] = SHOWN.findall(page)
    return dict(zip(names.split()[:-1], cells.split()[:-1], strict=True))


def printed(cluster: Cluster, namespace: str) -> dict[str, str]:
    """The columns that kubectl would print."""
    table = cluster.api.send("GET", vpa_path(namespace, "web"), accept=TABLE)
    [row] = table["rows"]
    cells = zip(table["columnDefinitions"], row["cells"], strict=True)
    return {one["name"].upper(): str(cell) for one, cell in cells if one["priority"] == 0 and one["name"] != "Age"}


def status_shown() -> Json:
    [text] = re.findall(r"^```yaml\n(status:\n.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    status: Json = yaml.safe_load(text)["status"]
    return status


def conditions(status: Json) -> set[tuple[str, str, str]]:
    return {(condition["type"], condition["status"], condition.get("reason", "")) for condition in status["conditions"]}


def sizes(recommended: dict[str, Any]) -> dict[str, Any]:
    """What of a recommendation stands still while history grows."""
    return {name: (target["target"], target["uncappedTarget"]) for name, target in recommended.items()}


def test_the_guide_shows_what_a_cluster_shows(
    cluster: Cluster, namespace: str, recommender: Callable[..., Controller]
) -> None:
    cluster.apply_files([ROOT / "examples" / "web" / name for name in ("workload.yaml", "autoscaling.yaml")], namespace)
    pods = cluster.wait_for_ready_pods(namespace, "web", count=4)
    usage = dict(re.findall(r"(testbed/[\w.-]+)=(\w+)", GUIDE))
    for pod in pods:
        cluster.api.annotate(f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}", usage)
    recommender(namespace)

    expected = shown(GUIDE)
    # Samples of a busy machine may be wide of the mark; those that follow outweigh them.
    until("the row of the guide", lambda: printed(cluster, namespace) == expected, 2 * USAGE_SECONDS)
    assert shown(BEGINNING.read_text()) == expected
    status = status_shown()
    listed = {
        recommendation["containerName"]: recommendation
        for recommendation in status["recommendation"]["containerRecommendations"]
    }
    containers = get_container_recommendations(cluster, namespace, "web")
    assert sizes(containers) == sizes(listed)
    assert containers["app"]["upperBound"] == listed["app"]["upperBound"]
    assert conditions(get_vpa_status(cluster, namespace, "web")) == conditions(status)

    [killed] = re.findall(r"with 512Mi that is killed once gets a target of about (\d+)Mi", " ".join(GUIDE.split()))
    cluster.api.annotate(
        f"/api/v1/namespaces/{namespace}/pods/{pods[0]['metadata']['name']}", {ask.OOM_KILLED: "app=1"}
    )
    until(
        "more memory after the kill",
        lambda: round(get_memory_target(cluster, namespace, "web") / MIB) == int(killed),
    )
