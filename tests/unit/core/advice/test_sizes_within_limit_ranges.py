"""Advice within the LimitRanges of a namespace, with the reason of each cap."""

from __future__ import annotations

import math

import msgspec
import pytest

from support.builders.surveys import GIB, MIB, NONE, container, survey, workload
from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.policies import LimitRange, LimitRangeItem, LimitRangeSpec
from trellis.base.prices import EXAMPLE_PRICES
from trellis.core.advice.advisor import advise
from trellis.core.advice.policy import AdvicePolicy, parse_limit_rules
from trellis.core.advice.results import ContainerAdvice, SurveyAdvice
from trellis.core.advice.sizes import LOW_CONFIDENCE, OVER_REQUESTED, UNDER_REQUESTED, WELL_SIZED
from trellis.core.advice.survey.model import SurveyedContainer
from trellis.core.recommend.capping import read_limit_ranges
from trellis.core.recommend.capping.container import CAPPED_TO_RANGE_MAX, CAPPED_TO_RANGE_MIN
from trellis.core.recommend.capping.pod import FITTED_TO_POD_RANGE
from trellis.reports.advice.report import as_csv, build_document
from trellis.reports.advice.text import as_markdown, as_text


def advised(item: LimitRangeItem, *containers: SurveyedContainer, limits: str = "") -> SurveyAdvice:
    ranges = [LimitRange(ObjectMeta(name="confines", namespace="shop"), LimitRangeSpec((item,)))]
    surveyed = msgspec.structs.replace(workload("web", *containers), limits=read_limit_ranges(ranges))
    policy = AdvicePolicy(limits=parse_limit_rules(limits)) if limits else AdvicePolicy()
    return advise(survey(surveyed), policy, EXAMPLE_PRICES, 0.0)


def only(survey_advice: SurveyAdvice) -> ContainerAdvice:
    [advice] = survey_advice.workloads[0].containers
    return advice


def at_most(type_: str = "Container", **most: str) -> LimitRangeItem:
    return LimitRangeItem(type=type_, max=most)


def test_a_request_stays_below_the_maximum_of_a_container() -> None:
    advised_container = only(advised(at_most(cpu="300m"), container(request=(200, GIB), target=(977, GIB))))
    assert (advised_container.cpu.request, advised_container.cpu.estimate) == (300, 977)
    assert (advised_container.cpu.reason, advised_container.cpu.capped) == (UNDER_REQUESTED, CAPPED_TO_RANGE_MAX)
    assert advised_container.memory.capped is None


def test_a_request_reaches_the_minimum_of_a_container() -> None:
    least = LimitRangeItem(type="Container", min={"memory": "128Mi"})
    advised_container = only(advised(least, container(request=(500, GIB), target=(500, 40 * MIB))))
    assert (advised_container.memory.request, advised_container.memory.limit) == (128 * MIB, 128 * MIB)
    assert advised_container.memory.capped is CAPPED_TO_RANGE_MIN


@pytest.mark.parametrize(
    ("rule", "request_", "limit"),
    [
        ("none", 300, NONE),
        ("request", 300, 300),
        ("keep", 300, 300),
        ("keep-ratio", 150, 300),
    ],
)
def test_neither_request_nor_limit_is_above_the_maximum(rule: str, request_: float, limit: float) -> None:
    item = container(request=(200, GIB), target=(977, GIB), limit=(400, NONE))
    cpu = only(advised(at_most(cpu="300m"), item, limits=rule)).cpu
    assert cpu.request == request_
    assert cpu.limit == limit or (math.isnan(cpu.limit) and math.isnan(limit))


def test_the_highest_memory_usage_raises_no_limit_above_the_maximum() -> None:
    item = container(request=(500, GIB), target=(500, 3 * GIB), highest=(NONE, 4 * GIB))
    memory = only(advised(at_most(memory="2Gi"), item)).memory
    assert (memory.request, memory.limit) == (2 * GIB, 2 * GIB)


def test_a_raised_request_lowers_no_limit_below_the_highest_usage() -> None:
    least = LimitRangeItem(type="Container", min={"memory": "128Mi"})
    item = container(
        request=(500, 50 * MIB), target=(500, 20 * MIB), limit=(NONE, 100 * MIB), highest=(NONE, 900 * MIB)
    )
    memory = only(advised(least, item, limits="keep-ratio")).memory
    assert (memory.request, memory.limit) == (128 * MIB, 900 * MIB)


def test_a_fitting_request_outside_the_range_is_changed_and_an_unknown_one_is_not() -> None:
    known = only(advised(at_most(cpu="300m"), container()))
    assert (known.cpu.reason, known.cpu.request) == (OVER_REQUESTED, 300)
    assert known.memory.reason is WELL_SIZED
    young = only(advised(at_most(cpu="300m"), container(days=0.1, samples=3)))
    assert (young.cpu.reason, young.cpu.request, young.cpu.capped) == (LOW_CONFIDENCE, 500, None)


def test_all_containers_together_fit_the_range_of_a_pod() -> None:
    pair = [container(name, request=(100, GIB), target=(800, GIB)) for name in ("app", "proxy")]
    containers = advised(at_most("Pod", cpu="1"), *pair).workloads[0].containers
    assert sum(item.cpu.request for item in containers) <= 1000
    assert {item.cpu.capped for item in containers} == {FITTED_TO_POD_RANGE}


def test_every_form_of_a_report_has_the_bound_of_a_row() -> None:
    advice = advised(at_most(cpu="300m"), container(request=(200, GIB), target=(977, GIB)))
    assert "| request too low, bounded (UnderRequested, CappedToLimitRangeMax) |" in as_markdown(advice)
    assert "app, CPU: 977m is needed, 300m is allowed (CappedToLimitRangeMax)" in " ".join(as_text(advice))
    assert as_csv(advice).splitlines()[1].endswith(",CappedToLimitRangeMax,")
    row = build_document(advice)["workloads"][0]["containers"][0]
    assert (row["cpu"]["cappedBy"], row["memory"]["cappedBy"]) == ("CappedToLimitRangeMax", None)
