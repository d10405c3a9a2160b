"""Hourly history, long peaks and runs of a row as compressed base64 text beside its checkpoint.

Every value is a step on a scale of 1 %. Steps are stored as differences, the lower bytes first and then the upper, and
compressed. Where a text would be too long, the oldest hours or runs are left out.

| what | at most | differences from | typical length |
|---|---|---|---|
| hourly history | 16 KB | the hour before, or the measure below | 6 KB for 35 days with a daily rhythm, 15 KB noise |
| long peaks | 4 KB | the cell before | 1.3 KB for 280 days of a service, 3 KB of noise |
| runs | 8 KB | the interval before (mean), or the mean (highest) | 3 KB for twelve runs of three phases |
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from trellis.base.errors import InvalidCheckpoint
from trellis.core.usage.columns import IntColumn
from trellis.core.usage.history.hourly import CELLS, Peaks
from trellis.core.usage.history.hours import MEASURES, Ring
from trellis.core.usage.history.job_runs import HIGHEST, INTERVALS, MEAN, MOST_DOUBLINGS, RUNS, StoredRun


def compress(data: bytes) -> str:
    """The text of some bytes."""
    return base64.b64encode(zlib.compress(data, 9)).decode()


def decompress(field: str, text: str, *, max_text_length: int, max_size: int) -> tuple[bytes, bool]:
    """The bytes of a text of at most `max_text_length` characters, and whether that is all; raises `InvalidCheckpoint`.

    No more than `max_size` bytes are unpacked: a few characters can be made to unpack to gigabytes.
    """
    if len(text) > max_text_length:
        raise InvalidCheckpoint(field, text, f"must not be longer than {max_text_length} characters")
    reader = zlib.decompressobj()
    try:
        data = reader.decompress(base64.b64decode(text, validate=True), max_size)
    except (ValueError, zlib.error) as error:
        raise InvalidCheckpoint(field, text, "must be base64 of zlib") from error
    return data, reader.eof


LONGEST_HISTORY_TEXT = 16_384
_VERSION = 1
_HISTORY_HEADER = np.dtype([("version", "<u1"), ("newest", "<i4"), ("hours", "<u2")])
_UNITS = np.array([1e-3, 1e5])[:, np.newaxis, np.newaxis]  # cores and bytes below which the scale is even
_STEP = float(np.log1p(0.01))
_UNKNOWN = 0  # a step that no value has: they start at 1
_HIGHEST = 3_000  # the step of 10^10 cores or 10^18 bytes
_MOST_HOURS = 366 * 24
_HISTORY_FIELD = "status.history"

Steps = npt.NDArray[np.int64]


def encode_history(newest: int, values: Ring) -> str:
    """(resources, measures, hours), the last of them the hour `newest`; "" if nothing is known."""
    measured = np.flatnonzero(~np.isnan(values[:, 0]).all(axis=0))
    hours = values.shape[-1] - int(measured[0]) if len(measured) else 0
    while hours:
        text = _encode_hours(newest, values[:, :, values.shape[-1] - hours :])
        if len(text) <= LONGEST_HISTORY_TEXT:
            return text
        hours = min(hours - 1, hours * LONGEST_HISTORY_TEXT // len(text))
    return ""


def decode_history(text: str) -> tuple[int, Ring]:
    """The newest hour and the values; raises `InvalidCheckpoint`."""
    most = _HISTORY_HEADER.itemsize + _MOST_HOURS * 2 * len(MEASURES) * 2 + 1
    data, is_complete = decompress(_HISTORY_FIELD, text, max_text_length=LONGEST_HISTORY_TEXT, max_size=most)
    if len(data) < _HISTORY_HEADER.itemsize or data[0] != _VERSION:
        raise InvalidCheckpoint(_HISTORY_FIELD, text, f"must have format {_VERSION}")
    header = np.frombuffer(data, _HISTORY_HEADER, count=1)[0]
    newest, hours = int(header["newest"]), int(header["hours"])
    if len(data) != _HISTORY_HEADER.itemsize + hours * 2 * len(MEASURES) * 2 or not is_complete or newest < 0:
        raise InvalidCheckpoint(_HISTORY_FIELD, text, f"must have the {hours} hours that its header declares")
    halves = np.frombuffer(data, np.uint8, offset=_HISTORY_HEADER.itemsize).reshape(2, 2, len(MEASURES), hours)
    folded = halves[0].astype(np.int64) | halves[1].astype(np.int64) << 8
    steps = _accumulate_hours((folded >> 1) ^ -(folded & 1))
    if hours and not 0 <= steps.min() <= steps.max() <= _HIGHEST:
        raise InvalidCheckpoint(_HISTORY_FIELD, text, "must have valid values")
    values = np.expm1((steps - 1) * _STEP) * _UNITS
    return newest, np.where(steps == _UNKNOWN, np.nan, values).astype(np.float32)


def _encode_hours(newest: int, values: Ring) -> str:
    steps = np.minimum(np.rint(np.log1p(values.astype(np.float64) / _UNITS) / _STEP) + 1, _HIGHEST)
    differences = _difference_hours(np.where(np.isnan(steps), _UNKNOWN, steps).astype(np.int64))
    folded = (differences << 1) ^ (differences >> 63)  # the sign goes into the lowest bit: small numbers stay small
    header = np.array([(_VERSION, newest, values.shape[-1])], dtype=_HISTORY_HEADER)
    data = header.tobytes() + (folded & 255).astype(np.uint8).tobytes() + (folded >> 8).astype(np.uint8).tobytes()
    return compress(data)


def _difference_hours(steps: Steps) -> Steps:
    """The median from the hour before, every other measure from the one below it."""
    mean, p50, p90, p95, maximum = np.moveaxis(steps, 1, 0)
    first = np.zeros((len(steps), 1), dtype=np.int64)
    return np.stack((mean - p50, np.diff(p50, prepend=first), p90 - p50, p95 - p90, maximum - p95), axis=1)


def _accumulate_hours(differences: Steps) -> Steps:
    mean, p50, p90, p95, maximum = np.moveaxis(differences, 1, 0)
    p50 = np.cumsum(p50, axis=1)
    p90 = p50 + p90
    p95 = p90 + p95
    return np.stack((p50 + mean, p50, p90, p95, p95 + maximum), axis=1)


LONGEST_PEAKS_TEXT = 4_096


_PEAKS_HEADER = np.dtype([("version", "<u1"), ("newest", "<i4"), ("cells", "<u2")])
_PEAKS_UNIT = 1e5  # bytes below which the scale is even


_PEAKS_FIELD = "status.peaks"


def encode_peaks(newest: int, peaks: Peaks) -> str:
    """Peaks of cells, the last of them `newest`; "" if none is known."""
    measured = np.flatnonzero(~np.isnan(peaks))
    if not len(measured):
        return ""
    peaks = peaks[measured[0] :]
    steps = np.minimum(np.rint(np.log1p(peaks.astype(np.float64) / _PEAKS_UNIT) / _STEP) + 1, _HIGHEST)
    coded: IntColumn = np.where(np.isnan(steps), _UNKNOWN, steps).astype(np.int64)
    differences = coded - np.concatenate(([0], coded[:-1]))
    folded = (differences << 1) ^ (differences >> 63)
    header = np.array([(_VERSION, newest, len(peaks))], dtype=_PEAKS_HEADER)
    data = header.tobytes() + (folded & 255).astype(np.uint8).tobytes() + (folded >> 8).astype(np.uint8).tobytes()
    return compress(data)


def decode_peaks(text: str) -> tuple[int, Peaks]:
    """The newest cell, and the peaks up to it; raises `InvalidCheckpoint`."""
    data, is_complete = decompress(
        _PEAKS_FIELD, text, max_text_length=LONGEST_PEAKS_TEXT, max_size=_PEAKS_HEADER.itemsize + 2 * CELLS + 1
    )
    if len(data) < _PEAKS_HEADER.itemsize or data[0] != _VERSION:
        raise InvalidCheckpoint(_PEAKS_FIELD, text, f"must have format {_VERSION}")
    header = np.frombuffer(data, _PEAKS_HEADER, count=1)[0]
    newest, cells = int(header["newest"]), int(header["cells"])
    if len(data) != _PEAKS_HEADER.itemsize + 2 * cells or not is_complete or newest < 0:
        raise InvalidCheckpoint(_PEAKS_FIELD, text, f"must have the {cells} peaks that its header declares")
    halves = np.frombuffer(data, np.uint8, offset=_PEAKS_HEADER.itemsize).reshape(2, cells)
    folded = halves[0].astype(np.int64) | halves[1].astype(np.int64) << 8
    steps = np.cumsum((folded >> 1) ^ -(folded & 1))
    if cells and not 0 <= steps.min() <= steps.max() <= _HIGHEST:
        raise InvalidCheckpoint(_PEAKS_FIELD, text, "must have valid values")
    values = np.expm1((steps - 1) * _STEP) * _PEAKS_UNIT
    return newest, np.where(steps == _UNKNOWN, np.nan, values).astype(np.float32)


LONGEST_RUNS_TEXT = 8_192


_RUN_HEADER = np.dtype([("begin", "<f8"), ("last", "<f8"), ("doublings", "<u1")])


_HIGHEST_STEP = 3_000  # the step of 10^10 cores or 10^18 bytes
_VALUES_PER_RUN = 2 * 2 * INTERVALS  # of one run
_RUNS_FIELD = "status.runs"


def encode_runs(runs: Sequence[StoredRun]) -> str:
    """Runs, oldest first; "" if there are none."""
    for first in range(len(runs)):
        text = _encode_run_intervals(runs[first:])
        if len(text) <= LONGEST_RUNS_TEXT:
            return text
    return ""


def decode_runs(text: str) -> list[StoredRun]:
    """The runs; raises `InvalidCheckpoint`."""
    if len(text) > LONGEST_RUNS_TEXT:
        raise InvalidCheckpoint(_RUNS_FIELD, text, f"must not be longer than {LONGEST_RUNS_TEXT} characters")
    try:
        packed = base64.b64decode(text, validate=True)
        reader = zlib.decompressobj()
        # No more than the most runs can have: a few bytes can be made to unpack to gigabytes.
        data = reader.decompress(packed, 2 + RUNS * (_RUN_HEADER.itemsize + 2 * _VALUES_PER_RUN) + 1)
    except (ValueError, zlib.error) as error:
        raise InvalidCheckpoint(_RUNS_FIELD, text, "must be base64 of zlib") from error
    if len(data) < 2 or data[0] != _VERSION:
        raise InvalidCheckpoint(_RUNS_FIELD, text, f"must have format {_VERSION}")
    count = data[1]
    if count > RUNS or len(data) != 2 + count * (_RUN_HEADER.itemsize + 2 * _VALUES_PER_RUN) or not reader.eof:
        raise InvalidCheckpoint(
            _RUNS_FIELD, text, f"must have the {count} runs that its header declares, and at most {RUNS}"
        )
    heads = np.frombuffer(data, _RUN_HEADER, count=count, offset=2)
    halves = np.frombuffer(data, np.uint8, offset=2 + count * _RUN_HEADER.itemsize).reshape(2, count, 2, 2, INTERVALS)
    folded = halves[0].astype(np.int64) | halves[1].astype(np.int64) << 8
    steps = _accumulate_intervals((folded >> 1) ^ -(folded & 1))
    if count and not 0 <= steps.min() <= steps.max() <= _HIGHEST_STEP:
        raise InvalidCheckpoint(_RUNS_FIELD, text, "must have valid values")
    values = np.where(steps == _UNKNOWN, np.nan, np.expm1((steps - 1) * _STEP) * _UNITS).astype(np.float32)
    if (np.isnan(values[:, :, MEAN]) != np.isnan(values[:, :, HIGHEST])).any():
        raise InvalidCheckpoint(_RUNS_FIELD, text, "must have both values of an entry, or neither")
    return [_decode_run(text, head, run_values) for head, run_values in zip(heads.tolist(), values, strict=True)]


def _decode_run(
    text: str, head: tuple[float, float, int], values: np.ndarray[tuple[int, ...], np.dtype[np.float32]]
) -> StoredRun:
    begin, last, doublings = head
    if not math.isfinite(begin) or not math.isfinite(last) or begin < 0 or doublings > MOST_DOUBLINGS:
        raise InvalidCheckpoint(_RUNS_FIELD, text, "must have valid runs")
    return StoredRun(begin, last, doublings, values)


def _encode_run_intervals(runs: Sequence[StoredRun]) -> str:
    heads = np.array([(run.begin, run.last, run.doublings) for run in runs], dtype=_RUN_HEADER)
    values = np.stack([run.values for run in runs]).astype(np.float64)
    steps = np.minimum(np.rint(np.log1p(values / _UNITS) / _STEP) + 1, _HIGHEST_STEP)
    differences = _difference_intervals(np.where(np.isnan(steps), _UNKNOWN, steps).astype(np.int64))
    folded = (differences << 1) ^ (differences >> 63)  # the sign goes into the lowest bit: small numbers stay small
    halves = (folded & 255).astype(np.uint8).tobytes() + (folded >> 8).astype(np.uint8).tobytes()
    data = bytes((_VERSION, len(runs))) + heads.tobytes() + halves
    return base64.b64encode(zlib.compress(data, 9)).decode()


def _difference_intervals(steps: IntColumn) -> IntColumn:
    """The mean from the interval before, the highest from the mean."""
    mean, highest = steps[:, :, MEAN], steps[:, :, HIGHEST]
    return np.stack((np.diff(mean, prepend=np.zeros_like(mean[..., :1])), highest - mean), axis=2)


def _accumulate_intervals(differences: IntColumn) -> IntColumn:
    mean = np.cumsum(differences[:, :, MEAN], axis=-1)
    return np.stack((mean, mean + differences[:, :, HIGHEST]), axis=2)
