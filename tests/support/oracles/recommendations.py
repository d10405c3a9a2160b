"""What upstream would recommend for one container, one number at a time: slow, obvious, the measure of the columns.

Written from the facts about upstream's estimators. Amounts are whole millicores and whole bytes.
"""

from __future__ import annotations

import math

from support.oracles.histograms import SlowHistogram
from trellis.core.recommend.settings import DefaultSettings

LARGEST = 10**14
Triple = tuple[int, int, int]  # lower bound, target, upper bound


def amount(value: float) -> int:
    """Go's conversion of a float to an amount: cut off, and never outside 0 to 10^14."""
    if math.isnan(value) or value < 0:
        return 0
    return LARGEST if value > LARGEST else int(value)


def divided(dividend: float, divisor: float) -> float:
    """Go's division: by zero it is infinite, not an error."""
    return dividend / divisor if divisor else math.inf


def times(value: int, factor: float) -> float:
    return math.nan if value == 0 and math.isinf(factor) else value * factor


class ExactHistogram(SlowHistogram):
    """With the edges of buckets as Go computes them, to the last bit: amounts are cut off, so that a bit can matter."""

    def start(self, bucket: int) -> float:
        ratio = 1.05
        return 0.0 if bucket == 0 else self.first * (math.pow(ratio, bucket) - 1) / (ratio - 1)


class SlowContainer:
    """The history of one container: CPU in cores, memory in bytes, and the times and number of its CPU samples."""

    def __init__(self, cpu: SlowHistogram, memory: SlowHistogram, first: float, last: float, count: int) -> None:
        self.histograms = {"cpu": cpu, "memory": memory}
        self.first, self.last, self.count = first, last, count

    def confidence(self, interval: float) -> float:
        if not self.count:
            return 0.0
        return max(0.0, min((self.last - self.first) / interval, self.count / (interval / 60)))

    def estimate(self, resource: str, settings: DefaultSettings, containers: int) -> Triple | None:
        """None if there is no sample of that resource: the one thing that upstream does otherwise."""
        histogram = self.histograms[resource]
        if histogram.total == 0:
            return None
        scale = 1000.0 if resource == "cpu" else 1.0
        confidence = self.confidence(getattr(settings, f"confidence_interval_{resource}"))
        least = minimum(resource, settings, containers)
        result = []
        for bound in ("lower_bound", "target", "upper_bound"):
            base = amount(histogram.percentile(getattr(settings, f"{bound}_{resource}_percentile")) * scale)
            base += amount(base * settings.margin_fraction)
            if bound == "lower_bound":
                base = amount(times(base, divided(1.0, (1.0 + divided(0.001, confidence)) ** 2)))
            if bound == "upper_bound":
                base = amount(times(base, 1.0 + divided(1.0, confidence)))
            result.append(max(base, least))
        lower, target, upper = result
        return min(lower, target), target, max(upper, target)


def minimum(resource: str, settings: DefaultSettings, containers: int) -> int:
    if resource == "cpu":
        pod = amount(settings.pod_min_cpu_millicores * 0.001 * 1000.0)
    else:
        pod = amount(settings.pod_min_memory_mebibytes * 1024 * 1024)
    return amount(pod * (1.0 / containers))


def capped(value: int, least: int | None, most: int | None, cluster_most: int) -> int:
    """`minAllowed`, then `maxAllowed`, else the cluster's maximum. None is absent, zero is no bound."""
    if least and value < least:
        value = least
    bound = cluster_most if most is None else most
    return bound if bound and value > bound else value
