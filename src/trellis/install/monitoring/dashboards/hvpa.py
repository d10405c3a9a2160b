"""The dashboard of the Hvpa controller."""

from __future__ import annotations

from typing import Final

from trellis.install.monitoring.dashboards.panel import Dashboard, Row, Unit, graph, quantiles
from trellis.install.monitoring.dashboards.shared_rows import availability_row, cluster_state_row, process_row

_COMPONENT: Final = "hvpa"

_HVPAS: Final = Row(
    "Hvpas",
    (
        graph(
            "Hvpas by decision",
            "Hvpas by their last decision.",
            ("sum by (reason) (trellis_hvpa_objects{*})", "{{reason}}"),
            stack=True,
        ),
        graph(
            "Blocked steps",
            "Hvpas whose next step is blocked, by direction and reason.",
            (
                "sum by (direction, reason) (trellis_hvpa_blocked_objects{*}) or 0",
                "{{direction}} {{reason}}",
            ),
        ),
        graph(
            "Notes and warnings",
            "Hvpas with a note or warning, by reason.",
            ("sum by (reason) (trellis_hvpa_noted_objects{*}) or 0", "{{reason}}"),
        ),
    ),
)

_WORK: Final = Row(
    "Work",
    (
        graph(
            "Writes of replicas",
            "Writes of replicas to targets, by direction.",
            (
                "sum by (direction) (rate(trellis_hvpa_scalings_total{*}[$__rate_interval])) or 0",
                "{{direction}}",
            ),
            unit=Unit.PER_SECOND,
        ),
        graph(
            "Plans",
            "Plans computed, and reconciliations that ended with an internal error.",
            ("sum(rate(trellis_hvpa_plans_total{*}[$__rate_interval]))", "plans"),
            ("sum(rate(trellis_hvpa_failures_total{*}[$__rate_interval]))", "internal errors"),
            unit=Unit.PER_SECOND,
        ),
        graph(
            "Duration of passes",
            "Time spent in a pass over all Hvpas.",
            *quantiles("trellis_hvpa_execution_latency_seconds", 'step="total"'),
            unit=Unit.SECONDS,
        ),
    ),
)

HVPA_DASHBOARD: Final = Dashboard(
    name="trellis-hvpa",
    title="Trellis / Hvpa",
    description="What the Hvpa controller decides about replicas and sizes, and which steps are blocked.",
    rows=(
        availability_row(_COMPONENT),
        _HVPAS,
        _WORK,
        cluster_state_row(_COMPONENT),
        process_row(_COMPONENT),
    ),
)
