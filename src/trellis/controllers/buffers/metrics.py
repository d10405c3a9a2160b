"""Which metrics does the Buffer controller have? Reasons are labels, as in Events and conditions."""

from __future__ import annotations

from typing import Final

from trellis.runtime.cluster_metrics import CLUSTER_METRICS
from trellis.runtime.metrics import CounterSpec, GaugeSpec, Spec
from trellis.runtime.steps import execution_latency

_BUFFER: Final = ("namespace", "name")

LATENCY: Final = execution_latency("trellis_buffers")
VERDICTS: Final = GaugeSpec("trellis_buffers_objects", "Buffers by what was last found about them.", ("reason",))
NOTES: Final = GaugeSpec("trellis_buffers_noted_objects", "Buffers with something to note, by reason.", ("reason",))
WANTED: Final = GaugeSpec("trellis_buffers_wanted_chunks", "Chunks that a Buffer's capacity asks for.", _BUFFER)
CHUNKS: Final = GaugeSpec(
    "trellis_buffers_chunks", "Chunks that a Buffer stands for, after schedule, limits and quotas.", _BUFFER
)
LAST_FULL: Final = GaugeSpec(
    "trellis_buffers_last_full_timestamp_seconds",
    "When every chunk of a Buffer last had room on a ready node, as its status says.",
    _BUFFER,
)
LAST_CHANGE: Final = GaugeSpec(
    "trellis_buffers_last_change_timestamp_seconds", "When we last changed the status of a Buffer.", _BUFFER
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
    SERVED,
    TRANSLATIONS,
    DRY_RUNS,
    FAILURES,
    *CLUSTER_METRICS,
)
