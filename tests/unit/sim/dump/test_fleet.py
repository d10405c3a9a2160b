"""What is played of a dump, and what has to be assumed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from support.api_server.server import ModelServer
from support.builders.dumps import HASH, NOW, dump_state, shop
from trellis.base.errors import InvalidInput
from trellis.core.cluster.dump_format import ContainerHistory, UsageColumns
from trellis.core.cluster.state import ClusterState
from trellis.core.usage.checkpoints.compressed_history import encode_history
from trellis.sim.dump.fleet import DumpedFleet, build_fleet_from_dump
from trellis.sim.fleet import SimulatedWorkload
from trellis.sim.results import NotPlayed
from trellis.sim.run import simulate
from trellis.sources.cluster.anonymization import Anonymizer

MIB = 2.0**20
HOUR = 3_600.0


HPA_PATH = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers"


def unscaled() -> ModelServer:
    """The shop without its HPA."""
    server = shop()
    server.delete(f"{HPA_PATH}/web-hpa")
    return server


def played(server: ModelServer, **options: Any) -> DumpedFleet:
    return build_fleet_from_dump(dump_state(server), "shop", **options)


def web(fleet: DumpedFleet) -> SimulatedWorkload:
    return next(workload for workload in fleet.fleet.workloads if workload.replicas == 2)


def with_history(collected: ClusterState, *pods: str, days: int = 2) -> ClusterState:
    """Usage every five minutes: the first pod uses one core, each other one more than the one before."""
    times = NOW - days * 24 * HOUR + 300.0 * np.arange(days * 288, dtype=np.float64)
    series = [
        ContainerHistory(
            "shop", pod, "app", times, np.full(len(times), float(number)), np.full(len(times), number * 100 * MIB)
        )
        for number, pod in enumerate(pods, start=1)
    ]
    return msgspec.structs.replace(collected, history=tuple(series))


def test_workloads_are_those_that_have_pods_with_their_templates_and_budgets() -> None:
    fleet = played(shop())
    assert [
        (workload.namespace, workload.kind, workload.name, workload.replicas) for workload in fleet.fleet.workloads
    ] == [
        ("office", "Deployment", "alone", 1),
        ("shop", "Deployment", "web", 2),
    ]
    one = web(fleet)
    assert one.template["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "256Mi"}
    assert one.max_unavailable == 1
    assert NotPlayed(
        "Pod", 1, "without a controller: simulated as a Deployment, which replaces it after an eviction"
    ) in (fleet.not_played)


def test_nodes_are_as_they_are_with_those_alike_counted_together() -> None:
    server = shop()
    document = server.objects["/api/v1/nodes/ip-10-0-0-7"]
    for name in ("a", "b"):
        labels = {**document["metadata"]["labels"], "kubernetes.io/hostname": name}
        server.put(f"/api/v1/nodes/{name}", {**document, "metadata": {"labels": labels}})
    gone = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
    server.put("/api/v1/nodes/gone", {**document, "metadata": {}, "status": {**document["status"], **gone}})
    fleet = played(server)
    (shape,) = fleet.fleet.nodes
    assert shape.count == 3
    assert shape.document["status"]["allocatable"]["cpu"] == "8"
    assert NotPlayed("Node", 1, "not ready") in fleet.not_played


def test_without_nodes_enough_are_assumed() -> None:
    server = shop()
    server.delete("/api/v1/nodes/ip-10-0-0-7")
    fleet = played(server)
    assert sum(node.count for node in fleet.fleet.nodes) >= 1
    assert any("no nodes" in note for note in fleet.notes)


def test_variants_are_templates_vpas_and_wanted_recommenders() -> None:
    fleet = played(shop(), recommenders=["default", "seasonal"])
    names = {variant.name: [document["kind"] for document in variant.objects] for variant in fleet.fleet.variants}
    around = ["LimitRange", "HorizontalPodAutoscaler"]
    vpa = "VerticalPodAutoscaler"
    assert names == {
        "fixed": around,
        "current": [*around, vpa],
        "default": [*around, vpa, vpa],
        "seasonal": [*around, vpa, vpa],
    }
    assert fleet.fleet.variants[3].objects[-1]["spec"]["recommenders"] == [{"name": "seasonal"}]
    assert fleet.fleet.variants[0].settings == {"in-recommendation-bounds-eviction-lifetime-threshold": "6h"}


def test_without_vpas_one_over_every_workload_is_compared() -> None:
    server = shop()
    server.delete("/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers/web-vpa")
    assert [variant.name for variant in played(server).fleet.variants] == ["fixed", "default"]


def test_an_unknown_recommender_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"did you mean seasonal\?"):
        played(shop(), recommenders=["seasonl"])


def test_a_dump_without_pods_is_refused() -> None:
    server = ModelServer()
    server.objects["/version"] = {}
    with pytest.raises(InvalidInput, match="no running pods"):
        played(server)


def test_usage_over_time_is_the_mean_of_the_pods_also_of_those_that_are_gone() -> None:
    collected = with_history(dump_state(unscaled()), f"web-{HASH}-x2x9z", "web-99999bbbb-ccccc", "website-0")
    fleet = build_fleet_from_dump(collected, "shop")
    (demand,) = web(fleet).demand
    assert set(demand.cpu.tolist()) == {1.5}
    assert set(demand.memory.tolist()) == {150 * MIB}
    assert demand.spread == pytest.approx(1 / 3)
    clock = fleet.fleet.clock
    assert (clock.step, clock.steps) == (300.0, 576)
    assert any("usage over time (1 container)" in note for note in fleet.notes)


def test_a_gap_in_usage_is_filled_with_the_value_before_it() -> None:
    collected = with_history(dump_state(shop()), f"web-{HASH}-x2x9z")
    (one,) = collected.history
    cpu = one.cpu.copy()
    cpu[:10] = np.nan
    cpu[20:30] = np.nan
    cpu[10:20] = 3.0
    broken = msgspec.structs.replace(collected, history=(msgspec.structs.replace(one, cpu=cpu),))
    (demand,) = web(build_fleet_from_dump(broken, "shop")).demand
    assert set(demand.cpu[:30].tolist()) == {3.0}
    assert set(demand.cpu[30:].tolist()) == {1.0}


def _with_status(change: Callable[[dict[str, Any]], None]) -> ModelServer:
    server = unscaled()
    path = "/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalercheckpoints/web-vpa-app"
    document = server.objects[path]
    change(document["status"])
    server.put(path, document)
    return server


def test_hours_of_a_checkpoint_come_back_hour_by_hour() -> None:
    hours = int(NOW // HOUR)
    levels = np.where(np.arange(48) % 24 < 12, 0.2, 0.8)
    ring = np.stack([np.stack([levels] * 5), np.stack([levels * 1e9] * 5)]).astype(np.float32)
    server = _with_status(lambda status: status.update(history=encode_history(hours - 1, ring)))
    fleet = played(server)
    (demand,) = web(fleet).demand
    clock = fleet.fleet.clock
    last = demand.cpu[-48 * 12 :].reshape(48, 12)
    assert last == pytest.approx(np.repeat(levels[:, None], 12, axis=1), rel=0.02)
    # Of the days before, nothing is known but what comes first.
    assert demand.cpu[0] == pytest.approx(0.2, rel=0.02)
    assert clock.end == NOW // HOUR * HOUR
    assert any("hourly usage" in note for note in fleet.notes)


def test_values_are_drawn_from_a_histogram_by_its_weights() -> None:
    fleet = played(unscaled())
    (demand,) = web(fleet).demand
    # Bucket 10 is from 126 to 142 mCPU, bucket 14 from 196 to 216.
    assert 0.12 < np.percentile(demand.cpu, 50) < 0.15
    assert 0.19 < demand.cpu.max() < 0.22
    assert np.mean(demand.cpu > 0.19) < 0.15
    assert 150e6 < demand.memory.min() <= demand.memory.max() < 210e6
    assert any("usage histograms" in note for note in fleet.notes)


@pytest.mark.parametrize("broken", ["version", "history"])
def test_a_checkpoint_that_cannot_be_read_is_not_used(broken: str) -> None:
    server = _with_status(lambda status: status.update({broken: "nonsense"}))
    assert web(played(server)).demand[0].cpu.max() > 0


def test_without_a_checkpoint_usage_stays_as_it_is_now() -> None:
    server = _with_status(lambda status: status.update(version="v2"))
    fleet = played(server)
    (demand,) = web(fleet).demand
    assert np.mean(demand.cpu) == pytest.approx(0.123, rel=0.02)
    assert np.mean(demand.memory) == pytest.approx(200 * MIB, rel=0.02)
    assert any("current usage" in note for note in fleet.notes)


def test_without_any_usage_half_of_the_request_is_assumed() -> None:
    server = _with_status(lambda status: status.update(version="v2"))
    collected = msgspec.structs.replace(dump_state(server), usage=UsageColumns.concatenate([]))
    fleet = build_fleet_from_dump(collected, "shop")
    assert np.mean(web(fleet).demand[0].cpu) == pytest.approx(0.25, rel=0.02)
    assert "usage is derived from an assumed half of the requests (2 containers)" in fleet.notes


def test_kinds_that_are_not_modelled_are_played_as_deployments_under_a_name_of_their_own() -> None:
    server = shop()
    spec = {"template": {"spec": {"containers": [{"name": "agent"}]}}}
    server.put("/apis/apps/v1/namespaces/shop/daemonsets/web", {"spec": spec, "status": {"desiredNumberScheduled": 4}})
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "web", "uid": "s-1", "controller": True}
    server.put("/api/v1/namespaces/shop/pods/web-abcde", {"metadata": {"ownerReferences": [owner]}, **spec["template"]})
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "once", "uid": "j-1", "controller": True}
    server.put("/apis/batch/v1/namespaces/shop/jobs/once", {"spec": {}})
    server.put("/api/v1/namespaces/shop/pods/once-1", {"metadata": {"ownerReferences": [job]}, **spec["template"]})
    rollout = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "web", "uid": "r-9", "controller": True}
    server.put("/api/v1/namespaces/shop/pods/web-x", {"metadata": {"ownerReferences": [rollout]}, **spec["template"]})
    fleet = played(server)
    assert [(workload.name, workload.kind) for workload in fleet.fleet.workloads if workload.namespace == "shop"] == [
        ("web", "Deployment"),
        ("web-daemonset", "DaemonSet"),
        ("web-rollout", "Deployment"),
    ]
    listed = {(skipped.kind, skipped.count, skipped.reason.partition(":")[0]) for skipped in fleet.not_played}
    assert ("Rollout", 1, "simulated as a Deployment") in listed
    assert ("Job", 1, "has not started") in listed


def test_the_hpas_of_a_dump_scale() -> None:
    variants = played(shop()).fleet.variants
    assert all(
        any(document["kind"] == "HorizontalPodAutoscaler" for document in variant.objects) for variant in variants
    )
    assert all(variant.scales for variant in variants)


def _short(dumped_fleet: DumpedFleet) -> DumpedFleet:
    """Two hours of it."""
    fleet = dumped_fleet.fleet
    clock = msgspec.structs.replace(fleet.clock, steps=24, scored_from=fleet.clock.begin)
    return msgspec.structs.replace(dumped_fleet, fleet=msgspec.structs.replace(fleet, clock=clock))


def test_a_dump_is_played_the_same_each_time_named_or_not() -> None:
    once, again = (simulate(_short(played(shop())).fleet) for _ in range(2))
    assert msgspec.json.encode(once) == msgspec.json.encode(again)
    assert not once.partial
    masked = build_fleet_from_dump(dump_state(shop(), mask=Anonymizer(b"0")), "shop")
    hidden = simulate(_short(masked).fleet)
    assert not hidden.partial
    assert [variant.name for variant in hidden.variants] == [variant.name for variant in once.variants]
    requested = [[variant.fleet.requested.cpu for variant in result.variants] for result in (once, hidden)]
    assert requested[0] == pytest.approx(requested[1], rel=0.2)
