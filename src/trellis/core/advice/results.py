"""The advice on a survey: old and new sizes of every container, savings, shortages and HPA scale points."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trellis.base.prices import Prices
from trellis.base.reasons import Reason
from trellis.core.advice.hpa_scale_points import HpaScalePoint
from trellis.core.advice.policy import AdvicePolicy
from trellis.core.advice.sizes import COMPARED, ResourceAdvice
from trellis.core.advice.survey.model import ResourceAmount, SurveyedContainer, SurveyedWorkload, SurveyResult


class ContainerAdvice(msgspec.Struct, frozen=True):
    """Advice on one container. `reason` is the worse one of its resources.

    `difference` is for all pods together, more or less than before, and `money` what that is in a month.
    """

    surveyed: SurveyedContainer
    cpu: ResourceAdvice
    memory: ResourceAdvice
    reason: Reason
    difference: ResourceAmount
    money: float

    def get_resource(self, resource: str) -> ResourceAdvice:
        """Advice on one resource, by its name."""
        return self.cpu if resource == "cpu" else self.memory

    @property
    def reason_codes(self) -> str:
        """The codes of its reason, and of what bounds its requests."""
        capped = dict.fromkeys(advice.capped.code for advice in (self.cpu, self.memory) if advice.capped is not None)
        return ", ".join([self.reason.code, *capped])

    @property
    def is_change(self) -> bool:
        """Whether any resource should change."""
        return self.cpu.is_change or self.memory.is_change


class WorkloadAdvice(msgspec.Struct, frozen=True):
    """A workload with its containers. `pods` counts running pods, or else desired replicas."""

    surveyed: SurveyedWorkload
    pods: int
    containers: tuple[ContainerAdvice, ...]
    scale_points: tuple[HpaScalePoint, ...] = ()

    @property
    def is_change(self) -> bool:
        """Whether any container should change."""
        return any(container.is_change for container in self.containers)


class AdviceRow(msgspec.Struct, frozen=True):
    """A container with its workload; `weight` is what it matters among others of its severity."""

    workload: WorkloadAdvice
    container: ContainerAdvice
    weight: float


class AdviceTotals(msgspec.Struct, frozen=True):
    """Requests of all pods together: `before`, `after`, `saved` where they fall and `short` where they rise.

    The same in money for a month. `reasons` counts containers by the codes of their reasons.
    """

    workloads: int
    containers: int
    pods: int
    before: ResourceAmount
    after: ResourceAmount
    saved: ResourceAmount
    short: ResourceAmount
    money_before: float
    money_after: float
    money_saved: float
    money_short: float
    saved_share: float
    reasons: Mapping[str, int]


class SurveyAdvice(msgspec.Struct, frozen=True):
    """Advice on a survey. `rows` are all containers, the most severe first; `namespaces` are sorted by savings.

    `parameters` are those of the recommender that are set, as they were written.
    """

    surveyed: SurveyResult
    policy: AdvicePolicy
    prices: Prices
    now: float
    workloads: tuple[WorkloadAdvice, ...]
    rows: tuple[AdviceRow, ...]
    namespaces: tuple[tuple[str, AdviceTotals], ...]
    total: AdviceTotals
    parameters: Mapping[str, str] = {}

    @property
    def compared(self) -> int:
        """The number of containers of which a request was compared with the need."""
        return sum(
            any(change.reason in COMPARED for change in (row.container.cpu, row.container.memory)) for row in self.rows
        )
