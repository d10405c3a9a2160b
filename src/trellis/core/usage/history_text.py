"""How is the history of a row kept beside its checkpoint?

As base64 text of at most 16 KB for both resources: every value as a step on a scale of 1 %, every step as the
difference from the hour before or from the measure below, the lower bytes first and then the upper, compressed. 35 days
of a service with the rhythm of a day take 6 KB, of pure noise 15 KB. Where that is not enough the oldest hours are left
out.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trellis.base.errors import InvalidCheckpoint
from trellis.core.usage.compressed_text import compress, decompress
from trellis.core.usage.hours import MEASURES
from trellis.core.usage.rings import Ring

LONGEST_TEXT = 16_384
_VERSION = 1
_HEADER = np.dtype([("version", "<u1"), ("newest", "<i4"), ("hours", "<u2")])
_UNITS = np.array([1e-3, 1e5])[:, np.newaxis, np.newaxis]  # cores and bytes below which the scale is even
_STEP = float(np.log1p(0.01))
_UNKNOWN = 0  # a step that no value has: they start at 1
_HIGHEST = 3_000  # the step of 10^10 cores or 10^18 bytes
_MOST_HOURS = 366 * 24
_FIELD = "status.history"

Steps = npt.NDArray[np.int64]


def as_text(newest: int, values: Ring) -> str:
    """(resources, measures, hours), the last of them the hour `newest`; "" if nothing is known."""
    known = np.flatnonzero(~np.isnan(values[:, 0]).all(axis=0))
    hours = values.shape[-1] - int(known[0]) if len(known) else 0
    while hours:
        text = _written(newest, values[:, :, values.shape[-1] - hours :])
        if len(text) <= LONGEST_TEXT:
            return text
        hours = min(hours - 1, hours * LONGEST_TEXT // len(text))
    return ""


def read_text(text: str) -> tuple[int, Ring]:
    """The newest hour and the values; raises `InvalidCheckpoint`."""
    most = _HEADER.itemsize + _MOST_HOURS * 2 * len(MEASURES) * 2 + 1
    data, whole = decompress(_FIELD, text, longest=LONGEST_TEXT, most=most)
    if len(data) < _HEADER.itemsize or data[0] != _VERSION:
        raise InvalidCheckpoint(_FIELD, text, f"must have format {_VERSION}")
    header = np.frombuffer(data, _HEADER, count=1)[0]
    newest, hours = int(header["newest"]), int(header["hours"])
    if len(data) != _HEADER.itemsize + hours * 2 * len(MEASURES) * 2 or not whole or newest < 0:
        raise InvalidCheckpoint(_FIELD, text, f"must have the {hours} hours that it says it has")
    halves = np.frombuffer(data, np.uint8, offset=_HEADER.itemsize).reshape(2, 2, len(MEASURES), hours)
    folded = halves[0].astype(np.int64) | halves[1].astype(np.int64) << 8
    steps = _undone((folded >> 1) ^ -(folded & 1))
    if hours and not 0 <= steps.min() <= steps.max() <= _HIGHEST:
        raise InvalidCheckpoint(_FIELD, text, "must have values that can be")
    values = np.expm1((steps - 1) * _STEP) * _UNITS
    return newest, np.where(steps == _UNKNOWN, np.nan, values).astype(np.float32)


def _written(newest: int, values: Ring) -> str:
    steps = np.minimum(np.rint(np.log1p(values.astype(np.float64) / _UNITS) / _STEP) + 1, _HIGHEST)
    differences = _done(np.where(np.isnan(steps), _UNKNOWN, steps).astype(np.int64))
    folded = (differences << 1) ^ (differences >> 63)  # the sign goes into the lowest bit: small numbers stay small
    header = np.array([(_VERSION, newest, values.shape[-1])], dtype=_HEADER)
    data = header.tobytes() + (folded & 255).astype(np.uint8).tobytes() + (folded >> 8).astype(np.uint8).tobytes()
    return compress(data)


def _done(steps: Steps) -> Steps:
    """The median from the hour before, every other measure from the one below it."""
    mean, p50, p90, p95, maximum = np.moveaxis(steps, 1, 0)
    first = np.zeros((len(steps), 1), dtype=np.int64)
    return np.stack((mean - p50, np.diff(p50, prepend=first), p90 - p50, p95 - p90, maximum - p95), axis=1)


def _undone(differences: Steps) -> Steps:
    mean, p50, p90, p95, maximum = np.moveaxis(differences, 1, 0)
    p50 = np.cumsum(p50, axis=1)
    p90 = p50 + p90
    p95 = p90 + p95
    return np.stack((p50 + mean, p50, p90, p95, p95 + maximum), axis=1)
