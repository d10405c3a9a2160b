"""Every expression of alerts and dashboards names metrics, labels and values that components declare."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import pytest

from monitoring.metrics_page import METRICS_BY_COMPONENT, list_process_metrics
from trellis.base.reasons import Reason
from trellis.core.recommend.registry import create_built_in_recommenders  # noqa: F401 - declares reasons
from trellis.install.monitoring.dashboards.grafana import DASHBOARDS
from trellis.install.monitoring.rules import ALERTS
from trellis.runtime.manager.metrics import PROCESS_METRICS
from trellis.runtime.telemetry.component_metrics import list_exposed_labels
from trellis.runtime.telemetry.metrics import HistogramSpec, Label, Spec

# Labels that Prometheus gives to what it scrapes.
SCRAPED = frozenset({"cluster", "namespace", "job", "instance"})
# Metrics of others, with the labels that are used here: of the API server, and of Prometheus itself.
FOREIGN: Mapping[str, frozenset[str]] = {
    "apiserver_admission_webhook_fail_open_count": frozenset({"name", "type"}),
    "apiserver_admission_webhook_rejection_count": frozenset({"name", "type", "error_type"}),
    "ALERTS": frozenset({"alertname", "alertstate", "severity", "component"}),
}

SELECTOR = re.compile(r"\b(?P<name>(?:trellis|vpa|process|python|apiserver)_\w+|ALERTS)\b(?:\{(?P<matchers>[^}]*)\})?")
MATCHER = re.compile(r'(?P<label>\w+)(?:=~|!~|!=|=)"(?P<value>[^"]*)"')
GROUPING = re.compile(r"\b(?:by|on|ignoring)\s*\((?P<labels>[^)]*)\)")
TEXT = re.compile(r'"[^"]*"')


def declared() -> dict[str, tuple[str, ...]]:
    """The series of every metric with their labels, as they are scraped."""
    specs: list[Spec] = [spec for specs in (*METRICS_BY_COMPONENT.values(), PROCESS_METRICS) for spec in specs]
    series = {name: labels for name, _, labels, _ in list_process_metrics()}
    for spec in specs:
        labels = list_exposed_labels(spec)
        if isinstance(spec, HistogramSpec):
            series |= {f"{spec.name}_bucket": (*labels, "le"), f"{spec.name}_sum": labels, f"{spec.name}_count": labels}
        else:
            series[spec.name] = labels
    return series | {name: tuple(labels) for name, labels in FOREIGN.items()}


DECLARED = declared()


def list_expressions() -> Iterator[tuple[str, str]]:
    for alert in ALERTS:
        yield alert.name, alert.expression
    for dashboard in DASHBOARDS:
        for row in dashboard.rows:
            for panel in row.panels:
                for query in panel.queries:
                    yield f"{dashboard.name}: {panel.title}", query.filtered


EXPRESSIONS = list(list_expressions())


@pytest.mark.parametrize(("place", "expression"), EXPRESSIONS, ids=[place for place, _ in EXPRESSIONS])
def test_an_expression_names_what_exists(place: str, expression: str) -> None:
    labels = set(SCRAPED)
    selectors = list(SELECTOR.finditer(expression))
    assert selectors, place
    for selector in selectors:
        name = selector["name"]
        assert name in DECLARED, f"{place}: no component has the metric {name}"
        labels |= set(DECLARED[name])
        for matcher in MATCHER.finditer(selector["matchers"] or ""):
            check_matcher(place, name, matcher["label"], matcher["value"])
    for grouping in GROUPING.finditer(TEXT.sub("", expression)):
        for label in filter(None, (label.strip() for label in grouping["labels"].split(","))):
            assert label in labels, f"{place}: none of its metrics has the label {label}"


def check_matcher(place: str, name: str, label: str, value: str) -> None:
    assert label in SCRAPED | set(DECLARED[name]), f"{place}: {name} has no label {label}"
    known = next(one for one in (*DECLARED[name], label) if one == label)
    if isinstance(known, Label) and known.values and not value.startswith("$"):
        for part in value.split("|"):
            assert part in known.values, f"{place}: the label {label} of {name} is never {part}"


def test_reasons_in_expressions_are_declared() -> None:
    reasons = {
        matcher["value"]
        for _, expression in EXPRESSIONS
        for selector in SELECTOR.finditer(expression)
        for matcher in MATCHER.finditer(selector["matchers"] or "")
        if matcher["label"] == "reason"
    }
    assert reasons == {"EvictionLoop", "Frozen"}
    from trellis.core.resize.freeze import FROZEN
    from trellis.core.resize.state.attempts import EVICTION_LOOP

    declared_reasons: list[Reason] = [FROZEN, EVICTION_LOOP]
    assert {reason.code for reason in declared_reasons} == reasons
