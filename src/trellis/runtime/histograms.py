"""How often was a value below a bound? Histograms that take one value or a whole column of them.

The client library takes one value at a time, at a microsecond each. A pass compares a hundred thousand samples with
their recommendations, six times over, and would spend most of its time on telling how well it does.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from prometheus_client import Metric
from prometheus_client.metrics_core import HistogramMetricFamily
from prometheus_client.registry import Collector

from trellis.runtime.exposition import number_text

_Values = npt.NDArray[np.float64]


class Histogram(Collector):
    """One family of series, one for each combination of labels. Any thread may use it."""

    def __init__(self, name: str, text: str, labels: Sequence[str], bounds: Sequence[float]) -> None:
        self._name = name
        self._text = text
        self._labels = labels
        self._bounds = np.array(bounds, dtype=np.float64)
        self._edges = [*(number_text(float(bound)) for bound in bounds), "+Inf"]
        self._counts: dict[tuple[str, ...], npt.NDArray[np.int64]] = {}
        self._sums: dict[tuple[str, ...], float] = {}
        self._lock = threading.Lock()
        if not labels:
            self.observe_all(np.zeros(0), ())

    def observe_all(self, values: _Values, labels: tuple[str, ...]) -> None:
        """Take a column of values; what is not a number is nobody's observation."""
        values = values[~np.isnan(values)]
        # A value that equals a bound is below it: `le` means less or equal.
        places = np.searchsorted(self._bounds, values, side="left")
        counts = np.bincount(places, minlength=len(self._edges))
        with self._lock:
            known = self._counts.get(labels)
            self._counts[labels] = counts if known is None else known + counts
            self._sums[labels] = self._sums.get(labels, 0.0) + float(values.sum())

    def remove(self, labels: tuple[str, ...]) -> None:
        """Forget one series."""
        with self._lock:
            self._counts.pop(labels, None)
            self._sums.pop(labels, None)

    def collect(self) -> Iterator[Metric]:
        """The family as the registry wants it: cumulative counts, and the sum."""
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        with self._lock:
            found = [(labels, np.cumsum(counts), self._sums[labels]) for labels, counts in self._counts.items()]
        for labels, counts, total in found:
            named = dict(zip(self._labels, labels, strict=True))
            for edge, count in zip(self._edges, counts.tolist(), strict=True):
                family.add_sample(f"{self._name}_bucket", {**named, "le": edge}, count)
            # Not by `add_metric`: it leaves out both where the first bound is negative, and Go's library does not.
            family.add_sample(f"{self._name}_count", named, float(counts[-1]))
            family.add_sample(f"{self._name}_sum", named, total)
        yield family
