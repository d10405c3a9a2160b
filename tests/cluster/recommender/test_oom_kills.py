"""OOM kills on a real control plane raise memory, and each kill counts once."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from support.cluster.vpas import (
    ADVICE,
    EVERY_SECOND,
    USAGE,
    count_passes,
    get_checkpoint_status,
    get_memory_target,
    get_target,
    metric_value,
    until_advised,
    vpa,
    vpa_path,
    wait_for_further_passes,
)
from support.oracles.recommendations import ExactHistogram, SlowContainer
from testbed.client import STRATEGIC_PATCH, Json
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.kwok import annotations as ask
from testbed.waiting import until
from testbed.workloads import container, deployment
from trellis.core.recommend.settings import DefaultSettings

Start = Callable[..., Controller]

DAY = 86_400.0
MIB = 1024 * 1024


def bumped(request: int, ratio: float = 1.2, least: int = 100 * MIB) -> int:
    """The memory target after a kill, by upstream's rule: so much more than what it had, and the margin on top."""
    peaks = ExactHistogram(1e7, 176, DAY)
    peaks.add(time.time(), max(request + least, int(request * ratio)), 1.0)
    estimate = SlowContainer(peaks, peaks, 0.0, 0.0, 1).estimate("memory", DefaultSettings(), 1)
    assert estimate
    return estimate[1]


def kills(controller: Controller, result: str) -> float:
    return metric_value(controller, "trellis_recommender_oom_kills_total", result=result)


def test_an_out_of_memory_kill_raises_memory_and_counts_once(
    cluster: Cluster, namespace: str, recommender: Start
) -> None:
    cluster.api.create(deployment("web", container("app", memory="400Mi"), annotations=USAGE), namespace)
    cluster.api.create(vpa("web"), namespace)
    first = recommender(namespace, EVERY_SECOND)
    until_advised(cluster, namespace, "web")
    [pod] = cluster.wait_for_ready_pods(namespace, "web")
    path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
    cluster.api.annotate(path, {ask.OOM_KILLED: "app=1"})
    until("the kill to show in the pod", lambda: restarts(cluster, path) == 1)
    raised = bumped(400 * MIB)
    until("more memory", lambda: get_memory_target(cluster, namespace, "web") >= raised)
    assert get_memory_target(cluster, namespace, "web") == raised

    # The pod changes again, and still shows the same kill.
    cluster.api.annotate(path, {"example/seen": "again"})
    wait_for_further_passes(first, count=3)
    assert kills(first, "Accepted") == 1

    until("the kill to be in the checkpoint", lambda: bool(remembered_peaks(cluster, namespace)))
    first.process.kill()
    cluster.api.patch(f"{vpa_path(namespace, 'web')}/status", {"status": None})
    second = recommender(namespace, EVERY_SECOND)
    until("the kill to be known already", lambda: kills(second, "KnownOomKill") >= 1)
    assert kills(second, "Accepted") == 0
    assert until("a target", lambda: get_target(cluster, namespace, "web")) == (ADVICE[0], raised)


def remembered_peaks(cluster: Cluster, namespace: str) -> Json:
    """Peaks of memory in the checkpoint: those of kills, and of windows that are over."""
    bucket_weights: Json = (
        get_checkpoint_status(cluster, namespace, "web-app").get("memoryHistogram", {}).get("bucketWeights", {})
    )
    return bucket_weights


def restarts(cluster: Cluster, path: str) -> int:
    return int(cluster.api.get(path)["status"]["containerStatuses"][0]["restartCount"])


def test_a_kill_counts_even_if_the_pod_is_deleted_before_the_next_pass(
    cluster: Cluster, namespace: str, recommender: Start
) -> None:
    """One of the pods is even younger than the last look."""
    for name in ("killed", "evicted"):
        cluster.api.create(vpa(name), namespace)
    cluster.api.create(deployment("evicted", container("app", memory="1Gi")), namespace)
    pods = {"evicted": cluster.wait_for_ready_pods(namespace, "evicted")[0]}
    controller = recommender(namespace, "--recommender-interval=10s")
    until("the first pass", lambda: count_passes(controller) >= 1)
    cluster.api.create(deployment("killed", container("app", memory="1Gi")), namespace)
    pods["killed"] = cluster.wait_for_ready_pods(namespace, "killed")[0]
    paths = {name: f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}" for name, pod in pods.items()}
    cluster.api.annotate(paths["killed"], {ask.OOM_KILLED: "app=1"})
    until("the kill to show in the pod", lambda: restarts(cluster, paths["killed"]) == 1)
    cluster.api.create(eviction(pods["evicted"], "app", "2Gi"), namespace)
    for path in paths.values():
        cluster.api.delete(path)
    until("the pods to be gone", lambda: all(cluster.api.find(path) is None for path in paths.values()))

    # The one had asked for 1 GiB; the kubelet says of the other that it used 2.
    for name, had in (("killed", 1024 * MIB), ("evicted", 2048 * MIB)):
        needed = bumped(had)
        until("more memory", lambda name=name, least=needed: get_memory_target(cluster, namespace, name) >= least)  # type: ignore[misc]
    until("both to be counted", lambda: kills(controller, "Accepted") == 2)


def eviction(pod: Json, container: str, usage: str) -> Json:
    """What a kubelet says of a pod that it evicts because the node is short of memory."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = pod["metadata"]
    notes = {"offending_containers": container, "offending_containers_usage": usage, "starved_resource": "memory"}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{metadata['name']}.evicted", "annotations": notes},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod"}
        | {key: metadata[key] for key in ("name", "namespace", "uid")},
        "reason": "Evicted",
        "message": "The node was low on resource: memory.",
        "type": "Warning",
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": {"component": "kubelet"},
    }


def test_a_kill_after_a_missed_resize_counts_with_the_previous_request(
    cluster: Cluster, namespace: str, recommender: Start
) -> None:
    had = {"cpu": "100m", "memory": "400Mi"}
    app = container("app", resources={"requests": had, "limits": had})
    cluster.api.create(deployment("web", app, annotations=USAGE), namespace)
    cluster.api.create(vpa("web"), namespace)
    controller = recommender(namespace, EVERY_SECOND)
    until_advised(cluster, namespace, "web")
    [pod] = cluster.wait_for_ready_pods(namespace, "web")
    path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"

    def status() -> Json:
        return dict(cluster.api.get(path)["status"]["containerStatuses"][0])

    cluster.api.annotate(path, {ask.CRASHED: "app"})
    until("the kill to count", lambda: get_memory_target(cluster, namespace, "web") == bumped(400 * MIB))
    # Others resize the pod while its container is down, which kubelet 1.36 reports as done.
    more = had | {"memory": "800Mi"}
    patch = {"spec": {"containers": [{"name": "app", "resources": {"requests": more, "limits": more}}]}}
    cluster.api.patch(f"{path}/resize", patch, STRATEGIC_PATCH)
    until("the status", lambda: status()["resources"]["limits"] == more)
    cluster.api.annotate(path, {ask.CRASHED: None})
    until("the restart", lambda: "running" in status()["state"])
    cluster.api.annotate(path, {ask.CRASHED: "app"})
    until("the second kill to be taken in", lambda: kills(controller, "Accepted") == 2)
    wait_for_further_passes(controller)
    assert get_memory_target(cluster, namespace, "web") == bumped(400 * MIB)
