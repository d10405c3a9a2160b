"""Results of surveys of a small shop, and of any number of workloads: seeded, plausible, without a cluster."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from trellis.core.advice.survey.model import (
    Estimate,
    HpaTarget,
    ResourceAmount,
    SurveyedContainer,
    SurveyedHpa,
    SurveyedWorkload,
    SurveyEffort,
    SurveyResult,
)
from trellis.core.advice.survey.usage_summaries import POINTS, UsageSummary
from trellis.core.cluster.dump_format import MissingData

NOW = 1767571200.0  # Monday, 2026-01-05
DAY = 86400.0
MIB = 2.0**20
GIB = 2.0**30
NONE = math.nan


def container(
    name: str = "app",
    request: tuple[float, float] = (500, 512 * MIB),
    target: tuple[float, float] = (500, 512 * MIB),
    *,
    limit: tuple[float, float] = (NONE, NONE),
    days: float = 14,
    samples: int = 4032,
    kills: int = 0,
    is_sidecar: bool = False,
    highest: tuple[float, float] = (NONE, NONE),
    differing: int = 0,
) -> SurveyedContainer:
    """One container; amounts are millicores and bytes."""
    return SurveyedContainer(
        name=name,
        request=ResourceAmount(*request),
        limit=ResourceAmount(*limit),
        estimate=Estimate(target=ResourceAmount(*target), confidence=days, reason="Recommended"),
        samples=samples,
        first=NOW - days * DAY if samples else NONE,
        last=NOW if samples else NONE,
        kills=kills,
        is_sidecar=is_sidecar,
        highest=ResourceAmount(*highest),
        differing=differing,
    )


def workload(
    name: str = "web",
    *containers: SurveyedContainer,
    namespace: str = "shop",
    kind: str = "Deployment",
    pods: int = 4,
    hpas: tuple[SurveyedHpa, ...] = (),
    vpas: tuple[str, ...] = (),
) -> SurveyedWorkload:
    version = {"CronJob": "batch/v1", "Job": "batch/v1", "Pod": "v1", "Rollout": "argoproj.io/v1alpha1"}
    return SurveyedWorkload(
        namespace=namespace,
        api_version=version.get(kind, "apps/v1"),
        kind=kind,
        name=name,
        pods=pods,
        containers=containers or (container(),),
        hpas=hpas,
        vpas=vpas,
    )


def with_usage(result: SurveyResult) -> SurveyResult:
    """The same survey with the usage of each container over time, a day's wave below its highest amount."""
    return msgspec.structs.replace(
        result,
        workloads=tuple(
            msgspec.structs.replace(workload, containers=tuple(map(_with_usage, workload.containers)))
            for workload in result.workloads
        ),
    )


def _with_usage(container: SurveyedContainer) -> SurveyedContainer:
    if not container.samples:
        return container
    wave = (0.6 + 0.4 * np.sin(np.arange(POINTS) * 2 * np.pi * 14 / POINTS)).astype(np.float32)
    wave[5] = np.nan
    target = container.estimate.target
    summary = UsageSummary(NOW - 14 * DAY, 14 * DAY / POINTS, wave * target.cpu, wave * target.memory)
    return msgspec.structs.replace(container, usage=summary)


def survey(*workloads: SurveyedWorkload, recommender: str = "default") -> SurveyResult:
    return SurveyResult(time=NOW, source="tests", recommender=recommender, workloads=workloads)


def on_utilization(name: str, percent: float, resource: str = "cpu", container: str = "") -> SurveyedHpa:
    return SurveyedHpa(name, least=2, most=20, replicas=4, targets=(HpaTarget(resource, percent, container=container),))


def shop() -> SurveyResult:
    """A bit of everything: too much, too little, killed, unknown, an HPA, and a kind that may not be read."""
    return SurveyResult(
        time=NOW,
        source="Prometheus monitoring/prometheus",
        recommender="default",
        workloads=(
            workload(
                "checkout",
                container("app", (1000, 512 * MIB), (320, 1230 * MIB), limit=(2000, 512 * MIB), kills=3),
                container("proxy", (100, 256 * MIB), (25, 125 * MIB), is_sidecar=True),
                hpas=(on_utilization("checkout", 80),),
            ),
            workload(
                "search",
                container(
                    "engine",
                    (4000, 8 * GIB),
                    (1250, 6 * GIB),
                    limit=(8000, 8 * GIB),
                    highest=(3100, 6.5 * GIB),
                ),
                pods=12,
            ),
            workload("session", container("redis", (250, NONE), (410, 2 * GIB)), kind="StatefulSet", pods=3),
            workload("web", container("nginx", (200, 256 * MIB), (207, 250 * MIB), differing=1), pods=6, vpas=("web",)),
            workload("nightly", container("report", (NONE, NONE), (650, 700 * MIB)), namespace="batch", kind="CronJob"),
            workload("fresh", container("app", days=0.2, samples=58), namespace="team-a", pods=2),
            workload("quiet", container("app", target=(NONE, NONE), samples=0), namespace="team-a", kind="Pod", pods=1),
        ),
        missing=(MissingData("LimitRange", "", "may not be read"),),
        effort=SurveyEffort(queries=13, repeated=1, samples=133_114, series=120, queries_per_container=16, seconds=3.2),
    )


def generated_survey(workloads: int, seed: int = 7) -> SurveyResult:
    """As many workloads, in namespaces of twenty."""
    rng = np.random.default_rng(seed)
    result = []
    for number in range(workloads):
        cpu, memory = float(rng.integers(50, 4000)), float(rng.integers(64, 8192)) * MIB
        factors = rng.uniform(0.2, 1.6, 2)
        target = (math.ceil(cpu * factors[0]), math.ceil(memory * factors[1]))
        result.append(
            workload(
                f"service-{number:04}",
                container("app", (cpu, memory), target, kills=int(rng.integers(0, 20) == 0)),
                namespace=f"team-{number // 20:02}",
                pods=int(rng.integers(1, 9)),
            )
        )
    return survey(*result)
