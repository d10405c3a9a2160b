"""Other drivers of an Hvpa on a real control plane: VPAs of other recommenders, and writers of its scale."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.cluster.hvpas import (
    Start,
    advise,
    get_hvpa_conditions,
    get_hvpa_status,
    get_published_size,
    get_replicas,
    hvpa,
    hvpa_controllers,
    hvpa_path,
)
from support.cluster.recommenders import EVERY_SECOND
from support.cluster.updaters import events
from support.cluster.vpas import USAGE_SECONDS, amounts, get_memory_target, vpa, vpa_path
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.kwok import annotations as ask
from testbed.waiting import until
from testbed.workloads import container, deployment
from trellis.base.json_lines import read_lines
from trellis.core.recording.recommender import DECIDED
from trellis.runtime.recorder import read_recording
from trellis.sim.replay.replay import replay

OFF: Json = {"updatePolicy": {"updateMode": "Off"}}
USAGE = {ask.USAGE_CPU: "200m", ask.USAGE_MEMORY: "300Mi"}
# A total over a target is the replicas, but for the width of a histogram bin and for samples taken while they came.
ONE_BIN = 1.25
LADDER = {"replicas": {"min": 1, "max": 8}, "cpu": {"min": "0", "max": "2400m"}, "memory": {"min": "0", "max": "25G"}}


@pytest.fixture
def controller(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    with hvpa_controllers(cluster, tmp_path) as start:
        yield start


def judge(cluster: Cluster, namespace: str, cores: int) -> None:
    """What a recommender writes that knows nothing of whole workloads."""
    part = {"containerName": "app", "target": {"cpu": str(cores), "memory": "1G"}}
    status = {"recommendation": {"containerRecommendations": [part]}}
    cluster.api.patch(f"{vpa_path(namespace, 'web')}/status", {"status": status})


def totals_of(cluster: Cluster, namespace: str) -> tuple[int, int]:
    """Millicores and bytes in the status of the Hvpa."""
    totals: Json = get_hvpa_status(cluster, namespace, "web").get("totals", {})
    return amounts(totals) if {"cpu", "memory"} <= totals.keys() else (0, 0)


def message_of(cluster: Cluster, namespace: str, type_: str) -> str:
    conditions = get_hvpa_status(cluster, namespace, "web").get("conditions", [])
    return next((condition["message"] for condition in conditions if condition["type"] == type_), "")


def workload(cluster: Cluster, namespace: str, cpu: str, memory: str = "1G", **more: str) -> None:
    app = container(cpu=cpu, memory=memory)
    cluster.api.create(deployment("web", app, replicas=2, annotations=more or None), namespace)
    cluster.wait_for_ready_pods(namespace, "web", 2)


@pytest.mark.req("HV-06")
def test_without_our_recommender_a_total_is_held_and_that_is_reported(
    cluster: Cluster, namespace: str, controller: Start
) -> None:
    workload(cluster, namespace, "6")
    cluster.api.create(vpa("web", recommender="other", **OFF), namespace)
    cluster.api.create(hvpa("web"), namespace)
    judge(cluster, namespace, 6)
    controller(namespace)
    until("a word", lambda: get_hvpa_conditions(cluster, namespace, "web").get("NoTotals") == ("True", "NoTotals"))
    judge(cluster, namespace, 40)
    until("the new target", lambda: "recommends 40 for each pod" in message_of(cluster, namespace, "NoTotals"))
    message = message_of(cluster, namespace, "NoTotals")
    assert "CPU is held at 12 in total" in message
    assert "run the Trellis recommender" in message
    assert get_hvpa_conditions(cluster, namespace, "web")["Active"] == ("True", "NoTotals")
    assert get_replicas(cluster, namespace, "web") == 2
    until("an Event", lambda: bool(events(cluster, namespace, "NoTotals")))


@pytest.mark.req("HV-06")
@pytest.mark.parametrize("owned", [False, True], ids=["user's VPA", "own VPA"])
def test_the_total_follows_the_target_of_another_recommender(
    cluster: Cluster, namespace: str, controller: Start, recommender: Start, owned: bool
) -> None:
    workload(cluster, namespace, "100m", **USAGE)
    named = {"recommenders": [{"name": "other"}]}
    cluster.api.create(hvpa("web", vpa={"deploy": owned, "template": {"spec": named}}), namespace)
    if not owned:
        cluster.api.create(vpa("web", recommender="other", **OFF), namespace)
    controller(namespace)
    until("its VPA", lambda: cluster.api.find(vpa_path(namespace, "web")) is not None)
    judge(cluster, namespace, 6)
    recommender(namespace, EVERY_SECOND)

    def counted(cores: int) -> bool:
        """Whether the total is that of two pods that need so much."""
        cpu, memory = totals_of(cluster, namespace)
        about_cpu = 2000 * cores / ONE_BIN < cpu < 2000 * cores * ONE_BIN
        return about_cpu and 2e9 / ONE_BIN < memory < 2e9 * ONE_BIN

    until("two pods of 6 cores", lambda: counted(6), USAGE_SECONDS)
    until("nothing to be held", lambda: "NoTotals" not in get_hvpa_conditions(cluster, namespace, "web"))
    assert get_replicas(cluster, namespace, "web") <= 3
    judge(cluster, namespace, 40)
    until("more replicas", lambda: get_replicas(cluster, namespace, "web") >= 5)
    assert totals_of(cluster, namespace)[0] > 2000 * 40 / ONE_BIN


def test_upstreams_recommender_drives_an_hvpa_by_our_count_of_the_work(
    cluster: Cluster,
    namespace: str,
    recommender: Start,
    upstream_recommender: Callable[..., Controller],
    tmp_path: Path,
) -> None:
    workload(cluster, namespace, "100m", **USAGE)
    cluster.api.create(vpa("web", **OFF), namespace)
    cluster.api.create(hvpa("web"), namespace)
    # Twice the margin of ours: upstream's judgement of a pod, 15 % above 100 % more.
    upstream_recommender(namespace, "--recommender-interval=1s", "--recommendation-margin-fraction=1.3")
    record = tmp_path / "recommender.jsonl"
    names = ("--recommender-name=trellis", "--hvpa-totals=true", f"--record={record}")
    ours = recommender(namespace, EVERY_SECOND, *names)

    def ratio() -> float:
        target = get_memory_target(cluster, namespace, "web")
        return totals_of(cluster, namespace)[1] / target if target else 0.0

    # Before its first sample of memory upstream's recommends the least that there is.
    judged = 2 * 300 * 2**20
    until("upstream's target", lambda: get_memory_target(cluster, namespace, "web") > judged, USAGE_SECONDS)
    until("the work of two pods", lambda: 2 / ONE_BIN < ratio() < 2 * ONE_BIN, USAGE_SECONDS)
    assert totals_of(cluster, namespace)[1] > 2 * 2 * 300 * 2**20 / ONE_BIN
    ours.process.stop()
    # Each line has what the totals depend on: the VPA's status, our usage, and that we publish them at all.
    assert any(kind == DECIDED and b'"web"' in bytes(data) for kind, data in read_lines(read_recording(record)))
    report = replay(read_recording(record))
    assert report.first is None, str(report)


@pytest.mark.req("HV-06")
def test_kubectl_scale_is_demand_beside_that_of_the_vpa(cluster: Cluster, namespace: str, controller: Start) -> None:
    api, path = cluster.api, hvpa_path(namespace, "web")
    workload(cluster, namespace, "600m", "100M")
    api.create(vpa("web", **OFF), namespace)
    api.create(hvpa("web", LADDER, scaleDown={"stabilizationWindow": "20s"}), namespace)
    controller(namespace)
    until("a seed", lambda: api.get(path)["spec"].get("replicas") == 2)
    # As kubectl does, and before the VPA has said anything.
    api.patch(f"{path}/scale?fieldManager=kubectl", {"spec": {"replicas": 4}})
    until("three replicas", lambda: get_replicas(cluster, namespace, "web") == 3)
    advise(cluster, namespace, 600, 1200, memory="100M")
    until("800m each", lambda: (get_published_size(cluster, namespace, "web") or (0, 0))[0] == 800)
    until("the count to be written back", lambda: api.get(path)["spec"]["replicas"] == 3)
    assert "kubectl asks for 4 replicas (CPU 2.4, memory 400M in total)" in message_of(
        cluster, namespace, "ScaleRequested"
    )
    until(
        "the Event",
        lambda: any(
            "kubectl asks for 4 replicas" in event["message"] for event in events(cluster, namespace, "ScaleRequested")
        ),
    )
    until("the VPA to decide again", lambda: (get_published_size(cluster, namespace, "web") or (0, 0))[0] == 400)
    assert "ScaleRequested" not in get_hvpa_conditions(cluster, namespace, "web")

    # Another scaler replaces the whole scale, as client libraries do.
    scale = api.get(f"{path}/scale")
    api.send("PUT", f"{path}/scale?fieldManager=night-shift", {**scale, "spec": {"replicas": 8}})
    until("a wish", lambda: "night-shift asks for 8 replicas" in message_of(cluster, namespace, "ScaleRequested"))
    until("more replicas", lambda: get_replicas(cluster, namespace, "web") > 3)
