"""Metrics of the Buffer controller. Reasons are labels, as in Events and conditions.

All Buffers are counted by reason; a limited number of them, the first by name, have series of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from trellis.api.kinds.buffer import Buffer
from trellis.base.errors import InvalidInput
from trellis.base.times import parse_time
from trellis.controllers.buffers.state import BufferStates
from trellis.core.cluster.store import key_of
from trellis.core.nodes.scale_up.decisions import BufferDecision
from trellis.kube.watch.informer import Informer
from trellis.runtime.telemetry.cluster_metrics import CLUSTER_METRICS
from trellis.runtime.telemetry.metrics import (
    BUFFER_LABELS,
    REASON,
    CounterSpec,
    GaugeSpec,
    Label,
    Metrics,
    Spec,
    execution_latency,
)

# The step of a pass before metrics are exported.
RECONCILE: Final = "reconcile"
# Results of dry runs.
MADE: Final = "made"
REFUSED: Final = "refused"

LATENCY: Final = execution_latency("trellis_buffers", RECONCILE)
REASONS: Final = GaugeSpec("trellis_buffers_objects", "Buffers by their last result.", (REASON,))
NOTES: Final = GaugeSpec("trellis_buffers_noted_objects", "Buffers with a note or warning, by reason.", (REASON,))
WANTED: Final = GaugeSpec("trellis_buffers_wanted_chunks", "Chunks that a Buffer's capacity specifies.", BUFFER_LABELS)
CHUNKS: Final = GaugeSpec(
    "trellis_buffers_chunks", "Chunks of a Buffer after schedule, limits and quotas.", BUFFER_LABELS
)
LAST_FULL: Final = GaugeSpec(
    "trellis_buffers_last_full_timestamp_seconds",
    "Time at which all chunks of a Buffer last fit on ready nodes, from its status.",
    BUFFER_LABELS,
)
LAST_CHANGE: Final = GaugeSpec(
    "trellis_buffers_last_change_timestamp_seconds",
    "Time at which the Buffer controller last changed the status of a Buffer.",
    BUFFER_LABELS,
)
PROVISIONED: Final = GaugeSpec(
    "trellis_buffers_provisioned_chunks",
    "Chunks of a Buffer that fit on ready nodes, if no trellis nodes runs.",
    BUFFER_LABELS,
)
PRICE: Final = GaugeSpec(
    "trellis_buffers_price_per_hour",
    "Hourly cost of the chunks of a Buffer on nodes, if no trellis nodes runs.",
    BUFFER_LABELS,
)
HITS: Final = CounterSpec(
    "trellis_buffers_hits_total",
    "Pods that were scheduled to the place of a chunk, if no trellis nodes runs.",
    BUFFER_LABELS,
)
MISSES: Final = CounterSpec(
    "trellis_buffers_misses_total",
    "Pods that are pending although they match a chunk that should have fit, if no trellis nodes runs.",
    BUFFER_LABELS,
)
SERVED: Final = GaugeSpec(
    "trellis_buffers_capacity_buffers",
    "Served CapacityBuffers by their last result.",
    (REASON,),
)
TRANSLATIONS: Final = CounterSpec("trellis_buffers_translations_total", "Translations of Buffers into chunks.")
DRY_RUNS: Final = CounterSpec(
    "trellis_buffers_dry_runs_total",
    "Dry runs of template pods at the API server.",
    (Label("result", values=(MADE, REFUSED)),),
)
FAILURES: Final = CounterSpec(
    "trellis_buffers_failures_total", "Reconciliations that ended with an internal error; each is a bug, and logged."
)

BUFFER_METRICS: Final[tuple[Spec, ...]] = (
    LATENCY,
    REASONS,
    NOTES,
    WANTED,
    CHUNKS,
    LAST_FULL,
    LAST_CHANGE,
    PROVISIONED,
    PRICE,
    HITS,
    MISSES,
    SERVED,
    TRANSLATIONS,
    DRY_RUNS,
    FAILURES,
    *CLUSTER_METRICS,
)


def export_buffers(metrics: Metrics, buffers: Informer[Buffer], states: BufferStates, most: int) -> None:
    """Export the number of Buffers by reason; `most` of them, the first by name, have series of their own."""
    reasons: Counter[tuple[str, ...]] = Counter()
    notes: Counter[tuple[str, ...]] = Counter()
    exported: dict[GaugeSpec, dict[tuple[str, ...], float]] = {
        spec: {} for spec in (WANTED, CHUNKS, LAST_FULL, LAST_CHANGE)
    }
    for key, state in sorted(states.all(), key=lambda item: item[0]):
        if state.reason_code:
            reasons[(state.reason_code,)] += 1
        notes.update((note,) for note in state.notes)
        if state.within_quotas is None or len(exported[WANTED]) >= most:
            continue
        exported[WANTED][key] = float(state.within_quotas.requested)
        exported[CHUNKS][key] = float(state.within_quotas.chunks)
        full = _read_last_provisioned(buffers.get(*key))
        if full is not None:
            exported[LAST_FULL][key] = full.timestamp()
        if state.changed is not None:
            exported[LAST_CHANGE][key] = state.changed
    metrics.set_all(REASONS, {labels: float(count) for labels, count in reasons.items()})
    metrics.set_all(NOTES, {labels: float(count) for labels, count in notes.items()})
    for spec, values in exported.items():
        metrics.set_all(spec, values)


def _read_last_provisioned(buffer: Buffer | None) -> datetime | None:
    text = buffer.status.last_fully_provisioned if buffer is not None and buffer.status is not None else None
    try:
        return parse_time(text) if text else None
    except InvalidInput:
        return None


_HEADROOM_GAUGES: Final = (PROVISIONED, PRICE)


def export_headroom(
    metrics: Metrics, decisions: Sequence[BufferDecision], buffers: Iterable[Buffer], most: int
) -> None:
    """Export the observed headroom; `most` Buffers, the first by name, have series of their own."""
    exported = sorted(decisions, key=lambda decision: decision.key)[:most]
    metrics.remove_deleted(BUFFER_LABELS, {key_of(buffer) for buffer in buffers})
    metrics.set_all(PROVISIONED, {decision.key: float(decision.on_ready) for decision in exported})
    metrics.set_all(PRICE, {decision.key: decision.price for decision in exported})
    for decision in exported:
        metrics.add(HITS, decision.hits, *decision.key)
        metrics.add(MISSES, decision.misses, *decision.key)


def clear_headroom(metrics: Metrics) -> None:
    """Remove the gauges of headroom, because another process observes now."""
    for spec in _HEADROOM_GAUGES:
        metrics.set_all(spec, {})
