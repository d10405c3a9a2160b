"""How are the long peaks of a row stored in its checkpoint?

As base64 text: every peak as a step on a scale of 1 %, steps as differences from the cell before, the lower bytes first
and then the upper, compressed. 280 days of a service take about 1.3 KB, and of pure noise 3 KB.
"""

from __future__ import annotations

import numpy as np

from trellis.base.errors import InvalidCheckpoint
from trellis.core.usage.columns import IntColumn
from trellis.core.usage.compressed_text import compress, decompress
from trellis.core.usage.long_peaks import CELLS, Peaks

LONGEST_TEXT = 4_096
_VERSION = 1
_HEADER = np.dtype([("version", "<u1"), ("newest", "<i4"), ("cells", "<u2")])
_UNIT = 1e5  # bytes below which the scale is even
_STEP = float(np.log1p(0.01))
_UNKNOWN = 0  # a step that no value has: they start at 1
_HIGHEST = 3_000
_FIELD = "status.peaks"


def as_text(newest: int, peaks: Peaks) -> str:
    """Peaks of cells, the last of them `newest`; "" if none is known."""
    known = np.flatnonzero(~np.isnan(peaks))
    if not len(known):
        return ""
    peaks = peaks[known[0] :]
    steps = np.minimum(np.rint(np.log1p(peaks.astype(np.float64) / _UNIT) / _STEP) + 1, _HIGHEST)
    whole: IntColumn = np.where(np.isnan(steps), _UNKNOWN, steps).astype(np.int64)
    differences = whole - np.concatenate(([0], whole[:-1]))
    folded = (differences << 1) ^ (differences >> 63)
    header = np.array([(_VERSION, newest, len(peaks))], dtype=_HEADER)
    data = header.tobytes() + (folded & 255).astype(np.uint8).tobytes() + (folded >> 8).astype(np.uint8).tobytes()
    return compress(data)


def read_text(text: str) -> tuple[int, Peaks]:
    """The newest cell, and the peaks up to it; raises `InvalidCheckpoint`."""
    data, whole = decompress(_FIELD, text, longest=LONGEST_TEXT, most=_HEADER.itemsize + 2 * CELLS + 1)
    if len(data) < _HEADER.itemsize or data[0] != _VERSION:
        raise InvalidCheckpoint(_FIELD, text, f"must have format {_VERSION}")
    header = np.frombuffer(data, _HEADER, count=1)[0]
    newest, cells = int(header["newest"]), int(header["cells"])
    if len(data) != _HEADER.itemsize + 2 * cells or not whole or newest < 0:
        raise InvalidCheckpoint(_FIELD, text, f"must have the {cells} peaks that it says it has")
    halves = np.frombuffer(data, np.uint8, offset=_HEADER.itemsize).reshape(2, cells)
    folded = halves[0].astype(np.int64) | halves[1].astype(np.int64) << 8
    steps = np.cumsum((folded >> 1) ^ -(folded & 1))
    if cells and not 0 <= steps.min() <= steps.max() <= _HIGHEST:
        raise InvalidCheckpoint(_FIELD, text, "must have values that can be")
    values = np.expm1((steps - 1) * _STEP) * _UNIT
    return newest, np.where(steps == _UNKNOWN, np.nan, values).astype(np.float32)
