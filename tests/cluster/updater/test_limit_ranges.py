"""What the updater makes of a LimitRange: it asks for no more than the API server lets a pod have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.admission import create_vpa as admitted
from support.cluster.admission import resources, wait_for_current_advice, wait_for_webhook_calls
from support.cluster.updaters import (
    NO_LEASE,
    Start,
    by_uid,
    create_vpa_with_advice,
    events,
    requests,
    updaters,
    wait_for_two_passes,
)
from support.cluster.vpas import metric_value
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.waiting import until
from testbed.workloads import container, deployment

OFTEN = "--updater-interval=1s"
# Requests and limits are the same, so that a limit goes where its request goes.
SIZE = {"cpu": "100m", "memory": "128Mi"}


@pytest.fixture
def updater(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Start `trellis updater` for the VPAs of one namespace."""
    with updaters(cluster, tmp_path) as start:
        yield start


def limited(cluster: Cluster, namespace: str, cpu: str) -> None:
    """No container may have more."""
    limits = {"limits": [{"type": "Container", "max": {"cpu": cpu}}]}
    document = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "most"}, "spec": limits}
    cluster.api.create(document, namespace)


def running(cluster: Cluster, namespace: str) -> dict[str, Json]:
    """Two pods of a Deployment by uid."""
    sized = container(resources={"requests": SIZE, "limits": SIZE})
    cluster.api.create(deployment("web", sized, replicas=2), namespace)
    return by_uid(cluster.wait_for_ready_pods(namespace, "web", 2))


@pytest.mark.req("AR-16")
def test_a_pod_is_resized_to_what_a_limit_range_leaves_and_to_more_when_that_is_wider(
    cluster: Cluster, namespace: str, updater: Start
) -> None:
    limited(cluster, namespace, "200m")
    before = running(cluster, namespace)
    create_vpa_with_advice(cluster, namespace, "web", "InPlaceOrRecreate")
    controller = updater(namespace, NO_LEASE, OFTEN)
    until("the resizes", lambda: requests(cluster, namespace, "web") == ["200m"] * 2)
    wait_for_two_passes(controller)
    assert metric_value(controller, "vpa_updater_in_place_updated_pods_total") == 2
    assert not events(cluster, namespace, "PodUpdateRefused")
    wider = {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}}
    cluster.api.patch(f"/api/v1/namespaces/{namespace}/limitranges/most", wider)
    until("the resizes to what is recommended", lambda: requests(cluster, namespace, "web") == ["250m"] * 2)
    assert by_uid(cluster.list_pods(namespace, "web")).keys() == before.keys()
    assert metric_value(controller, "vpa_updater_evicted_pods_total") == 0


def test_a_pod_that_comes_back_with_what_a_limit_range_leaves_is_evicted_no_second_time(
    cluster: Cluster, namespace: str, admission: Start, updater: Start
) -> None:
    admission(namespace)
    wait_for_webhook_calls(cluster, namespace)
    limited(cluster, namespace, "200m")
    before = running(cluster, namespace)
    create_vpa_with_advice(cluster, namespace, "web", "Recreate")
    wait_for_current_advice(cluster, namespace)
    controller = updater(namespace, OFTEN)
    until("all pods to be sized", lambda: requests(cluster, namespace, "web") == ["200m"] * 2)
    assert not before.keys() & by_uid(cluster.wait_for_ready_pods(namespace, "web", 2)).keys()
    wait_for_two_passes(controller)
    assert metric_value(controller, "vpa_updater_evicted_pods_total") == 2


def test_pods_of_a_deployment_that_breaks_a_limit_range_for_pods_are_sized_down_together_and_created(
    cluster: Cluster, namespace: str, admission: Start
) -> None:
    """Only one of the two containers has a recommendation; as written, no pod would be admitted."""
    small, large = {"cpu": "100m", "memory": "100Mi"}, {"cpu": "400m", "memory": "600Mi"}
    admitted(cluster, namespace, "pair", {"a": {"cpu": "400m", "memory": "600Mi"}})
    admission(namespace)
    wait_for_webhook_calls(cluster, namespace)
    wait_for_current_advice(cluster, namespace)
    limits = {"limits": [{"type": "Pod", "max": {"cpu": "400m", "memory": "1Gi"}}]}
    cluster.api.create(
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "most"}, "spec": limits}, namespace
    )
    containers = [
        container(name, resources={"requests": amounts, "limits": amounts})
        for name, amounts in zip("ab", (small, large), strict=True)
    ]
    cluster.api.create(deployment("pair", *containers, replicas=1), namespace)
    [pod] = cluster.wait_for_ready_pods(namespace, "pair", 1)
    half = {"cpu": "200m", "memory": "512Mi"}
    assert resources(pod) == {name: {"requests": half, "limits": half} for name in "ab"}
