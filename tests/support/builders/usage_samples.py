"""Short ways to write pods and their usage."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from trellis.core.cluster.oom_kill_detection import OomKill
from trellis.core.usage.columns import IntColumn, RowKey
from trellis.core.usage.model import UsageModel
from trellis.core.usage.samples import Samples
from trellis.core.usage.tracked_pods import TrackedContainer, TrackedPod

Line = tuple[str, str, float, float, float]  # pod, container, time, cores, bytes


def pod(
    name: str,
    vpa: str = "web",
    containers: Sequence[str] = ("app",),
    *,
    uid: str = "",
    ready: bool = True,
    memory: float = math.nan,
) -> TrackedPod:
    return TrackedPod(
        "shop", name, uid or f"uid-of-{name}", vpa, ready, tuple(TrackedContainer(c, memory) for c in containers)
    )


def batch(*lines: Line) -> Samples:
    return Samples(
        ["shop"] * len(lines),
        [line[0] for line in lines],
        [line[1] for line in lines],
        np.array([line[2] for line in lines], dtype=np.float64),
        np.array([line[3] for line in lines], dtype=np.float64),
        np.array([line[4] for line in lines], dtype=np.float64),
    )


def kill(name: str, time: float, memory: float = math.nan, *, container: str = "app", uid: str = "") -> OomKill:
    return OomKill("shop", name, uid or f"uid-of-{name}", container, time, memory)


def row(model: UsageModel, container: str = "app", vpa: str = "web") -> IntColumn:
    """The row of a container, in a column of one."""
    row = model.find_rows([RowKey("shop", vpa, container)])
    assert row[0] >= 0
    return row


def peak(model: UsageModel, container: str = "app", vpa: str = "web") -> float:
    """The highest memory peak a row knows of, as the end of its bucket."""
    return float(model.view().memory.percentiles([1.0], row(model, container, vpa))[0, 0])


def memory_weights(model: UsageModel, container: str = "app", vpa: str = "web") -> dict[int, float]:
    """Bucket to weight of the memory peaks of a row."""
    weights = model.view().memory.weights(row(model, container, vpa))[:, 0]
    return {int(bucket): float(weights[bucket]) for bucket in np.flatnonzero(weights)}
