"""What goes wrong around an Hvpa on a real control plane: blind sources, edits in the middle, kills between writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.cluster.admission import cpu
from support.cluster.hvpas import (
    BUCKET,
    Start,
    advise,
    get_hvpa_conditions,
    get_published_size,
    get_replicas,
    hpa_path,
    hvpa,
    hvpa_controllers,
    hvpa_path,
    workload,
    workload_path,
)
from support.cluster.updaters import NO_LEASE, events, updaters
from support.cluster.vpas import vpa_path, wait_for_further_passes
from testbed.cluster import Cluster
from testbed.kwok import annotations as ask
from testbed.waiting import until

EXTERNAL = {
    "type": "External",
    "external": {"metric": {"name": "queue-length"}, "target": {"type": "AverageValue", "averageValue": "10"}},
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


def running_web(cluster: Cluster, namespace: str, size: str, replicas: int, ready_after: str = "0") -> None:
    cluster.api.create(workload("Deployment", size, "2G", replicas, {ask.READY_AFTER: ready_after}), namespace)
    cluster.wait_for_ready_pods(namespace, "web", replicas)


def is_seeded(cluster: Cluster, namespace: str, replicas: int) -> bool:
    """Whether the Hvpa knows its target, and has its VPA."""
    result = cluster.api.get(hvpa_path(namespace, "web"))["spec"].get("replicas") == replicas
    return result and cluster.api.find(vpa_path(namespace, "web")) is not None


def is_at(cluster: Cluster, namespace: str, count: int, millicores: int) -> bool:
    """Whether target, wish and size say so."""
    size = get_published_size(cluster, namespace, "web")
    replicas = cluster.api.get(hvpa_path(namespace, "web"))["spec"].get("replicas")
    return (get_replicas(cluster, namespace, "web"), replicas, size and size[0]) == (count, count, millicores)


def is_left(cluster: Cluster, namespace: str, count: int) -> bool:
    """Whether somebody else's count is left alone, and told of."""
    result = "DriftTolerated" in get_hvpa_conditions(cluster, namespace, "web")
    return result and get_replicas(cluster, namespace, "web") == count


def test_an_hpa_without_metrics_leaves_the_decision_to_the_vpa(
    cluster: Cluster, namespace: str, controller: Start
) -> None:
    running_web(cluster, namespace, "6", 2)
    hpa = {"template": {"spec": {"maxReplicas": 16, "metrics": [EXTERNAL]}}}
    cluster.api.create(hvpa("web", hpa=hpa, vpa={"deploy": True}), namespace)
    controller(namespace)

    def is_blind() -> bool:
        conditions = (cluster.api.find(hpa_path(namespace, "web")) or {}).get("status", {}).get("conditions", [])
        return any((condition["type"], condition["status"]) == ("ScalingActive", "False") for condition in conditions)

    until("the HPA to see nothing", is_blind)
    until("a seed", lambda: is_seeded(cluster, namespace, 2))
    advise(cluster, namespace, 12_000, 24_000)
    until("three of eight", lambda: is_at(cluster, namespace, 3, 8000))


def test_buckets_edited_while_replicas_come_up_count_at_once(
    cluster: Cluster, namespace: str, controller: Start
) -> None:
    running_web(cluster, namespace, "6", 2, ready_after="4")
    # The same bucket as ever, in other units.
    mixed = {**BUCKET, "cpu": {"min": 0, "max": "24000m"}, "memory": {"min": "500000k", "max": "25e9"}}
    cluster.api.create(hvpa("web", mixed, vpa={"deploy": True}), namespace)
    controller(namespace)
    until("a seed", lambda: is_seeded(cluster, namespace, 2))
    advise(cluster, namespace, 12_000, 24_000)
    until("a third one", lambda: get_replicas(cluster, namespace, "web") == 3)
    more = [{**BUCKET, "replicas": {"min": 4, "max": 8}}]
    cluster.api.patch(hvpa_path(namespace, "web"), {"spec": {"buckets": more}})
    # Of 4 to 8 replicas the fewest hold 4 x 4.8 cores, and five 5 x 9.6.
    until("five", lambda: is_at(cluster, namespace, 5, 4800))


@pytest.mark.parametrize("after", ["scale", "write-back"])
def test_a_controller_killed_between_its_writes_scales_once_and_the_next_one_finishes(
    cluster: Cluster, namespace: str, controller: Start, after: str
) -> None:
    running_web(cluster, namespace, "2", 1)
    cluster.api.create(hvpa("web", vpa={"deploy": True}, scaleDown=AT_ONCE), namespace)
    working = controller(namespace)
    until("a seed", lambda: is_seeded(cluster, namespace, 1))
    first = cluster.api.get(workload_path(namespace, "web"))["metadata"]["generation"]
    read_count: dict[str, Callable[[], int | None]] = {
        "scale": lambda: get_replicas(cluster, namespace, "web"),
        "write-back": lambda: cluster.api.get(hvpa_path(namespace, "web"))["spec"].get("replicas"),
    }
    # No updater is there, so that on the way down sizes may be no more than what the pods began with.
    steps = ((8000, 2, 4000), (15_000, 3, 5000), (4000, 2, 2000))
    for times, (total, count, size) in enumerate(steps, start=1):
        advise(cluster, namespace, 2000, total)
        until(f"{count} replicas", lambda count=count: read_count[after]() == count)  # type: ignore[misc]
        working.process.kill()
        working = controller(namespace)
        until(f"{count} of {size}", lambda count=count, size=size: is_at(cluster, namespace, count, size))  # type: ignore[misc]
        cluster.wait_for_ready_pods(namespace, "web", count)
        assert cluster.api.get(workload_path(namespace, "web"))["metadata"]["generation"] == first + times


def test_an_externally_written_count_is_reset_and_reported_once_in_a_window(
    cluster: Cluster, namespace: str, controller: Start
) -> None:
    running_web(cluster, namespace, "4", 2)
    cluster.api.create(hvpa("web", vpa={"deploy": True}, scaleDown={"stabilizationWindow": "25s"}), namespace)
    started = controller(namespace)
    until("a seed", lambda: is_seeded(cluster, namespace, 2))
    advise(cluster, namespace, 4000, 8000)
    until("two of four", lambda: is_at(cluster, namespace, 2, 4000))
    scale = f"{workload_path(namespace, 'web')}/scale"
    cluster.api.patch(scale, {"spec": {"replicas": 5}})
    until("the count to be set back", lambda: is_at(cluster, namespace, 2, 4000))
    # What is written before the step is seen to be done counts as the step itself.
    wait_for_further_passes(started, "trellis_hvpa")
    cluster.api.patch(scale, {"spec": {"replicas": 5}})
    until("patience", lambda: is_left(cluster, namespace, 5))
    until("the count to be set back again", lambda: is_at(cluster, namespace, 2, 4000))
    until("two Events", lambda: count_events(cluster, namespace, "ReplicasDrifted") == 2)
    until("an Event of the other kind", lambda: count_events(cluster, namespace, "DriftTolerated") == 1)


def test_an_externally_set_pod_size_is_corrected_and_reported(
    cluster: Cluster, namespace: str, controller: Start, updater: Start
) -> None:
    running_web(cluster, namespace, "4", 2)
    cluster.api.create(hvpa("web", vpa={"deploy": True}), namespace)
    controller(namespace)
    until("a seed", lambda: is_seeded(cluster, namespace, 2))
    advise(cluster, namespace, 4000, 8000)
    until("two of four", lambda: is_at(cluster, namespace, 2, 4000))
    edited, *_ = cluster.list_pods(namespace, "web")
    requests = {"cpu": "1", "memory": "2G"}
    part = {"spec": {"containers": [{"name": "app", "resources": {"requests": requests}}]}}
    where = f"/api/v1/namespaces/{namespace}/pods/{edited['metadata']['name']}"
    cluster.api.patch(f"{where}/resize", part, "application/strategic-merge-patch+json")
    # The updater comes later: what it sets right within the same moment nobody could tell of.
    until("the drift to be told of", lambda: "RequestsDrifted" in get_hvpa_conditions(cluster, namespace, "web"))
    updater(namespace, NO_LEASE)
    until("the size to be set right", lambda: cpu(cluster.api.get(where)) == "4")
    until("an Event", lambda: count_events(cluster, namespace, "RequestsDrifted") == 1)
    until("two of four again", lambda: is_at(cluster, namespace, 2, 4000))


def count_events(cluster: Cluster, namespace: str, reason: str) -> int:
    """How often something was told: an Event that comes again is counted."""
    return sum(event.get("count") or 1 for event in events(cluster, namespace, reason))
