from __future__ import annotations

import csv
import io
import json
import math
import re

import msgspec
import pytest

from support.builders.results import simulated
from support.golden_files import assert_golden, page_body
from trellis.reports.simulation.charts import build_chart_data
from trellis.reports.simulation.report import as_csv, as_html, as_json, as_markdown, as_text
from trellis.sim.results import RunResult, SimulationTotals, WorkloadResult

SMALL = simulated(workloads=4, days=4, points=8)
GOLDEN = simulated(workloads=2, days=4, points=6)
NASTY = "</script><script>alert(1)</script>&\"'"


def renamed(result: RunResult, name: str) -> RunResult:
    variants = []
    for variant in result.variants:
        workloads = [msgspec.structs.replace(workload, name=name, label=name) for workload in variant.workloads[:1]]
        variants.append(msgspec.structs.replace(variant, title=name, workloads=workloads))
    return msgspec.structs.replace(result, scenario=name, variants=variants, notes=[name])


def test_the_reports_are_as_approved() -> None:
    assert_golden("simulation.txt", "\n".join(as_text(GOLDEN, 100)) + "\n")
    assert_golden("simulation.csv", as_csv(GOLDEN))
    assert_golden("simulation.json", as_json(GOLDEN).decode())
    assert_golden("simulation.md", as_markdown(GOLDEN))
    assert_golden("simulation.html", page_body(as_html(GOLDEN)))


def test_a_name_cannot_forge_markdown() -> None:
    text = as_markdown(renamed(SMALL, "a|b <script> `x`"))
    assert "a\\|b \\<script\\> \\`x\\`" in text
    assert "<script>" not in text


def test_the_same_result_gives_the_same_bytes() -> None:
    again = simulated(workloads=4, days=4, points=8)
    assert as_html(again) == as_html(SMALL)
    assert as_json(again) == as_json(SMALL)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
@pytest.mark.parametrize("variants", [1, 2, 4, 9])
def test_no_line_is_wider_than_asked_for(width: int, variants: int) -> None:
    many = [
        msgspec.structs.replace(SMALL.variants[number % 4], name=f"{SMALL.variants[number % 4].name}-{number}")
        for number in range(variants)
    ]
    lines = as_text(msgspec.structs.replace(SMALL, variants=many), width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert all(variant.name in text for variant in many)


def test_a_table_holds_every_variant_in_eighty_columns() -> None:
    heads = [line.split() for line in as_text(simulated(20), 80) if line.split()[:1] == ["fixed"]]
    assert heads == [["fixed", "default", "seasonal", "adaptive"]]


def test_sentences_compare_cost_and_risk_of_each_variant_with_the_first() -> None:
    text = " ".join(" ".join(as_text(SMALL, 120)).split())
    for title in ("Default recommender", "Seasonal", "Adaptive"):
        assert re.search(rf"{title} costs \d+ % less than Fixed requests \(USD [\d,.]+ instead of [\d,.]+\)", text)


def test_json_has_null_for_what_is_not_known_and_keeps_everything() -> None:
    document = json.loads(as_json(SMALL))
    assert document["kind"] == "SimulationResult"
    chart = document["variants"][0]["workloads"][0]["chart"]
    assert set(chart["lines"][0]["target"]) == {None}
    assert document["variants"][1]["fleet"]["oomKills"] == SMALL.variants[1].fleet.oom_kills


def test_csv_has_a_row_for_each_workload_in_each_variant() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(SMALL))))
    assert len(rows) == 16
    first = SMALL.variants[0].workloads[0]
    assert float(rows[0]["requested_cpu_cores"]) == pytest.approx(first.totals.requested.cpu)
    assert {row["variant"] for row in rows} == {"fixed", "default", "seasonal", "adaptive"}


def test_csv_is_empty_where_nothing_is_known() -> None:
    nothing = SimulationTotals(footprint=msgspec.structs.replace(SMALL.variants[0].fleet.footprint, cpu=math.nan))
    workload = msgspec.structs.replace(SMALL.variants[0].workloads[0], totals=nothing)
    variant = msgspec.structs.replace(SMALL.variants[0], workloads=[workload])
    row = next(csv.DictReader(io.StringIO(as_csv(msgspec.structs.replace(SMALL, variants=[variant])))))
    assert row["footprint_cpu"] == ""


def test_a_name_with_markup_stays_text() -> None:
    page = as_html(renamed(SMALL, NASTY))
    assert "<script>alert" not in page
    assert page.count("</script>") == 2
    data = page.split('id="data">')[1].split("</script>")[0]
    assert json.loads(data)["workloads"][0]["name"].endswith(NASTY)


def test_a_page_sends_no_requests() -> None:
    page = as_html(SMALL)
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)=[\"'](?!data:)", page)
    assert not re.search(r"url\((?!#)", page)
    assert not re.search(r"\b(fetch|XMLHttpRequest|innerHTML|import\()", page)


def test_a_stopped_variant_is_reported() -> None:
    variants = [msgspec.structs.replace(SMALL.variants[0], partial_until=SMALL.begin + 86400.0), *SMALL.variants[1:]]
    partial = msgspec.structs.replace(SMALL, partial=True, variants=variants)
    assert any("Partial" in line and "25 %" in line for line in as_text(partial, 100))
    assert "was stopped after 25 % of the time" in as_html(partial)


def test_variants_stopped_earlier_are_not_compared_by_cost() -> None:
    hour = SMALL.scored_from + 3600.0
    stopped = [
        SMALL.variants[0],
        *(msgspec.structs.replace(variant, partial_until=hour) for variant in SMALL.variants[1:]),
    ]
    partial = msgspec.structs.replace(SMALL, partial=True, variants=stopped)
    text = "\n".join(as_text(partial, 100))
    assert f"{SMALL.variants[1].title or SMALL.variants[1].name} was stopped after" in text
    assert "too early for a comparison" in text
    assert not re.search(r"costs|against", text)
    assert "No variant costs less" not in as_html(partial)
    assert len(json.loads(as_json(partial))["variants"]) == len(SMALL.variants)


def test_where_nothing_was_scored_no_figures_are_shown() -> None:
    early = [msgspec.structs.replace(variant, partial_until=SMALL.scored_from) for variant in SMALL.variants]
    text = as_text(msgspec.structs.replace(SMALL, partial=True, variants=early), 100)
    assert all(line.startswith(("Partial", "  ")) for line in text[1:])


def test_a_run_that_was_stopped_before_anything_was_done_has_reports_too() -> None:
    empty = msgspec.structs.replace(SMALL, variants=[], partial=True)
    assert as_text(empty, 80)
    assert "Partial" in as_html(empty)
    assert json.loads(as_json(empty))["variants"] == []
    assert as_csv(empty).count("\n") == 1


def test_without_prices_cores_are_reported() -> None:
    variants = [
        msgspec.structs.replace(
            variant,
            fleet=msgspec.structs.replace(variant.fleet, money=0.0),
            workloads=[
                msgspec.structs.replace(workload, totals=msgspec.structs.replace(workload.totals, money=0.0))
                for workload in variant.workloads
            ],
        )
        for variant in SMALL.variants
    ]
    free = msgspec.structs.replace(SMALL, variants=variants)
    text = " ".join(" ".join(as_text(free, 120)).split())
    assert re.search(r"Adaptive requests [\d.,]+ cores instead of", text)
    assert "Largest differences in requested cores" in text
    assert "cores</small>" in as_html(free)


def test_a_workload_with_all_its_points_takes_less_than_eighty_kilobytes() -> None:
    few, more = (len(as_html(simulated(workloads, days=14, points=336)).encode()) for workloads in (2, 12))
    assert more - few < 10 * 80_000  # so that sixty of them in four variants stay below five megabytes


def test_the_page_opens_with_a_workload_that_has_pods_in_the_variant_shown() -> None:
    result = simulated(workloads=4, days=4, points=8)
    shown = build_chart_data(result)["shown"]
    chosen = build_chart_data(result)["chosen"]
    empty = msgspec.structs.replace(
        result,
        variants=[
            msgspec.structs.replace(
                variant,
                workloads=[
                    _without_pods(workload) if (number, at) == (shown, chosen) else workload
                    for at, workload in enumerate(variant.workloads)
                ],
            )
            for number, variant in enumerate(result.variants)
        ],
    )
    assert build_chart_data(empty)["shown"] == shown
    opened = empty.variants[shown].workloads[build_chart_data(empty)["chosen"]].chart
    assert opened is not None
    assert max(opened.pods) > 0


def _without_pods(workload: WorkloadResult) -> WorkloadResult:
    assert workload.chart is not None
    chart = msgspec.structs.replace(workload.chart, pods=[0.0] * len(workload.chart.pods))
    return msgspec.structs.replace(workload, chart=chart)
