"""What an updater decided on a real control plane is decided again from its recording, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.admission import wait_for_current_advice, wait_for_webhook_calls
from support.cluster.updaters import (
    Start,
    advise,
    create_vpa_with_advice,
    events,
    requests,
    running_pods,
    updaters,
    wait_for_two_passes,
)
from support.cluster.vpas import metric_value, vpa_path
from testbed.cluster import Cluster
from testbed.kwok import annotations as ask
from testbed.waiting import until
from testbed.workloads import container, deployment, disruption_budget
from trellis.runtime.recorder import read_recording
from trellis.sim.replay.replay import replay

OFTEN = "--updater-interval=2s"
BOOST = {"startupBoost": {"cpu": {"type": "Factor", "factor": 3}}}


@pytest.fixture
def updater(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Start `trellis updater` for the VPAs of one namespace."""
    with updaters(cluster, tmp_path) as start:
        yield start


def test_a_minute_of_a_busy_updater_is_decided_again_in_the_same_way(
    cluster: Cluster, namespace: str, admission: Start, updater: Start, tmp_path: Path
) -> None:
    admission(namespace)
    wait_for_webhook_calls(cluster, namespace)
    file = tmp_path / "updater.jsonl.gz"
    controller = updater(namespace, OFTEN, f"--record={file}", "--evictions-per-hour=40")
    running_pods(cluster, namespace, "web", 3)
    running_pods(cluster, namespace, "api", 2)
    running_pods(cluster, namespace, "late", 2, notes={ask.RESIZE: ask.INFEASIBLE})
    running_pods(cluster, namespace, "kept", 2)
    cluster.api.create(disruption_budget("kept", minAvailable=2), namespace)
    create_vpa_with_advice(cluster, namespace, "kept", "Recreate")
    create_vpa_with_advice(cluster, namespace, "web", "Recreate")
    create_vpa_with_advice(cluster, namespace, "api", "InPlaceOrRecreate")
    create_vpa_with_advice(cluster, namespace, "late", "InPlaceOnly")
    create_vpa_with_advice(cluster, namespace, "slow", "InPlaceOrRecreate", **BOOST)
    wait_for_current_advice(cluster, namespace)
    # Boosted by the webhook, and taken back by the updater.
    cluster.api.create(deployment("slow", container(), replicas=2), namespace)
    for name, pods in (("web", 3), ("api", 2), ("slow", 2)):
        until(f"the pods of {name}", lambda name=name, pods=pods: requests(cluster, namespace, name) == ["250m"] * pods)  # type: ignore[misc]
    advise(cluster, namespace, "web", "150m")
    advise(cluster, namespace, "api", "350m")
    frozen = {"metadata": {"annotations": {"trellis.x-k8s.io/freeze": "tests"}}}
    cluster.api.patch(vpa_path(namespace, "api"), frozen)
    until("the second round", lambda: requests(cluster, namespace, "web") == ["150m"] * 3)
    until("the Event", lambda: events(cluster, namespace, "ResizeInfeasible"))
    cluster.api.delete(vpa_path(namespace, "late"))
    wait_for_two_passes(controller)
    assert metric_value(controller, "vpa_updater_evicted_pods_total") >= 6
    controller.process.stop()
    report = replay(read_recording(file))
    assert str(report) == f"{report.decisions} decisions, no differences"
    assert report.decisions > 20


def test_a_recording_of_an_updater_that_was_killed_can_be_replayed(
    cluster: Cluster, namespace: str, updater: Start, tmp_path: Path
) -> None:
    file = tmp_path / "updater.jsonl"
    running_pods(cluster, namespace, "web", 2)
    create_vpa_with_advice(cluster, namespace, "web", "InPlaceOnly")
    controller = updater(namespace, OFTEN, f"--record={file}")
    until("the resizes", lambda: requests(cluster, namespace, "web") == ["250m"] * 2)
    wait_for_two_passes(controller)
    controller.process.kill()
    report = replay(read_recording(file))
    assert report.first is None
    assert report.decisions >= 2
