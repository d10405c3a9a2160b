"""An Hvpa on a real control plane, under the account that is shipped: what it owns, and what it does to targets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.builders.manifests import STORY_2
from support.cluster.hvpa_stories import requested
from support.cluster.hvpas import (
    Start,
    advise,
    get_hvpa_conditions,
    get_hvpa_status,
    get_published_size,
    get_replicas,
    hpa_path,
    hvpa,
    hvpa_controllers,
    hvpa_path,
    workload_path,
)
from support.cluster.hvpas import workload as stateful
from support.cluster.updaters import by_uid, events, updaters
from support.cluster.vpas import vpa, vpa_path, wait_for_further_passes
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.waiting import until
from testbed.workloads import container, deployment

OFF: Json = {"updatePolicy": {"updateMode": "Off"}}
CPU_METRIC = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 120}},
}
AT_ONCE = {"stabilizationWindow": "0s"}


@pytest.fixture
def controller(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    with hvpa_controllers(cluster, tmp_path) as start:
        yield start


@pytest.fixture
def updater(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    with updaters(cluster, tmp_path) as start:
        yield start


def exists(cluster: Cluster, path: str) -> bool:
    where, _, name = path.rpartition("/")
    return any(resource["metadata"]["name"] == name for resource in cluster.api.list_items(where))


def workload(cluster: Cluster, namespace: str, name: str, replicas: int) -> None:
    cluster.api.create(deployment(name, container(cpu="6", memory="2G"), replicas=replicas), namespace)
    cluster.wait_for_ready_pods(namespace, name, replicas)


@pytest.mark.req("HV-32")
def test_an_hvpa_makes_repairs_and_removes_what_it_owns(cluster: Cluster, namespace: str, controller: Start) -> None:
    api = cluster.api
    workload(cluster, namespace, "web", 2)
    template = {"spec": {"minReplicas": 1, "maxReplicas": 16, "metrics": [CPU_METRIC]}}
    made = api.create(hvpa("web", hpa={"template": template}, vpa={"deploy": True}), namespace)
    # Names that are taken stay as they are.
    workload(cluster, namespace, "own", 1)
    api.create(vpa("own", **OFF), namespace)
    api.create(hvpa("own", vpa={"deploy": True}), namespace)
    controller(namespace)

    hpa, its_vpa = hpa_path(namespace, "web"), vpa_path(namespace, "web")
    until("both to be made", lambda: exists(cluster, hpa) and exists(cluster, its_vpa))
    for path in (hpa, its_vpa):
        [owner] = api.get(path)["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (made["metadata"]["uid"], True)
    spec = api.get(hpa)["spec"]
    assert spec["metrics"] == [CPU_METRIC]
    assert spec["scaleTargetRef"]["kind"] == "Hvpa"
    assert spec["behavior"]["scaleDown"]["stabilizationWindowSeconds"] == 0
    assert api.get(its_vpa)["spec"]["updatePolicy"] == {"updateMode": "Off"}

    # What somebody changes is set right, and what is deleted comes back.
    api.patch(its_vpa, {"spec": {"updatePolicy": {"updateMode": "Recreate"}}})
    api.patch(hpa, {"spec": {"maxReplicas": 3}})
    until("the VPA to be set right", lambda: api.get(its_vpa)["spec"]["updatePolicy"] == {"updateMode": "Off"})
    until("the HPA to be set right", lambda: api.get(hpa)["spec"]["maxReplicas"] == 16)
    until("the name to be told of", lambda: "NameTaken" in get_hvpa_conditions(cluster, namespace, "own"))
    assert "ownerReferences" not in api.get(vpa_path(namespace, "own"))["metadata"]

    api.patch(hvpa_path(namespace, "web"), {"spec": {"hpa": {"deploy": False}, "vpa": {"deploy": False}}})
    until("both to be gone", lambda: not exists(cluster, hpa) and not exists(cluster, its_vpa))
    assert exists(cluster, vpa_path(namespace, "own"))


@pytest.mark.req("HV-31")
def test_a_recommendation_is_acted_on_by_the_buckets(cluster: Cluster, namespace: str, controller: Start) -> None:
    workload(cluster, namespace, "web", 2)
    hpa = {"deploy": False, "template": {"spec": {"maxReplicas": 16, "metrics": [CPU_METRIC]}}}
    cluster.api.create(hvpa("web", hpa=hpa, vpa={"deploy": True}, scaleDown=AT_ONCE), namespace)
    controller(namespace)
    until("its VPA", lambda: exists(cluster, vpa_path(namespace, "web")))
    until("a seed", lambda: cluster.api.get(hvpa_path(namespace, "web"))["spec"].get("replicas") == 2)
    lacking = ("True", "NoRecommendation")
    until("a word", lambda: get_hvpa_conditions(cluster, namespace, "web").get("NoRecommendation") == lacking)

    advise(cluster, namespace, 12_000, 24_000)
    until("three replicas", lambda: get_replicas(cluster, namespace, "web") == 3)
    cluster.wait_for_ready_pods(namespace, "web", 3)
    until("8 cores each", lambda: get_published_size(cluster, namespace, "web") == (8000, 2_000_000_000))
    until("the count to be mirrored", lambda: get_hvpa_status(cluster, namespace, "web").get("replicas") == 3)
    assert get_hvpa_status(cluster, namespace, "web")["selector"] == "app=web"
    until("a wish", lambda: cluster.api.get(hvpa_path(namespace, "web"))["spec"]["replicas"] == 3)
    until("an Event", lambda: bool(events(cluster, namespace, "ScalesUp")))
    assert not exists(cluster, hpa_path(namespace, "web"))


@pytest.mark.req("HV-18", "HV-19", "HV-21")
def test_story_2_grows_one_replica_and_then_their_number(cluster: Cluster, namespace: str, controller: Start) -> None:
    api = cluster.api
    api.create(stateful("StatefulSet", "500m", "1G", 1), namespace)
    cluster.wait_for_ready_pods(namespace, "web", 1)
    api.create(hvpa("web", *STORY_2, kind="StatefulSet", vpa={"deploy": True}), namespace)
    controller(namespace)
    until("its VPA", lambda: exists(cluster, vpa_path(namespace, "web")))

    def recommend(cpu: str, memory: str) -> None:
        target = {"cpu": cpu, "memory": memory}
        part = {"containerName": "app", "target": target, "totalTarget": target}
        status = {"recommendation": {"containerRecommendations": [part]}}
        api.patch(f"{vpa_path(namespace, 'web')}/status", {"status": status})

    recommend("1", "1500M")
    until("a larger replica", lambda: get_published_size(cluster, namespace, "web") == (1000, 1_500_000_000))
    assert get_replicas(cluster, namespace, "web", "statefulsets") == 1
    recommend("1", "2100M")
    until("a second one", lambda: get_replicas(cluster, namespace, "web", "statefulsets") == 2)
    until("their size", lambda: get_published_size(cluster, namespace, "web") == (1000, 2_100_000_000))

    def is_in_the_second_bucket() -> bool:
        status = get_hvpa_status(cluster, namespace, "web")
        return status.get("bucket") == 1 and bool(status.get("lastScaleTime"))

    until("the second bucket", is_in_the_second_bucket)


@pytest.mark.req("HV-18")
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_the_updater_resizes_the_single_replica_of_story_2_in_place_by_its_default_flags(
    cluster: Cluster, namespace: str, controller: Start, updater: Start, kind: str
) -> None:
    cluster.api.create(stateful(kind, "500m", "1G", 1), namespace)
    (before,) = by_uid(cluster.wait_for_ready_pods(namespace, "web", 1))
    cluster.api.create(hvpa("web", *STORY_2, kind=kind, vpa={"deploy": True}), namespace)
    controller(namespace)
    updater(namespace)
    until("its VPA", lambda: exists(cluster, vpa_path(namespace, "web")))

    def is_resized(millicores: int) -> bool:
        (pod,) = cluster.list_pods(namespace, "web")
        assert pod["metadata"]["uid"] == before
        return requested(pod) == millicores

    advise(cluster, namespace, 1000, 1000, memory="1G")
    until("a larger replica", lambda: is_resized(1000))
    advise(cluster, namespace, 700, 700, memory="1G")
    cluster.api.patch(hvpa_path(namespace, "web"), {"spec": {"scaleDown": AT_ONCE}})
    until("a smaller replica", lambda: is_resized(700))
    plural = f"{kind.lower()}s"
    assert get_replicas(cluster, namespace, "web", plural) == 1
    assert not events(cluster, namespace, "TooFewReplicas")
    assert not events(cluster, namespace, "EvictedByVPA")


def test_of_two_controllers_one_works_and_the_other_takes_over(
    cluster: Cluster, namespace: str, controller: Start
) -> None:
    leads = ("--leader-elect=true",)
    short = (
        "--leader-elect-lease-duration=8s",
        "--leader-elect-renew-deadline=6s",
        "--leader-elect-retry-period=500ms",
    )
    workload(cluster, namespace, "web", 2)
    first = controller(namespace, *leads, *short)
    cluster.api.create(hvpa("web", vpa={"deploy": True}, scaleDown=AT_ONCE), namespace)
    until("its VPA", lambda: exists(cluster, vpa_path(namespace, "web")))
    controller(namespace, *leads, *short)
    advise(cluster, namespace, 12_000, 24_000)
    until("three replicas", lambda: get_replicas(cluster, namespace, "web") == 3)
    first.process.kill()
    advise(cluster, namespace, 10_000, 30_000)
    until("four replicas", lambda: get_replicas(cluster, namespace, "web") == 4)


def test_a_controller_that_starts_anew_changes_nothing_by_itself(
    cluster: Cluster, namespace: str, controller: Start
) -> None:
    workload(cluster, namespace, "web", 2)
    cluster.api.create(hvpa("web", vpa={"deploy": True}), namespace)
    first = controller(namespace)
    until("its VPA", lambda: exists(cluster, vpa_path(namespace, "web")))
    advise(cluster, namespace, 12_000, 24_000)
    until("three replicas", lambda: get_replicas(cluster, namespace, "web") == 3)
    cluster.wait_for_ready_pods(namespace, "web", 3)
    first.process.kill()
    before = cluster.api.get(workload_path(namespace, "web"))["metadata"]["generation"]
    second = controller(namespace, "--hvpa-interval=1s")
    wait_for_further_passes(second, "trellis_hvpa", 3)
    assert cluster.api.get(workload_path(namespace, "web"))["metadata"]["generation"] == before
    # A target that is deleted and made anew is the same story.
    cluster.api.delete(workload_path(namespace, "web"))
    until("the loss to be told of", lambda: reason(cluster, namespace) == "TargetNotFound")
    # Nobody waits for two: there may be three before they are seen.
    cluster.api.create(deployment("web", container(cpu="6", memory="2G"), replicas=2), namespace)
    until("three replicas again", lambda: get_replicas(cluster, namespace, "web") == 3)


def test_a_target_scaled_to_zero_stays_there(cluster: Cluster, namespace: str, controller: Start) -> None:
    workload(cluster, namespace, "web", 2)
    cluster.api.create(hvpa("web", vpa={"deploy": True}), namespace)
    started = controller(namespace, "--hvpa-interval=1s")
    until("its VPA", lambda: exists(cluster, vpa_path(namespace, "web")))
    advise(cluster, namespace, 12_000, 24_000)
    until("three replicas", lambda: get_replicas(cluster, namespace, "web") == 3)
    cluster.api.patch(workload_path(namespace, "web"), {"spec": {"replicas": 0}})
    until("zero to be told of", lambda: reason(cluster, namespace) == "ScaledToZero")
    wait_for_further_passes(started, "trellis_hvpa", 3)
    assert get_replicas(cluster, namespace, "web") == 0
    cluster.api.patch(workload_path(namespace, "web"), {"spec": {"replicas": 1}})
    until("three replicas again", lambda: get_replicas(cluster, namespace, "web") == 3)


def test_a_count_that_a_user_writes_to_the_hvpa_is_divided_by_the_buckets_and_the_result_written_back(
    cluster: Cluster, namespace: str, controller: Start
) -> None:
    workload(cluster, namespace, "web", 2)
    cluster.api.create(hvpa("web"), namespace)
    controller(namespace)
    scale = f"{hvpa_path(namespace, 'web')}/scale"
    until("a seed", lambda: cluster.api.get(hvpa_path(namespace, "web"))["spec"].get("replicas") == 2)
    until("the mirror", lambda: cluster.api.get(scale)["status"] == {"replicas": 2, "selector": "app=web"})
    # As `kubectl scale hvpa web --replicas=5` does: 30 cores, which four replicas hold.
    cluster.api.patch(scale, {"spec": {"replicas": 5}})
    until("four replicas", lambda: get_replicas(cluster, namespace, "web") == 4)
    until("the count to be written back", lambda: cluster.api.get(scale)["spec"]["replicas"] == 4)


def reason(cluster: Cluster, namespace: str) -> str:
    result: Any = get_hvpa_conditions(cluster, namespace, "web").get("Active", ("", ""))
    return str(result[1])
