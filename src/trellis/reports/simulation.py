"""A simulation for people and for programs: `as_text`, `as_html`, `as_json` and `as_csv`."""

from __future__ import annotations

from collections.abc import Iterator

from trellis.reports.result_files import Cell, csv_document, json_document
from trellis.reports.simulation_compared import scales
from trellis.reports.simulation_html import as_html
from trellis.reports.simulation_node_measures import has_nodes
from trellis.reports.simulation_text import as_text
from trellis.sim.results import RunResult, Totals

__all__ = ["as_csv", "as_html", "as_json", "as_text"]

_COLUMNS = (
    *("variant", "namespace", "name", "kind", "label"),
    *("requested_cpu_cores", "requested_memory_bytes", "used_cpu_cores", "used_memory_bytes"),
    *("slack_cpu_cores", "slack_memory_bytes", "footprint_cpu", "footprint_memory"),
    *("time_over_cpu", "time_over_memory", "overrun_cpu", "overrun_memory"),
    *("throttled_seconds", "container_seconds", "oom_kills", "evictions", "pressed_out", "resizes", "restarts"),
    *("boosts", "pods_made", "pending_seconds", "start_seconds", "money"),
)
# Where counts change.
_SCALING = ("replicas", "scalings", "overload_core_hours")
# Where nodes come and go.
_WAITS = ("wait_mean_seconds", "wait_p95_seconds", "wait_longest_seconds")


def as_json(result: RunResult) -> bytes:
    """Everything, charts included."""
    return json_document("SimulationResult", result)


def as_csv(result: RunResult) -> str:
    """A row for each workload in each variant."""
    more = (*(_SCALING if scales(result) else ()), *(_WAITS if has_nodes(result) else ()))
    return csv_document((*_COLUMNS, *more), _rows(result))


def _rows(result: RunResult) -> Iterator[list[Cell]]:
    scaled, noded = scales(result), has_nodes(result)
    for variant in result.variants:
        for each in variant.workloads:
            row = [variant.name, each.namespace, each.name, each.kind, each.label, *_figures(each.totals)]
            found, waits = each.totals.scaled, each.totals.waited
            row += [found.replicas, found.scalings, found.overload] if scaled else []
            row += [waits.mean, waits.p95, waits.most] if noded else []
            yield row


def _figures(totals: Totals) -> list[Cell]:
    pairs = (totals.requested, totals.used, totals.slack, totals.footprint, totals.time_over, totals.overrun)
    return [
        *(value for pair in pairs for value in (pair.cpu, pair.memory)),
        *(totals.throttled_seconds, totals.container_seconds, totals.oom_kills, totals.evictions, totals.pressed_out),
        *(totals.resizes, totals.restarts, totals.boosts, totals.pods_made),
        *(totals.pending_seconds, totals.start_seconds, totals.money),
    ]
