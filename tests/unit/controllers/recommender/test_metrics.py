"""Histograms of the recommender have upstream's bounds, so that one query serves both."""

from __future__ import annotations

import pytest

from trellis.controllers.recommender import metrics as named
from trellis.runtime.telemetry.metrics import HistogramSpec

MINUTES = (1, 2, 5, 7.5, 10, 20, 30, 40, 50, 60, 90, 120, 150, 180, 240, 300, 600, 900, 1800)
TENTHS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, *range(10, 101, 10), 120, 150, 240, 300)


@pytest.mark.parametrize(
    ("histogram", "bounds"),
    [
        (named.FIRST_RECOMMENDATION, MINUTES),
        (named.LATENCY, STEPS),
        (named.PROMETHEUS_SECONDS, (*TENTHS, 1, 2, 5, 10, 20, 30, 60, 120, 300)),
        (named.CPU_OVER, tuple(0.01 * 2**power for power in range(17))),
        (named.MEMORY_ADVICE, tuple(1e6 * 2**power for power in range(17))),
    ],
    ids=lambda value: value.name if isinstance(value, HistogramSpec) else "",
)
def test_bounds_equal_upstreams(histogram: HistogramSpec, bounds: tuple[float, ...]) -> None:
    assert histogram.buckets == pytest.approx(bounds)
