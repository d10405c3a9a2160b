"""Informers and the writer tell Prometheus how they are doing."""

from __future__ import annotations

import asyncio
import math

from support import virtual_time
from support.api_server.server import ModelServer, pod, pod_path
from trellis.kube.resources import PODS
from trellis.kube.watch.informer import WatchInformer
from trellis.kube.write.actions import CreateEviction, Target
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.runtime.telemetry.cluster_metrics import CLUSTER_METRICS, PassGauges, count_write, observe_informer
from trellis.runtime.telemetry.metrics import Metrics


def lines(metrics: Metrics) -> dict[str, float]:
    """The series of Trellis, without comments."""
    text = metrics.format_text().decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in text if line.startswith("trellis_"))
    return {name: float(value) for name, value in pairs}


def test_informer_metrics_have_objects_and_ages() -> None:
    server = ModelServer()
    server.put(pod_path("good"), pod())
    server.put(pod_path("bad"), {"spec": {"nodeName": 17}})
    metrics = Metrics(CLUSTER_METRICS, about_process=False)

    async def main() -> None:
        informer = WatchInformer(server.client, PODS, draw=lambda: 0.5)
        observe_informer(metrics, informer)
        before = lines(metrics)
        assert before['trellis_informer_synced{resource="pods"}'] == 0
        assert math.isnan(before['trellis_informer_contact_age_seconds{resource="pods"}'])
        following = asyncio.create_task(informer.run())
        await informer.wait_until_synced()
        await asyncio.sleep(30)
        observe_informer(metrics, informer)
        following.cancel()

    virtual_time.run(main())
    metrics_by_line = lines(metrics)
    assert metrics_by_line['trellis_informer_synced{resource="pods"}'] == 1
    assert metrics_by_line['trellis_informer_connected{resource="pods"}'] == 1
    assert metrics_by_line['trellis_informer_contact_age_seconds{resource="pods"}'] == 30
    assert metrics_by_line['trellis_informer_objects{resource="pods"}'] == 1
    assert metrics_by_line['trellis_informer_rejected_objects{resource="pods"}'] == 1
    assert metrics_by_line['trellis_informer_lists{resource="pods"}'] == 1


def test_writes_are_counted_by_result() -> None:
    metrics = Metrics(CLUSTER_METRICS, about_process=False)
    evict = CreateEviction(Target(PODS, "web-0", "default"))
    for result in (Result.APPLIED, Result.REFUSED, Result.REFUSED):
        count_write(metrics, WriteOutcome(evict, result))
    metrics_by_line = lines(metrics)
    assert metrics_by_line['trellis_writes_total{action="EvictPod",resource="pods",result="Refused"}'] == 2
    assert metrics_by_line['trellis_writes_total{action="EvictPod",resource="pods",result="Applied"}'] == 1


def test_a_failed_pass_leaves_the_duration_of_the_last_successful_one() -> None:
    metrics = Metrics(CLUSTER_METRICS, about_process=False)
    gauges = PassGauges(metrics, "updater")
    gauges.observe(2.5, 0)
    gauges.observe(9.0, 3)
    lines = metrics.format_text().decode().splitlines()
    assert 'trellis_component_last_pass_duration_seconds{component="updater"} 2.5' in lines
    assert 'trellis_component_failed_passes{component="updater"} 3' in lines
