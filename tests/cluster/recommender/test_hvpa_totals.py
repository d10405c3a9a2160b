"""Totals of an Hvpa's workload: in the status of the VPA it made, or in its own if the VPA is a user's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.cluster.recommenders import EVERY_SECOND, MIB, steady_memory
from support.cluster.vpas import (
    USAGE_SECONDS,
    amounts,
    get_checkpoint_status,
    get_container_recommendations,
    get_memory_target,
    vpa,
    vpa_path,
    wait_for_further_passes,
)
from testbed.client import APPLY_PATCH, Json
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.kwok import annotations as ask
from testbed.waiting import until
from testbed.workloads import deployment

Start = Callable[..., Controller]

USAGE = {ask.USAGE_CPU: "200m", ask.USAGE_MEMORY: "300Mi"}
RECOMMENDER, OTHER = "trellis-recommender", "somebody-else"
# The upper edge of a bucket is up to 5 % above what falls into it, and the margin is 15 %. What is measured is off, by
# more if the machine is busy; what counts is that it is not what one replica more or less would need.
LEAST, MOST = 0.85, 1.2 * 1.15 * 1.05


def hvpa(name: str) -> Json:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    bucket = {
        "replicas": {"min": 1, "max": 8},
        "cpu": {"min": "0", "max": "8"},
        "memory": {"min": "500M", "max": "8G"},
    }
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1alpha1",
        "kind": "Hvpa",
        "metadata": {"name": name},
        "spec": {"targetRef": target, "buckets": [bucket]},
    }


def hvpa_path(namespace: str, name: str) -> str:
    return f"/apis/autoscaling.x-k8s.io/v1alpha1/namespaces/{namespace}/hvpas/{name}"


def made_by(owner: Json, manifest: Json) -> Json:
    """The VPA as the Hvpa would have made it."""
    reference = {"apiVersion": owner["apiVersion"], "kind": "Hvpa", "name": owner["metadata"]["name"]}
    reference |= {"uid": owner["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True}
    return {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [reference]}}


def fields_of(document: Json, manager: str) -> Json:
    """What a manager owns of an object's status."""
    [entry] = [entry for entry in document["metadata"]["managedFields"] if entry["manager"] == manager]
    assert (entry["operation"], entry["subresource"]) == ("Apply", "status")
    owned: Json = entry["fieldsV1"]["f:status"]
    return owned


@pytest.mark.req("HV-06")
def test_an_hvpa_gets_the_totals_of_all_replicas(cluster: Cluster, namespace: str, recommender: Start) -> None:
    api = cluster.api
    for name, replicas in {"made": 3, "own": 2, "plain": 1}.items():
        api.create(deployment(name, replicas=replicas, annotations=USAGE), namespace)
    off: Json = {"updatePolicy": {"updateMode": "Off"}}
    api.create(made_by(api.create(hvpa("made"), namespace), vpa("made", **off)), namespace)
    api.create(hvpa("own"), namespace)
    status: Json = {"replicas": 2, "selector": "app=own"}
    document = {key: hvpa("own")[key] for key in ("apiVersion", "kind", "metadata")} | {"status": status}
    api.patch(f"{hvpa_path(namespace, 'own')}/status?fieldManager={OTHER}", document, APPLY_PATCH)
    for name in ("own", "plain"):
        api.create(vpa(name, **off), namespace)
    first = recommender(namespace, EVERY_SECOND)

    def total() -> tuple[int, int]:
        """What the VPA says that the Hvpa made, in millicores and bytes."""
        total_target = get_container_recommendations(cluster, namespace, "made").get("app", {}).get("totalTarget")
        return amounts(total_target) if total_target else (0, 0)

    def totals() -> tuple[int, int]:
        """What the Hvpa says whose VPA is a user's."""
        totals: Any = api.get(hvpa_path(namespace, "own")).get("status", {}).get("totals")
        return amounts(totals) if totals else (0, 0)

    # The pods of a workload are not all measured at once.
    until("the total of three", lambda: total()[1] == steady_memory(3 * 300 * MIB), USAGE_SECONDS)
    until("the total of two", lambda: totals()[1] == steady_memory(2 * 300 * MIB))
    until("the VPA without an Hvpa", lambda: get_memory_target(cluster, namespace, "plain") > 0)
    # The first sample of a pod that was slow to start is too low.
    until("the CPU of three", lambda: 600 * LEAST < total()[0] < 600 * MOST)
    until("the CPU of two", lambda: 400 * LEAST < totals()[0] < 400 * MOST)
    for name in ("made", "own"):
        until(
            f"the target of {name}",
            lambda name=name: get_memory_target(cluster, namespace, name) == steady_memory(300 * MIB),  # type: ignore[misc]
        )
    for name in ("own", "plain"):
        assert "totalTarget" not in get_container_recommendations(cluster, namespace, name)["app"]

    stored = api.get(hvpa_path(namespace, "own"))
    assert {key: stored["status"][key] for key in status} == status
    assert fields_of(stored, RECOMMENDER).keys() == {"f:totals"}
    assert fields_of(stored, OTHER).keys() == {"f:replicas", "f:selector"}
    assert not api.get(hvpa_path(namespace, "made")).get("status")

    # The whole workload's history is in the checkpoint, and counts after a restart.
    def saved(name: str) -> set[str]:
        """The buckets of the whole workload's CPU."""
        return {
            *get_checkpoint_status(cluster, namespace, f"{name}-app")
            .get("cpuTotalHistogram", {})
            .get("bucketWeights", {})
        }

    def last_written() -> str:
        text: str = get_checkpoint_status(cluster, namespace, "made-app")["lastUpdateTime"]
        return text

    wait_for_further_passes(first)
    until("checkpoints", lambda: all(map(saved, ("made", "own"))))
    assert not saved("plain")
    first.process.kill()
    preserved, written = saved("made"), last_written()
    api.patch(f"/apis/apps/v1/namespaces/{namespace}/deployments/made", {"spec": {"replicas": 1}})
    cluster.wait_for_ready_pods(namespace, "made", 1)
    api.patch(f"{vpa_path(namespace, 'made')}/status", {"status": None})
    recommender(namespace, EVERY_SECOND)
    # One pod alone needs a third of it, but that is news.
    until("the total to be known again", lambda: total()[0] > 0)
    assert 600 * LEAST < total()[0] < 600 * MOST
    until("a checkpoint of the second", lambda: last_written() > written)
    assert preserved <= saved("made")
