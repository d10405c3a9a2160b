"""The checkpoint of a container after a week.

A checkpoint in the form that upstream and Trellis both read. On the first day of a VPA its bounds halve from one pass
to the next, because hardly anything is known; a measurement without history would measure that day alone.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from testbed.client import Json

DAYS = 8
SAMPLES_OF_A_DAY = 24 * 60

# Upstream's buckets: each 5 % wider than the one before, beginning at 10 millicores and 10 MB.
GROWTH = 1.05
FIRST_CPU, FIRST_MEMORY = 0.01, 1e7


def checkpoint(vpa: str, container: str, cores: float, memory: float, now: datetime) -> Json:
    """Of a container whose usage was spread by a third around these."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    week_ago = now - timedelta(days=DAYS)
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscalerCheckpoint",
        "metadata": {"name": f"{vpa}-{container}"},
        "spec": {"vpaObjectName": vpa, "containerName": container},
        "status": {
            "version": "v3",
            "lastUpdateTime": _text(now),
            "firstSampleStart": _text(week_ago),
            "lastSampleStart": _text(now),
            "totalSamplesCount": DAYS * SAMPLES_OF_A_DAY,
            "cpuHistogram": _histogram(cores, FIRST_CPU, DAYS * SAMPLES_OF_A_DAY / 10, today),
            "memoryHistogram": _histogram(memory, FIRST_MEMORY, float(DAYS), today),
        },
    }


def _histogram(usage: float, first: float, weight: float, reference: datetime) -> Json:
    # A bucket for each tenth from 70 % to 130 %; where two fall into one it counts double.
    weights: dict[str, int] = {}
    for tenths in range(7, 14):
        bucket = str(_bucket(usage * tenths / 10, first))
        weights[bucket] = weights.get(bucket, 0) + 5_000
    return {"referenceTimestamp": _text(reference), "bucketWeights": weights, "totalWeight": weight}


def _bucket(value: float, first: float) -> int:
    return int(math.log(value * (GROWTH - 1) / first + 1, GROWTH))


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
