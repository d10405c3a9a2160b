"""The report of advised requests as JSON, YAML and CSV; the entry point of all its formats.

Sizes are text as manifests have them; differences are numbers of cores and bytes for all pods together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from trellis.base.times import format_time
from trellis.core.advice.hpa_scale_points import HpaScalePoint
from trellis.core.advice.manifests import convert_quantity
from trellis.core.advice.policy import RESOURCES, select_resource
from trellis.core.advice.results import AdviceTotals, ContainerAdvice, SurveyAdvice, WorkloadAdvice
from trellis.core.advice.sizes import ResourceAdvice
from trellis.core.advice.survey.model import ResourceAmount
from trellis.reports.advice.manifests import ManifestFiles, ManifestForm, build_manifest_files
from trellis.reports.advice.page import as_html
from trellis.reports.advice.text import as_markdown, as_text
from trellis.reports.advice.wording import format_workload_name
from trellis.reports.formats import CsvCell, encode_csv, encode_indented, encode_yaml, output_formats
from trellis.reports.html.documentation import UNPUBLISHED, Documentation

AdviceDocument = dict[str, Any]

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


def as_json(advised: SurveyAdvice) -> bytes:
    """The advice for scripts. The keys are part of the interface."""
    return encode_indented(build_document(advised))


def as_yaml(advised: SurveyAdvice) -> str:
    """The advice as YAML."""
    return encode_yaml([build_document(advised)])


def as_csv(advised: SurveyAdvice) -> str:
    """A row for each container, the most important first; CPU in cores, memory in bytes."""
    return encode_csv(_COLUMNS, _rows(advised))


def build_document(advised: SurveyAdvice) -> AdviceDocument:
    """The advice as a document; unknown figures are null."""
    surveyed = advised.surveyed
    order = {id(row.workload): number for number, row in reversed(list(enumerate(advised.rows)))}
    ranked = sorted(advised.workloads, key=lambda workload: order.get(id(workload), len(order)))
    prices = advised.prices
    return {
        "kind": "Advice",
        "formatVersion": 1,
        "time": format_time(datetime.fromtimestamp(advised.now, UTC)),
        "source": surveyed.source,
        "recommender": surveyed.recommender,
        "parameters": dict(advised.parameters),
        "limits": {resource: str(advised.policy.limits.get_rule(resource)) for resource in RESOURCES},
        "prices": {"currency": prices.currency, "coreHour": prices.core_hour, "gibHour": prices.gib_hour},
        "partial": surveyed.is_partial,
        "total": _build_totals(advised.total),
        "namespaces": [{"namespace": name, **_build_totals(total)} for name, total in advised.namespaces],
        "workloads": [_build_workload(workload) for workload in ranked],
        "missing": [{"what": missing.what, "where": missing.where, "why": missing.why} for missing in surveyed.missing],
        "notes": list(surveyed.notes),
        "effort": {
            "queries": surveyed.effort.queries,
            "repeated": surveyed.effort.repeated,
            "samples": surveyed.effort.samples,
            "queriesOneByOne": surveyed.effort.queries_per_container,
        },
    }


def _build_totals(total: AdviceTotals) -> AdviceDocument:
    return {
        "workloads": total.workloads,
        "containers": total.containers,
        "pods": total.pods,
        "before": _build_amounts(total.before) | {"money": _round_number(total.money_before, 2)},
        "after": _build_amounts(total.after) | {"money": _round_number(total.money_after, 2)},
        "saved": _build_amounts(total.saved) | {"money": _round_number(total.money_saved, 2)},
        "short": _build_amounts(total.short) | {"money": _round_number(total.money_short, 2)},
        "savedShare": _round_number(total.saved_share, 4),
        "reasons": dict(total.reasons),
    }


def _build_amounts(amount: ResourceAmount) -> AdviceDocument:
    return {resource: _round_amount(resource, select_resource(amount, resource)) for resource in RESOURCES}


def _round_amount(resource: str, value: float) -> float | int | None:
    """Cores or whole bytes."""
    if math.isnan(value):
        return None
    return round(value / 1000, 6) if resource == "cpu" else round(value)


def _round_number(value: float, places: int) -> float | None:
    return None if math.isnan(value) else round(value, places)


def _build_workload(advice: WorkloadAdvice) -> AdviceDocument:
    surveyed = advice.surveyed
    identity = {
        "namespace": surveyed.namespace,
        "apiVersion": surveyed.api_version,
        "kind": surveyed.kind,
        "name": surveyed.name,
    }
    group = {"group": surveyed.group, "members": surveyed.members} if surveyed.group else {}
    return {
        **identity,
        **group,
        "pods": advice.pods,
        "verticalPodAutoscalers": list(surveyed.vpas),
        "containers": [_build_container(container) for container in advice.containers],
        "scalePoints": [_build_scale_point(point) for point in advice.scale_points],
    }


def _build_container(advice: ContainerAdvice) -> AdviceDocument:
    surveyed = advice.surveyed
    return {
        "name": surveyed.name,
        "severity": str(advice.reason.severity),
        "reason": advice.reason.code,
        "cpu": _build_change("cpu", advice.cpu, advice.difference.cpu),
        "memory": _build_change("memory", advice.memory, advice.difference.memory),
        "moneyMonth": _round_number(advice.money, 2),
        "days": _round_number(surveyed.days, 2),
        "samples": surveyed.samples,
        "confidence": _round_number(surveyed.estimate.confidence, 3),
        "kills": surveyed.kills,
        "highest": {
            resource: _format_amount(resource, select_resource(surveyed.highest, resource)) for resource in RESOURCES
        },
        "podsOfOtherSizes": surveyed.differing,
        "said": _build_explanation(surveyed.estimate.explanation),
    }


def _build_explanation(explanation: Mapping[str, float | str]) -> AdviceDocument:
    return {name: _round_number(value, 6) if isinstance(value, float) else value for name, value in explanation.items()}


def _build_change(resource: str, change: ResourceAdvice, difference: float) -> AdviceDocument:
    return {
        "reason": change.reason.code,
        "request": _build_step(resource, change.request_before, change.request),
        "limit": _build_step(resource, change.limit_before, change.limit),
        "difference": _round_amount(resource, difference),
        "found": _format_amount(resource, change.estimate),
        "cappedBy": _describe_cap(change),
    }


def _describe_cap(change: ResourceAdvice) -> str | None:
    return change.capped.code if change.capped is not None else None


def _build_step(resource: str, before: float, after: float) -> AdviceDocument:
    return {"from": _format_amount(resource, before), "to": _format_amount(resource, after)}


def _format_amount(resource: str, value: float) -> str | None:
    return None if math.isnan(value) else str(convert_quantity(resource, value))


def _build_scale_point(point: HpaScalePoint) -> AdviceDocument:
    return {
        "reason": point.reason.code,
        "hpa": point.hpa,
        "resource": point.resource,
        "container": point.container or None,
        "utilization": point.utilization,
        "usage": _build_step(point.resource, point.before, point.after),
        "keptByUtilization": _round_number(point.keeps, 0),
    }


def _rows(advised: SurveyAdvice) -> Iterator[list[CsvCell]]:
    for row in advised.rows:
        workload, advice = row.workload.surveyed, row.container
        cells: list[CsvCell] = [workload.namespace, workload.kind, workload.name, advice.surveyed.name]
        cells += [str(advice.reason.severity), advice.reason.code, row.workload.pods]
        for resource in RESOURCES:
            change = advice.get_resource(resource)
            amounts = (change.request_before, change.request, change.limit_before, change.limit)
            cells += [change.reason.code, *(_round_amount(resource, value) for value in amounts)]
            cells.append(_round_amount(resource, select_resource(advice.difference, resource)))
        surveyed = advice.surveyed
        cells += [_round_number(advice.money, 2), _round_number(surveyed.days, 2), surveyed.samples]
        cells += [_round_number(surveyed.estimate.confidence, 3), surveyed.kills]
        yield [*cells, *(_describe_cap(advice.get_resource(resource)) for resource in RESOURCES)]


__all__ = [
    "FORMATS",
    "ManifestFiles",
    "ManifestForm",
    "as_text",
    "build_manifest_files",
    "format_workload_name",
    "render_advice",
]


FORMATS = output_formats(text=as_text, json=as_json, yaml=as_yaml, csv=as_csv, html=as_html, markdown=as_markdown)


def render_advice(
    advised: SurveyAdvice, form: str, width: int = 100, top: int = 0, documentation: Documentation = UNPUBLISHED
) -> str:
    """The advice in one of the forms."""
    return FORMATS[form](advised, width, top, documentation)
