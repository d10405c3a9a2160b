"""The report of a simulation in which counts change: told everywhere, and nowhere if they do not."""

from __future__ import annotations

import csv
import io
import json

import msgspec
import pytest

from support.builders.results import simulated
from trellis.reports.simulation.report import as_csv, as_html, as_json, as_text
from trellis.sim.results import RunResult, ScalingTotals, SimulationTotals, VariantResult

PLAIN = simulated(workloads=3, days=4, points=8)


def scaled(result: RunResult) -> RunResult:
    """The same, and the further a variant is from the first the more often it scales."""
    variants = [_scaled(variant, number) for number, variant in enumerate(result.variants)]
    return msgspec.structs.replace(result, variants=variants)


def _scaled(variant: VariantResult, number: int) -> VariantResult:
    def with_counts(totals: SimulationTotals, times: int) -> SimulationTotals:
        return msgspec.structs.replace(
            totals, scaling=ScalingTotals(2.5 * times, 7 * number * times, 40.0 * times - number)
        )

    workloads = [
        msgspec.structs.replace(workload, totals=with_counts(workload.totals, 1)) for workload in variant.workloads
    ]
    return msgspec.structs.replace(variant, fleet=with_counts(variant.fleet, len(workloads)), workloads=workloads)


SCALED = scaled(PLAIN)


def test_the_text_compares_pods_overload_and_changes_of_the_count() -> None:
    text = "\n".join(as_text(SCALED, 100))
    assert "Pods running, mean" in text
    assert "Overload, core-hours" in text
    assert "Replica changes" in text
    words = " ".join(text.split())
    assert "21 replica changes (baseline: 0) and 119 core-hours of overload (baseline: 120)" in words
    assert "Pods running (mean), and replica changes" in words
    assert "2.50 (0) 2.50 (7) 2.50 (14) 2.50 (21)" in words


@pytest.mark.parametrize("width", [80, 100])
def test_no_line_is_wider_than_asked_for_with_counts(width: int) -> None:
    assert max(map(len, as_text(SCALED, width))) <= width


def test_programs_get_the_figures_of_each_workload() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(SCALED))))
    assert [(row["replicas"], row["scalings"], row["overload_core_hours"]) for row in rows[3:4]] == [("2.5", "7", "39")]
    document = json.loads(as_json(SCALED))
    assert document["variants"][1]["fleet"]["scaling"] == {"replicas": 7.5, "scalings": 21, "overload": 119.0}


def test_the_page_has_them_on_cards_in_tables_and_in_charts() -> None:
    page = as_html(SCALED)
    for text in ("<dt>Overload <small>core-hours</small></dt>", "Replica changes", '"scales":true', ">changes</th>"):
        assert text in page


def test_nothing_is_reported_where_counts_do_not_change() -> None:
    page = as_html(PLAIN)
    assert '"scales"' not in page
    assert "Overload" not in page
    assert "Overload" not in "\n".join(as_text(PLAIN, 100))
    assert "scaling" not in as_json(PLAIN).decode()
    assert "scalings" not in as_csv(PLAIN)
