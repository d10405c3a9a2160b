"""Take every measurement and print one table; exit code 1 if a bar is missed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from bench.admission import reviews, side_by_side
from bench.buffers import idle
from bench.cli import check_time, help_time
from bench.client import cluster_state, informer, pod_list, quantity_columns
from bench.hvpa import loads, plans
from bench.measurement import CannotMeasure, Row
from bench.nodes import burst, fit, fit_agreement, packing, scale_up
from bench.nodes import idle as nodes_idle
from bench.quality import scores
from bench.recommender import cost, one_pass, recommend_prometheus
from bench.recommender import side_by_side as recommender_side_by_side
from bench.replicas import handover
from bench.run import idle as run_idle
from bench.run import reviews_beside_passes
from bench.simulator import backtest, closed_loop
from bench.updater import idle as updater_idle
from bench.updater import side_by_side as updater_side_by_side

MEASUREMENTS: dict[str, Callable[[], list[Row]]] = {
    "pod_list": pod_list.measure,
    "informer": informer.measure,
    "cluster_state": cluster_state.measure,
    "quantity_columns": quantity_columns.measure,
    "help_time": help_time.measure,
    "check_time": check_time.measure,
    "recommender_pass": one_pass.measure,
    "fit_of_many": fit.measure,
    "packing": packing.measure,
    "nodes_up": scale_up.measure,
    "nodes_idle": nodes_idle.measure,
    "hvpa": plans.measure,
    "admission": reviews.measure,
    "admission_side_by_side": side_by_side.measure,
    "recommender_side_by_side": recommender_side_by_side.measure,
    "recommender_cost": cost.measure,
    "updater_idle": updater_idle.measure,
    "buffers_idle": idle.measure,
    "run_idle": run_idle.measure,
    "reviews_beside_passes": reviews_beside_passes.measure,
    "updater_side_by_side": updater_side_by_side.measure,
    "updater_side_by_side_replaced": updater_side_by_side.measure_replaced,
    "quality": scores.measure,
    "backtest": backtest.measure,
    "closed_loop": closed_loop.measure,
    "hvpa_loads": loads.measure,
    "recommend_prometheus": recommend_prometheus.measure,
    "handover": handover.measure,
}

# Taken only when named: each takes many minutes.
ON_REQUEST: dict[str, Callable[[], list[Row]]] = {
    "fit_agreement": fit_agreement.measure,
    "nodes_burst": burst.measure,
    "recommender_side_by_side_large": recommender_side_by_side.measure_large,
}

_ALL = MEASUREMENTS | ON_REQUEST

_HEADINGS = ("what", "ours", "peer", "ratio", "bar", "")


def main(names: Sequence[str]) -> int:
    """Take the wanted measurements, or all that need not be named."""
    unknown = [name for name in names if name not in _ALL]
    if unknown:
        print(f"no such measurement: {', '.join(unknown)}; there are {', '.join(_ALL)}", file=sys.stderr)
        return 2
    rows = [row for name in names or MEASUREMENTS for row in _run_measurement(name)]
    print(table(rows))
    return 1 if any(row.met is False for row in rows) else 0


def _run_measurement(name: str) -> list[Row]:
    try:
        return _ALL[name]()
    except CannotMeasure as error:
        print(f"{name}: {error}", file=sys.stderr)
        return [Row(name, "not measured", met=False)]


def table(rows: Sequence[Row]) -> str:
    """The rows in aligned columns."""
    decisions = {True: "met", False: "missed", None: ""}
    cells = [_HEADINGS, *((r.title, r.value, r.peer, r.ratio, r.bar, decisions[r.met]) for r in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells)
    return "\n".join(line.rstrip() for line in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
