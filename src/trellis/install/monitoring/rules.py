"""Alert rules in Prometheus's form: groups for a rule file, or for the spec of a PrometheusRule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trellis.install.monitoring.alerts.alert import Alert, AlertGroup
from trellis.install.monitoring.alerts.capacity import CAPACITY_ALERTS
from trellis.install.monitoring.alerts.components import COMPONENT_ALERTS
from trellis.install.monitoring.alerts.sizing import SIZING_ALERTS

ALERT_GROUPS: Final[tuple[AlertGroup, ...]] = (COMPONENT_ALERTS, SIZING_ALERTS, CAPACITY_ALERTS)
ALERTS: Final[tuple[Alert, ...]] = tuple(alert for group in ALERT_GROUPS for alert in group.alerts)

# Where the pages of `docs/runbooks` are served, unless the installation says otherwise.
RUNBOOKS: Final = "https://example.com/trellis/docs/runbooks"


def alert_rules(*, runbooks: str = RUNBOOKS, labels: Mapping[str, str] = {}) -> dict[str, dict[str, Any]]:
    """The groups of alert rules by name.

    `runbooks` is the URL below which the runbook pages are served; `labels` are added to every alert, for routes of
    an Alertmanager.
    """
    return {
        group.name: {"name": group.name, "rules": [_build_rule(alert, runbooks, labels) for alert in group.alerts]}
        for group in ALERT_GROUPS
    }


def _build_rule(alert: Alert, runbooks: str, labels: Mapping[str, str]) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": alert.lasting,
        "labels": {"severity": str(alert.severity), **labels},
        "annotations": {
            "summary": alert.summary,
            "description": alert.description,
            "runbook_url": f"{runbooks.rstrip('/')}/{alert.name}.md",
        },
    }
