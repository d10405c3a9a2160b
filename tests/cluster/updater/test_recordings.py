"""What an updater decided on a real control plane is decided again from its recording, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.admission import until_asked, until_seen
from support.cluster.updaters import Start, advise, events, governed, requests, running_pods, two_more_passes, updaters
from support.cluster.vpas import value, vpa_path
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
    until_asked(cluster, namespace)
    file = tmp_path / "updater.jsonl.gz"
    controller = updater(namespace, OFTEN, f"--record={file}", "--evictions-per-hour=40")
    running_pods(cluster, namespace, "web", 3)
    running_pods(cluster, namespace, "api", 2)
    running_pods(cluster, namespace, "late", 2, notes={ask.RESIZE: ask.INFEASIBLE})
    running_pods(cluster, namespace, "kept", 2)
    cluster.api.create(disruption_budget("kept", minAvailable=2), namespace)
    governed(cluster, namespace, "kept", "Recreate")
    governed(cluster, namespace, "web", "Recreate")
    governed(cluster, namespace, "api", "InPlaceOrRecreate")
    governed(cluster, namespace, "late", "InPlaceOnly")
    governed(cluster, namespace, "slow", "InPlaceOrRecreate", **BOOST)
    until_seen(cluster, namespace)
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
    two_more_passes(controller)
    assert value(controller, "vpa_updater_evicted_pods_total") >= 6
    controller.process.stop()
    report = replay(read_recording(file))
    assert str(report) == f"{report.decisions} decisions, all the same"
    assert report.decisions > 20


def test_a_recording_of_an_updater_that_was_killed_can_be_replayed(
    cluster: Cluster, namespace: str, updater: Start, tmp_path: Path
) -> None:
    file = tmp_path / "updater.jsonl"
    running_pods(cluster, namespace, "web", 2)
    governed(cluster, namespace, "web", "InPlaceOnly")
    controller = updater(namespace, OFTEN, f"--record={file}")
    until("the resizes", lambda: requests(cluster, namespace, "web") == ["250m"] * 2)
    two_more_passes(controller)
    controller.process.kill()
    report = replay(read_recording(file))
    assert report.first is None
    assert report.decisions >= 2
