"""Reports of simulations in which nodes come and go, and of those in which they do not."""

from __future__ import annotations

import msgspec
import pytest

from support.builders.results import simulated
from trellis.reports.simulation.report import as_csv, as_html, as_json, as_text
from trellis.sim.results import BufferFigures, NodeFigures, PendingTotals, RunResult


def simulated_on_nodes() -> RunResult:
    """The first variant has no Buffer, the others have one."""
    run_result = simulated()
    variants = []
    for number, variant in enumerate(run_result.variants):
        waits = PendingTotals(100, 90.0 / (1 + 10 * number), 180.0 if not number else 0.0, 180.0)
        buffers = [BufferFigures("shop", "web", 4.0, 0.75, 1.5, 20, 2)] if number else []
        count = len(variant.chart.times)
        chart = msgspec.structs.replace(variant.chart, nodes=[3.0 + number] * count, chunks=[4.0] * count)
        variants.append(
            msgspec.structs.replace(
                variant,
                fleet=msgspec.structs.replace(variant.fleet, waits=waits),
                chart=chart,
                node_hours=100.0 + number,
                node_money=50.0 + number,
                nodes=NodeFigures(10, 9, 5, 3, 7 * (number == 1), buffers),
            )
        )
    return msgspec.structs.replace(run_result, variants=variants)


def test_the_table_begins_with_what_nodes_cost_and_how_long_pods_wait() -> None:
    lines = as_text(simulated_on_nodes(), 140)
    begin = lines.index("Nodes")
    titles = [line.strip().split("  ")[0] for line in lines[begin + 1 : begin + 9]]
    assert titles == [
        "Cost of nodes, USD",
        "Node-hours",
        "Pods wait, mean",
        "Pods wait, p95",
        "Pods wait, longest",
        "Pods moved",
        "Pods preempted",
        "Buffers provisioned",
    ]
    assert lines[begin + 9] == "Cost"


def test_variants_are_held_against_each_other_by_their_nodes() -> None:
    text = " ".join(line.strip() for line in as_text(simulated_on_nodes(), 140))
    assert "costs 2.0 % more than Fixed requests (USD 51.00 for nodes instead of 50.00)" in text
    assert "95 % of them at most 0 s (baseline: 3 min)" in text


def test_the_page_draws_nodes_over_time_and_reports_waits() -> None:
    page = as_html(simulated_on_nodes())
    assert 'aria-label="Nodes over time: Fixed requests' in page
    assert page.count('<path class="stroke" data-variant=') >= 8  # drawn for wide and for narrow screens
    assert "for nodes, in" in page
    assert "Pods placed on Buffers" in page


def test_the_page_answers_with_the_cost_and_then_with_the_waits() -> None:
    lead = as_html(simulated_on_nodes()).partition('<p class="lead">')[2].partition("</p>")[0]
    answer, small = lead.split("<small>")
    assert "more than Fixed requests" in answer
    assert "Pods wait" not in answer
    assert small.startswith("Pods wait")
    assert "Usage is above the CPU request" in small


def test_the_page_says_whose_nodes_it_speaks_of_where_they_come_and_go() -> None:
    run_result = simulated(workloads=2)
    first, *others = run_result.variants
    assert "and their usage. Nodes offer 32.0 cores and 40.0 GiB.</p>" in as_html(run_result)
    moves = msgspec.structs.replace(first.chart, offered_cpu=[8.0, *first.chart.offered_cpu[1:]])
    run_result = msgspec.structs.replace(run_result, variants=[msgspec.structs.replace(first, chart=moves), *others])
    assert f"Nodes offer at most 32.0 cores and 40.0 GiB ({first.title})." in as_html(run_result)


def test_a_run_that_was_stopped_at_once_has_a_page_too() -> None:
    run_result = simulated_on_nodes()
    empty = msgspec.structs.replace(run_result.variants[0].chart, times=[], nodes=[], chunks=[])
    stopped = msgspec.structs.replace(run_result.variants[0], chart=empty)
    assert "Nodes over time" in as_html(
        msgspec.structs.replace(run_result, variants=[stopped, *run_result.variants[1:]])
    )


def test_the_document_has_every_figure_of_nodes() -> None:
    document = msgspec.json.decode(as_json(simulated_on_nodes()))
    second = document["variants"][1]
    assert second["nodes"]["buffers"][0] == {
        "namespace": "shop",
        "name": "web",
        "chunks": 4.0,
        "full": 0.75,
        "money": 1.5,
        "hits": 20,
        "misses": 2,
    }
    assert second["fleet"]["waits"]["most"] == 180.0


def test_rows_for_programs_end_with_waits() -> None:
    heading, *rows = as_csv(simulated_on_nodes()).splitlines()
    assert heading.endswith("wait_mean_seconds,wait_p95_seconds,wait_longest_seconds")
    assert {len(row.split(",")) for row in rows} == {len(heading.split(","))}
    assert "wait" not in as_csv(simulated()).splitlines()[0]


@pytest.mark.parametrize("word", ["Pods wait", "Nodes over time", "Buffers provisioned"])
def test_nothing_is_reported_about_nodes_that_neither_come_nor_go(word: str) -> None:
    run_result = simulated()
    assert word not in as_html(run_result)
    assert word not in "\n".join(as_text(run_result))
