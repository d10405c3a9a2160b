"""Metrics of the Hvpa controller. Reasons are labels, as in Events and conditions."""

from __future__ import annotations

from typing import Final

from trellis.runtime.telemetry.cluster_metrics import CLUSTER_METRICS
from trellis.runtime.telemetry.metrics import CounterSpec, GaugeSpec, Spec, execution_latency

LATENCY: Final = execution_latency("trellis_hvpa")
VERDICTS: Final = GaugeSpec("trellis_hvpa_objects", "Hvpas by what was last decided about them.", ("reason",))
NOTES: Final = GaugeSpec("trellis_hvpa_noted_objects", "Hvpas with a condition, by its type.", ("reason",))
BLOCKED: Final = GaugeSpec(
    "trellis_hvpa_blocked_objects", "Hvpas with a step that is held back.", ("direction", "reason")
)
PLANS: Final = CounterSpec("trellis_hvpa_plans_total", "Plans that were made.")
SCALED: Final = CounterSpec("trellis_hvpa_scalings_total", "Counts that were written to targets.", ("direction",))
FAILURES: Final = CounterSpec(
    "trellis_hvpa_failures_total", "Looks that ended with an error of our own; each of them is a bug, and logged."
)

HVPA_METRICS: Final[tuple[Spec, ...]] = (
    LATENCY,
    VERDICTS,
    NOTES,
    BLOCKED,
    PLANS,
    SCALED,
    FAILURES,
    *CLUSTER_METRICS,
)
