"""Advice in every form: as approved, within its width, and whole."""

from __future__ import annotations

import csv
import io
import json
import re

import msgspec
import pytest
import yaml

from support.builders.surveys import GIB, NONE, NOW, container, generated_survey, shop, survey, with_usage, workload
from support.golden_files import assert_golden, page_body
from trellis.base.prices import EXAMPLE_PRICES, Prices
from trellis.core.advice.advisor import advise
from trellis.core.advice.policy import AdvicePolicy
from trellis.core.advice.results import SurveyAdvice
from trellis.core.advice.survey.model import SurveyedWorkload, SurveyResult
from trellis.reports.advice.report import FORMATS, ManifestForm, as_text, build_manifest_files, render_advice

PARAMETERS = {"target-cpu-percentile": "0.95"}


def advised(result: SurveyResult, prices: Prices = EXAMPLE_PRICES) -> SurveyAdvice:
    return advise(result, AdvicePolicy(), prices, NOW, parameters=PARAMETERS)


SHOP = advised(shop())
ODD = '<b>|`*odd*`|\n"'


@pytest.mark.parametrize(
    ("form", "name"),
    [("table", "txt"), ("json", "json"), ("yaml", "yaml"), ("csv", "csv"), ("markdown", "md"), ("html", "html")],
)
def test_every_form_is_as_approved(form: str, name: str) -> None:
    text = render_advice(SHOP, form)
    assert_golden(f"advice.{name}", page_body(text) if form == "html" else text)


@pytest.mark.parametrize("form", list(ManifestForm))
def test_emitted_manifests_are_as_approved(form: ManifestForm) -> None:
    files = build_manifest_files(SHOP, form).texts
    assert_golden(f"advice-{form}.yaml", "".join(f"# {path}\n{text}" for path, text in files.items()))


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_no_line_of_the_table_is_wider_than_the_terminal(width: int) -> None:
    long = workload("a-workload-with-a-name-that-nobody-types-twice", container("and-its-container"), pods=12345)
    for advice in (SHOP, advised(generated_survey(60)), advised(survey(long, namespace_of_length(40)))):
        assert max(map(len, as_text(advice, width))) <= max(width, 80)


def namespace_of_length(length: int) -> SurveyedWorkload:
    return workload("x", namespace="n" * length)


def test_top_shows_the_most_important_rows_and_counts_omitted_ones() -> None:
    text = render_advice(advised(generated_survey(60)), "table", 100, 5)
    assert "... and 55 more" in text
    assert sum(" service-" in line or "/service-" in line for line in text.splitlines()) == 5
    assert render_advice(SHOP, "markdown", 100, 1).count("| shop/") == 1


def test_json_and_yaml_say_the_same() -> None:
    document = json.loads(render_advice(SHOP, "json"))
    assert yaml.safe_load(render_advice(SHOP, "yaml")) == document
    assert document["total"]["saved"]["cpu"] == pytest.approx(36.02)
    assert document["workloads"][0]["containers"][0]["memory"]["request"] == {"from": "512Mi", "to": "1230Mi"}


def test_csv_has_a_row_for_each_container_and_numbers_in_units() -> None:
    rows = list(csv.DictReader(io.StringIO(render_advice(SHOP, "csv"))))
    assert len(rows) == SHOP.total.containers
    assert rows[0]["reason"] == "MemoryAtRisk"
    assert float(rows[0]["cpu_request"]) == 0.32
    assert rows[0]["cpu_limit"] == ""
    assert float(rows[1]["memory_difference"]) == -18 * GIB


def test_text_needs_no_colour() -> None:
    text = render_advice(SHOP, "table")
    assert "\x1b" not in text
    assert text.isascii()
    rows = [line for line in text.splitlines() if "/" in line and "Mi" in line]
    assert [row[:2] for row in rows] == ["!!", "! ", "! ", "? ", "? ", "  "]


def test_missing_data_marks_every_format_as_partial() -> None:
    for form in ("table", "markdown", "html"):
        text = " ".join(render_advice(SHOP, form).split())
        assert "Partial: 1 source of data could not be read; it is listed below." in text
        assert "LimitRange: may not be read" in text
    assert json.loads(render_advice(SHOP, "json"))["partial"] is True
    assert "Partial" not in render_advice(advised(generated_survey(2)), "table")


def test_other_autoscalers_of_the_size_are_reported() -> None:
    smaller = container(target=(50, GIB))
    workloads = [workload(f"web-{number}", smaller, vpas=("vpa",)) for number in range(5)]
    mixed = workload("mixed", msgspec.structs.replace(smaller, differing=2))
    text = " ".join(render_advice(advised(survey(*workloads, mixed)), "table").split())
    assert "other requests for shop/web-0, shop/web-1, shop/web-2 and 2 more" in text
    assert "requests differ between pods of 1 container" in text


@pytest.mark.parametrize("form", list(FORMATS))
def test_an_empty_survey_has_a_report_in_every_format(form: str) -> None:
    assert render_advice(advised(survey()), form)


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_without_prices_no_costs_are_shown(form: str) -> None:
    text = render_advice(advised(shop(), Prices("free", "EUR", 0.0, 0.0)), form)
    assert "a month (" not in text
    assert "EUR 0" not in text


def test_an_unknown_request_is_none_nowhere_where_the_history_is_too_short_for_advice() -> None:
    short = container(request=(NONE, NONE), days=0.04, samples=12)
    advice = advised(survey(msgspec.structs.replace(workload("web", short, pods=1), is_sized=False)))
    (row,) = [line for line in as_text(advice, 100) if line.startswith("?  shop/web")]
    assert row.split()[4:6] == ["?", "?"]
    assert '"?" as a request means that the current request is unknown.' in "\n".join(as_text(advice, 200))
    page = page_body(render_advice(advice, "html"))
    assert ">none" not in page.partition('id="containers-table"')[2].partition("</tbody>")[0]


def test_unknown_requests_are_not_reported_as_none() -> None:
    workloads = [
        msgspec.structs.replace(
            workload("web", container(request=(NONE, NONE)), namespace=namespace, pods=1), is_sized=False
        )
        for namespace in ("shop", "data")
    ]
    advice = advised(survey(*workloads))
    text = [line.split() for line in as_text(advice, 100)]
    assert ["total", "?", "1.00", "?", "1.00"] in text
    explained = '"?" as a request means that the current request is unknown.'
    assert explained in "\n".join(as_text(advice, 200))
    assert explained not in "\n".join(as_text(advised(survey(workload())), 200))
    assert "| total | ? | 1.00 |  | ? | 1.00 |  |  |" in render_advice(advice, "markdown").splitlines()
    page = page_body(render_advice(advice, "html"))
    assert "<dt>requested now</dt><dd>?</dd>" in page
    for wrong in ("<dt>missing</dt>", ">new<", "<dd>0</dd>"):
        assert wrong not in page


def test_odd_names_do_no_harm() -> None:
    advice = advised(survey(workload(ODD, container(ODD, target=(50, GIB)), namespace=ODD)))
    assert "<b>" not in page_body(render_advice(advice, "html"))
    table = [line for line in render_advice(advice, "markdown").splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {10}
    assert yaml.safe_load(render_advice(advice, "yaml"))["workloads"][0]["name"] == ODD
    assert next(csv.DictReader(io.StringIO(render_advice(advice, "csv"))))["workload"] == ODD
    assert not build_manifest_files(advice, ManifestForm.PATCHES).texts


def test_very_many_containers_leave_the_page_readable() -> None:
    page = render_advice(advised(with_usage(generated_survey(3500))), "html")
    assert "1,500 of 3,500 are shown" in page
    assert len(page.encode()) < 4_000_000
