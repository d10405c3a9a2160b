"""The metrics of a process: its own, and those of its components as one text.

What only one component has keeps its name and its labels. Of what all of them have, such as the state of informers,
each series gets a label `component`, in a process of one component as in one of several: a query works for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import Metric

from trellis.runtime.telemetry.cluster_metrics import CLUSTER_METRICS, COMPONENT, SHARD_METRICS
from trellis.runtime.telemetry.exposition import format_families
from trellis.runtime.telemetry.metrics import GaugeSpec, Label, Metrics, Spec

READY: Final = GaugeSpec("trellis_component_ready", "1 if the component is ready, else 0.", (COMPONENT,))
NOT_READY: Final = GaugeSpec(
    "trellis_component_not_ready",
    "1 while the component is not ready, by reason.",
    (
        COMPONENT,
        Label(
            "reason",
            "`starting`, `lease-lost`, `handed-over`, `failed`, `reconfigured`, or the readiness check that fails",
        ),
    ),
)
READINESS_METRICS: Final[tuple[Spec, ...]] = (READY, NOT_READY)

# A family of counters has its name without this suffix.
_TOTAL: Final = "_total"
_COMMON_SPECS: Final = (*CLUSTER_METRICS, *SHARD_METRICS)
_COMMON: Final = frozenset(spec.name.removesuffix(_TOTAL) for spec in _COMMON_SPECS)


def list_exposed_labels(spec: Spec) -> tuple[str, ...]:
    """The labels of a metric as it is scraped."""
    is_common = spec in _COMMON_SPECS and COMPONENT not in spec.labels
    return (COMPONENT, *spec.labels) if is_common else spec.labels


def export_readiness(metrics: Metrics, reasons: Mapping[str, str | None]) -> None:
    """Set the gauges of readiness: for each component why it is not ready, or None."""
    metrics.set_all(READY, {(name,): float(reason is None) for name, reason in reasons.items()})
    metrics.set_all(NOT_READY, {(name, reason): 1.0 for name, reason in reasons.items() if reason is not None})


class ProcessMetrics:
    """The metrics of a process and of its components; `components` lists those that run now."""

    def __init__(self, own: Metrics, components: Callable[[], Mapping[str, Metrics]]) -> None:
        self._own = own
        self._components = components

    def flush(self) -> None:
        """Add all accumulated counts. Call it on the event loop before metrics are read."""
        self._own.flush()
        for metrics in self._components().values():
            metrics.flush()

    def format_text(self) -> bytes:
        """All metrics in Prometheus's text format."""
        components = self._components()
        families = [*self._own.collect(), *_merge({name: metrics.collect() for name, metrics in components.items()})]
        names = {name for metrics in (self._own, *components.values()) for name in metrics.names}
        return format_families(families, names)


def _merge(collected: Mapping[str, Iterable[Metric]]) -> list[Metric]:
    """Every family once; the samples of those that all components have say whose they are."""
    merged: dict[str, Metric] = {}
    for component, families in collected.items():
        for family in families:
            if family.name in _COMMON:
                family.samples = [
                    sample._replace(labels={**sample.labels, COMPONENT: component}) for sample in family.samples
                ]
            if family.name in merged:
                merged[family.name].samples += family.samples
            else:
                merged[family.name] = family
    return list(merged.values())
