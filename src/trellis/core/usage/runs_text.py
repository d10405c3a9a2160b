"""How are the runs of a row kept beside its checkpoint?

As base64 text of at most 8 KB for both resources: every value as a step on a scale of 1 %, means as differences from
the place before and the highest as differences from the mean, the lower bytes first and then the upper, compressed.
Twelve runs of three phases take 3 KB. Where there is not room for all, the oldest runs are left out.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Sequence

import numpy as np

from trellis.base.errors import InvalidCheckpoint
from trellis.core.usage.columns import IntColumn
from trellis.core.usage.run_cells import HIGHEST, MEAN, PLACES
from trellis.core.usage.runs import MOST_DOUBLINGS, RUNS, StoredRun

LONGEST_TEXT = 8_192
_VERSION = 1
_RUN = np.dtype([("begin", "<f8"), ("last", "<f8"), ("doublings", "<u1")])
_UNITS = np.array([1e-3, 1e5])[:, np.newaxis, np.newaxis]  # cores and bytes below which the scale is even
_STEP = float(np.log1p(0.01))
_UNKNOWN = 0  # a step that no value has: they start at 1
_HIGHEST_STEP = 3_000  # the step of 10^10 cores or 10^18 bytes
_VALUES = 2 * 2 * PLACES  # of one run
_FIELD = "status.runs"


def as_text(runs: Sequence[StoredRun]) -> str:
    """Runs, oldest first; "" if there are none."""
    for first in range(len(runs)):
        text = _written(runs[first:])
        if len(text) <= LONGEST_TEXT:
            return text
    return ""


def read_text(text: str) -> list[StoredRun]:
    """The runs; raises `InvalidCheckpoint`."""
    if len(text) > LONGEST_TEXT:
        raise InvalidCheckpoint(_FIELD, text, f"must not be longer than {LONGEST_TEXT} characters")
    try:
        packed = base64.b64decode(text, validate=True)
        reader = zlib.decompressobj()
        # No more than the most runs can have: a few bytes can be made to unpack to gigabytes.
        data = reader.decompress(packed, 2 + RUNS * (_RUN.itemsize + 2 * _VALUES) + 1)
    except (ValueError, zlib.error) as error:
        raise InvalidCheckpoint(_FIELD, text, "must be base64 of zlib") from error
    if len(data) < 2 or data[0] != _VERSION:
        raise InvalidCheckpoint(_FIELD, text, f"must have format {_VERSION}")
    count = data[1]
    if count > RUNS or len(data) != 2 + count * (_RUN.itemsize + 2 * _VALUES) or not reader.eof:
        raise InvalidCheckpoint(_FIELD, text, f"must have the {count} runs that it says it has, and at most {RUNS}")
    heads = np.frombuffer(data, _RUN, count=count, offset=2)
    halves = np.frombuffer(data, np.uint8, offset=2 + count * _RUN.itemsize).reshape(2, count, 2, 2, PLACES)
    folded = halves[0].astype(np.int64) | halves[1].astype(np.int64) << 8
    steps = _undone((folded >> 1) ^ -(folded & 1))
    if count and not 0 <= steps.min() <= steps.max() <= _HIGHEST_STEP:
        raise InvalidCheckpoint(_FIELD, text, "must have values that can be")
    values = np.where(steps == _UNKNOWN, np.nan, np.expm1((steps - 1) * _STEP) * _UNITS).astype(np.float32)
    if (np.isnan(values[:, :, MEAN]) != np.isnan(values[:, :, HIGHEST])).any():
        raise InvalidCheckpoint(_FIELD, text, "must have both measures of a place, or neither")
    return [_read(text, head, each) for head, each in zip(heads.tolist(), values, strict=True)]


def _read(
    text: str, head: tuple[float, float, int], values: np.ndarray[tuple[int, ...], np.dtype[np.float32]]
) -> StoredRun:
    begin, last, doublings = head
    if not math.isfinite(begin) or not math.isfinite(last) or begin < 0 or doublings > MOST_DOUBLINGS:
        raise InvalidCheckpoint(_FIELD, text, "must have runs that can be")
    return StoredRun(begin, last, doublings, values)


def _written(runs: Sequence[StoredRun]) -> str:
    heads = np.array([(run.begin, run.last, run.doublings) for run in runs], dtype=_RUN)
    values = np.stack([run.values for run in runs]).astype(np.float64)
    steps = np.minimum(np.rint(np.log1p(values / _UNITS) / _STEP) + 1, _HIGHEST_STEP)
    differences = _done(np.where(np.isnan(steps), _UNKNOWN, steps).astype(np.int64))
    folded = (differences << 1) ^ (differences >> 63)  # the sign goes into the lowest bit: small numbers stay small
    halves = (folded & 255).astype(np.uint8).tobytes() + (folded >> 8).astype(np.uint8).tobytes()
    data = bytes((_VERSION, len(runs))) + heads.tobytes() + halves
    return base64.b64encode(zlib.compress(data, 9)).decode()


def _done(steps: IntColumn) -> IntColumn:
    """The mean from the place before, the highest from the mean."""
    mean, highest = steps[:, :, MEAN], steps[:, :, HIGHEST]
    return np.stack((np.diff(mean, prepend=np.zeros_like(mean[..., :1])), highest - mean), axis=2)


def _undone(differences: IntColumn) -> IntColumn:
    mean = np.cumsum(differences[:, :, MEAN], axis=-1)
    return np.stack((mean, mean + differences[:, :, HIGHEST]), axis=2)
