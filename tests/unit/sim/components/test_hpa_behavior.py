"""How fast an HPA may go: bounds, windows and policies, as its controller has them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from trellis.api.kube.scaling import ScalingBehavior, ScalingPolicy, ScalingRules
from trellis.sim.components.hpa_replicas import HpaScaleLimits

NOW = 1_800_000_000.0


def rules(*policies: ScalingPolicy, window: int | None = None, select: str = "") -> ScalingRules:
    return ScalingRules(window, select, policies)


def governed(up: ScalingRules | None = None, down: ScalingRules | None = None, **bounds: Any) -> HpaScaleLimits:
    return HpaScaleLimits(bounds.get("least", 1), bounds.get("most", 100), ScalingBehavior(up, down))


def answers(limits: HpaScaleLimits, *proposals: tuple[float, int], current: int) -> list[int]:
    """What comes of proposals at times; each answer is acted on at once."""
    answers = []
    for time, proposal in proposals:
        may = limits.limit(proposal, current, NOW + time)
        if may.replicas != current:
            limits.record_scaling(current, may.replicas, NOW + time)
            current = may.replicas
        answers.append(current)
    return answers


def test_without_a_behavior_a_step_doubles_at_most_or_goes_to_four() -> None:
    limits = HpaScaleLimits(1, 100)
    assert answers(limits, (0, 50), (15, 50), (30, 50), current=1) == [4, 8, 16]
    may = HpaScaleLimits(1, 100).limit(50, 1, NOW)
    assert (may.replicas, may.limited) == (4, "ScaleUpLimit")


def test_bounds_are_reported_as_the_limit() -> None:
    assert HpaScaleLimits(1, 6).limit(50, 4, NOW).limited == "TooManyReplicas"
    assert HpaScaleLimits(2, 6).limit(1, 4, NOW).limited == "TooFewReplicas"
    assert HpaScaleLimits(2, 6).limit(3, 3, NOW).limited == "DesiredWithinRange"


def test_without_a_behavior_the_highest_proposal_of_five_minutes_decides() -> None:
    limits = HpaScaleLimits(1, 100)
    assert answers(limits, (0, 8), (15, 3), (285, 2), (300, 2), (315, 2), current=8) == [8, 8, 8, 8, 3]
    assert limits.limit(1, 3, NOW + 330).able == "ScaleDownStabilized"
    assert limits.limit(1, 3, NOW + 1000).able == "ReadyForNewScale"


def test_the_count_that_is_found_at_first_is_taken_for_a_proposal() -> None:
    limits = HpaScaleLimits(1, 100)
    limits.begin(8, NOW)
    limits.begin(99, NOW + 15)
    assert answers(limits, (15, 2), (301, 2), current=8) == [8, 2]


def test_a_proposal_above_a_step_is_gone_after_even_if_the_next_is_lower() -> None:
    assert answers(HpaScaleLimits(1, 100), (0, 12), (15, 5), current=4) == [8, 12]


def test_a_window_of_zero_seconds_scales_down_at_once() -> None:
    assert answers(governed(down=rules(window=0)), (0, 8), (15, 1), current=8) == [8, 1]


def test_a_behavior_without_a_scale_down_window_has_the_default_of_five_minutes() -> None:
    assert answers(governed(up=rules()), (0, 8), (15, 2), (299, 2), (301, 2), current=8) == [8, 8, 8, 2]


def test_a_window_on_the_way_up_waits_for_all_to_agree() -> None:
    limits = governed(up=rules(window=60))
    assert answers(limits, (0, 2), (15, 6), (30, 4), (60, 6), (75, 6), (91, 6), current=2) == [2, 2, 2, 4, 4, 6]
    assert limits.limit(9, 6, NOW + 95).able == "ScaleUpStabilized"


def test_usual_policies_permit_four_pods_or_twice_as_many_in_fifteen_seconds() -> None:
    assert answers(governed(up=rules()), (0, 100), (5, 100), (16, 100), current=1) == [5, 5, 10]


def test_a_policy_counts_scalings_within_its_period() -> None:
    two_a_minute = rules(ScalingPolicy("Pods", 2, 60), window=0)
    up = governed(up=two_a_minute)
    assert answers(up, (0, 9), (15, 9), (59, 9), (61, 9), current=3) == [5, 5, 5, 7]
    down = governed(down=two_a_minute)
    assert answers(down, (0, 1), (15, 1), (61, 1), (122, 1), current=6) == [4, 4, 2, 1]


def test_a_bound_that_was_gone_to_at_once_is_no_reason_to_turn_back() -> None:
    two_a_minute = rules(ScalingPolicy("Pods", 2, 60), window=0)
    up, down = governed(up=two_a_minute), governed(down=two_a_minute)
    up.record_scaling(2, 12, NOW)
    assert answers(up, (15, 20), (61, 20), current=12) == [12, 14]
    down.record_scaling(20, 10, NOW)
    assert answers(down, (15, 1), (61, 1), current=10) == [10, 8]


def test_a_percent_policy_rounds_up_on_scale_up_and_down_on_scale_down() -> None:
    half = rules(ScalingPolicy("Percent", 50, 15), window=0)
    assert answers(governed(up=half), (0, 100), current=3) == [5]
    assert answers(governed(down=half), (0, 1), current=5) == [2]


def test_of_several_policies_the_one_counts_that_permits_most_or_least() -> None:
    both = (ScalingPolicy("Pods", 1, 15), ScalingPolicy("Percent", 50, 15))
    for select, up, down in (("", 12, 4), ("Max", 12, 4), ("Min", 9, 7)):
        assert answers(governed(up=rules(*both, window=0, select=select)), (0, 50), current=8) == [up]
        assert answers(governed(down=rules(*both, window=0, select=select)), (0, 1), current=8) == [down]


def test_a_direction_can_be_switched_off() -> None:
    limits = governed(up=rules(select="Disabled"), down=rules(window=0, select="Disabled"))
    assert answers(limits, (0, 20), (15, 1), current=5) == [5, 5]
    assert limits.limit(1, 5, NOW + 30).limited == "ScaleDownLimit"


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=20),
    st.integers(1, 20),
    st.sampled_from([None, ScalingBehavior(), ScalingBehavior(rules(window=45), rules(window=30))]),
)
def test_limited_replicas_lie_within_bounds_and_within_the_range_of_all_proposals(
    proposals: list[int], current: int, behavior: ScalingBehavior | None
) -> None:
    limits = HpaScaleLimits(2, 40, behavior)
    first = current
    for number, answer in enumerate(
        answers(limits, *((15.0 * n, w) for n, w in enumerate(proposals)), current=current), 1
    ):
        low, high = min(first, *proposals[:number]), max(first, *proposals[:number])
        assert min(low, 40) <= answer <= max(high, 2)
