"""The result of a survey of a shop over two weeks: seeded, plausible, without a cluster."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from support.builders.surveys import GIB, MIB, NOW, container, on_utilization, workload
from trellis.core.advice.survey.model import ResourceAmount, SurveyedHpa, SurveyedWorkload, SurveyResult, WorkloadUsage
from trellis.core.usage.columns import FloatColumn

STEP = 300.0
DAY = 86_400.0


def daily(low: float, high: float, days: float = 14, seed: int = 3) -> FloatColumn:
    """Millicores of a load that is low for half of the day and high at noon, and never quite the same."""
    times = np.arange(round(days * DAY / STEP)) * STEP
    wave = np.clip(np.sin(2 * np.pi * (times / DAY - 0.25)), 0.0, None)
    result: FloatColumn = (low + (high - low) * wave) * np.random.default_rng(seed).uniform(0.97, 1.03, len(times))
    return result


def recorded_workload(
    name: str,
    cpu: FloatColumn,
    pods: int | Callable[[FloatColumn], FloatColumn],
    *,
    request: tuple[float, float] = (1000, GIB),
    base: float = 300 * MIB,
    per_millicore: float = 0.1 * MIB,
    kind: str = "Deployment",
    hpas: tuple[SurveyedHpa, ...] = (),
    vpas: tuple[str, ...] = (),
) -> SurveyedWorkload:
    """A workload whose pods have a base usage of memory, and so much more for each millicore that they use."""
    counts = np.full(len(cpu), pods) if isinstance(pods, int) else pods(cpu)
    totals = WorkloadUsage(
        NOW - len(cpu) * STEP, STEP, counts.astype(np.int64), cpu, base * counts + per_millicore * cpu
    )
    surveyed = workload(name, container("app", request), pods=int(counts[-1]), kind=kind, hpas=hpas, vpas=vpas)
    return msgspec.structs.replace(surveyed, totals=totals, desired_replicas=int(counts[-1]))


def by_hpa(percent: float, request: float, least: int = 2) -> Callable[[FloatColumn], FloatColumn]:
    """As many pods as an HPA would have."""
    return lambda cpu: np.maximum(np.ceil(cpu / (percent / 100 * request)), least)


def recorded_shop() -> SurveyResult:
    """Workloads for which there are buckets, and one for each reason why not."""
    spikes = np.where(np.arange(4032) % 97 == 0, 4000.0, 500.0)
    return SurveyResult(
        time=NOW,
        source="Prometheus at monitoring/prometheus",
        recommender="default",
        workloads=(
            recorded_workload("web", daily(900, 6000), 8),
            recorded_workload("checkout", daily(600, 4500), by_hpa(60, 1000), hpas=(on_utilization("checkout", 60),)),
            recorded_workload("orders", daily(300, 2000), 3, kind="StatefulSet", vpas=("orders",)),
            recorded_workload("search", spikes, 4, request=(1500, GIB)),
            recorded_workload("agent", daily(100, 900), 5, kind="DaemonSet"),
            recorded_workload("fresh", daily(300, 2000, days=1), 3),
            recorded_workload("ledger", daily(300, 2000), 1),
            recorded_workload("steady", daily(1000, 1100), 4),
            recorded_workload(
                "thrifty", daily(300, 600), 2, request=(100, 64 * MIB), base=16 * MIB, per_millicore=0.01 * MIB
            ),
        ),
        largest_node=ResourceAmount(16_000, 64 * GIB),
    )
