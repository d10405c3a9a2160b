"""`trellis updater` on a real control plane, under the account and the roles that Trellis ships."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support.cluster.admission import cpu, wait_for_current_advice, wait_for_webhook_calls
from support.cluster.updaters import (
    MEMORY,
    NO_LEASE,
    Start,
    advise,
    by_uid,
    count_updater_passes,
    create_vpa_with_advice,
    events,
    requests,
    running_pods,
    updaters,
    wait_for_two_passes,
)
from support.cluster.vpas import metric_value, vpa, vpa_path
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.kwok import annotations as ask
from testbed.waiting import until
from testbed.workloads import container, deployment, disruption_budget

BOOST = "vpaCpuStartupBoost/app"
BEFORE = '{"requests":{"cpu":"100m","memory":"128Mi"}}'


@pytest.fixture
def updater(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Start `trellis updater` for the VPAs of one namespace."""
    with updaters(cluster, tmp_path) as start:
        yield start


def in_force(cluster: Cluster, namespace: str) -> list[str]:
    """What the nodes have given the pods."""
    result = [pod["status"]["containerStatuses"][0]["resources"] for pod in cluster.list_pods(namespace, "web")]
    return [resources["requests"]["cpu"] for resources in result]


@pytest.mark.req("AR-16", "AR-20")
def test_pods_are_evicted_in_turn_and_come_back_with_what_is_recommended(
    cluster: Cluster, namespace: str, admission: Start, updater: Start
) -> None:
    admission(namespace)
    wait_for_webhook_calls(cluster, namespace)
    before = running_pods(cluster, namespace, "web", 3)
    create_vpa_with_advice(cluster, namespace, "web", "Recreate")
    wait_for_current_advice(cluster, namespace)
    controller = updater(namespace)
    until("all pods to be sized", lambda: requests(cluster, namespace, "web") == ["250m"] * 3)
    assert not before.keys() & by_uid(cluster.wait_for_ready_pods(namespace, "web", 3)).keys()
    wait_for_two_passes(controller)
    assert metric_value(controller, "vpa_updater_evicted_pods_total", vpa_name="web", update_mode="Recreate") == 3
    until("the Events", lambda: len(events(cluster, namespace, "EvictedByVPA")) == 3)
    result = until("the Event of the VPA", lambda: events(cluster, namespace, "EvictedPod") or None)
    assert result[0]["involvedObject"]["name"] == "web"


@pytest.mark.req("AR-16", "AR-21", "AR-23")
@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "InPlaceOnly"])
def test_pods_are_resized_where_they_run_without_a_restart(
    cluster: Cluster, namespace: str, updater: Start, mode: str
) -> None:
    before = running_pods(cluster, namespace, "web")
    create_vpa_with_advice(cluster, namespace, "web", mode)
    controller = updater(namespace, NO_LEASE)
    until("all pods to be sized", lambda: requests(cluster, namespace, "web") == ["250m"] * 2)
    wait_for_two_passes(controller)
    until("them to be in force", lambda: in_force(cluster, namespace) == ["250m"] * 2)
    after = by_uid(cluster.wait_for_ready_pods(namespace, "web", 2))
    assert after.keys() == before.keys()
    for pod in after.values():
        [status] = pod["status"]["containerStatuses"]
        assert status["restartCount"] == 0
        assert pod["metadata"]["annotations"]["vpaInPlaceUpdated"] == "true"
    assert metric_value(controller, "vpa_updater_in_place_updated_pods_total", vpa_name="web") == 2
    assert metric_value(controller, "vpa_updater_evicted_pods_total") == 0
    until("the Events", lambda: len(events(cluster, namespace, "InPlaceResizedByVPA")) == 2)


@pytest.mark.req("AR-21", "AR-23")
@pytest.mark.parametrize(("mode", "goes"), [("InPlaceOrRecreate", True), ("InPlace", False)])
def test_a_resize_that_the_node_can_never_do_ends_in_an_eviction_only_where_the_mode_says_so(
    cluster: Cluster, namespace: str, updater: Start, mode: str, goes: bool
) -> None:
    before = running_pods(cluster, namespace, "web", notes={ask.RESIZE: ask.INFEASIBLE})
    create_vpa_with_advice(cluster, namespace, "web", mode)
    controller = updater(namespace, NO_LEASE)
    if goes:
        until("an eviction", lambda: metric_value(controller, "vpa_updater_evicted_pods_total") >= 1)
        return
    until("the resizes", lambda: metric_value(controller, "vpa_updater_in_place_updated_pods_total") == 2)
    wait_for_two_passes(controller)
    assert by_uid(cluster.wait_for_ready_pods(namespace, "web", 2)).keys() == before.keys()
    assert metric_value(controller, "vpa_updater_in_place_updated_pods_total") == 2


@pytest.mark.req("SB-04", "SB-27", "SB-30", "SB-34", "SB-49")
@pytest.mark.parametrize(("mode", "seconds"), [("Recreate", 0), ("Off", 0), ("InPlaceOrRecreate", 3)])
def test_a_boost_is_taken_back_in_place_after_ready_and_its_duration(
    cluster: Cluster, namespace: str, updater: Start, mode: str, seconds: int
) -> None:
    boost = {"cpu": {"type": "Factor", "factor": 5, "duration": f"{seconds}s"}}
    cluster.api.create(
        vpa(
            "web",
            updatePolicy={
                "updateMode": mode,
                "actuationRequirements": [{"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}],
            },
            startupBoost=boost,
        ),
        namespace,
    )
    # Not what the pod asked for itself: mode Off gives it that, and the others this.
    amount = "100m" if mode == "Off" else "250m"
    advise(cluster, namespace, "web", "250m", memory="256Mi")
    controller = updater(namespace, NO_LEASE, "--updater-interval=1h")
    notes = {BOOST: BEFORE, ask.READY_AFTER: "2"}
    cluster.api.create(deployment("web", container(cpu="500m"), annotations=notes), namespace)
    [pod] = cluster.wait_for_ready_pods(namespace, "web")

    def unboosted() -> Json | None:
        [current] = cluster.list_pods(namespace, "web")
        return current if cpu(current) == amount and BOOST not in current["metadata"]["annotations"] else None

    after = until("the end of the boost", unboosted)
    assert _without_cpu(after) == _without_cpu(pod)
    [ready] = [condition for condition in after["status"]["conditions"] if condition["type"] == "Ready"]
    since = datetime.fromisoformat(ready["lastTransitionTime"])
    assert datetime.now(UTC) >= since + timedelta(seconds=seconds)
    assert after["metadata"]["uid"] == pod["metadata"]["uid"]
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0
    assert metric_value(controller, "vpa_updater_evicted_pods_total") == 0


def _without_cpu(pod: Json) -> list[Json]:
    """What a pod's containers ask for but CPU."""
    fields = ("requests", "limits")
    return [
        {key: {name: amount for name, amount in resources.get(key, {}).items() if name != "cpu"} for key in fields}
        for resources in (container["resources"] for container in pod["spec"]["containers"])
    ]


def test_a_disruption_budget_is_law(cluster: Cluster, namespace: str, updater: Start) -> None:
    before = running_pods(cluster, namespace, "web")
    cluster.api.create(disruption_budget("web", minAvailable=2), namespace)
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/web"
    until("the budget", lambda: cluster.api.get(path).get("status", {}).get("currentHealthy") == 2)
    create_vpa_with_advice(cluster, namespace, "web", "Recreate")
    controller = updater(namespace, NO_LEASE)
    until("a refusal", lambda: metric_value(controller, "vpa_updater_failed_eviction_attempts_total") >= 1)
    wait_for_two_passes(controller)
    assert by_uid(cluster.list_pods(namespace, "web")).keys() == before.keys()
    assert metric_value(controller, "vpa_updater_evicted_pods_total") == 0


@pytest.mark.req("AR-07", "AR-17", "AR-20")
def test_requirements_hold_until_they_are_changed(cluster: Cluster, namespace: str, updater: Start) -> None:
    before = running_pods(cluster, namespace, "web")
    both = [
        {"resources": [resource], "changeRequirement": "TargetHigherThanRequests"} for resource in ("cpu", "memory")
    ]
    create_vpa_with_advice(cluster, namespace, "web", "Recreate", updatePolicy={"actuationRequirements": both})
    controller = updater(namespace, NO_LEASE)
    until("a pass", lambda: count_updater_passes(controller) >= 1)
    wait_for_two_passes(controller)
    assert by_uid(cluster.list_pods(namespace, "web")).keys() == before.keys()
    only = {"spec": {"updatePolicy": {"actuationRequirements": both[:1]}}}
    cluster.api.patch(vpa_path(namespace, "web"), only)
    until("an eviction", lambda: metric_value(controller, "vpa_updater_evicted_pods_total") >= 1)


@pytest.mark.req("AR-10")
def test_in_place_only_the_permitted_part_is_applied(cluster: Cluster, namespace: str, updater: Start) -> None:
    running_pods(cluster, namespace, "web")
    both = [
        {"resources": [resource], "changeRequirement": "TargetHigherThanRequests"} for resource in ("cpu", "memory")
    ]
    policy = {"updateMode": "InPlaceOrRecreate", "actuationRequirements": both}
    cluster.api.create(vpa("web", updatePolicy=policy), namespace)
    advise(cluster, namespace, "web", "250m", "64Mi")
    controller = updater(namespace, NO_LEASE)
    until("the resizes", lambda: requests(cluster, namespace, "web") == ["250m"] * 2)
    wait_for_two_passes(controller)
    amounts = [pod["spec"]["containers"][0]["resources"]["requests"] for pod in cluster.list_pods(namespace, "web")]
    assert amounts == [{"cpu": "250m", "memory": MEMORY}] * 2
    assert metric_value(controller, "vpa_updater_evicted_pods_total") == 0


def test_a_single_replica_is_left_alone_unless_its_object_says_otherwise(
    cluster: Cluster, namespace: str, updater: Start
) -> None:
    [uid] = running_pods(cluster, namespace, "kept", 1)
    [gone] = running_pods(cluster, namespace, "gone", 1)
    create_vpa_with_advice(cluster, namespace, "kept", "Recreate")
    create_vpa_with_advice(cluster, namespace, "gone", "Recreate", updatePolicy={"minReplicas": 1})
    controller = updater(namespace, NO_LEASE)
    until("the eviction", lambda: gone not in by_uid(cluster.list_pods(namespace, "gone")))
    wait_for_two_passes(controller)
    assert list(by_uid(cluster.list_pods(namespace, "kept"))) == [uid]
    until("the Event", lambda: events(cluster, namespace, "TooFewReplicas"))


def test_without_an_admission_controller_nothing_is_evicted(
    cluster: Cluster, namespace: str, updater: Start, admission: Start
) -> None:
    before = running_pods(cluster, namespace, "web")
    create_vpa_with_advice(cluster, namespace, "web", "Recreate")
    controller = updater(namespace)
    until("a pass", lambda: count_updater_passes(controller) >= 1)
    wait_for_two_passes(controller)
    assert by_uid(cluster.list_pods(namespace, "web")).keys() == before.keys()
    assert metric_value(controller, "trellis_updater_admission_live") == 0
    admission(namespace)
    until("an eviction", lambda: metric_value(controller, "vpa_updater_evicted_pods_total") >= 1)


def test_a_frozen_namespace_is_left_alone_and_thaws(cluster: Cluster, namespace: str, updater: Start) -> None:
    running_pods(cluster, namespace, "web")
    freeze = "trellis.x-k8s.io/freeze"
    cluster.api.annotate(f"/api/v1/namespaces/{namespace}", {freeze: "alice"})
    create_vpa_with_advice(cluster, namespace, "web", "InPlaceOrRecreate")
    controller = updater(namespace, NO_LEASE)
    until("the Event", lambda: events(cluster, namespace, "Frozen"))
    wait_for_two_passes(controller)
    assert requests(cluster, namespace, "web") == ["100m"] * 2
    cluster.api.annotate(f"/api/v1/namespaces/{namespace}", {freeze: None})
    until("the resizes", lambda: requests(cluster, namespace, "web") == ["250m"] * 2)
