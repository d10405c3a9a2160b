"""Requests by usage and policy, each with a reason."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders.surveys import GIB, MIB, NONE, container, survey, workload
from trellis.base.errors import InvalidInput
from trellis.base.prices import EXAMPLE_PRICES, Prices, parse_prices
from trellis.core.advice.advisor import advise
from trellis.core.advice.policy import DAY, AdvicePolicy, LimitRule, LimitRules, parse_limit_rules
from trellis.core.advice.results import SurveyAdvice
from trellis.core.advice.sizes import (
    LOW_CONFIDENCE,
    MEMORY_AT_RISK,
    NO_REQUEST,
    NO_USAGE,
    OVER_REQUESTED,
    UNDER_REQUESTED,
    WELL_SIZED,
    advise_request,
)
from trellis.core.advice.survey.model import ResourceAmount, SurveyedContainer, SurveyedWorkload

POLICY = AdvicePolicy()
FREE = Prices("free", "USD", 0.0, 0.0)


def advised(
    *workloads: SurveyedWorkload, policy: AdvicePolicy = POLICY, prices: Prices = EXAMPLE_PRICES
) -> SurveyAdvice:
    return advise(survey(*workloads), policy, prices, 0.0)


def test_too_much_too_little_and_nothing_are_distinguished() -> None:
    assert advise_request(container(target=(200, 512 * MIB)), "cpu", POLICY).reason is OVER_REQUESTED
    assert advise_request(container(target=(900, 512 * MIB)), "cpu", POLICY).reason is UNDER_REQUESTED
    assert advise_request(container(request=(NONE, NONE)), "cpu", POLICY).reason is NO_REQUEST
    assert advise_request(container(target=(540, 512 * MIB)), "cpu", POLICY).reason is WELL_SIZED
    assert advise_request(container(target=(NONE, NONE)), "cpu", POLICY).reason is NO_USAGE


def test_cpu_has_no_limit_and_memory_has_one_equal_to_its_request() -> None:
    item = container(request=(1000, GIB), target=(200, 300 * MIB), limit=(2000, 4 * GIB))
    cpu, memory = (advise_request(item, resource, POLICY) for resource in ("cpu", "memory"))
    assert (cpu.request, memory.request) == (200, 300 * MIB)
    assert math.isnan(cpu.limit)
    assert memory.limit == memory.request


@pytest.mark.parametrize(
    ("rule", "limit", "expected"),
    [
        ("none", 2000.0, NONE),
        ("request", NONE, 250.0),
        ("keep", 2000.0, 2000.0),
        ("keep", 220.0, 250.0),
        ("keep", NONE, NONE),
        ("keep-ratio", 2000.0, 500.0),
        ("keep-ratio", NONE, NONE),
    ],
)
def test_a_limit_follows_the_rule_and_is_never_below_the_request(rule: str, limit: float, expected: float) -> None:
    item = container(request=(1000, GIB), target=(250, GIB), limit=(limit, NONE))
    advised_limit = advise_request(item, "cpu", AdvicePolicy(limits=parse_limit_rules(rule))).limit
    assert advised_limit == expected or (math.isnan(advised_limit) and math.isnan(expected))


def test_a_limit_without_a_request_is_a_request_too() -> None:
    item = container(request=(NONE, NONE), limit=(400, NONE), target=(100, NONE))
    assert advise_request(item, "cpu", AdvicePolicy(limits=parse_limit_rules("keep-ratio"))).limit == 100


def test_kills_and_a_low_limit_are_a_risk_even_with_a_short_history() -> None:
    killed = container(target=(500, 700 * MIB), kills=1, days=0.1, samples=5)
    tight = container(target=(500, 700 * MIB), limit=(NONE, 600 * MIB), days=0.1, samples=5)
    for item in (killed, tight):
        assert advise_request(item, "memory", POLICY).reason is MEMORY_AT_RISK
        assert advise_request(item, "memory", POLICY).request == 700 * MIB
        assert advise_request(item, "cpu", POLICY).reason is LOW_CONFIDENCE


def test_kills_of_the_past_that_the_request_already_covers_are_no_risk() -> None:
    assert advise_request(container(target=(500, 400 * MIB), kills=2), "memory", POLICY).reason is OVER_REQUESTED
    assert advise_request(container(kills=2), "memory", POLICY).reason is WELL_SIZED


@pytest.mark.parametrize(("days", "samples"), [(0.9, 4000), (14, 23), (0.0, 1)])
def test_little_history_changes_nothing(days: float, samples: int) -> None:
    change = advise_request(container(target=(10, MIB), days=days, samples=samples, limit=(900, GIB)), "cpu", POLICY)
    assert change.reason is LOW_CONFIDENCE
    assert not change.is_change
    assert advise_request(container(target=(10, MIB), days=0.9), "cpu", AdvicePolicy(history=DAY / 2)).is_change


def test_bounds_apply_even_to_fitting_requests() -> None:
    policy = AdvicePolicy(least=ResourceAmount(100, 64 * MIB), most=ResourceAmount(NONE, GIB))
    assert advise_request(container(target=(10, 512 * MIB)), "cpu", policy).request == 100
    assert advise_request(container(target=(500, 9 * GIB)), "memory", policy).request == GIB
    assert advise_request(container(request=(95, GIB), target=(95, GIB)), "cpu", policy).request == 100


def test_no_memory_limit_is_below_the_highest_usage() -> None:
    item = container(request=(500, 4 * GIB), target=(500, GIB), limit=(NONE, 8 * GIB), highest=(NONE, 3 * GIB))
    advice = {rule: advise_request(item, "memory", AdvicePolicy(limits=parse_limit_rules(rule))) for rule in LimitRule}
    assert (advice[LimitRule.REQUEST].request, advice[LimitRule.REQUEST].limit) == (3 * GIB, 3 * GIB)
    assert (advice[LimitRule.KEEP_RATIO].request, advice[LimitRule.KEEP_RATIO].limit) == (GIB, 3 * GIB)
    assert advice[LimitRule.NONE].request == GIB
    bounded = AdvicePolicy(most=ResourceAmount(NONE, 2 * GIB))
    assert advise_request(item, "memory", bounded).limit == 2 * GIB


def test_requests_are_rounded_up_to_whole_steps() -> None:
    change = advise_request(container(target=(200.2, 300 * MIB + 1)), "cpu", POLICY)
    assert change.request == 201
    assert advise_request(container(target=(200, 300 * MIB + 1)), "memory", POLICY).request == 301 * MIB


def test_a_slight_absolute_difference_is_fine() -> None:
    assert advise_request(container(request=(8, 30 * MIB), target=(5, 25 * MIB)), "cpu", POLICY).reason is WELL_SIZED
    assert advise_request(container(request=(8, 30 * MIB), target=(5, 25 * MIB)), "memory", POLICY).reason is WELL_SIZED


def test_risk_is_listed_first_and_then_by_money() -> None:
    advice = advised(
        workload("small", container(target=(400, 512 * MIB))),
        workload("fine"),
        workload("large", container(request=(8000, GIB), target=(1000, GIB))),
        workload("killed", container(target=(500, 600 * MIB), kills=1), pods=1),
        workload("young", container(days=0.1, samples=3)),
    )
    assert [row.workload.surveyed.name for row in advice.rows] == ["killed", "large", "small", "young", "fine"]


def test_savings_and_shortages_are_summed_separately() -> None:
    totals = advised(
        workload("big", container(target=(100, 512 * MIB)), pods=10),
        workload("poor", container(target=(1500, 512 * MIB)), pods=2),
    ).total
    assert (totals.before.cpu, totals.after.cpu) == (6000, 4000)
    assert (totals.saved.cpu, totals.short.cpu) == (4000, 2000)
    assert totals.money_saved == pytest.approx(4 * 0.0316 * 730)
    assert 0 < totals.saved_share < 1


def test_without_prices_the_order_and_the_share_are_as_with_examples() -> None:
    workloads = (workload("a", container(target=(100, GIB))), workload("b", container(target=(450, 100 * MIB))))
    free, priced = advised(*workloads, prices=FREE), advised(*workloads)
    assert [row.workload.surveyed.name for row in free.rows] == [row.workload.surveyed.name for row in priced.rows]
    assert free.total.saved_share == priced.total.saved_share
    assert free.total.money_saved == 0


def test_desired_replicas_count_where_no_pod_runs() -> None:
    item = msgspec.structs.replace(workload("web", container(target=(100, GIB)), pods=0), desired_replicas=3)
    assert advised(item).workloads[0].pods == 3
    assert advised(workload("cron", kind="CronJob", pods=0)).workloads[0].pods == 0


amounts = st.one_of(st.just(NONE), st.floats(1, 64_000))
rules = st.sampled_from(list(LimitRule))


@st.composite
def containers(draw: st.DrawFn) -> SurveyedContainer:
    def pair() -> tuple[float, float]:
        return draw(amounts), draw(amounts) * MIB

    return container(
        request=pair(),
        target=pair(),
        limit=pair(),
        days=draw(st.floats(0, 30)),
        samples=draw(st.integers(0, 5000)),
        kills=draw(st.integers(0, 2)),
        highest=pair(),
    )


@given(containers(), st.builds(LimitRules, rules, rules), st.integers(0, 9))
def test_advice_is_consistent_for_any_survey(item: SurveyedContainer, limits: LimitRules, pods: int) -> None:
    policy = AdvicePolicy(limits=limits, least=ResourceAmount(20, 32 * MIB), most=ResourceAmount(40_000, 32 * GIB))
    survey_advice = advised(workload("any", item, pods=pods), policy=policy)
    advice = survey_advice.workloads[0].containers[0]
    for resource in ("cpu", "memory"):
        change = advice.get_resource(resource)
        if change.is_change:
            # What the API server asks of a container.
            assert change.request > 0
            assert not change.limit < change.request
            assert change.request <= (40_000 if resource == "cpu" else 32 * GIB)
            assert change.reason not in {WELL_SIZED, LOW_CONFIDENCE, NO_USAGE}
        second = container(request=(change.request, change.request), target=(change.estimate, change.estimate))
        assert advise_request(second, resource, policy).reason.severity != "error"
    total = survey_advice.total
    assert total.after.cpu - total.before.cpu == pytest.approx(total.short.cpu - total.saved.cpu, abs=1e-6)
    assert total.saved.cpu >= 0
    assert total.short.memory >= 0
    assert 0 <= total.saved_share <= 1 + 1e-9


@given(containers())
def test_applied_advice_is_fine(item: SurveyedContainer) -> None:
    for resource in ("cpu", "memory"):
        change = advise_request(item, resource, POLICY)
        followed = msgspec.structs.replace(
            item,
            request=ResourceAmount(change.request, change.request),
            limit=ResourceAmount(change.limit, change.limit),
        )
        assert not advise_request(followed, resource, POLICY).is_change


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("keep-ration", 'did you mean "keep-ratio"?'),
        ("cpu=none,disk=keep", '"disk" is neither cpu nor memory'),
        ("cpu=none,cpu=keep", "cpu occurs twice"),
        ("cpu=", '"" is not a rule for limits'),
    ],
)
def test_invalid_limit_rules_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_limit_rules(text)
    assert message in str(refused.value)


def test_rules_for_limits_may_name_one_resource() -> None:
    assert parse_limit_rules("cpu=keep") == LimitRules(LimitRule.KEEP, LimitRule.REQUEST)
    assert str(parse_limit_rules("cpu=none, memory=keep-ratio")) == "cpu=none,memory=keep-ratio"


@pytest.mark.parametrize("text", ["", "1", "1,2,3,4", "1,x", "-1,2", "nan,1", "inf,1", "1,,EUR"])
def test_invalid_prices_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_prices(text)


def test_prices_have_a_currency() -> None:
    assert parse_prices("0.03, 0.004, EUR") == Prices("given", "EUR", 0.03, 0.004)
    assert parse_prices("0.03,0.004").currency == "USD"
