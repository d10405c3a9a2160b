"""A recommender on a real control plane: histories to start from, passes to wait for, conditions to compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

from support.cluster.vpas import get_vpa_status, read_conditions, wait_for_further_passes
from support.oracles.recommendations import ExactHistogram
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.controllers import Controller
from trellis.base.times import format_time
from trellis.core.usage.checkpoints.format import build_checkpoint_status
from trellis.core.usage.model import UsageModel
from trellis.core.usage.samples import Samples
from trellis.core.usage.tracked_pods import TrackedContainer, TrackedPod

EVERY_SECOND: Final = "--recommender-interval=1s"
MIB: Final = 1024 * 1024
MARGIN: Final = 0.15
_CPU, _MEMORY = ExactHistogram(0.01, 176, 86_400.0), ExactHistogram(1e7, 176, 86_400.0)


def wait_for_passes(*controllers: Controller, passes: int = 2) -> None:
    """Return when each has begun and ended so many passes from now on: one more may be under way."""
    for controller in controllers:
        wait_for_further_passes(controller, count=passes + 1)


def find_true_condition(cluster: Cluster, namespace: str, name: str, type_: str) -> Json | None:
    """A condition of a VPA that is true, if it has it."""
    conditions = get_vpa_status(cluster, namespace, name).get("conditions", [])
    return next(
        (condition for condition in conditions if (condition["type"], condition["status"]) == (type_, "True")), None
    )


def true_conditions(cluster: Cluster, namespace: str, name: str) -> set[str]:
    """Types of the conditions of a VPA that are true."""
    conditions = read_conditions(get_vpa_status(cluster, namespace, name))
    return {type_ for type_, status in conditions.items() if status == "True"}


def history(
    vpa: str, cpu: Mapping[int, int], memory: Mapping[int, int], *, container: str = "app", samples: int = 60
) -> Json:
    """A checkpoint of the last hour, by weights of buckets: with it nobody waits for usage to be measured.

    It weighs so much that what is measured meanwhile does not change any percentile.
    """
    now = datetime.now(UTC)
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    status = {
        "version": "v3",
        "lastUpdateTime": format_time(now),
        "firstSampleStart": format_time(now - timedelta(hours=1)),
        "lastSampleStart": format_time(now - timedelta(minutes=1)),
        "totalSamplesCount": samples,
    }
    for name, weights in (("cpuHistogram", cpu), ("memoryHistogram", memory)):
        texts = {str(bucket): weight for bucket, weight in weights.items()}
        status[name] = {"referenceTimestamp": format_time(today), "bucketWeights": texts, "totalWeight": 1000.0}
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscalerCheckpoint",
        "metadata": {"name": f"{vpa}-{container}"},
        "spec": {"vpaObjectName": vpa, "containerName": container},
        "status": status,
    }


def hourly_history(namespace: str, vpa: str, cpu: Sequence[float], memory: float, *, container: str = "app") -> Json:
    """A checkpoint of cores used in the last hours, the newest last, and of memory that was the same in all of them."""
    now = datetime.now(UTC).timestamp()
    model = UsageModel()
    model.keep_history([(namespace, vpa)])
    pod = TrackedPod(namespace, "past", "past", vpa, True, (TrackedContainer(container),))
    model.track_pods(namespace, [pod], now)
    size = len(cpu)
    times = now - 60.0 - 3600.0 * np.arange(size - 1, -1, -1, dtype=np.float64)
    used = np.asarray(cpu, dtype=np.float64), np.full(size, memory)
    model.ingest(Samples([namespace] * size, ["past"] * size, [container] * size, times, *used), now)
    [row] = model.save_rows(model.view().rows, now)
    return history(vpa, {}, {}, container=container) | {"status": build_checkpoint_status(row)}


def cpu_at(bucket: int, margin: float = MARGIN) -> int:
    """The target in millicores where a percentile falls into a bucket: its upper edge, and the margin."""
    return _with_margin(_CPU.start(bucket + 1) * 1000, margin)


def memory_at(bucket: int, margin: float = MARGIN) -> int:
    """The same for memory, in bytes."""
    return _with_margin(_MEMORY.start(bucket + 1), margin)


def steady_memory(used: int, margin: float = MARGIN) -> int:
    """The target for memory that never changes."""
    return memory_at(_MEMORY.bucket(used), margin)


def _with_margin(edge: float, margin: float) -> int:
    return int(edge) + int(int(edge) * margin)
