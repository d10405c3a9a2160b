"""Recordings of recommenders on a real control plane replay to the same decisions, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from support.cluster.vpas import (
    ADVICE,
    EVERY_SECOND,
    USAGE,
    get_checkpoint_status,
    get_memory_target,
    get_target,
    metric_value,
    until_advised,
    vpa,
    vpa_path,
    wait_for_further_passes,
)
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.kwok import annotations as ask
from testbed.waiting import until
from testbed.workloads import container, deployment
from trellis.base.json_lines import read_lines
from trellis.core.recording.recommender import RESTORE, SNAPSHOT
from trellis.runtime.recorder import read_recording
from trellis.sim.replay.replay import ReplayReport, replay

Start = Callable[..., Controller]


def replayed(path: Path) -> ReplayReport:
    report = replay(read_recording(path))
    assert report.first is None, str(report)
    return report


def lines(path: Path, kind: str) -> list[bytes]:
    return [bytes(data) for item, data in read_lines(read_recording(path)) if item == kind]


def test_a_replay_of_a_kill_an_edit_and_a_restart_has_the_same_decisions(
    cluster: Cluster, namespace: str, recommender: Start, tmp_path: Path
) -> None:
    before, after = tmp_path / "before.jsonl.gz", tmp_path / "after.jsonl"
    for name in ("web", "api"):
        workload = deployment(name, container("app", memory="400Mi"), replicas=2, annotations=USAGE)
        cluster.api.create(workload, namespace)
        cluster.api.create(vpa(name, recommender="seasonal" if name == "api" else ""), namespace)
    names = "--recommender-name=default,seasonal"
    first = recommender(namespace, EVERY_SECOND, names, f"--record={before}")
    until_advised(cluster, namespace, "web")
    pod = cluster.wait_for_ready_pods(namespace, "web", 2)[0]["metadata"]["name"]
    cluster.api.annotate(f"/api/v1/namespaces/{namespace}/pods/{pod}", {ask.OOM_KILLED: "app=1"})
    until("more memory", lambda: get_memory_target(cluster, namespace, "web") > ADVICE[1])
    policy = {"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "30m"}}]}
    cluster.api.patch(vpa_path(namespace, "web"), {"spec": {"resourcePolicy": policy}})
    until("less CPU", lambda: (get_target(cluster, namespace, "web") or ADVICE)[0] == 30)
    until("a checkpoint", lambda: bool(get_checkpoint_status(cluster, namespace, "web-app").get("memoryHistogram")))
    first.process.kill()

    # The second is asked to stop, and the first had no time to close its file.
    second = recommender(namespace, EVERY_SECOND, names, f"--record={after}")
    until("the kill to be known already", lambda: metric_value(second, "trellis_recommender_oom_kills_total") >= 1)
    wait_for_further_passes(second, count=6)
    second.process.stop()

    assert any(b"OOM" in line or b'"kills"' in line for line in lines(before, SNAPSHOT))
    assert any(b'"web","app"' in line for line in lines(after, RESTORE))
    for path in (before, after):
        report = replayed(path)
        assert report.component == "recommender"
        assert report.decisions >= 20
