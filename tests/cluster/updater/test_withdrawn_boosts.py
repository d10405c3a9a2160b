"""Boosts that no object gives any more, on a real control plane: none stays, and a VPA that is replaced costs none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from support.cluster.admission import boosted, cpu
from support.cluster.updaters import NO_LEASE, Start, advise, by_uid, events, updaters, wait_for_two_passes
from support.cluster.vpas import metric_value, vpa, vpa_path
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.kwok import annotations as ask
from testbed.waiting import until
from testbed.workloads import container, deployment

MARKED = {"vpaCpuStartupBoost/app": '{"requests":{"cpu":"100m","memory":"128Mi"}}'}
# Longer than any test: no boost ends by itself.
BOOST = {"cpu": {"type": "Factor", "factor": 5, "duration": "1h"}}
NEVER_READY = {ask.READY_AFTER: "3600"}


@pytest.fixture
def updater(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Start `trellis updater` for the VPAs of one namespace."""
    with updaters(cluster, tmp_path) as start:
        yield start


def boosted_workload(
    cluster: Cluster, namespace: str, name: str, mode: str = "Off", notes: Mapping[str, str] = MARKED
) -> None:
    """A Deployment with a pod that is boosted from 100m to 500m, and a VPA that recommends 250m."""
    cluster.api.create(vpa(name, updatePolicy={"updateMode": mode}, startupBoost=BOOST), namespace)
    advise(cluster, namespace, name, "250m")
    cluster.api.create(deployment(name, container(cpu="500m"), annotations={**MARKED, **notes}), namespace)


def the_pod(cluster: Cluster, namespace: str, name: str) -> Json:
    [pod] = until(
        f"the pod of {name}", lambda: [p for p in cluster.list_pods(namespace, name) if p["spec"].get("nodeName")]
    )
    return pod


def is_back(cluster: Cluster, namespace: str, name: str, amount: str) -> bool:
    pod = the_pod(cluster, namespace, name)
    return cpu(pod) == amount and not boosted(pod)


def test_no_pod_stays_boosted_whose_vpa_is_deleted_loses_its_boost_or_is_about_something_else(
    cluster: Cluster, namespace: str, updater: Start
) -> None:
    ends = {"gone": "100m", "waiting": "100m", "sober": "100m", "acting": "250m", "reused": "100m", "replaced": "500m"}
    for name in ends:
        mode = "InPlaceOrRecreate" if name == "acting" else "Off"
        boosted_workload(cluster, namespace, name, mode, NEVER_READY if name in {"waiting", "acting"} else {})
    uids = {name: the_pod(cluster, namespace, name)["metadata"]["uid"] for name in ends}
    controller = updater(namespace, NO_LEASE, "--updater-interval=1s")
    wait_for_two_passes(controller)
    assert {cpu(the_pod(cluster, namespace, name)) for name in ends} == {"500m"}

    for name in ("gone", "waiting", "replaced"):
        cluster.api.delete(vpa_path(namespace, name))
    for name in ("sober", "acting"):
        cluster.api.patch(vpa_path(namespace, name), {"spec": {"startupBoost": None}})
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}
    cluster.api.patch(vpa_path(namespace, "reused"), {"spec": {"targetRef": target}})
    cluster.api.create(vpa("replaced", updatePolicy={"updateMode": "Off"}, startupBoost=BOOST), namespace)

    for name, amount in ends.items():
        if name != "replaced":
            until(f"the boost of {name} to be taken back", partial(is_back, cluster, namespace, name, amount))
    wait_for_two_passes(controller)
    pod = the_pod(cluster, namespace, "replaced")
    assert (cpu(pod), boosted(pod)) == ("500m", {"app"})
    assert {name: the_pod(cluster, namespace, name)["metadata"]["uid"] for name in ends} == uids
    assert metric_value(controller, "vpa_updater_evicted_pods_total") == 0
    resized = {event["involvedObject"]["name"] for event in events(cluster, namespace, "InPlaceResizedByVPA")}
    assert the_pod(cluster, namespace, "gone")["metadata"]["name"] in resized


def test_an_updater_that_starts_after_the_deletion_takes_the_boost_back(
    cluster: Cluster, namespace: str, updater: Start
) -> None:
    boosted_workload(cluster, namespace, "web")
    before = by_uid(cluster.wait_for_ready_pods(namespace, "web"))
    first = updater(namespace, NO_LEASE)
    wait_for_two_passes(first)
    first.process.stop()
    cluster.api.delete(vpa_path(namespace, "web"))
    second = updater(namespace, NO_LEASE)
    until("the boost to be taken back", lambda: is_back(cluster, namespace, "web", "100m"))
    assert by_uid(cluster.list_pods(namespace, "web")).keys() == before.keys()
    assert metric_value(second, "vpa_updater_evicted_pods_total") == 0


@pytest.mark.req("SB-45")
def test_with_the_gate_off_the_updater_takes_no_boost_back_that_is_due_and_with_it_on_the_same_one(
    cluster: Cluster, namespace: str, updater: Start
) -> None:
    due = {"cpu": {**BOOST["cpu"], "duration": "0s"}}
    cluster.api.create(vpa("web", updatePolicy={"updateMode": "Off"}, startupBoost=due), namespace)
    cluster.api.create(deployment("web", container(cpu="500m"), annotations=MARKED), namespace)
    before = by_uid(cluster.wait_for_ready_pods(namespace, "web"))
    off = updater(namespace, NO_LEASE, "--feature-gates=CPUStartupBoost=false")
    wait_for_two_passes(off)
    wait_for_two_passes(off)
    pod = the_pod(cluster, namespace, "web")
    assert (cpu(pod), boosted(pod)) == ("500m", {"app"})
    off.process.stop()
    # It was the gate that kept it.
    updater(namespace, NO_LEASE)
    until("the boost to end", lambda: is_back(cluster, namespace, "web", "100m"))
    assert by_uid(cluster.list_pods(namespace, "web")).keys() == before.keys()
