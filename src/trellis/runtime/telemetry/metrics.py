"""Metrics, declared as data under the names that dashboards know, and the timer of the steps of a pass.

    EVICTED = CounterSpec("vpa_updater_evicted_pods_total", "Pods evicted.", ("vpa_namespace", "vpa_name"))

    metrics = Metrics([EVICTED])
    metrics.add(EVICTED, 1, "default", "web")
    metrics.remove_deleted(("vpa_namespace", "vpa_name"), {("default", "web")})   # all existing VPAs

A label that names an object makes one series for each object there ever was, unless the series of deleted objects are
removed. Call `remove_deleted` once a pass with the objects that exist. All methods may be called from any thread.

Histograms take one value or a whole column. The client library takes one value at a time, at a microsecond each. A
pass compares a hundred thousand samples with their recommendations, six times over, and would spend most of its time
on that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, Self, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from prometheus_client import CollectorRegistry, Counter, Gauge, GCCollector, Metric, PlatformCollector
from prometheus_client import ProcessCollector as UsageCollector
from prometheus_client.metrics_core import HistogramMetricFamily
from prometheus_client.registry import Collector

from trellis.base.errors import InternalError
from trellis.runtime.telemetry.exposition import format_families, format_number
from trellis.runtime.telemetry.tracing import current_trace

_Values = npt.NDArray[np.float64]


class Histogram(Collector):
    """One family of series, one for each combination of labels. Any thread may use it."""

    def __init__(self, name: str, text: str, labels: Sequence[str], bounds: Sequence[float]) -> None:
        self._name = name
        self._text = text
        self._labels = labels
        self._bounds = np.array(bounds, dtype=np.float64)
        self._edges = [*(format_number(float(bound)) for bound in bounds), "+Inf"]
        self._counts: dict[tuple[str, ...], npt.NDArray[np.int64]] = {}
        self._sums: dict[tuple[str, ...], float] = {}
        self._lock = threading.Lock()
        if not labels:
            self.observe_all(np.zeros(0), ())

    def observe_all(self, values: _Values, labels: tuple[str, ...]) -> None:
        """Observe a column of values; NaN is not counted."""
        values = values[~np.isnan(values)]
        # A value that equals a bound is below it: `le` means less or equal.
        places = np.searchsorted(self._bounds, values, side="left")
        counts = np.bincount(places, minlength=len(self._edges))
        with self._lock:
            previous = self._counts.get(labels)
            self._counts[labels] = counts if previous is None else previous + counts
            self._sums[labels] = self._sums.get(labels, 0.0) + float(values.sum())

    def remove(self, labels: tuple[str, ...]) -> None:
        """Remove one series."""
        with self._lock:
            self._counts.pop(labels, None)
            self._sums.pop(labels, None)

    def collect(self) -> Iterator[Metric]:
        """The family in the registry's form: cumulative counts, and the sum."""
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        with self._lock:
            series = [(labels, np.cumsum(counts), self._sums[labels]) for labels, counts in self._counts.items()]
        for labels, counts, total in series:
            named = dict(zip(self._labels, labels, strict=True))
            for edge, count in zip(self._edges, counts.tolist(), strict=True):
                family.add_sample(f"{self._name}_bucket", {**named, "le": edge}, count)
            # Not by `add_metric`: it leaves out both where the first bound is negative, and Go's library does not.
            family.add_sample(f"{self._name}_count", named, float(counts[-1]))
            family.add_sample(f"{self._name}_sum", named, total)
        yield family


class Label(str):
    """The name of a label, with its possible values: all of them, or what each of them is."""

    __slots__ = ("meaning", "values")

    values: tuple[str, ...]
    meaning: str

    def __new__(cls, name: str, meaning: str = "", *, values: Iterable[str] = ()) -> Self:
        """A label with a closed set of values, or with a sentence about them."""
        label = super().__new__(cls, name)
        label.values = tuple(map(str, values))
        label.meaning = meaning
        return label


# Labels that several components have.
BOOLEANS: Final = ("true", "false")
REASON: Final = Label("reason", "a [reason](reasons.md)")
RESOURCE_AMOUNT: Final = Label("resource", values=("cpu", "memory"))
# Those of a Buffer that has series of its own. Prometheus gives every series a label `namespace`, that of the scraped
# pod, and would rename one of ours.
_BUFFER_NAME: Final = Label("buffer_name", "name of the Buffer")
BUFFER_LABELS: Final = (Label("buffer_namespace", "namespace of the Buffer"), _BUFFER_NAME)


class _MetricSpec(msgspec.Struct, frozen=True):
    """The declaration of a metric. The name is served as written, without an added suffix."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


class CounterSpec(_MetricSpec, frozen=True):
    """A counter, which never falls."""


class GaugeSpec(_MetricSpec, frozen=True):
    """A gauge."""


class HistogramSpec(_MetricSpec, frozen=True, kw_only=True):
    """A histogram: counts of values at or below each bound."""

    buckets: tuple[float, ...]


Spec = CounterSpec | GaugeSpec | HistogramSpec
M = TypeVar("M", Counter, Gauge)


class MetricsText(Protocol):
    """Metrics that can be scraped."""

    def flush(self) -> None:
        """Add all accumulated counts, on the event loop."""

    def format_text(self) -> bytes:
        """The text for Prometheus; any thread may call it."""


class Metrics:
    """All metrics of a process, or of one component of a process."""

    def __init__(self, specs: Iterable[Spec], *, about_process: bool = True) -> None:
        self._registry = CollectorRegistry()
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        self._label_values: dict[Spec, set[tuple[str, ...]]] = {}
        # By name, because the hash of a spec is that of all its texts. Prometheus's own lookup takes as long as ten.
        self._series_by_labels: dict[tuple[str, tuple[str, ...]], Any] = {}
        self._flushes: list[Callable[[], None]] = []
        for spec in specs:
            if any(spec.name == other.name for other in self._label_values):
                raise InternalError(f"the metric {spec.name} is declared twice")
            self._label_values[spec] = set()
            self._register(spec)
        if about_process:
            for collector in (UsageCollector, PlatformCollector, GCCollector):
                collector(registry=self._registry)

    def add(self, spec: CounterSpec, amount: float, *labels: str) -> None:
        """Increase a counter. An amount of zero creates the series, so that a first failure shows as a rise."""
        self._series(self._counters[spec.name], spec, labels).inc(amount)

    def set(self, spec: GaugeSpec, value: float, *labels: str) -> None:
        """Set a gauge."""
        self._series(self._gauges[spec.name], spec, labels).set(value)

    def set_all(self, spec: GaugeSpec, values: Mapping[tuple[str, ...], float]) -> None:
        """Set a gauge for each combination of labels; every other series of the gauge is removed."""
        for labels, value in values.items():
            self.set(spec, value, *labels)
        self._remove(spec, self._label_values[spec] - values.keys())

    def observe(self, spec: HistogramSpec, value: float, *labels: str) -> None:
        """Observe one value in a histogram."""
        self.observe_all(spec, np.array([value], dtype=np.float64), *labels)

    def observe_all(self, spec: HistogramSpec, values: npt.NDArray[np.float64], *labels: str) -> None:
        """Observe a column of values in a histogram."""
        self._track_labels(spec, labels)
        self._histograms[spec.name].observe_all(values, labels)

    def remove_deleted(self, labels: tuple[str, ...], existing: Collection[tuple[str, ...]]) -> int:
        """Of every metric with these labels remove the series of objects that do not exist; returns their number."""
        removed = 0
        for spec, label_values in self._label_values.items():
            if not set(labels) <= set(spec.labels):
                continue
            places = [spec.labels.index(label) for label in labels]
            obsolete = {
                values for values in label_values.copy() if tuple(values[place] for place in places) not in existing
            }
            self._remove(spec, obsolete)
            removed += len(obsolete)
        return removed

    def register_flush(self, flush: Callable[[], None]) -> None:
        """Register a function that adds accumulated counts; it is called before metrics are read."""
        self._flushes.append(flush)

    def flush(self) -> None:
        """Add all accumulated counts. Call it on the event loop before metrics are read."""
        for flush in self._flushes:
            flush()

    def format_text(self) -> bytes:
        """All metrics in Prometheus's text format. Thousands of series take milliseconds: call it in a thread."""
        return format_families(self.collect(), self.names)

    @property
    def names(self) -> Collection[str]:
        """The names of the declared metrics."""
        return {spec.name for spec in self._label_values}

    def collect(self) -> Iterable[Metric]:
        """All families, with their samples."""
        return self._registry.collect()

    def _register(self, spec: Spec) -> None:
        if isinstance(spec, CounterSpec):
            self._counters[spec.name] = Counter(spec.name, spec.help, spec.labels, registry=self._registry)
        elif isinstance(spec, GaugeSpec):
            self._gauges[spec.name] = Gauge(spec.name, spec.help, spec.labels, registry=self._registry)
        else:
            histogram = Histogram(spec.name, spec.help, spec.labels, spec.buckets)
            self._histograms[spec.name] = histogram
            self._registry.register(histogram)

    def _series(self, metric: M, spec: Spec, labels: tuple[str, ...]) -> M:
        found: M | None = self._series_by_labels.get((spec.name, labels))
        if found is None:
            self._track_labels(spec, labels)
            found = self._series_by_labels[spec.name, labels] = metric.labels(*labels) if labels else metric
        return found

    def _track_labels(self, spec: Spec, labels: tuple[str, ...]) -> None:
        if len(labels) != len(spec.labels):
            raise InternalError(f"the metric {spec.name} has the labels {spec.labels}, not {len(labels)}")
        if labels:
            self._label_values[spec].add(labels)

    def _remove(self, spec: Spec, obsolete: Iterable[tuple[str, ...]]) -> None:
        for values in obsolete:
            self._label_values[spec].discard(values)
            self._series_by_labels.pop((spec.name, values), None)
            if isinstance(spec, HistogramSpec):
                self._histograms[spec.name].remove(values)
            elif isinstance(spec, CounterSpec):
                self._counters[spec.name].remove(*values)
            else:
                self._gauges[spec.name].remove(*values)


# Upstream's bounds, in seconds, so that dashboards and alerts for them keep working.
LATENCY_BUCKETS: Final = (
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0),
    *(120.0, 150.0, 240.0, 300.0),
)
TOTAL_STEP: Final = "total"


def execution_latency(
    component: str, *steps: str, meaning: str = "Time spent in each step of a pass, and in total."
) -> HistogramSpec:
    """The histogram of a component such as `vpa_recommender`, with the steps before the total."""
    label = Label("step", values=(*steps, TOTAL_STEP))
    return HistogramSpec(f"{component}_execution_latency_seconds", meaning, (label,), buckets=LATENCY_BUCKETS)


class StepTimer:
    """Times the steps of one pass, for metrics and its trace: a step lasts from the end of the previous one."""

    def __init__(self, metrics: Metrics, latency: HistogramSpec, clock: Callable[[], float]) -> None:
        self._metrics = metrics
        self._latency = latency
        self._clock = clock
        # A step may end in the thread of passes, which has no current trace.
        self._trace = current_trace()
        self._began = self._last = clock()

    def step(self, name: str) -> None:
        """Observe the end of a step."""
        now = self._clock()
        self._metrics.observe(self._latency, now - self._last, name)
        self._trace.step(name)
        self._last = now

    def total(self) -> None:
        """Observe the end of the pass."""
        self._metrics.observe(self._latency, self._clock() - self._began, TOTAL_STEP)
