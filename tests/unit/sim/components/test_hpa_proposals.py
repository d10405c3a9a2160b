"""What a metric of an HPA asks for, by figures worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.sim.components.hpa_replicas import HpaTolerance, MeasuredPods, MeasuredTarget, MetricGoal, propose_replicas

UTILIZATION = MetricGoal(percent=50)
AVERAGE = MetricGoal(average=200)
USUAL = HpaTolerance()


def pods(count: int, asked: int = 1000, used: int = 0) -> MeasuredPods:
    """So many pods that each request and use this, in thousandths."""
    return MeasuredPods(count, count * asked, count * used)


def asks(
    current: int,
    counted: MeasuredPods,
    aim: MetricGoal = UTILIZATION,
    tolerance: HpaTolerance = USUAL,
    **others: MeasuredPods,
) -> int:
    return propose_replicas(MeasuredTarget(counted, **others), aim, current, tolerance)


@pytest.mark.parametrize(
    ("used", "count"),
    [
        (500, 4),  # 50 % is the target
        (559, 4),  # 55 %, cut off: 1.1 is tolerated
        (560, 5),  # 56 %: 4 x 1.12 = 4.48
        (450, 4),  # 45 %: 0.9 is tolerated
        (449, 4),  # 44 %: 4 x 0.88 = 3.52, rounded up again
        (370, 3),  # 37 %: 4 x 0.74 = 2.96
        (1250, 10),  # 125 %: 4 x 2.5
        (0, 0),
    ],
)
def test_the_share_of_requests_over_the_target_multiplies_the_pods_that_count(used: int, count: int) -> None:
    assert asks(4, pods(4, used=used)) == count


def test_an_average_value_does_not_care_about_requests() -> None:
    assert [asks(4, pods(4, asked, 300), AVERAGE) for asked in (0, 100, 10_000)] == [6, 6, 6]


def test_requests_twice_as_high_halve_the_answer() -> None:
    assert asks(4, pods(4, 1000, 1000)) == 8
    assert asks(4, pods(4, 2000, 1000)) == 4


def test_the_count_is_of_pods_that_count_and_not_of_those_wished_for() -> None:
    # Two of five are Ready and use twice the target: four are asked for, on the way up from two.
    assert asks(2, pods(2, used=1000)) == 4


def test_on_scale_up_unready_pods_count_as_using_nothing() -> None:
    # 100 % of two pods; over four pods 50 %, which is the target.
    assert asks(4, pods(2, used=1000), unready=pods(2)) == 4
    # 200 % of two pods are 100 % of four: eight.
    assert asks(4, pods(2, used=2000), unready=pods(2)) == 8


def test_on_scale_down_unready_pods_are_ignored() -> None:
    assert asks(6, pods(4, used=250), unready=pods(2)) == 2


def test_on_scale_up_pods_without_metrics_count_as_using_nothing() -> None:
    assert asks(4, pods(3, used=1000), missing=pods(1)) == 6  # 75 % of four pods: 4 x 1.5


def test_on_scale_down_pods_without_metrics_count_as_using_their_whole_request() -> None:
    assert asks(5, pods(4, used=100), missing=pods(1)) == 3  # 28 %: 5 x 0.56
    assert asks(4, pods(4, used=150), MetricGoal(average=200), missing=pods(1)) == 4  # 160 on average: 5 x 0.8


def test_above_a_hundred_percent_they_count_as_using_the_target() -> None:
    assert asks(4, pods(3, used=200), MetricGoal(percent=200), missing=pods(1)) == 2  # 65 % of 200 %: 4 x 0.325


def test_a_correction_that_would_turn_the_direction_is_dropped() -> None:
    assert asks(4, pods(1, used=600), missing=pods(3)) == 4  # 120 % of the target alone, 30 % with the others
    assert asks(4, pods(1, used=300), missing=pods(3)) == 4  # 60 % of the target alone, 164 % with the others


def test_a_corrected_answer_against_the_direction_is_dropped() -> None:
    # 150 % of two pods are 75 % of four, so six; but eight are wished for already.
    assert asks(8, pods(2, used=1500), unready=pods(2)) == 8


def test_each_direction_may_have_a_tolerance_of_its_own() -> None:
    near = HpaTolerance(down=0.0, up=0.5)
    assert asks(4, pods(4, used=740), tolerance=near) == 4
    assert asks(8, pods(8, used=430), tolerance=near) == 7


@given(st.integers(1, 50), st.integers(1, 4000), st.integers(0, 8000), st.integers(1, 300), st.integers(1, 50))
def test_higher_usage_never_proposes_fewer_replicas(
    count: int, asked: int, used: int, percent: int, current: int
) -> None:
    aim = MetricGoal(percent=percent)
    less, more = (asks(current, pods(count, asked, value), aim) for value in (used, used + asked))
    assert less <= more or current in (less, more)


@given(st.integers(1, 20), st.integers(0, 5000), st.integers(0, 10), st.integers(0, 10))
def test_pods_without_metrics_never_reverse_the_direction(count: int, used: int, unready: int, missing: int) -> None:
    current = count + unready + missing
    replicas = asks(current, pods(count, used=used), unready=pods(unready), missing=pods(missing))
    assert replicas >= current if used > 500 else replicas <= current
