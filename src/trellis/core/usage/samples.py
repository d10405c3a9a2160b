"""Batches of usage samples, and the reasons for which samples are dropped."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from trellis.base.errors import InternalError
from trellis.base.reasons import Reason, Severity
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn

MOST_CORES = 100_000.0
MOST_BYTES = 1e15
CLOCK_SKEW = 300.0  # seconds by which a node's clock may be ahead of ours
OLDEST = 366 * 86_400.0  # seconds; no source goes back further, and one such time would count as a year of history

UNKNOWN_CONTAINER = Reason(
    "UnknownContainer", "A sample or kill was discarded: no VPA governs a container of that name."
)
EMPTY_SAMPLE = Reason("EmptySample", "A usage sample was discarded: it has no time, or neither CPU nor memory.")
FUTURE_SAMPLE = Reason(
    "FutureSample",
    "A sample or kill was discarded: its time is more than five minutes in the future.",
    Severity.WARNING,
)
NEGATIVE_SAMPLE = Reason("NegativeSample", "A usage sample was discarded: it is negative.", Severity.WARNING)
IMPLAUSIBLE_SAMPLE = Reason(
    "ImplausibleSample",
    "A sample or kill was discarded: above 100,000 cores or 10^15 bytes, or more than a year old.",
    Severity.WARNING,
)
LATE_SAMPLE = Reason("LateSample", "A usage sample was discarded: it is older than the previous one of that container.")
REPEATED_SAMPLE = Reason("RepeatedSample", "A usage sample was discarded: the sample of that time is already counted.")


class Measurements(msgspec.Struct, frozen=True):
    """Usage at some times, in columns of equal length: cores and bytes, NaN where not measured."""

    times: FloatColumn
    cpu: FloatColumn
    memory: FloatColumn

    def __len__(self) -> int:
        return len(self.times)


class Samples(msgspec.Struct, frozen=True):
    """A batch of usage, in columns of equal length: the containers, and their measurements."""

    namespaces: list[str]
    pods: list[str]
    containers: list[str]
    times: FloatColumn
    cpu: FloatColumn
    memory: FloatColumn

    def __post_init__(self) -> None:
        columns = (self.namespaces, self.pods, self.containers, self.times, self.cpu, self.memory)
        if len({len(column) for column in columns}) != 1:
            raise InternalError(f"columns of samples have lengths {[len(column) for column in columns]}")

    def __len__(self) -> int:
        return len(self.times)

    @property
    def measured(self) -> Measurements:
        """The same without the names."""
        return Measurements(self.times, self.cpu, self.memory)

    @classmethod
    def empty(cls) -> Samples:
        """A batch without samples."""
        return cls([], [], [], np.zeros(0), np.zeros(0), np.zeros(0))

    @classmethod
    def concatenate(cls, parts: Sequence[Samples]) -> Samples:
        """The samples of several batches, in order."""
        if not parts:
            return cls.empty()
        return cls(
            [name for part in parts for name in part.namespaces],
            [name for part in parts for name in part.pods],
            [name for part in parts for name in part.containers],
            np.concatenate([part.times for part in parts]),
            np.concatenate([part.cpu for part in parts]),
            np.concatenate([part.memory for part in parts]),
        )


class IngestResult(msgspec.Struct, frozen=True):
    """The result of a batch.

    `accepted` counts samples of which CPU or memory was accepted; `dropped` counts, by reason code, samples of which
    one or both were not. `changed_rows` are the rows with something new. The other columns are the accepted samples,
    NaN where a value was dropped.
    """

    accepted: int
    dropped: dict[str, int]
    changed_rows: IntColumn
    slots: IntColumn
    rows: IntColumn
    times: FloatColumn
    cpu: FloatColumn
    memory: FloatColumn


class ScreenedSamples(msgspec.Struct, frozen=True):
    """Masks of the values that are valid by themselves, before they are compared with earlier samples."""

    cpu: BoolColumn
    memory: BoolColumn
    dropped: dict[str, int]


def screen_samples(samples: Measurements, slots: IntColumn, now: float) -> ScreenedSamples:
    """Validate each sample by itself."""
    is_tracked = slots >= 0
    has_cpu, has_memory = ~np.isnan(samples.cpu), ~np.isnan(samples.memory)
    has_value = ~np.isnan(samples.times) & (has_cpu | has_memory)
    is_future = samples.times > now + CLOCK_SKEW
    is_too_old = samples.times < now - OLDEST
    is_usable = is_tracked & has_value & ~is_future & ~is_too_old
    negative_cpu, negative_memory = samples.cpu < 0, samples.memory < 0
    absurd_cpu, absurd_memory = samples.cpu > MOST_CORES, samples.memory > MOST_BYTES
    return ScreenedSamples(
        cpu=is_usable & has_cpu & ~negative_cpu & ~absurd_cpu,
        memory=is_usable & has_memory & ~negative_memory & ~absurd_memory,
        dropped=count_dropped(
            {
                UNKNOWN_CONTAINER: ~is_tracked,
                EMPTY_SAMPLE: is_tracked & ~has_value,
                FUTURE_SAMPLE: is_tracked & has_value & is_future,
                NEGATIVE_SAMPLE: is_usable & (negative_cpu | negative_memory),
                IMPLAUSIBLE_SAMPLE: (is_tracked & has_value & is_too_old) | (is_usable & (absurd_cpu | absurd_memory)),
            }
        ),
    )


def count_dropped(dropped: dict[Reason, BoolColumn]) -> dict[str, int]:
    """The number of dropped samples by reason code, without zeros."""
    numbers = {reason.code: int(np.count_nonzero(is_dropped)) for reason, is_dropped in dropped.items()}
    return {code: number for code, number in numbers.items() if number}
