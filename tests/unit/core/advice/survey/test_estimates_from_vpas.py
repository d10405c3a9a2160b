"""Advice from the statuses of existing VerticalPodAutoscalers."""

from __future__ import annotations

from support.builders.surveys import MIB, NONE, container, survey, workload
from trellis.api.kinds.parts import StatusCondition
from trellis.api.kinds.vpa import (
    ContainerRecommendation,
    PodRecommendation,
    VerticalPodAutoscaler,
    VerticalPodAutoscalerStatus,
)
from trellis.api.kube.meta import ObjectMeta
from trellis.base.prices import EXAMPLE_PRICES
from trellis.core.advice.advisor import advise
from trellis.core.advice.policy import AdvicePolicy
from trellis.core.advice.results import SurveyAdvice
from trellis.core.advice.sizes import LOW_CONFIDENCE, NO_USAGE, OVER_REQUESTED
from trellis.core.advice.survey.estimates import estimate_from_vpas

UNMEASURED = container("app", target=(NONE, NONE), samples=0)
WEB = workload("web", UNMEASURED, vpas=("web-vpa",))


def vpa(*conditions: StatusCondition, container: str = "app", name: str = "web-vpa") -> VerticalPodAutoscaler:
    target: dict[str, str | int] = {"cpu": "120m", "memory": "300Mi"}
    recommendation = PodRecommendation([ContainerRecommendation(container_name=container, target=target)])
    return VerticalPodAutoscaler(
        metadata=ObjectMeta(name=name, namespace="shop"),
        status=VerticalPodAutoscalerStatus(recommendation=recommendation, conditions=list(conditions)),
    )


def advised(*vpas: VerticalPodAutoscaler) -> SurveyAdvice:
    return advise(survey(*estimate_from_vpas([WEB, workload("other")], vpas)), AdvicePolicy(), EXAMPLE_PRICES, 0.0)


def test_a_target_in_a_status_is_an_estimate_and_workloads_without_a_vpa_are_skipped() -> None:
    (row,) = advised(vpa()).rows
    assert row.container.cpu.reason is OVER_REQUESTED
    assert (row.container.cpu.request, row.container.memory.request) == (120, 300 * MIB)


def test_a_status_with_low_confidence_changes_nothing() -> None:
    (row,) = advised(vpa(StatusCondition(type="LowConfidence", status="True"))).rows
    assert row.container.reason is LOW_CONFIDENCE
    assert not row.container.is_change


def test_containers_and_vpas_without_a_recommendation_have_no_estimate() -> None:
    for advice in (advised(vpa(container="proxy")), advised(VerticalPodAutoscaler()), advised(vpa(name="else"))):
        assert advice.rows[0].container.reason is NO_USAGE
