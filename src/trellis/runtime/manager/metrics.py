"""Metrics of a process of several components, beside those of its components."""

from __future__ import annotations

from typing import Final

from trellis.runtime.manager.configuration.metrics import CONFIGURATION_METRICS
from trellis.runtime.telemetry.cluster_metrics import COMPONENT
from trellis.runtime.telemetry.component_metrics import READINESS_METRICS
from trellis.runtime.telemetry.metrics import CounterSpec, GaugeSpec, Label, Spec

RESTARTS: Final = CounterSpec(
    "trellis_component_restarts_total",
    "Restarts of the component in its process, by reason.",
    (COMPONENT, Label("reason", values=("lease-lost", "handed-over", "failed", "reconfigured"))),
)
REPLICAS: Final = GaugeSpec("trellis_replicas", "Live replicas over which leaders are spread, this one among them.")
PROCESS_METRICS: Final[tuple[Spec, ...]] = (*READINESS_METRICS, RESTARTS, REPLICAS, *CONFIGURATION_METRICS)
