"""Metrics of the admission controller: upstream's, by name and label, and some of its own.

`ReviewMetrics` buffers what reviews observe and enters it when the metrics are read. A counter takes two microseconds
and a histogram twenty, eight times for each review, which is as long as all the rest. Entered together, a thousand
values take as long as one.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import Final

import numpy as np

from trellis.api.registry import BUFFER, HVPA
from trellis.api.registry import VPA as VPA_KIND
from trellis.controllers.admission.webhook.server import RequestTimes
from trellis.runtime.telemetry.cluster_metrics import CLUSTER_METRICS
from trellis.runtime.telemetry.metrics import (
    BOOLEANS,
    REASON,
    TOTAL_STEP,
    CounterSpec,
    GaugeSpec,
    HistogramSpec,
    Label,
    Metrics,
    Spec,
    execution_latency,
)

SERVING: Final = "serving"
AUTHORITY: Final = "authority"
LOADED: Final = "loaded"
REFUSED_CERTIFICATE: Final = "refused"

EXPIRY: Final = GaugeSpec(
    "trellis_admission_certificate_expiry_timestamp_seconds",
    "Time at which the server certificate expires, and at which the first CA in the webhook configuration expires.",
    (Label("certificate", values=(SERVING, AUTHORITY)),),
)
LOADS: Final = CounterSpec(
    "trellis_admission_certificate_loads_total",
    "New certificates by result: loaded, or refused in favor of the previous one.",
    (Label("result", values=(LOADED, REFUSED_CERTIFICATE)),),
)
REGISTERED: Final = GaugeSpec(
    "trellis_admission_webhook_registered",
    "1 if the webhook configuration is up to date as this replica has last observed it, else 0. NaN without "
    "--register-webhook.",
)

UPKEEP_METRICS: Final[tuple[Spec, ...]] = (EXPIRY, LOADS, REGISTERED)


# The steps of a review, in order, as upstream names them.
READ: Final = "read_request"
ADMIT: Final = "admit"
BUILD: Final = "build_response"
WRITE: Final = "write_response"
STEPS: Final = (READ, ADMIT, BUILD, WRITE)

# Results and resources of reviews, in upstream's words.
APPLIED: Final = "applied"
SKIPPED: Final = "skipped"
ERROR: Final = "error"
POD: Final = "Pod"
VPA: Final = "VPA"
UNKNOWN: Final = "unknown"

_RESOURCE: Final = Label("resource", values=(POD, VPA, HVPA.name, BUFFER.name, UNKNOWN))

_SECONDS: Final = (
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    *(1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0),
)

PODS: Final = CounterSpec(
    "vpa_admission_controller_admission_pods_total",
    "Admitted pods, by whether they were changed.",
    (Label("applied", values=BOOLEANS),),
)
LATENCY: Final = HistogramSpec(
    "vpa_admission_controller_admission_latency_seconds",
    "Latency of admission reviews, by result.",
    (Label("status", values=(APPLIED, SKIPPED, ERROR)), _RESOURCE),
    buckets=_SECONDS,
)
EXECUTION: Final = execution_latency(
    "vpa_admission_controller", *STEPS, meaning="Time spent in each step of a review, and in total."
)

REVIEWS: Final = CounterSpec(
    "trellis_admission_reviews_total", "Admission reviews by resource and result.", (_RESOURCE, REASON)
)
FAILURES: Final = CounterSpec(
    "trellis_admission_failures_total",
    "Internal errors that left an object unchanged; each is a bug, and logged.",
)
REFUSED: Final = CounterSpec(
    "trellis_admission_refused_requests_total",
    "Requests that were not valid AdmissionReviews, by HTTP status.",
    (Label("code", "HTTP status"),),
)
LOOKUPS: Final = CounterSpec(
    "trellis_admission_lookups_total",
    "Lookups of pod owners that the cache did not have, by result.",
    (Label("result", values=("found", "missing", "problem", "failed", "timeout")),),
)
LOOKUP_SECONDS: Final = HistogramSpec(
    "trellis_admission_lookup_seconds",
    "Time that pods waited for lookups of their owners.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0),
)
GOVERNORS: Final = GaugeSpec(
    "trellis_admission_governors",
    "Objects that size or boost pods, by kind.",
    (Label("kind", values=(VPA_KIND.name, HVPA.name)),),
)
CONNECTIONS: Final = GaugeSpec("trellis_admission_connections", "Open connections to the webhook.")

ADMISSION_METRICS: Final[tuple[Spec, ...]] = (
    *CLUSTER_METRICS,
    *(PODS, LATENCY, EXECUTION),
    *(REVIEWS, FAILURES, REFUSED, LOOKUPS, LOOKUP_SECONDS, GOVERNORS, CONNECTIONS),
    *UPKEEP_METRICS,
)


# Metrics may never be scraped, and the buffer must stay small. Without reviews it is flushed at this interval.
_FLUSH_SECONDS: Final = 10.0
# A list this long goes in within 50 microseconds.
_MAX_BUFFERED: Final = 1_000


class ReviewMetrics:
    """Buffers what happened since the last flush into the metrics. Not safe for threads."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._counts: Counter[tuple[CounterSpec, tuple[str, ...]]] = Counter()
        self._values: defaultdict[tuple[HistogramSpec, tuple[str, ...]], list[float]] = defaultdict(list)
        self._steps = {step: self._values[EXECUTION, (step,)] for step in (*STEPS, TOTAL_STEP)}
        self._zero()
        metrics.register_flush(self.enter)

    def count(self, spec: CounterSpec, *labels: str) -> None:
        self._counts[spec, labels] += 1

    def observe(self, spec: HistogramSpec, value: float, *labels: str) -> None:
        self._values[spec, labels].append(value)

    def observe_review(self, began: float, decided: float, built: float) -> None:
        """Observe the steps of a review."""
        self._steps[ADMIT].append(decided - began)
        self._steps[BUILD].append(built - decided)

    def observe_times(self, times: RequestTimes) -> None:
        """Observe the steps of a request whose reply is written."""
        self._steps[READ].append(times.read - times.began)
        self._steps[WRITE].append(times.written - times.replied)
        total = self._steps[TOTAL_STEP]
        total.append(times.written - times.began)
        if len(total) >= _MAX_BUFFERED:
            self.enter()

    def enter(self) -> None:
        """Flush the buffer into the metrics."""
        for (counter, labels), count in self._counts.items():
            self._metrics.add(counter, count, *labels)
        self._counts.clear()
        for (histogram, labels), values in self._values.items():
            if values:
                self._metrics.observe_all(histogram, np.array(values, dtype=np.float64), *labels)
                values.clear()

    async def run(self) -> None:
        """Flush regularly, until cancelled; `observe_times` does it earlier when there are many reviews."""
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            self.enter()

    def _zero(self) -> None:
        """Start at 0, so that a first failure shows as an increase."""
        for applied in BOOLEANS:
            self._metrics.add(PODS, 0, applied)
        self._metrics.add(FAILURES, 0)
