"""Take every measurement and print one table; exit code 1 if a bar is missed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from bench import (
    admission,
    admission_side_by_side,
    backtest,
    buffers_idle,
    check_time,
    closed_loop,
    fit_agreement,
    fit_of_many,
    help_time,
    hvpa_loads,
    hvpa_plans,
    informer,
    nodes_burst,
    nodes_idle,
    nodes_up,
    packing,
    pod_list,
    quality,
    quantity_columns,
    recommend_prometheus,
    recommender_cost,
    recommender_pass,
    recommender_side_by_side,
    updater_idle,
    updater_side_by_side,
)
from bench.measurement import CannotMeasure, Row

MEASUREMENTS: dict[str, Callable[[], list[Row]]] = {
    "pod_list": pod_list.measure,
    "informer": informer.measure,
    "quantity_columns": quantity_columns.measure,
    "help_time": help_time.measure,
    "check_time": check_time.measure,
    "recommender_pass": recommender_pass.measure,
    "fit_of_many": fit_of_many.measure,
    "packing": packing.measure,
    "nodes_up": nodes_up.measure,
    "nodes_idle": nodes_idle.measure,
    "hvpa": hvpa_plans.measure,
    "admission": admission.measure,
    "admission_side_by_side": admission_side_by_side.measure,
    "recommender_side_by_side": recommender_side_by_side.measure,
    "recommender_cost": recommender_cost.measure,
    "updater_idle": updater_idle.measure,
    "buffers_idle": buffers_idle.measure,
    "updater_side_by_side": updater_side_by_side.measure,
    "updater_side_by_side_replaced": updater_side_by_side.measure_replaced,
    "quality": quality.measure,
    "backtest": backtest.measure,
    "closed_loop": closed_loop.measure,
    "hvpa_loads": hvpa_loads.measure,
    "recommend_prometheus": recommend_prometheus.measure,
}

# Taken only when named: each takes many minutes.
ON_REQUEST: dict[str, Callable[[], list[Row]]] = {
    "fit_agreement": fit_agreement.measure,
    "nodes_burst": nodes_burst.measure,
    "recommender_side_by_side_large": recommender_side_by_side.measure_large,
}

_ALL = MEASUREMENTS | ON_REQUEST

_HEADINGS = ("what", "ours", "peer", "ratio", "bar", "")


def main(wanted: Sequence[str]) -> int:
    """Take the wanted measurements, or all that need not be named."""
    unknown = [name for name in wanted if name not in _ALL]
    if unknown:
        print(f"no such measurement: {', '.join(unknown)}; there are {', '.join(_ALL)}", file=sys.stderr)
        return 2
    rows = [row for name in wanted or MEASUREMENTS for row in _taken(name)]
    print(table(rows))
    return 1 if any(row.met is False for row in rows) else 0


def _taken(name: str) -> list[Row]:
    try:
        return _ALL[name]()
    except CannotMeasure as error:
        print(f"{name}: {error}", file=sys.stderr)
        return [Row(name, "not measured", met=False)]


def table(rows: Sequence[Row]) -> str:
    """The rows in aligned columns."""
    verdicts = {True: "met", False: "missed", None: ""}
    cells = [_HEADINGS, *((r.what, r.ours, r.peer, r.ratio, r.bar, verdicts[r.met]) for r in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells)
    return "\n".join(line.rstrip() for line in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
