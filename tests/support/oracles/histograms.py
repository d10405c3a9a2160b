"""One decaying histogram, one sample at a time: slow, obvious, and what the bank is measured by.

Written from the facts about upstream's histogram and not from the bank. Times are seconds since the epoch.
"""

from __future__ import annotations

import math
from fractions import Fraction

EPSILON = 0.001 * 0.1
GROWTH = 0.05
YEAR_ONE = -62_135_596_800  # 0001-01-01T00:00:00Z, Go's zero time


def round_like_go(time: float, step: float) -> float:
    """`Time.Round`: the nearest multiple of `step` since the zero time, halves up. In exact arithmetic."""
    exact_step = Fraction(step)
    steps = math.floor((Fraction(time) - YEAR_ONE) / exact_step + Fraction(1, 2))
    return float(steps * exact_step + YEAR_ONE)


class SlowHistogram:
    """Weights by bucket; `lowest` and `highest` are the first and last bucket that count as not empty."""

    def __init__(self, first: float, buckets: int, half_life: float) -> None:
        self.first = first
        self.half_life = half_life
        self.last_bucket = buckets - 1
        self.weights = [0.0] * buckets
        self.total = 0.0
        self.reference: float | None = None  # Go's zero time
        self.lowest = self.last_bucket
        self.highest = 0

    def start(self, bucket: int) -> float:
        return 0.0 if bucket == 0 else self.first * ((1 + GROWTH) ** bucket - 1) / GROWTH

    def bucket(self, value: float) -> int:
        if value < self.first:
            return 0
        return min(int(math.log(value * GROWTH / self.first + 1) / math.log(1 + GROWTH)), self.last_bucket)

    def add(self, time: float, value: float, weight: float) -> None:
        weight *= self.decay_factor(time)
        bucket = self.bucket(value)
        self.weights[bucket] += weight
        self.total += weight
        if self.weights[bucket] >= EPSILON:
            self.lowest = min(self.lowest, bucket)
            self.highest = max(self.highest, bucket)

    def subtract(self, time: float, value: float, weight: float) -> None:
        weight *= self.decay_factor(time)
        bucket = self.bucket(value)
        self.weights[bucket] = self.weights[bucket] - weight if self.weights[bucket] - weight >= EPSILON else 0.0
        self.total = self.total - weight if self.total - weight >= EPSILON else 0.0
        self.trim()

    def merge(self, other: SlowHistogram) -> None:
        """Add another histogram, which may be shifted by it."""
        if other.reference is not None and (self.reference is None or self.reference < other.reference):
            self.shift(other.reference)
        elif self.reference is not None and (other.reference is None or other.reference < self.reference):
            other.shift(self.reference)
        for bucket in range(other.lowest, other.highest + 1):
            self.weights[bucket] += other.weights[bucket]
        self.total += other.total
        self.lowest = min(self.lowest, other.lowest)
        self.highest = max(self.highest, other.highest)

    def percentile(self, fraction: float) -> float:
        if self.weights[self.lowest] < EPSILON:
            return 0.0
        threshold = fraction * self.total
        partial = 0.0
        bucket = self.lowest
        while bucket < self.highest:
            partial += self.weights[bucket]
            if partial >= threshold:
                break
            bucket += 1
        return self.start(bucket + 1 if bucket < self.last_bucket else bucket)

    def saved(self) -> dict[int, int]:
        """Bucket to weight as a checkpoint has it."""
        inside = range(self.lowest, self.highest + 1)
        most = max((self.weights[bucket] for bucket in inside), default=0.0)
        whole = {bucket: math.floor(self.weights[bucket] * (10_000 / most) + 0.5) for bucket in inside}
        return {bucket: weight for bucket, weight in whole.items() if weight > 0}

    def load(self, reference: float | None, weights: dict[int, int], total: float) -> None:
        """Into an empty histogram."""
        self.reference = reference
        if not sum(weights.values()):
            return
        for bucket, weight in weights.items():
            self.weights[bucket] += weight * (total / sum(weights.values()))
        self.total += total
        self.lowest, self.highest = min(weights), max(weights)
        self.trim()

    def decay_factor(self, time: float) -> float:
        if self.reference is None or time > self.reference + 100 * self.half_life:
            self.shift(time)
        assert self.reference is not None
        return math.exp2((time - self.reference) / self.half_life)

    def shift(self, time: float) -> None:
        reference = round_like_go(time, self.half_life)
        if self.reference is None:
            scale = 0.0
        else:
            exponent = math.floor((self.reference - reference) / self.half_life + 0.5)
            scale = math.ldexp(1.0, exponent)
        self.weights = [weight * scale for weight in self.weights]
        self.total *= scale
        self.reference = reference
        self.trim()

    def trim(self) -> None:
        while self.weights[self.lowest] < EPSILON and self.lowest < self.last_bucket:
            self.lowest += 1
        while self.weights[self.highest] < EPSILON and self.highest > 0:
            self.highest -= 1
