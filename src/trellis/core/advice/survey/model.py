"""The result of a survey: requests of workloads, their usage, and a recommender's estimates.

The same whatever the source: a cluster with Prometheus, Prometheus alone, or files. CPU is in millicores and memory in
bytes, times are seconds since the epoch, and NaN is "none" or "unknown".
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from trellis.core.advice.survey.usage_summaries import UsageSummary
from trellis.core.cluster.dump_format import MissingData
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.recommend.parameters import ParameterValues
from trellis.core.usage.columns import FloatColumn, IntColumn


class WorkloadUsage(msgspec.Struct, frozen=True, eq=False):
    """Usage of a workload from `start` on, `step` seconds apart: pods, millicores and bytes; NaN where not measured."""

    start: float
    step: float
    pods: IntColumn
    cpu: FloatColumn
    memory: FloatColumn


_DAY = 86_400.0


class ResourceAmount(msgspec.Struct, frozen=True):
    """An amount of CPU and an amount of memory."""

    cpu: float = math.nan
    memory: float = math.nan


class Estimate(msgspec.Struct, frozen=True):
    """The estimate of a recommender for one container: the target, and the bounds of a tolerable request.

    `confidence` is 1 and more where there is enough history. `reason` is the code of why there is an estimate, or none;
    `explanation` is what the recommender says of it in its own words.
    """

    target: ResourceAmount = ResourceAmount()
    lower: ResourceAmount = ResourceAmount()
    upper: ResourceAmount = ResourceAmount()
    confidence: float = 0.0
    reason: str = ""
    explanation: Mapping[str, float | str] = {}


class SurveyedContainer(msgspec.Struct, frozen=True):
    """One container of a workload, in all its pods together.

    Requests and limits are those that most of its pods have now, resized ones included; `differing` is how many have
    others. `highest` is the most that any one of them used at a time. `samples` are those of CPU, in all pods, from
    `first` to `last`. `kills` are OOM kills, as far as they are still recorded. `usage` is a summary over time, where
    the source has history.
    """

    name: str
    request: ResourceAmount = ResourceAmount()
    limit: ResourceAmount = ResourceAmount()
    differing: int = 0
    estimate: Estimate = Estimate()
    highest: ResourceAmount = ResourceAmount()
    samples: int = 0
    first: float = math.nan
    last: float = math.nan
    kills: int = 0
    last_kill: float = math.nan
    is_sidecar: bool = False
    usage: UsageSummary | None = None

    @property
    def days(self) -> float:
        """The length of its history, from the first sample to the last."""
        return 0.0 if math.isnan(self.first) else (self.last - self.first) / _DAY


class HpaTarget(msgspec.Struct, frozen=True):
    """One metric of an HPA about CPU or memory: utilization in percent, or else an average amount.

    Utilization is a share of the requests of the whole pod, or of one container if there is its name.
    """

    resource: str
    utilization: float = math.nan
    average: float = math.nan
    container: str = ""


class SurveyedHpa(msgspec.Struct, frozen=True):
    """An HPA on a workload; `others` is how many metrics it has besides CPU and memory."""

    name: str
    least: int = 1
    most: int = 0
    replicas: int = 0
    targets: tuple[HpaTarget, ...] = ()
    others: int = 0


class SurveyedWorkload(msgspec.Struct, frozen=True):
    """A controller of pods, a group of Jobs, or a pod without a controller.

    A group of Jobs has kind Job, the name that they share, and in `group` the label and value that it stands for
    (`app=report`); `members` is how many objects it has. `pods` run now; `desired_replicas` is how many replicas it
    asks for, -1 if that means nothing. `vpas` are the VerticalPodAutoscalers that point at it. `is_sized` is false if
    the current requests are unknown. `limits` are what LimitRanges of its namespace demand. `totals` is what all its
    pods used together, if requested.
    """

    namespace: str
    api_version: str
    kind: str
    name: str
    pods: int = 0
    desired_replicas: int = -1
    containers: tuple[SurveyedContainer, ...] = ()
    hpas: tuple[SurveyedHpa, ...] = ()
    vpas: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    group: str = ""
    members: int = 1
    is_sized: bool = True
    limits: NamespaceLimits = NamespaceLimits()
    totals: WorkloadUsage | None = None


class SurveyEffort(msgspec.Struct, frozen=True):
    """The cost of a survey. `queries_per_container` is the number of queries that one for each container would take."""

    queries: int = 0
    repeated: int = 0
    samples: int = 0
    series: int = 0
    queries_per_container: int = 0
    seconds: float = 0.0


class SurveyResult(msgspec.Struct, frozen=True):
    """The result of a survey at a time, by namespace and name. It is partial where something is `missing`.

    `largest_node` is how much pods may request of each resource on one node, if nodes were read.
    """

    time: float
    source: str
    recommender: str
    workloads: tuple[SurveyedWorkload, ...] = ()
    values: ParameterValues = {}
    missing: tuple[MissingData, ...] = ()
    notes: tuple[str, ...] = ()
    effort: SurveyEffort = SurveyEffort()
    largest_node: ResourceAmount = ResourceAmount()

    @property
    def is_partial(self) -> bool:
        """Whether there may be more than was found."""
        return bool(self.missing)
