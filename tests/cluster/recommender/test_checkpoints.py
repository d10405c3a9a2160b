"""Checkpoints on a real control plane: history survives the process that collected it.

Memory is counted by windows of five seconds, because a window that is not over is in no checkpoint.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.cluster.vpas import (
    ADVICE,
    EVERY_SECOND,
    USAGE,
    USAGE_SECONDS,
    checkpoint_path,
    count_passes,
    count_samples,
    get_checkpoint_status,
    get_target,
    get_vpa_status,
    metric_value,
    read_conditions,
    until_advised,
    until_value,
    vpa,
    vpa_path,
)
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.errors import ProgramDied
from testbed.waiting import until
from testbed.workloads import container, deployment

Start = Callable[..., Controller]

FLAGS = (EVERY_SECOND, "--memory-aggregation-interval=5s", "--memory-aggregation-interval-count=100")
UNREADABLE = "trellis_recommender_unreadable_checkpoints"
HISTOGRAMS = ("cpuHistogram", "memoryHistogram")


def scale(cluster: Cluster, namespace: str, replicas: int) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web/scale"
    cluster.api.patch(path, {"spec": {"replicas": replicas}})


def ended(controller: Controller) -> str | None:
    """How a process ended, and its last line; None while it runs."""
    try:
        controller.process.check()
    except ProgramDied as death:
        return str(death)
    return None


def test_a_killed_recommender_leaves_its_history_to_the_next(
    cluster: Cluster, namespace: str, recommender: Start
) -> None:
    cluster.api.create(deployment("web", annotations=USAGE), namespace)
    cluster.api.create(vpa("web"), namespace)
    first = recommender(namespace, *FLAGS)
    until("two samples", lambda: count_samples(cluster, namespace, "web-app") >= 2, USAGE_SECONDS)
    until(
        "a peak that is over", lambda: weights(get_checkpoint_status(cluster, namespace, "web-app"))["memoryHistogram"]
    )
    taken_in = metric_value(first, "trellis_recommender_samples_total", result="Accepted")
    first.process.kill()
    assert count_samples(cluster, namespace, "web-app") >= taken_in - 1
    recommended = get_vpa_status(cluster, namespace, "web")["recommendation"]
    assert get_target(cluster, namespace, "web") == ADVICE

    scale(cluster, namespace, 0)
    cluster.wait_for_ready_pods(namespace, "web", 0)
    cluster.api.patch(f"{vpa_path(namespace, 'web')}/status", {"status": None})
    known = get_checkpoint_status(cluster, namespace, "web-app")
    second = recommender(namespace, *FLAGS)
    assert until("a target from history alone", lambda: get_target(cluster, namespace, "web")) == ADVICE
    status = get_vpa_status(cluster, namespace, "web")
    assert read_conditions(status) == {
        "LowConfidence": "True",
        "NoPodsMatched": "True",
        "RecommendationProvided": "True",
    }
    assert [recommendation["target"] for recommendation in status["recommendation"]["containerRecommendations"]] == [
        recommendation["target"] for recommendation in recommended["containerRecommendations"]
    ]
    until("another pass", lambda: count_passes(second) >= 2)
    assert get_checkpoint_status(cluster, namespace, "web-app") == known

    second.process.send(signal.SIGTERM)
    ending = until("the end", lambda: ended(second))
    assert "ended with status 0" in ending
    assert "stopped reason=SIGTERM left=nothing" in ending.splitlines()[-1]


def weights(checkpoint: Json) -> dict[str, dict[str, int]]:
    """Bucket to weight of both histograms."""
    return {name: checkpoint.get(name, {}).get("bucketWeights") or {} for name in HISTOGRAMS}


def check_taken_over(before: Json, after: Json) -> None:
    """History goes on where it was left: nothing began anew, and nothing is counted in another place."""
    assert after["firstSampleStart"] == before["firstSampleStart"]
    assert after["lastSampleStart"] >= before["lastSampleStart"]
    assert after["version"] == before["version"] == "v3"
    assert weights(after).keys() == weights(before).keys()
    for name in HISTOGRAMS:
        assert weights(after)[name].keys() == weights(before)[name].keys()
        assert after[name]["referenceTimestamp"] == before[name]["referenceTimestamp"]
        # More or the same, but for the last digit: whoever takes over shares the total out among buckets.
        assert after[name]["totalWeight"] > before[name]["totalWeight"] - 1e-9


def test_upstream_and_trellis_take_over_from_each_other(
    cluster: Cluster, namespace: str, recommender: Start, upstream_recommender: Start
) -> None:
    cluster.api.create(deployment("web", annotations=USAGE), namespace)
    cluster.api.create(vpa("web"), namespace)

    def taken(count: int) -> Callable[[], bool]:
        return lambda: (
            count_samples(cluster, namespace, "web-app") >= count
            and bool(weights(get_checkpoint_status(cluster, namespace, "web-app"))["memoryHistogram"])
        )

    first = upstream_recommender(namespace, *FLAGS)
    until("two samples by upstream", taken(2), USAGE_SECONDS)
    until("a target by upstream", lambda: get_target(cluster, namespace, "web") == ADVICE)
    first.process.stop()
    upstreams = get_checkpoint_status(cluster, namespace, "web-app")

    ours = recommender(namespace, *FLAGS)
    until("a sample by Trellis", taken(upstreams["totalSamplesCount"] + 1))
    ours.process.stop()
    check_taken_over(upstreams, get_checkpoint_status(cluster, namespace, "web-app"))
    assert get_target(cluster, namespace, "web") == ADVICE
    assert "cannot be read" not in ours.read_logs()
    handed_over = get_checkpoint_status(cluster, namespace, "web-app")

    second = upstream_recommender(namespace, *FLAGS)
    until("a sample by upstream again", taken(handed_over["totalSamplesCount"] + 1))
    check_taken_over(handed_over, get_checkpoint_status(cluster, namespace, "web-app"))
    assert get_target(cluster, namespace, "web") == ADVICE
    assert "Loading checkpoint for VPA" in second.read_logs()
    assert not [line for line in second.read_logs().splitlines() if line.startswith("E") and "heckpoint" in line]


def checkpoint(name: str, container: str, **status: Any) -> Json:
    """A checkpoint as somebody might have left it: an hour of 26m and 300 MiB, unless told otherwise."""
    now = datetime.now(UTC).replace(microsecond=0)
    midnight = now.replace(hour=0, minute=0, second=0)
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscalerCheckpoint",
        "metadata": {"name": f"{name}-{container}"},
        "spec": {"vpaObjectName": name, "containerName": container},
        "status": {
            "version": "v3",
            "lastUpdateTime": text(now),
            "firstSampleStart": text(now - timedelta(hours=1)),
            "lastSampleStart": text(now),
            "totalSamplesCount": 60,
            "cpuHistogram": histogram(midnight, {"2": 10_000}),
            "memoryHistogram": histogram(midnight, {"19": 10_000}),
        }
        | status,
    }


def histogram(reference: datetime, weights: dict[str, int]) -> Json:
    return {"referenceTimestamp": text(reference), "bucketWeights": weights, "totalWeight": 6.0}


def text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def names_of(cluster: Cluster, namespace: str) -> set[str]:
    result = cluster.api.list_items(checkpoint_path(namespace, "").rstrip("/"))
    return {one["metadata"]["name"] for one in result}


@pytest.mark.req("CR-12")
def test_an_unreadable_checkpoint_is_set_aside_and_only_own_orphans_are_deleted(
    cluster: Cluster, namespace: str, recommender: Start
) -> None:
    # Without pods at first: what is measured would take the place of what cannot be read.
    both = container("app"), container("proxy")
    cluster.api.create(deployment("web", *both, replicas=0, annotations=USAGE), namespace)
    cluster.api.create(deployment("kept", replicas=0), namespace)
    cluster.api.create(deployment("theirs", annotations=USAGE), namespace)
    for document in (vpa("web"), vpa("kept"), vpa("theirs", recommender="theirs")):
        cluster.api.create(document, namespace)
    beyond = histogram(datetime.now(UTC), {"999": 10_000})
    broken = [checkpoint("web", "app", cpuHistogram=beyond), checkpoint("web", "proxy", version="v9")]
    # What is nobody's business of ours may well be of a kind that we cannot read.
    other = checkpoint("theirs", "app", version="v9")
    for document in (*broken, other, checkpoint("kept", "app"), checkpoint("gone", "app")):
        cluster.api.create(document, namespace)
    others = [vpa_path(namespace, "theirs"), checkpoint_path(namespace, "theirs-app")]
    untouched = [cluster.api.get(path) for path in others]

    first = recommender(namespace, EVERY_SECOND, "--checkpoints-gc-interval=5s")
    assert until("a target from the sound checkpoint", lambda: get_target(cluster, namespace, "kept")) == ADVICE
    until_value(first, UNREADABLE, 2)
    complaints = [line for line in first.read_logs().splitlines() if "an invalid checkpoint is kept as a copy" in line]
    assert len(complaints) == 2
    assert any("name=web-app" in line and "status.cpuHistogram.bucketWeights" in line for line in complaints)
    assert any("name=web-proxy" in line and "status.version" in line for line in complaints)
    until("the orphan to be gone", lambda: cluster.api.find(checkpoint_path(namespace, "gone-app")) is None)

    scale(cluster, namespace, 1)
    for name in ("app", "proxy"):
        until_advised(cluster, namespace, "web", name)
    # New ones are in place of those that were broken.
    until_value(first, UNREADABLE, 0)
    for document in broken:
        name = document["metadata"]["name"]
        preserved = get_checkpoint_status(cluster, namespace, f"{name}-unreadable")
        assert preserved == {**document["status"], "version": "unreadable"}
        assert get_checkpoint_status(cluster, namespace, name)["version"] == "v3"
        assert count_samples(cluster, namespace, name) < 60

    cluster.api.delete(vpa_path(namespace, "kept"))
    until("its checkpoint to follow it", lambda: cluster.api.find(checkpoint_path(namespace, "kept-app")) is None)
    first.process.stop()
    second = recommender(namespace, EVERY_SECOND)
    until("a pass", lambda: count_passes(second) >= 1)
    assert metric_value(second, UNREADABLE) == 0
    assert names_of(cluster, namespace) == {
        *("web-app", "web-app-unreadable", "web-proxy", "web-proxy-unreadable", "theirs-app")
    }
    assert [cluster.api.get(path) for path in others] == untouched
