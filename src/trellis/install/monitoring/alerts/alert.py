"""An alert: its expression, how long it must hold, and what it says.

Expressions keep the labels that tell one installation from another: the cluster, where a Prometheus has several, and
the namespace of the scraped pods. Replicas are aggregated, because one of them is enough.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

# Labels that tell one installation from another.
INSTALLATION: Final = "cluster, namespace"
# And one component of it from another.
BY_COMPONENT: Final = f"by ({INSTALLATION}, component)"


class AlertSeverity(StrEnum):
    """How soon a person has to act."""

    # Now: pods are created with wrong sizes, or a component does nothing.
    CRITICAL = "critical"
    # Today: something works worse than it should, or stops working in days.
    WARNING = "warning"
    # When convenient.
    INFO = "info"


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """One alert. `lasting` is how long the expression must hold, in Prometheus's notation.

    `summary` is one line. `description` says what is wrong, with values, and what follows from it.
    """

    name: str
    expression: str
    lasting: str
    severity: AlertSeverity
    summary: str
    description: str


class AlertGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Alerts that Prometheus evaluates together."""

    name: str
    alerts: tuple[Alert, ...]
