"""The webhook with an API server that lacks something, goes away and comes back: never wrong, and never in the way."""

from __future__ import annotations

import pytest

from support.cluster.admission import (
    Start,
    advise,
    cpu,
    create_vpa,
    dry_run,
    owned,
    reviewer,
    wait_for_current_advice,
    wait_for_webhook_calls,
)
from support.controllers.admission import build_pod_review, patch_in
from support.json_patch import apply_patch
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.control_plane import ControlPlane
from testbed.errors import Refused
from testbed.keeper import list_definitions
from testbed.waiting import until
from testbed.workloads import deployment, pod

SHOP = "shop"


@pytest.fixture
def cluster(own_api_server: ControlPlane) -> Cluster:
    """An API server of this test's own, which does not know our kinds yet."""
    api = own_api_server.cluster.api
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}})
    api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, SHOP)
    return own_api_server.cluster


def test_it_is_ready_once_its_caches_are_synced_and_survives_an_outage_of_the_api_server(
    cluster: Cluster, own_api_server: ControlPlane, admission: Start
) -> None:
    owner = cluster.api.create(deployment("web", replicas=0), SHOP)
    made = owned(pod("web-1"), owner)
    controller = admission(SHOP)
    result = until("pods to be asked about", lambda: warned(cluster, made))
    assert result == [
        "A new pod was admitted unchanged, because the caches of the admission controller had not synced."
    ]
    status, text = controller.get("/readyz")
    assert status != 200
    assert "verticalpodautoscalers" in text

    cluster.install_definitions(list_definitions())
    until("it to be ready", lambda: controller.get("/readyz")[0] == 200)
    create_vpa(cluster, SHOP, "web", {"app": {"cpu": "300m"}})
    wait_for_webhook_calls(cluster, SHOP)
    wait_for_current_advice(cluster, SHOP)
    assert cpu(dry_run(cluster, SHOP, made)) == "300m"

    review = reviewer(cluster)
    assert "forbidden" not in controller.read_logs().lower()
    own_api_server.kill("kube-apiserver")
    response = review(build_pod_review(made, SHOP))
    assert cpu(apply_patch(made, patch_in(response))) == "300m"
    assert controller.get("/readyz")[0] == 200
    own_api_server.start("kube-apiserver")
    own_api_server.wait_until_ready()
    advise(cluster, SHOP, "web", {"app": {"cpu": "450m"}})
    until("the new recommendation", lambda: cpu(dry_run(cluster, SHOP, made)) == "450m")
    most = [{"type": "Container", "max": {"cpu": "400m"}}]
    cluster.api.create(
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "most"}, "spec": {"limits": most}}, SHOP
    )
    # Its default limit is its maximum: four times the request that the pod came with, and so the request stays.
    until("the LimitRange", lambda: cpu_if_taken(cluster, made) == "100m")


def cpu_if_taken(cluster: Cluster, made: Json) -> str | None:
    """None while the API server knows the LimitRange and we do not: the limit that follows the request is too much."""
    try:
        return cpu(dry_run(cluster, SHOP, made))
    except Refused:
        return None


def warned(cluster: Cluster, made: Json) -> list[str] | None:
    stored, warnings = cluster.api.send_with_warnings("POST", f"/api/v1/namespaces/{SHOP}/pods?dryRun=All", made)
    assert cpu(stored) == "100m"
    return warnings or None
