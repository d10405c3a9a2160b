"""Which metrics does the Buffer controller have? Reasons are labels, as in Events and conditions."""

from __future__ import annotations

from typing import Final

from trellis.runtime.cluster_metrics import CLUSTER_METRICS
from trellis.runtime.metrics import CounterSpec, GaugeSpec, Spec
from trellis.runtime.steps import execution_latency

BUFFER: Final = ("namespace", "name")

LATENCY: Final = execution_latency("trellis_buffers")
VERDICTS: Final = GaugeSpec("trellis_buffers_objects", "Buffers by what was last found about them.", ("reason",))
NOTES: Final = GaugeSpec("trellis_buffers_noted_objects", "Buffers with something to note, by reason.", ("reason",))
WANTED: Final = GaugeSpec("trellis_buffers_wanted_chunks", "Chunks that a Buffer's capacity asks for.", BUFFER)
CHUNKS: Final = GaugeSpec(
    "trellis_buffers_chunks", "Chunks that a Buffer stands for, after schedule, limits and quotas.", BUFFER
)
LAST_FULL: Final = GaugeSpec(
    "trellis_buffers_last_full_timestamp_seconds",
    "When every chunk of a Buffer last had room on a ready node, as its status says.",
    BUFFER,
)
LAST_CHANGE: Final = GaugeSpec(
    "trellis_buffers_last_change_timestamp_seconds", "When we last changed the status of a Buffer.", BUFFER
)
PROVISIONED: Final = GaugeSpec(
    "trellis_buffers_provisioned_chunks",
    "Chunks of a Buffer that fit on ready nodes, where no trellis nodes runs.",
    BUFFER,
)
PRICE: Final = GaugeSpec(
    "trellis_buffers_price_per_hour",
    "Money for an hour of what the chunks of a Buffer take of nodes, where no trellis nodes runs.",
    BUFFER,
)
HITS: Final = CounterSpec(
    "trellis_buffers_hits_total",
    "Pods that came to where a chunk of a Buffer was, where no trellis nodes runs.",
    BUFFER,
)
MISSES: Final = CounterSpec(
    "trellis_buffers_misses_total",
    "Pods that wait although a chunk like them was meant to be there, where no trellis nodes runs.",
    BUFFER,
)
SERVED: Final = GaugeSpec(
    "trellis_buffers_capacity_buffers",
    "CapacityBuffers that are served, by what was last found about them.",
    ("reason",),
)
TRANSLATIONS: Final = CounterSpec("trellis_buffers_translations_total", "Translations that were made.")
DRY_RUNS: Final = CounterSpec(
    "trellis_buffers_dry_runs_total", "Pods of a template that the API server was asked about.", ("result",)
)
FAILURES: Final = CounterSpec(
    "trellis_buffers_failures_total", "Looks that ended with an error of our own; each of them is a bug, and logged."
)

BUFFER_METRICS: Final[tuple[Spec, ...]] = (
    LATENCY,
    VERDICTS,
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
