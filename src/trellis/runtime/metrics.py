"""What is counted? Metrics are declared as data, under the names that dashboards know.

    EVICTED = CounterSpec("vpa_updater_evicted_pods_total", "Pods evicted.", ("vpa_namespace", "vpa_name"))

    metrics = Metrics([EVICTED])
    metrics.add(EVICTED, 1, "default", "web")
    metrics.keep(("vpa_namespace", "vpa_name"), {("default", "web")})   # forget the VPAs that are gone

A label that names an object makes one series for each that ever was, unless somebody removes those that are gone. Call
`keep` once a pass with what there is. All methods may be called from any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from prometheus_client import CollectorRegistry, Counter, Gauge, GCCollector, PlatformCollector
from prometheus_client import ProcessCollector as UsageCollector

from trellis.base.errors import InternalError
from trellis.runtime.exposition import as_text
from trellis.runtime.histograms import Histogram


class _Spec(msgspec.Struct, frozen=True):
    """The name is written as it will be served, to the last suffix."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


class CounterSpec(_Spec, frozen=True):
    """Something that is counted and never falls."""


class GaugeSpec(_Spec, frozen=True):
    """Something that is measured anew each time."""


class HistogramSpec(_Spec, frozen=True, kw_only=True):
    """Something of which one asks how often it was below a bound."""

    buckets: tuple[float, ...]


Spec = CounterSpec | GaugeSpec | HistogramSpec
M = TypeVar("M", Counter, Gauge)


class Metrics:
    """All metrics of a process."""

    def __init__(self, specs: Iterable[Spec], *, about_process: bool = True) -> None:
        self._registry = CollectorRegistry()
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        self._seen: dict[Spec, set[tuple[str, ...]]] = {}
        self._holding: list[Callable[[], None]] = []
        for spec in specs:
            if any(spec.name == other.name for other in self._seen):
                raise InternalError(f"the metric {spec.name} is declared twice")
            self._seen[spec] = set()
            self._register(spec)
        if about_process:
            for collector in (UsageCollector, PlatformCollector, GCCollector):
                collector(registry=self._registry)

    def add(self, spec: CounterSpec, amount: float, *labels: str) -> None:
        """Count so many more. An amount of zero makes the series, so that a first failure shows as a rise."""
        self._series(self._counters[spec.name], spec, labels).inc(amount)

    def set(self, spec: GaugeSpec, value: float, *labels: str) -> None:
        """Say how much there is now."""
        self._series(self._gauges[spec.name], spec, labels).set(value)

    def set_all(self, spec: GaugeSpec, values: Mapping[tuple[str, ...], float]) -> None:
        """Say how much there is now for each combination of labels; every other series of the gauge is removed."""
        for labels, value in values.items():
            self.set(spec, value, *labels)
        self._remove(spec, self._seen[spec] - values.keys())

    def observe(self, spec: HistogramSpec, value: float, *labels: str) -> None:
        """Take one value into a histogram."""
        self.observe_all(spec, np.array([value], dtype=np.float64), *labels)

    def observe_all(self, spec: HistogramSpec, values: npt.NDArray[np.float64], *labels: str) -> None:
        """Take a column of values into a histogram."""
        self._note(spec, labels)
        self._histograms[spec.name].observe_all(values, labels)

    def keep(self, labels: tuple[str, ...], alive: Collection[tuple[str, ...]]) -> int:
        """Of every metric that has these labels remove the series of what is not alive; the answer is how many."""
        removed = 0
        for spec, seen in self._seen.items():
            if not set(labels) <= set(spec.labels):
                continue
            places = [spec.labels.index(label) for label in labels]
            gone = {values for values in seen.copy() if tuple(values[place] for place in places) not in alive}
            self._remove(spec, gone)
            removed += len(gone)
        return removed

    def hold(self, enter: Callable[[], None]) -> None:
        """Somebody holds counts back to save time; `enter` puts them in, and is called before metrics are read."""
        self._holding.append(enter)

    def gather(self) -> None:
        """Have everything put in that is held back. For whoever is about to read, on the event loop."""
        for enter in self._holding:
            enter()

    def text(self) -> bytes:
        """Everything in Prometheus's text format. It takes milliseconds for thousands of series: ask in a thread."""
        return as_text(self._registry.collect(), {spec.name for spec in self._seen})

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
        self._note(spec, labels)
        return metric.labels(*labels) if labels else metric

    def _note(self, spec: Spec, labels: tuple[str, ...]) -> None:
        if len(labels) != len(spec.labels):
            raise InternalError(f"the metric {spec.name} has the labels {spec.labels}, not {len(labels)}")
        if labels:
            self._seen[spec].add(labels)

    def _remove(self, spec: Spec, gone: Iterable[tuple[str, ...]]) -> None:
        for values in gone:
            self._seen[spec].discard(values)
            if isinstance(spec, HistogramSpec):
                self._histograms[spec.name].remove(values)
            elif isinstance(spec, CounterSpec):
                self._counters[spec.name].remove(*values)
            else:
                self._gauges[spec.name].remove(*values)
