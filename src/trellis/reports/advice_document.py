"""Advice for programs: one document with everything in it for JSON and YAML, and rows for CSV.

Sizes are text as manifests have them, differences are numbers of cores and bytes for all pods together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from trellis.base.times import format_time
from trellis.core.advice.advised import Advised, ContainerAdvice, Totals, WorkloadAdvice
from trellis.core.advice.judging import Change
from trellis.core.advice.manifests import quantity
from trellis.core.advice.policy import RESOURCES, part
from trellis.core.advice.scale_points import ScalePoint
from trellis.core.advice.surveyed import Amount
from trellis.reports.manifests import as_yaml as yaml_of
from trellis.reports.result_files import Cell, csv_document

Document = dict[str, Any]

_COLUMNS = (
    "namespace",
    "kind",
    "workload",
    "container",
    "severity",
    "reason",
    "pods",
    *(
        f"{resource}_{what}"
        for resource in RESOURCES
        for what in ("reason", "request_before", "request", "limit_before", "limit", "difference")
    ),
    "money_month",
    "days",
    "samples",
    "confidence",
    "kills",
    *(f"{resource}_capped_by" for resource in RESOURCES),
)


def as_json(advised: Advised) -> bytes:
    """Indented, because people read it too. The keys are part of the interface."""
    return msgspec.json.format(msgspec.json.encode(document(advised)), indent=2) + b"\n"


def as_yaml(advised: Advised) -> str:
    """The same as YAML."""
    return yaml_of([document(advised)])


def as_csv(advised: Advised) -> str:
    """A row for each container, what matters most first; CPU in cores, memory in bytes."""
    return csv_document(_COLUMNS, _rows(advised))


def document(advised: Advised) -> Document:
    """Everything; what is not known is null."""
    surveyed = advised.surveyed
    order = {id(row.workload): number for number, row in reversed(list(enumerate(advised.rows)))}
    ranked = sorted(advised.workloads, key=lambda each: order.get(id(each), len(order)))
    prices = advised.prices
    return {
        "kind": "Advice",
        "formatVersion": 1,
        "time": format_time(datetime.fromtimestamp(advised.now, UTC)),
        "source": surveyed.source,
        "recommender": surveyed.recommender,
        "parameters": dict(advised.parameters),
        "limits": {resource: str(advised.policy.limits.rule(resource)) for resource in RESOURCES},
        "prices": {"currency": prices.currency, "coreHour": prices.core_hour, "gibHour": prices.gib_hour},
        "partial": surveyed.is_partial,
        "total": _totals(advised.total),
        "namespaces": [{"namespace": name, **_totals(total)} for name, total in advised.namespaces],
        "workloads": [_workload(each) for each in ranked],
        "missing": [{"what": each.what, "where": each.where, "why": each.why} for each in surveyed.missing],
        "notes": list(surveyed.notes),
        "effort": {
            "queries": surveyed.effort.queries,
            "repeated": surveyed.effort.repeated,
            "samples": surveyed.effort.samples,
            "queriesOneByOne": surveyed.effort.one_by_one,
        },
    }


def _totals(total: Totals) -> Document:
    return {
        "workloads": total.workloads,
        "containers": total.containers,
        "pods": total.pods,
        "before": _amounts(total.before) | {"money": _number(total.money_before, 2)},
        "after": _amounts(total.after) | {"money": _number(total.money_after, 2)},
        "saved": _amounts(total.saved) | {"money": _number(total.money_saved, 2)},
        "short": _amounts(total.short) | {"money": _number(total.money_short, 2)},
        "savedShare": _number(total.saved_share, 4),
        "reasons": dict(total.reasons),
    }


def _amounts(amount: Amount) -> Document:
    return {resource: _plain(resource, part(amount, resource)) for resource in RESOURCES}


def _plain(resource: str, value: float) -> float | int | None:
    """Cores or whole bytes."""
    if math.isnan(value):
        return None
    return round(value / 1000, 6) if resource == "cpu" else round(value)


def _number(value: float, places: int) -> float | None:
    return None if math.isnan(value) else round(value, places)


def _workload(advice: WorkloadAdvice) -> Document:
    each = advice.surveyed
    identity = {"namespace": each.namespace, "apiVersion": each.api_version, "kind": each.kind, "name": each.name}
    group = {"group": each.group, "members": each.members} if each.group else {}
    return {
        **identity,
        **group,
        "pods": advice.pods,
        "verticalPodAutoscalers": list(each.vpas),
        "containers": [_container(container) for container in advice.containers],
        "scalePoints": [_scale_point(point) for point in advice.scale_points],
    }


def _container(advice: ContainerAdvice) -> Document:
    surveyed = advice.surveyed
    return {
        "name": surveyed.name,
        "severity": str(advice.reason.severity),
        "reason": advice.reason.code,
        "cpu": _change("cpu", advice.cpu, advice.difference.cpu),
        "memory": _change("memory", advice.memory, advice.difference.memory),
        "moneyMonth": _number(advice.money, 2),
        "days": _number(surveyed.days, 2),
        "samples": surveyed.samples,
        "confidence": _number(surveyed.estimate.confidence, 3),
        "kills": surveyed.kills,
        "highest": {resource: _text(resource, part(surveyed.highest, resource)) for resource in RESOURCES},
        "podsOfOtherSizes": surveyed.differing,
        "said": _said(surveyed.estimate.said),
    }


def _said(said: Mapping[str, float | str]) -> Document:
    return {name: _number(value, 6) if isinstance(value, float) else value for name, value in said.items()}


def _change(resource: str, change: Change, difference: float) -> Document:
    return {
        "reason": change.reason.code,
        "request": _step(resource, change.request_before, change.request),
        "limit": _step(resource, change.limit_before, change.limit),
        "difference": _plain(resource, difference),
        "found": _text(resource, change.found),
        "cappedBy": _capped(change),
    }


def _capped(change: Change) -> str | None:
    return change.capped.code if change.capped is not None else None


def _step(resource: str, before: float, after: float) -> Document:
    return {"from": _text(resource, before), "to": _text(resource, after)}


def _text(resource: str, value: float) -> str | None:
    return None if math.isnan(value) else str(quantity(resource, value))


def _scale_point(point: ScalePoint) -> Document:
    return {
        "reason": point.reason.code,
        "hpa": point.hpa,
        "resource": point.resource,
        "container": point.container or None,
        "utilization": point.utilization,
        "usage": _step(point.resource, point.before, point.after),
        "keptByUtilization": _number(point.keeps, 0),
    }


def _rows(advised: Advised) -> Iterator[list[Cell]]:
    for row in advised.rows:
        workload, advice = row.workload.surveyed, row.container
        cells: list[Cell] = [workload.namespace, workload.kind, workload.name, advice.surveyed.name]
        cells += [str(advice.reason.severity), advice.reason.code, row.workload.pods]
        for resource in RESOURCES:
            change = advice.of(resource)
            amounts = (change.request_before, change.request, change.limit_before, change.limit)
            cells += [change.reason.code, *(_plain(resource, value) for value in amounts)]
            cells.append(_plain(resource, part(advice.difference, resource)))
        surveyed = advice.surveyed
        cells += [_number(advice.money, 2), _number(surveyed.days, 2), surveyed.samples]
        cells += [_number(surveyed.estimate.confidence, 3), surveyed.kills]
        yield [*cells, *(_capped(advice.of(resource)) for resource in RESOURCES)]
