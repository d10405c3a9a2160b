"""Which metrics does the admission controller have? Upstream's, by name and label, and a few of its own."""

from __future__ import annotations

from typing import Final

from trellis.controllers.admission.upkeep_metrics import UPKEEP_METRICS
from trellis.runtime.cluster_metrics import CLUSTER_METRICS
from trellis.runtime.metrics import CounterSpec, GaugeSpec, HistogramSpec, Spec
from trellis.runtime.steps import TOTAL, execution_latency

# The steps of a review, in order, as upstream names them.
READ: Final = "read_request"
ADMIT: Final = "admit"
BUILD: Final = "build_response"
WRITE: Final = "write_response"
STEPS: Final = (READ, ADMIT, BUILD, WRITE, TOTAL)

# What became of a review, and what it was about, in upstream's words.
APPLIED: Final = "applied"
SKIPPED: Final = "skipped"
ERROR: Final = "error"
POD: Final = "Pod"
VPA: Final = "VPA"
UNKNOWN: Final = "unknown"

_SECONDS: Final = (
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    *(1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0),
)

PODS: Final = CounterSpec(
    "vpa_admission_controller_admission_pods_total",
    "Pods that were reviewed, by whether they were changed.",
    ("applied",),
)
LATENCY: Final = HistogramSpec(
    "vpa_admission_controller_admission_latency_seconds",
    "Time that reviews took, by what became of them.",
    ("status", "resource"),
    buckets=_SECONDS,
)
EXECUTION: Final = execution_latency("vpa_admission_controller")

REVIEWS: Final = CounterSpec(
    "trellis_admission_reviews_total", "Reviews by what they were about and how they ended.", ("resource", "reason")
)
FAILURES: Final = CounterSpec(
    "trellis_admission_failures_total",
    "Errors of our own that left an object as it came; each of them is a bug, and logged.",
)
REFUSED: Final = CounterSpec(
    "trellis_admission_refused_requests_total", "Requests that were no reviews, by status of HTTP.", ("code",)
)
LOOKUPS: Final = CounterSpec(
    "trellis_admission_lookups_total", "Controllers of pods that had to be asked for, by result.", ("result",)
)
LOOKUP_SECONDS: Final = HistogramSpec(
    "trellis_admission_lookup_seconds",
    "Time that pods waited because their controller had to be asked for.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0),
)
GOVERNORS: Final = GaugeSpec("trellis_admission_governors", "Objects that size or boost pods, by kind.", ("kind",))
CONNECTIONS: Final = GaugeSpec("trellis_admission_connections", "Open connections for reviews.")

ADMISSION_METRICS: Final[tuple[Spec, ...]] = (
    *CLUSTER_METRICS,
    *(PODS, LATENCY, EXECUTION),
    *(REVIEWS, FAILURES, REFUSED, LOOKUPS, LOOKUP_SECONDS, GOVERNORS, CONNECTIONS),
    *UPKEEP_METRICS,
)
