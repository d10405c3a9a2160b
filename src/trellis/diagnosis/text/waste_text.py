"""Formats workloads by waste and risk: aligned columns as `kubectl top` has them, JSON and CSV."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from trellis.core.advice.survey.model import ResourceAmount
from trellis.diagnosis.waste import WorkloadRanking, WorkloadWaste
from trellis.reports.formats import encode_csv
from trellis.reports.text.numbers import format_money
from trellis.reports.text.tables import align_columns, choose_fitting, shorten, stack_rows

_MIB: Final = 2.0**20
_NONE: Final = "-"
_HEADS: Final = (
    "NAMESPACE",
    "WORKLOAD",
    "PODS",
    "CPU",
    "CPU-REQ",
    "CPU-REC",
    "MEMORY",
    "MEM-REQ",
    "MEM-REC",
    "LIMIT%",
    "WASTE/MO",
    "RISK",
)
_LEFT_ALIGNED: Final = ("NAMESPACE", "WORKLOAD", "RISK")
# Columns to leave out where they do not fit, in this order.
_DISPENSABLE: Final = ("PODS", "CPU-REC", "MEM-REC", "LIMIT%", "CPU-REQ", "MEM-REQ", "NAMESPACE")
_SHORTEST_NAME: Final = 14
_SHORT_KINDS: Final = {
    "Deployment": "deploy",
    "StatefulSet": "sts",
    "DaemonSet": "ds",
    "ReplicaSet": "rs",
    "ReplicationController": "rc",
    "CronJob": "cj",
    "Job": "job",
    "Pod": "pod",
}


def format_ranking(ranking: WorkloadRanking, *, headers: bool = True, top: int = 0, width: int = 0) -> list[str]:
    """The table; a width of zero keeps all columns, for programs."""
    rows = ranking.rows[:top] if top else ranking.rows
    if not rows:
        return ["no workload found"] if headers else []
    cells = [_build_cells(row) for row in rows]
    if headers:
        cells = [list(_HEADS), *cells, _build_total(ranking)]
    return _align(cells, width, has_one_namespace=len({row.namespace for row in rows}) == 1)


def _align(cells: list[list[str]], width: int, *, has_one_namespace: bool) -> list[str]:
    longest = max(len(row[1]) for row in cells)
    # Where all workloads are in one namespace, its column tells nothing.
    dispensable = ("NAMESPACE", *_DISPENSABLE[:-1]) if has_one_namespace else _DISPENSABLE

    def tables() -> Iterator[list[str]]:
        for left_out in range(len(dispensable) + 1):
            kept = [number for number, head in enumerate(_HEADS) if head not in dispensable[:left_out]]
            shortest = min(longest, 24 if left_out < len(dispensable) else _SHORTEST_NAME)
            for length in range(longest, shortest - 1, -1):
                table = [[row[0], shorten(row[1], length), *row[2:]] for row in cells]
                yield _align_kept(table, kept)

    if not width:
        return next(tables())
    stacked = partial(_stack, cells[1:], width) if cells[0] == list(_HEADS) else None
    return choose_fitting(tables(), width, stacked)


def _stack(cells: list[list[str]], width: int) -> list[str]:
    """Each workload with its figures below one another."""
    rows = [["/".join(filter(None, row[:2])), *row[2:]] for row in cells]
    return stack_rows(_HEADS[1:], rows, width)


def _align_kept(table: Sequence[Sequence[str]], kept: Sequence[int]) -> list[str]:
    """Names are aligned left, figures right."""
    widths = {number: max(len(row[number]) for row in table) for number in kept}
    rows = [
        [
            row[number].ljust(widths[number]) if _HEADS[number] in _LEFT_ALIGNED else row[number].rjust(widths[number])
            for number in kept
        ]
        for row in table
    ]
    return align_columns(rows, left_aligned=len(kept))


def _build_cells(row: WorkloadWaste) -> list[str]:
    return [
        row.namespace,
        f"{_SHORT_KINDS.get(row.kind, row.kind.lower())}/{row.name}",
        str(row.pods),
        _format_cpu(row.usage),
        _format_cpu(row.requests),
        _format_cpu(row.recommended),
        _format_memory(row.usage),
        _format_memory(row.requests),
        _format_memory(row.recommended),
        _NONE if math.isnan(row.limit_share) else f"{row.limit_share * 100:.0f}%",
        format_money(row.waste),
        row.risk or _NONE,
    ]


def _build_total(ranking: WorkloadRanking) -> list[str]:
    totals = ranking.totals
    return [
        "",
        f"total ({len(ranking.rows)})",
        str(totals.pods),
        _format_cpu(totals.usage),
        _format_cpu(totals.requests),
        "",
        _format_memory(totals.usage),
        _format_memory(totals.requests),
        "",
        "",
        format_money(totals.waste),
        "",
    ]


def _format_cpu(amount: ResourceAmount) -> str:
    return _NONE if math.isnan(amount.cpu) else f"{math.ceil(amount.cpu - 1e-6)}m"


def _format_memory(amount: ResourceAmount) -> str:
    return _NONE if math.isnan(amount.memory) else f"{math.ceil(amount.memory / _MIB - 1e-6)}Mi"


_CSV_COLUMNS: Final = (
    "namespace",
    "kind",
    "name",
    "pods",
    "cpuMillicores",
    "cpuRequestMillicores",
    "cpuRecommendedMillicores",
    "memoryBytes",
    "memoryRequestBytes",
    "memoryRecommendedBytes",
    "memoryLimitShare",
    "wastePerMonth",
    "costPerMonth",
    "risk",
)


def build_ranking_rows(ranking: WorkloadRanking, top: int = 0) -> list[dict[str, Any]]:
    """The workloads as documents; unknown values are null."""
    rows = ranking.rows[:top] if top else ranking.rows
    return [dict(zip(_CSV_COLUMNS, map(_to_json, _list_values(row)), strict=True)) for row in rows]


def build_ranking_document(ranking: WorkloadRanking, top: int = 0) -> dict[str, Any]:
    """The ranking as a document. The keys are part of the interface."""
    totals = ranking.totals
    return {
        "kind": "WorkloadRanking",
        "formatVersion": 1,
        "currency": ranking.prices.currency,
        "workloads": build_ranking_rows(ranking, top),
        "totals": {
            "workloads": len(ranking.rows),
            "pods": totals.pods,
            "cpuMillicores": _to_json(totals.usage.cpu),
            "cpuRequestMillicores": _to_json(totals.requests.cpu),
            "memoryBytes": _to_json(totals.usage.memory),
            "memoryRequestBytes": _to_json(totals.requests.memory),
            "wastePerMonth": _to_json(totals.waste),
            "costPerMonth": _to_json(totals.cost),
        },
        "missing": [str(missing) for missing in ranking.missing],
    }


def encode_ranking_csv(ranking: WorkloadRanking, top: int = 0) -> str:
    """The ranking as CSV."""
    rows = ranking.rows[:top] if top else ranking.rows
    return encode_csv(_CSV_COLUMNS, (_list_values(row) for row in rows))


def _list_values(row: WorkloadWaste) -> list[Any]:
    return [
        row.namespace,
        row.kind,
        row.name,
        row.pods,
        row.usage.cpu,
        row.requests.cpu,
        row.recommended.cpu,
        row.usage.memory,
        row.requests.memory,
        row.recommended.memory,
        row.limit_share,
        row.waste,
        row.cost,
        row.risk,
    ]


def _to_json(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value
