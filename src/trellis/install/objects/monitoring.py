"""Objects for the Prometheus operator and for Grafana."""

from __future__ import annotations

import json
from typing import Any, Final

from trellis.install.monitoring import alert_rules, dashboards
from trellis.install.objects.conditions import PROCESSES, Process
from trellis.install.objects.metadata import build_metadata, build_selector
from trellis.install.tree.nodes import (
    NAMESPACE,
    Expression,
    Named,
    Tree,
    Value,
    When,
    all_of,
    any_of,
    extend,
    format_text,
)

_OPERATOR: Final = "monitoring.coreos.com/v1"
_RUNS_ANYTHING: Final = Named("runs.anything", any_of(*(process.installed for process in PROCESSES)))


def build_pod_monitor() -> list[Tree]:
    """Tells Prometheus which pods to scrape."""
    monitor = {
        "apiVersion": _OPERATOR,
        "kind": "PodMonitor",
        "metadata": _label(build_metadata("trellis"), Value("podMonitor.labels")),
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": "trellis"}},
            "namespaceSelector": {"matchNames": [NAMESPACE]},
            "podMetricsEndpoints": [{"port": "prometheus", "interval": Value("podMonitor.interval")}],
        },
    }
    return [When(all_of(Value("podMonitor.enabled"), _RUNS_ANYTHING), monitor)]


def build_service_monitor() -> list[Tree]:
    """Tells Prometheus which Services to scrape, and these Services."""
    monitor = {
        "apiVersion": _OPERATOR,
        "kind": "ServiceMonitor",
        "metadata": _label(build_metadata("trellis"), Value("serviceMonitor.labels")),
        "spec": {
            # The Service of the webhook has no port of this name.
            "selector": {"matchLabels": {"app.kubernetes.io/name": "trellis"}},
            "namespaceSelector": {"matchNames": [NAMESPACE]},
            "endpoints": [{"port": "prometheus", "interval": Value("serviceMonitor.interval")}],
        },
    }
    enabled = Value("serviceMonitor.enabled")
    services = [When(all_of(enabled, process.installed), _build_metrics_service(process)) for process in PROCESSES]
    return [*services, When(all_of(enabled, _RUNS_ANYTHING), monitor)]


def _build_metrics_service(process: Process) -> Tree:
    """Finds the replicas of a Deployment, also those that are not ready: their metrics say why."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": build_metadata(f"{process.name}-metrics", labels={"app.kubernetes.io/component": process.label}),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": build_selector(process),
            "ports": [{"name": "prometheus", "port": process.port, "targetPort": "prometheus", "protocol": "TCP"}],
        },
    }


def build_alerts() -> list[Tree]:
    """The alerts, for the Prometheus operator."""
    rule = {
        "apiVersion": _OPERATOR,
        "kind": "PrometheusRule",
        "metadata": _label(build_metadata("trellis"), Value("prometheusRule.labels")),
        "spec": {"groups": [group | {"rules": list(map(_link, group["rules"]))} for group in alert_rules().values()]},
    }
    return [When(all_of(Value("prometheusRule.enabled"), _RUNS_ANYTHING), rule)]


def build_dashboards() -> list[Tree]:
    """A ConfigMap for each dashboard, which a sidecar of Grafana finds by its labels."""
    config_maps: list[Tree] = []
    for name, dashboard in dashboards().items():
        annotations = Value("grafanaDashboards.annotations")
        metadata = build_metadata(f"{name}-dashboard", annotations=When(annotations, annotations))
        config_maps.append(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": _label(metadata, Value("grafanaDashboards.labels")),
                "data": {f"{name}.json": json.dumps(dashboard, indent=1) + "\n"},
            }
        )
    return [When(all_of(Value("grafanaDashboards.enabled"), _RUNS_ANYTHING), config_maps)]


def _link(rule: dict[str, Any]) -> Tree:
    """A rule whose runbook is where the installation says."""
    url = format_text(f"%s/{rule['alert']}.md", Value("prometheusRule.runbooks"))
    return rule | {"annotations": rule["annotations"] | {"runbook_url": url}}


def _label(metadata: Tree, value: Expression) -> Tree:
    """Metadata with the labels of a value, by which another program finds the object."""
    return metadata | {"labels": extend(metadata["labels"].base, Value("labels"), value)}
