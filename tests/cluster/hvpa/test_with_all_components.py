"""Recommender, webhook, updater and Hvpa controller at one workload: sizes reach pods, new ones and old ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.cluster.admission import BOOST, cpu, wait_for_webhook_calls
from support.cluster.hvpas import Start, advise, get_published_size, get_replicas, hvpa, hvpa_controllers, hvpa_path
from support.cluster.updaters import by_uid, updaters, wait_for_two_passes
from support.cluster.vpas import vpa_path
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.kwok import annotations as ask
from testbed.waiting import until
from testbed.workloads import container, deployment

Webhook = Callable[..., Controller]


@pytest.fixture
def controller(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    with hvpa_controllers(cluster, tmp_path) as start:
        yield start


@pytest.fixture
def updater(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    with updaters(cluster, tmp_path) as start:
        yield start


def sizes(cluster: Cluster, namespace: str) -> list[str | None]:
    return sorted((cpu(pod) for pod in cluster.list_pods(namespace, "web")), key=str)


@pytest.mark.req("HV-37")
def test_pods_are_boosted_from_what_the_hvpa_decided_and_come_back_to_it(
    cluster: Cluster, namespace: str, controller: Start, updater: Start, admission: Webhook
) -> None:
    api = cluster.api
    admission(namespace)
    wait_for_webhook_calls(cluster, namespace)
    api.create(deployment("web", container(cpu="6", memory="2G"), replicas=2), namespace)
    cluster.wait_for_ready_pods(namespace, "web", 2)
    boost = {"cpu": {"type": "Factor", "factor": 2, "duration": "8s"}}
    api.create(hvpa("web", vpa={"template": {"spec": {"startupBoost": boost}}}), namespace)
    controller(namespace)
    updater(namespace)
    until("a seed", lambda: api.get(hvpa_path(namespace, "web"))["spec"].get("replicas") == 2)
    until("its VPA", lambda: api.find(vpa_path(namespace, "web")) is not None)
    advise(cluster, namespace, 12_000, 24_000)
    until("three of eight", lambda: sizes(cluster, namespace) == ["8"] * 3)

    known = by_uid(cluster.list_pods(namespace, "web"))
    gone = next(iter(known.values()))["metadata"]["name"]
    api.delete(f"/api/v1/namespaces/{namespace}/pods/{gone}")

    def new_one() -> Json | None:
        result = by_uid(cluster.list_pods(namespace, "web"))
        return next((pod for uid, pod in result.items() if uid not in known), None)

    boosted = until("a new pod", new_one)
    assert cpu(boosted) == "16"
    assert f"{BOOST}app" in boosted["metadata"]["annotations"]
    until("the end of the boost", lambda: sizes(cluster, namespace) == ["8"] * 3)
    until("the same size as ever", lambda: get_published_size(cluster, namespace, "web") == (8000, 2_000_000_000))
    assert get_replicas(cluster, namespace, "web") == 3


@pytest.mark.req("HV-37")
def test_requirements_of_the_vpa_template_hold_back_what_the_hvpa_decided(
    cluster: Cluster, namespace: str, controller: Start, updater: Start, admission: Webhook
) -> None:
    api = cluster.api
    admission(namespace)
    wait_for_webhook_calls(cluster, namespace)
    api.create(deployment("web", container(cpu="6", memory="2G"), replicas=2), namespace)
    cluster.wait_for_ready_pods(namespace, "web", 2)
    up = {"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}
    template = {"spec": {"updatePolicy": {"actuationRequirements": [up]}}}
    api.create(hvpa("web", vpa={"template": template}), namespace)
    controller(namespace)
    sizing = updater(namespace, "--updater-interval=1s")
    until("a seed", lambda: api.get(hvpa_path(namespace, "web"))["spec"].get("replicas") == 2)
    until("its VPA", lambda: api.find(vpa_path(namespace, "web")) is not None)
    advise(cluster, namespace, 6001, 12_001)
    until("three of 4.001", lambda: get_published_size(cluster, namespace, "web") == (4001, 2_000_000_000))
    cluster.wait_for_ready_pods(namespace, "web", 3)
    # What is there already may only grow, and a pod that is new gets what was decided.
    wait_for_two_passes(sizing)
    assert sizes(cluster, namespace) == ["6"] * 3
    gone, *_ = cluster.list_pods(namespace, "web")
    api.delete(f"/api/v1/namespaces/{namespace}/pods/{gone['metadata']['name']}")
    until("a smaller one", lambda: sizes(cluster, namespace) == ["4001m", "6", "6"])
    advise(cluster, namespace, 12_000, 24_000)
    until("three of eight", lambda: sizes(cluster, namespace) == ["8"] * 3)


def test_totals_of_the_recommender_decide_and_its_history_does_not_run_away(
    cluster: Cluster, namespace: str, controller: Start, recommender: Start
) -> None:
    used = {ask.USAGE_CPU: "5", ask.USAGE_MEMORY: "1G"}
    cluster.api.create(deployment("web", container(cpu="6", memory="2G"), replicas=1, annotations=used), namespace)
    cluster.wait_for_ready_pods(namespace, "web", 1)
    cluster.api.create(hvpa("web", vpa={"deploy": True}), namespace)
    controller(namespace)
    recommender(namespace, "--recommender-interval=1s")
    # One replica holds 3 cores, two hold 12.
    until("two replicas", lambda: get_replicas(cluster, namespace, "web") == 2)
