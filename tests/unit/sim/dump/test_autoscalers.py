"""Which autoscalers, node groups and batch workloads of a dump are played, and which are listed as not played."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from support.api_server.server import ModelServer
from support.builders.dumps import NOW, dump_state, shop
from trellis.api.kinds.buffer import Buffer
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.nodes import Node
from trellis.core.cluster.dump_format import ContainerHistory, MissingData
from trellis.core.cluster.state import ClusterState
from trellis.core.explain import KnownNodeGroups
from trellis.core.nodes.node_groups import GroupState, Instance, InstanceState, NodeGroup
from trellis.sim.dump.fleet import DumpedFleet, build_fleet_from_dump
from trellis.sim.fleet import SimulatedWorkload, Variant
from trellis.sim.run import simulate
from trellis.sources.cluster.anonymization import Anonymizer

HOUR = 3_600.0
HPAS = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers"
VPA_PATH = "/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers/web-vpa"
HVPA_PATH = "/apis/autoscaling.x-k8s.io/v1alpha1/namespaces/shop/hvpas"
BUFFER_PATH = "/apis/autoscaling.x-k8s.io/v1alpha1/namespaces/shop/buffers"
WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
POD = {"containers": [{"name": "job", "resources": {"requests": {"cpu": "1", "memory": "256Mi"}}}]}


def played(server: ModelServer, **options: Any) -> DumpedFleet:
    return build_fleet_from_dump(dump_state(server), "shop", **options)


def reasons(fleet: DumpedFleet, kind: str) -> list[str]:
    return [f"{skipped.count} {skipped.reason}" for skipped in fleet.not_played if skipped.kind == kind]


def workload(fleet: DumpedFleet, name: str) -> SimulatedWorkload:
    return next(workload for workload in fleet.fleet.workloads if workload.name == name)


def kinds(variant: Variant) -> list[str]:
    return [document["kind"] for document in variant.objects]


def external(name: str, *others: dict[str, Any]) -> dict[str, Any]:
    queue = {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "3"}}
    metrics = [{"type": "External", "external": queue}, *others]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return {"spec": {"scaleTargetRef": target, "maxReplicas": 9, "metrics": metrics}}


def cpu_metric(percent: int = 60) -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def hvpa(name: str = "web", **spec: Any) -> dict[str, Any]:
    bucket = {"replicas": {"min": 1, "max": 8}, "cpu": {"min": "0", "max": "1"}, "memory": {"min": "0", "max": "2G"}}
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1alpha1",
        "kind": "Hvpa",
        "metadata": {"uid": "h-1"},
        "spec": {"targetRef": {**WEB, "name": name}, "replicas": 7, "buckets": [bucket], **spec},
        "status": {"replicas": 7},
    }


def buffer(**spec: Any) -> dict[str, Any]:
    capacity = {"replicas": {"exactly": 2}}
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1alpha1",
        "kind": "Buffer",
        "spec": {"targetRef": WEB, "capacity": capacity, **spec},
    }


def put_hvpa(server: ModelServer, document: dict[str, Any], name: str = "web") -> None:
    server.put(f"{HVPA_PATH}/{name}", document)


def one_group(size: int = 1) -> KnownNodeGroups:
    offered = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    template = convert_object({"status": {"capacity": offered, "allocatable": offered}}, Node)
    instances = (Instance("ip-10-0-0-7", InstanceState.RUNNING, NOW, "ip-10-0-0-7"),) * size
    group = NodeGroup("pool", template, 5, 1, 0.4, 90.0)
    return KnownNodeGroups((GroupState(group, size, instances),), declared=True)


def test_an_hpa_on_an_external_metric_alone_is_listed_and_its_target_keeps_its_count() -> None:
    server = shop()
    server.put(f"{HPAS}/web-hpa", external("web"))
    fleet = played(server)
    assert reasons(fleet, "HorizontalPodAutoscaler") == [
        "1 a dump has no values of metrics of type External: its target keeps its replicas"
    ]
    assert not any("HorizontalPodAutoscaler" in kinds(variant) for variant in fleet.fleet.variants)
    assert not workload(fleet, "web").demand[0].shared


def test_an_hpa_scales_by_its_simulated_metrics() -> None:
    server = shop()
    server.put(f"{HPAS}/web-hpa", external("web", cpu_metric()))
    fleet = played(server)
    (hpa,) = [document for document in fleet.fleet.variants[0].objects if document["kind"] == "HorizontalPodAutoscaler"]
    assert [metric["type"] for metric in hpa["spec"]["metrics"]] == ["Resource"]
    assert reasons(fleet, "HorizontalPodAutoscaler") == [
        "1 a dump has no values of metrics of type External: it scales by its other metrics only"
    ]


def test_an_hpa_with_a_missing_target_is_listed() -> None:
    server = shop()
    server.put(f"{HPAS}/ghost", external("ghost", cpu_metric()))
    assert "1 its target is not simulated" in reasons(played(server), "HorizontalPodAutoscaler")


def grown(collected: ClusterState) -> ClusterState:
    """Two days: on the first one pod of the shop, on the second three, each with 0.4 cores and 100 MB."""
    times = NOW - 48 * HOUR + 300.0 * np.arange(576, dtype=np.float64)
    spans = (times, times[288:], times[288:])
    names = ("x2x9z", "b4b7d", "ccccc")
    series = [
        ContainerHistory("shop", f"web-5d4f8b7c9-{name}", "app", span, np.full(len(span), 0.4), np.full(len(span), 1e8))
        for name, span in zip(names, spans, strict=True)
    ]
    return msgspec.structs.replace(collected, history=tuple(series))


def test_pods_of_a_workload_that_scales_share_the_cpu_of_as_many_as_there_were() -> None:
    fleet = build_fleet_from_dump(grown(dump_state(shop())), "shop")
    (demand,) = workload(fleet, "web").demand
    assert demand.shared
    assert demand.own_memory
    assert demand.cpu[0] == pytest.approx(0.4)
    assert demand.cpu[-1] == pytest.approx(1.2)
    assert set(demand.memory.tolist()) == {1e8}


def test_an_hpa_of_a_dump_follows_usage_in_the_model() -> None:
    dumped = build_fleet_from_dump(grown(dump_state(shop())), "shop")
    fleet = msgspec.structs.replace(dumped.fleet, variants=dumped.fleet.variants[:1])
    result = simulate(fleet)
    assert not result.partial
    web = next(workload for workload in result.variants[0].workloads if workload.name == "web")
    assert web.chart is not None
    # 0.4 cores at 60 % of 500m are two pods, 1.2 cores are four; memory is that of one pod however many there are.
    assert web.chart.pods[len(web.chart.pods) // 3] == 2
    assert web.chart.pods[-1] == 4
    (memory,) = [line for line in web.chart.lines if line.resource == "memory"]
    assert memory.used[-1] == pytest.approx(1e8, rel=0.01)
    assert web.totals.scaled.scalings >= 1


def test_an_hvpa_of_a_dump_is_in_the_variant_of_its_own_autoscalers_and_begins_anew() -> None:
    server = shop()
    server.delete(f"{HPAS}/web-hpa")
    server.delete(VPA_PATH)
    put_hvpa(server, hvpa(hpa={"template": {"spec": {"metrics": [cpu_metric()]}}}))
    owner = {"apiVersion": "autoscaling.x-k8s.io/v1alpha1", "kind": "Hvpa", "name": "web", "uid": "h-1"}
    owned = {"metadata": {"ownerReferences": [{**owner, "controller": True}]}}
    scale = {"scaleTargetRef": {**owner, "name": "web"}, "maxReplicas": 16, "metrics": [cpu_metric()]}
    server.put(f"{HPAS}/web", {**owned, "spec": scale})
    fleet = played(server)
    fixed, current = fleet.fleet.variants
    assert (fixed.name, current.name) == ("fixed", "current")
    assert "Hvpa" not in kinds(fixed)
    assert not fixed.scales
    (document,) = [document for document in current.objects if document["kind"] == "Hvpa"]
    assert "status" not in document
    assert "replicas" not in document["spec"]
    # The HPA that the Hvpa owns is made again from its template.
    assert "HorizontalPodAutoscaler" not in kinds(current)
    assert current.scales
    assert workload(fleet, "web").demand[0].shared
    result = simulate(_short(fleet))
    assert not result.partial
    assert result.variants[1].verdicts


def test_an_hvpa_that_breaks_a_rule_or_has_no_target_is_listed() -> None:
    server = shop()
    put_hvpa(server, hvpa("ghost"))
    put_hvpa(server, hvpa(hpa={"template": {"spec": {"minReplicas": 0}}}, buckets=[]), "odd")
    messages = reasons(played(server), "Hvpa")
    assert "1 its target is not simulated" in messages
    assert any(message.startswith("1 refused: ") for message in messages)


def test_an_hvpa_on_an_external_metric_goes_by_its_vpa_alone() -> None:
    server = shop()
    put_hvpa(server, hvpa(hpa={"template": {"spec": {"metrics": external("web")["spec"]["metrics"]}}}))
    fleet = played(server)
    (document,) = [document for document in fleet.fleet.variants[1].objects if document["kind"] == "Hvpa"]
    assert document["spec"]["hpa"] == {"deploy": False}
    assert reasons(fleet, "Hvpa") == ["1 a dump has no values of some metrics of its HPA: it scales by its VPA only"]


def test_a_buffer_is_listed_where_no_node_could_be_ordered_for_it() -> None:
    server = shop()
    server.put(f"{BUFFER_PATH}/spare", buffer())
    fleet = played(server)
    assert reasons(fleet, "Buffer") == ["1 the dump has no node groups that could be scaled up for it"]
    assert not fleet.fleet.pools


def test_a_buffer_is_kept_in_all_variants_on_nodes_of_the_groups() -> None:
    server = shop()
    server.put(f"{BUFFER_PATH}/spare", buffer(capacity={"replicas": {"exactly": 20}}))
    fleet = played(server, groups=one_group())
    (pool,) = fleet.fleet.pools
    assert (pool.name, pool.count, pool.min_size, pool.max_size, pool.boot_seconds) == ("pool", 1, 1, 5, 90.0)
    # The one node of the dump belongs to the group.
    assert fleet.fleet.nodes == ()
    assert reasons(fleet, "Buffer") == []
    assert all("Buffer" in kinds(variant) for variant in fleet.fleet.variants)
    result = simulate(_short(fleet))
    nodes = result.variants[0].nodes
    assert not isinstance(nodes, msgspec.UnsetType)
    # 20 chunks of 500m and two pods need two nodes of 8 cores.
    assert nodes.most == 2
    assert [buffer.name for buffer in nodes.buffers] == ["spare"]
    assert nodes.buffers[0].full > 0.9


def test_a_buffer_of_a_target_that_is_not_simulated_is_listed() -> None:
    server = shop()
    server.put(f"{BUFFER_PATH}/spare", buffer(targetRef={**WEB, "name": "ghost"}))
    assert reasons(played(server, groups=one_group()), "Buffer") == ["1 its target is not simulated"]


def cron_job(**spec: Any) -> dict[str, Any]:
    job = {"spec": {"parallelism": 2, "completions": 4, "template": {"spec": POD}}}
    return {"metadata": {"uid": "c-1"}, "spec": {"schedule": "0 */6 * * *", "jobTemplate": job, **spec}}


def put_cron_job(server: ModelServer, name: str = "report", **spec: Any) -> None:
    server.put(f"/apis/batch/v1/namespaces/shop/cronjobs/{name}", cron_job(**spec))


def put_job(server: ModelServer, name: str, begin: str, end: str = "", owner: str = "") -> None:
    times = {"startTime": begin, **({"completionTime": end} if end else {})}
    spec = {"parallelism": 2, "completions": 4, "template": {"spec": POD}}
    owners = [{"apiVersion": "batch/v1", "kind": "CronJob", "name": owner, "uid": "c-1", "controller": True}]
    metadata = {"ownerReferences": owners} if owner else {}
    server.put(f"/apis/batch/v1/namespaces/shop/jobs/{name}", {"metadata": metadata, "spec": spec, "status": times})


def test_a_cron_job_runs_by_its_schedule_as_long_as_its_jobs_did() -> None:
    server = shop()
    put_cron_job(server, concurrencyPolicy="Forbid", startingDeadlineSeconds=60, timeZone="Etc/GMT-2")
    put_job(server, "report-29733240", "2026-07-13T22:00:00Z", "2026-07-13T22:20:00Z", owner="report")
    fleet = played(server)
    report = workload(fleet, "report")
    assert report.kind == "CronJob"
    assert (report.replicas, report.completions) == (2, 4)
    assert report.cron is not None
    assert (report.cron.concurrency, report.cron.deadline) == ("Forbid", 60)
    # Seven days, four times a day, at even hours two hours before UTC. Twenty minutes are two pods after one another.
    assert len(report.runs) == 28
    assert {begin / HOUR % 6 for begin, _ in report.runs} == {4.0}
    assert {length for _, length in report.runs} == {600.0}
    assert report.demand[0].by_age
    assert [workload.name for workload in fleet.fleet.workloads] == ["alone", "report", "web"]


def test_usage_of_a_cron_job_goes_by_the_age_of_its_pods() -> None:
    server = shop()
    put_cron_job(server)
    times = NOW - 40 * HOUR + 300.0 * np.arange(4, dtype=np.float64)
    ramp = np.array([0.1, 0.2, 0.3, 0.4])
    series = [
        ContainerHistory("shop", f"report-2973{n}-bbcdf", "job", at, ramp, ramp * 1e9)
        for n, at in enumerate((times, times + 6 * HOUR))
    ]
    collected = msgspec.structs.replace(grown(dump_state(server)), history=tuple(series))
    report = workload(build_fleet_from_dump(collected, "shop"), "report")
    assert {length for _, length in report.runs} == {1200.0}
    assert report.demand[0].cpu[:4].tolist() == pytest.approx(ramp.tolist())


def test_a_cron_job_that_cannot_run_is_listed_with_the_reason() -> None:
    server = shop()
    put_cron_job(server, "asleep", suspend=True)
    put_cron_job(server, "yearly", schedule="@yearly")
    put_cron_job(server, "odd", schedule="@every 1h")
    put_cron_job(server, "hourly", schedule="TZ=Europe/Berlin @hourly")
    fleet = played(server)
    messages = reasons(fleet, "CronJob")
    assert "1 suspended" in messages
    assert "1 its schedule has no run within the simulated time" in messages
    assert any(message.startswith("1 its schedule cannot be read") for message in messages)
    assert len(workload(fleet, "hourly").runs) == 168
    assert any("assumed to take 10 min" in note for note in fleet.notes)


def test_a_job_runs_once_when_it_did() -> None:
    server = shop()
    put_job(server, "once", "2026-07-13T12:00:00Z", "2026-07-13T13:00:00Z")
    put_job(server, "still", "2026-07-14T01:33:20Z")
    put_job(server, "before", "2026-06-01T00:00:00Z", "2026-06-01T01:00:00Z")
    fleet = played(server)
    (run,) = workload(fleet, "once").runs
    assert (run[0], run[1]) == (1_783_944_000.0, 1800.0)
    ((_, length),) = workload(fleet, "still").runs
    assert length == pytest.approx(3600.0, rel=0.01)
    assert "before" not in [workload.name for workload in fleet.fleet.workloads]


def test_static_pods_are_taken_off_their_nodes() -> None:
    server = shop()
    owner = {"apiVersion": "v1", "kind": "Node", "name": "ip-10-0-0-7", "uid": "n-1", "controller": True}
    spec = {**POD, "nodeName": "ip-10-0-0-7"}
    server.put("/api/v1/namespaces/kube-system/pods/etcd", {"metadata": {"ownerReferences": [owner]}, "spec": spec})
    fleet = played(server)
    assert fleet.fleet.nodes[0].document["status"]["allocatable"]["cpu"] == "7"
    assert any("static pod" in reason for reason in reasons(fleet, "Pod"))


def test_missing_data_of_a_dump_is_listed() -> None:
    server = shop()
    collected = dump_state(server, "shop")
    lacking = msgspec.structs.replace(
        collected,
        missing=(MissingData("Node", "", "may not be read"), MissingData("Hvpa", "", "is not served by the cluster")),
    )
    fleet = build_fleet_from_dump(lacking, "shop")
    assert "0 not in the dump: may not be read" in reasons(fleet, "Node")
    # A cluster without the kind has none of them to play.
    assert reasons(fleet, "Hvpa") == []
    assert any("other namespaces" in reason for reason in reasons(fleet, "Pod"))


def test_a_masked_dump_plays_the_same_autoscalers() -> None:
    server = shop()
    put_cron_job(server, concurrencyPolicy="Replace")
    put_hvpa(server, hvpa())
    plain, masked = (dump_state(server, mask=mask) for mask in (None, Anonymizer(b"0")))
    both = [build_fleet_from_dump(state, "shop").fleet for state in (plain, masked)]
    plainly, secretly = ([kinds(variant) for variant in fleet.variants] for fleet in both)
    assert plainly == secretly
    policies = [
        [workload.cron.concurrency for workload in fleet.workloads if workload.cron is not None] for fleet in both
    ]
    assert policies == [["Replace"], ["Replace"]]


def test_a_buffer_document_is_one_that_the_simulator_reads() -> None:
    server = shop()
    server.put(f"{BUFFER_PATH}/spare", buffer())
    fleet = played(server, groups=one_group())
    (document,) = [document for document in fleet.fleet.variants[0].objects if document["kind"] == "Buffer"]
    assert convert_object(document, Buffer).spec.target_ref is not None


def _short(dumped_fleet: DumpedFleet) -> Any:
    """Six hours of it."""
    fleet = dumped_fleet.fleet
    clock = msgspec.structs.replace(fleet.clock, steps=72, scored_from=fleet.clock.begin + HOUR)
    return msgspec.structs.replace(fleet, clock=clock)
