"""HPA targets that a new request moves are reported, with the target that keeps the scale point."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders.surveys import MIB, NONE, container, on_utilization, survey, workload
from trellis.base.prices import EXAMPLE_PRICES
from trellis.core.advice.advisor import advise
from trellis.core.advice.hpa_scale_points import SCALE_POINT_MISSING, SCALE_POINT_MOVES, HpaScalePoint
from trellis.core.advice.policy import AdvicePolicy
from trellis.core.advice.survey.model import HpaTarget, SurveyedContainer, SurveyedHpa


def points(hpa: SurveyedHpa, *containers: SurveyedContainer) -> tuple[HpaScalePoint, ...]:
    advised = advise(survey(workload("web", *containers, hpas=(hpa,))), AdvicePolicy(), EXAMPLE_PRICES, 0.0)
    return advised.workloads[0].scale_points


def test_half_the_request_halves_the_point_and_twice_the_target_keeps_it() -> None:
    (point,) = points(on_utilization("web", 60), container(target=(250, 512 * MIB)))
    assert point.reason is SCALE_POINT_MOVES
    assert (point.before, point.after) == (300, 150)
    assert point.moves_by == -0.5
    assert point.keeps == 120


def test_all_containers_of_a_pod_count() -> None:
    (point,) = points(on_utilization("web", 50), container("app", target=(100, MIB)), container("proxy"))
    assert (point.before, point.after) == (500, 300)


def test_a_target_for_one_container_counts_that_one_alone() -> None:
    hpa = on_utilization("web", 50, container="app")
    assert points(hpa, container("app"), container("proxy", target=(100, MIB))) == ()
    (point,) = points(hpa, container("app", target=(100, MIB)), container("proxy"))
    assert point.container == "app"
    assert point.keeps == 250


def test_other_resources_other_metrics_and_amounts_are_not_affected() -> None:
    smaller = container(target=(100, 512 * MIB))
    assert points(on_utilization("web", 50, "memory"), smaller) == ()
    assert points(SurveyedHpa("web", targets=(HpaTarget("cpu", average=200.0),)), smaller) == ()
    assert points(SurveyedHpa("web", others=2), smaller) == ()
    assert points(on_utilization("web", 50), container()) == ()


def test_an_hpa_that_cannot_act_for_lack_of_a_request_is_reported() -> None:
    (point,) = points(on_utilization("web", 50), container("app", request=(NONE, NONE)), container("proxy"))
    assert point.reason is SCALE_POINT_MISSING
    assert math.isnan(point.keeps)


@given(st.integers(1, 200), st.integers(50, 8000), st.integers(50, 8000))
def test_the_proposed_target_keeps_the_point_to_a_rounding(percent: int, request: int, target: int) -> None:
    for point in points(on_utilization("web", percent), container(request=(request, MIB), target=(target, MIB))):
        retained = point.keeps / 100 * target
        # Half a per cent of the new request, or one where less than one per cent would be right.
        assert abs(retained - point.before) <= (0.005 if point.keeps > 1 else 0.01) * target + 1e-6
        assert point.keeps >= 1
        assert point.moves_by == pytest.approx(target / request - 1)
