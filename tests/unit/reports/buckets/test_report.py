"""Proposed buckets in every form: as approved, within their width, and as manifests that pass a check."""

from __future__ import annotations

import csv
import io
import json

import msgspec
import pytest
import yaml

from support.builders.surveys import GIB, MIB, NOW, on_utilization, shop, survey
from support.builders.surveys_over_time import by_hpa, daily, recorded_shop, recorded_workload
from support.golden_files import assert_golden, page_body
from trellis.base.prices import EXAMPLE_PRICES, Prices
from trellis.core.advice.advisor import advise
from trellis.core.advice.policy import AdvicePolicy
from trellis.core.advice.results import SurveyAdvice
from trellis.core.advice.survey.model import ResourceAmount, SurveyedWorkload, SurveyResult
from trellis.core.lint.check import check
from trellis.core.lint.manifests import ManifestSource
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.recommend.capping.limit_ranges import ResourceRange
from trellis.reports.advice import report
from trellis.reports.buckets.report import FORMATS, as_text, propose_buckets, render_buckets


def advised(result: SurveyResult, prices: Prices = EXAMPLE_PRICES) -> SurveyAdvice:
    return advise(result, AdvicePolicy(), prices, NOW)


SHOP = advised(recorded_shop())


def names(text: str) -> list[str]:
    return [document["metadata"]["name"] for document in yaml.safe_load_all(text) if document]


@pytest.mark.parametrize(
    ("form", "name"),
    [("table", "txt"), ("json", "json"), ("yaml", "yaml"), ("csv", "csv"), ("markdown", "md"), ("html", "html")],
)
def test_every_form_is_as_approved(form: str, name: str) -> None:
    text = render_buckets(SHOP, form)
    assert_golden(f"buckets.{name}", page_body(text) if form == "html" else text)


def test_buckets_have_the_formats_of_advice() -> None:
    assert list(FORMATS) == list(report.FORMATS)


def test_a_check_has_nothing_against_the_manifests() -> None:
    text = render_buckets(SHOP, "yaml")
    result = check([ManifestSource("buckets.yaml", text.encode())])
    assert [(finding.object, finding.message) for finding in result.findings if finding.is_error] == []
    assert not any("hole" in finding.message or "no bucket" in finding.message for finding in result.findings)
    assert [ours.kind.name for ours in result.objects] == ["Hvpa"] * 5


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_no_line_of_the_text_is_wider_than_the_terminal(width: int) -> None:
    long = recorded_workload(
        "a-workload-with-a-name-that-nobody-types-twice-and-which-goes-on-and-on", daily(9e6, 9e7), 12345
    )
    for advice in (SHOP, advised(survey(long))):
        assert max(map(len, as_text(propose_buckets(advice), width))) <= max(width, 80)


@pytest.mark.parametrize(("width", "shown"), [(80, False), (100, True)])
def test_only_heads_that_are_shown_are_explained(width: int, shown: bool) -> None:
    text = "\n".join(as_text(propose_buckets(SHOP), width))
    assert ("changes: how often" in text) is ("memory above  changes" in text) is shown
    assert "CPU above, memory above: share of time" in text


def test_only_so_many_workloads_are_shown_and_the_rest_is_counted() -> None:
    text = render_buckets(SHOP, "table", top=1)
    assert text.count("core-hours") == 1
    assert "... and 4 workloads more with buckets" in text


def test_nothing_to_propose_is_reported_in_every_form() -> None:
    nothing = advised(shop())
    for form in ("table", "yaml", "markdown", "html"):
        assert "No buckets are proposed for 7 workloads." in render_buckets(nothing, form)
    assert list(yaml.safe_load_all(render_buckets(nothing, "yaml"))) in ([], [None])
    document = json.loads(render_buckets(nothing, "json"))
    assert {workload["reason"] for workload in document["workloads"]} == {"NotScaled", "TooLittleHistoryForBuckets"}
    assert document["partial"] is True
    rows = list(csv.DictReader(io.StringIO(render_buckets(nothing, "csv"))))
    assert [row["most"] for row in rows] == [""] * 7


def test_with_zero_prices_no_money_is_reported() -> None:
    free = advised(recorded_shop(), Prices("given", "USD", 0.0, 0.0))
    assert "USD" not in render_buckets(free, "table")
    assert "Buckets for 5 of 9 workloads." in render_buckets(free, "table")
    [first, *_] = json.loads(render_buckets(free, "json"))["workloads"]
    assert first["outcomes"]["buckets"]["moneyMonth"] == 0


def test_an_hvpa_gets_another_name_if_its_name_is_taken() -> None:
    """Its own HPA and VPA are called like it, and it takes nothing away from anybody."""
    cpu = daily(600, 4500)
    hpa = on_utilization("web", 60)
    assert names(render_buckets(advised(survey(recorded_workload("web", cpu, 8))), "yaml")) == ["web"]
    assert names(render_buckets(advised(survey(recorded_workload("web", cpu, 8, vpas=("web",)))), "yaml")) == [
        "web-deployment"
    ]
    assert names(
        render_buckets(advised(survey(recorded_workload("web", cpu, by_hpa(60, 1000), hpas=(hpa,)))), "yaml")
    ) == ["web-deployment"]
    twins = survey(recorded_workload("web", cpu, 8), recorded_workload("web", cpu, 3, kind="StatefulSet"))
    assert sorted(names(render_buckets(advised(twins), "yaml"))) == ["web-deployment", "web-statefulset"]


def largest(result: SurveyResult, policy: AdvicePolicy = AdvicePolicy()) -> tuple[str, str]:  # noqa: B008 -- frozen
    [document] = yaml.safe_load_all(render_buckets(advise(result, policy, EXAMPLE_PRICES, NOW), "yaml"))
    bucket = document["spec"]["buckets"][0]
    return bucket["cpu"]["max"], bucket["memory"]["max"]


def bounded(workload: SurveyedWorkload, limits: NamespaceLimits) -> SurveyResult:
    return survey(msgspec.structs.replace(workload, limits=limits))


def test_replicas_fit_twice_on_a_node_and_within_what_is_allowed() -> None:
    web = recorded_workload("web", daily(900, 6000), 8, request=(2000, GIB))
    assert largest(survey(web)) == ("2", "1664Mi")
    node = msgspec.structs.replace(survey(web), largest_node=ResourceAmount(1800, 1600 * MIB))
    assert largest(node) == ("900m", "800Mi")
    pod = NamespaceLimits(pod=ResourceRange(most={"cpu": 700}))
    assert largest(bounded(web, pod))[0] == "700m"
    limits = NamespaceLimits(container=ResourceRange(most={"memory": int(900 * MIB)}))
    assert largest(bounded(web, limits)) == ("2", "900Mi")
    assert largest(survey(web), AdvicePolicy(most=ResourceAmount(600.0)))[0] == "600m"
