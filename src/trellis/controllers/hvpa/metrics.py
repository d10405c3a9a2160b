"""Metrics of the Hvpa controller. Reasons are labels, as in Events and conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from trellis.controllers.hvpa.state import HvpaState
from trellis.core.hvpa import StepDirection
from trellis.runtime.telemetry.cluster_metrics import CLUSTER_METRICS
from trellis.runtime.telemetry.metrics import REASON, CounterSpec, GaugeSpec, Label, Metrics, Spec, execution_latency

# Directions of writes.
UP: Final = "Up"
DOWN: Final = "Down"

LATENCY: Final = execution_latency("trellis_hvpa", meaning="Time spent in a pass over all Hvpas.")
VERDICTS: Final = GaugeSpec("trellis_hvpa_objects", "Hvpas by their last decision.", (REASON,))
NOTES: Final = GaugeSpec("trellis_hvpa_noted_objects", "Hvpas with a note or warning, by reason.", (REASON,))
BLOCKED: Final = GaugeSpec(
    "trellis_hvpa_blocked_objects",
    "Hvpas whose next step is blocked.",
    (Label("direction", values=StepDirection), REASON),
)
PLANS: Final = CounterSpec("trellis_hvpa_plans_total", "Plans computed.")
SCALED: Final = CounterSpec(
    "trellis_hvpa_scalings_total", "Writes of replicas to targets.", (Label("direction", values=(UP, DOWN)),)
)
FAILURES: Final = CounterSpec(
    "trellis_hvpa_failures_total", "Reconciliations that ended with an internal error; each is a bug, and logged."
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


class HvpaGauges:
    """Counts Hvpas by decision, condition and blocked step. A series without any is set to 0 once."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._exported: set[tuple[GaugeSpec, tuple[str, ...]]] = set()

    def export(self, states: Iterable[HvpaState]) -> None:
        """Set the gauges to what is known of all Hvpas now."""
        counts: Counter[tuple[GaugeSpec, tuple[str, ...]]] = Counter()
        for state in states:
            if state.last_decision[0]:
                counts[VERDICTS, (state.last_decision[0],)] += 1
            counts.update((NOTES, (note,)) for note in state.notes)
            counts.update((BLOCKED, step) for step in state.blocked)
        for spec, labels in self._exported | set(counts):
            self._metrics.set(spec, float(counts[spec, labels]), *labels)
        self._exported = set(counts)
