"""The guide to the updater shows what a real control plane shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from support.cluster.admission import wait_for_current_advice, wait_for_webhook_calls
from support.cluster.updaters import Start, events, updaters
from support.cluster.vpas import USAGE_SECONDS, get_container_recommendations
from testbed.access.shipped_accounts import ROOT
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.waiting import until

GUIDE: Final = (ROOT / "docs" / "guides" / "updater.md").read_text()
SHOWN: Final = re.compile(
    r"^\$ kubectl get pods -l app=web -o custom-columns=\$SIZES\nNAME .*\n((?:web-.*\n)+)", re.MULTILINE
)
USAGE: Final = dict(re.findall(r"(testbed/[\w.-]+)=(\w+)", GUIDE))
FILES: Final = ROOT / "examples" / "web"
Sizes = set[tuple[str, ...]]


def shown() -> list[Sizes]:
    """What the guide shows of the pods, one after another, without their names."""
    return [{tuple(line.split()[1:]) for line in table.splitlines()} for table in SHOWN.findall(GUIDE)]


def sizes(cluster: Cluster, namespace: str) -> Sizes:
    """What kubectl would print."""
    sizes = set()
    for pod in cluster.list_pods(namespace, "web"):
        requests = [container["resources"]["requests"] for container in pod["spec"]["containers"]]
        sizes.add(tuple(",".join(request[resource] for request in requests) for resource in ("cpu", "memory")))
    return sizes


def targets(cluster: Cluster, namespace: str) -> Sizes:
    """What is recommended for each pod, as they would be printed."""
    result = [container["target"] for container in get_container_recommendations(cluster, namespace, "web").values()]
    return {tuple(",".join(amounts[resource] for amounts in result) for resource in ("cpu", "memory"))}


def ours(cluster: Cluster, namespace: str, reason: str) -> set[str]:
    """The messages of the Events of that reason."""
    return {event["message"] for event in events(cluster, namespace, reason)}


@pytest.fixture
def updater(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Start `trellis updater` for the VPAs of one namespace."""
    with updaters(cluster, tmp_path) as start:
        yield start


def test_pods_are_boosted_unboosted_and_resized_as_the_guide_shows(
    cluster: Cluster,
    namespace: str,
    admission: Start,
    updater: Start,
    recommender: Callable[..., Controller],
) -> None:
    boosted, plain, recommended = shown()
    admission(namespace)
    wait_for_webhook_calls(cluster, namespace)
    cluster.apply_files([FILES / "autoscaling.yaml"], namespace)
    wait_for_current_advice(cluster, namespace)
    cluster.apply_files([FILES / "workload.yaml"], namespace)

    until(
        "boosted pods", lambda: len(cluster.list_pods(namespace, "web")) == 4 and sizes(cluster, namespace) == boosted
    )
    # Not before: it takes boosts back.
    first = updater(namespace, "--updater-interval=1m")
    pods = {pod["metadata"]["uid"] for pod in cluster.list_pods(namespace, "web")}
    until("the end of the boost", lambda: sizes(cluster, namespace) == plain)
    first.process.stop()

    for pod in cluster.list_pods(namespace, "web"):
        cluster.api.annotate(f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}", USAGE)
    recommender(namespace)
    # The first samples of a busy machine may be wide of the mark, and a pod is not resized again for so little.
    until("the targets of the guide", lambda: targets(cluster, namespace) == recommended, 2 * USAGE_SECONDS)
    updater(namespace, "--updater-interval=1m")
    until("the sizes of the guide", lambda: sizes(cluster, namespace) == recommended)
    after = cluster.wait_for_ready_pods(namespace, "web", 4)
    assert {resized_pod["metadata"]["uid"] for resized_pod in after} == pods
    restarts = [
        status["restartCount"] for resized_pod in after for status in resized_pod["status"]["containerStatuses"]
    ]
    assert restarts == [0] * 8
    [message] = set(re.findall(r"InPlaceResizedByVPA +Pod/\S+ +(.*)", GUIDE))
    until("Events of it", lambda: ours(cluster, namespace, "InPlaceResizedByVPA") == {message})

    freeze, who = re.findall(r"kubectl annotate namespace shop (\S+)=(\w+)", GUIDE)[0]
    cluster.api.annotate(f"/api/v1/namespaces/{namespace}", {freeze: who})
    [frozen] = set(re.findall(r"Frozen +VerticalPodAutoscaler/web +(4 pods: .*\.) \(", GUIDE))
    expected = {f"{frozen} (the namespace is frozen by {who})"}
    until("an Event that says who", lambda: ours(cluster, namespace, "Frozen") == expected)
