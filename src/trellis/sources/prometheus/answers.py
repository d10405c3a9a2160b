"""What did Prometheus answer? Series of numbers, read from the body without an object for each sample.

The decoder skips over the values of a series, which is the bulk of the bytes. They are then stripped of brackets and
quotes and read as one long list of numbers, a few thousand at a time: 4 million samples a second, and no longer than
some milliseconds without letting other threads run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np

from trellis.base.errors import PrometheusRefused, shown
from trellis.core.usage.columns import FloatColumn, IntColumn

_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_NOTHING: Final = msgspec.Raw(b"[]")
# Bytes of values that are read in one go: 30,000 samples, some 5 ms.
_AT_ONCE: Final = 1 << 20
_MATRIX: Final = "matrix"
_VECTOR: Final = "vector"


class Answer(msgspec.Struct, frozen=True):
    """Series by series: `labels` and `counts` have an entry for each, `times` and `values` one for each sample.

    Times are in seconds since 1970. A value that is not a finite number is NaN.
    """

    labels: Sequence[Mapping[str, str]]
    counts: IntColumn
    times: FloatColumn
    values: FloatColumn

    @property
    def owners(self) -> IntColumn:
        """For each sample the position of its series."""
        return np.repeat(np.arange(len(self.labels), dtype=np.int64), self.counts)


class ErrorAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """How Prometheus says no."""

    error: str = ""
    error_type: str = ""


class _Data(msgspec.Struct, rename="camel"):
    result_type: str
    result: msgspec.Raw


class _Body(msgspec.Struct):
    status: str
    data: _Data


class _LabelSets(msgspec.Struct):
    status: str
    data: list[dict[str, str]]


class _Series(msgspec.Struct, gc=False):
    metric: dict[str, str] = {}
    values: msgspec.Raw = _NOTHING
    value: msgspec.Raw = _NOTHING


_BODIES: Final = msgspec.json.Decoder(_Body)
_SERIES: Final = msgspec.json.Decoder(list[_Series])
_LABELS: Final = msgspec.json.Decoder(_LabelSets)
_NUMBERS: Final = msgspec.json.Decoder(list[float | None])


def read_answer(body: bytes) -> Answer:
    """A vector or a matrix; raises `PrometheusRefused` if the body is neither."""
    try:
        data = _BODIES.decode(body).data
        if data.result_type not in (_MATRIX, _VECTOR):
            raise PrometheusRefused(f"a {data.result_type} was answered, where series of numbers were expected", 200)
        series = _SERIES.decode(data.result)
    except _UNREADABLE as error:
        raise _unreadable(body, error) from error
    if data.result_type == _VECTOR:
        raws = [bytes(each.value) for each in series]
        counts = np.array([1 if len(raw) > 2 else 0 for raw in raws], dtype=np.int64)
    else:
        raws = [bytes(each.values) for each in series]
        # Each sample is a list in a list.
        counts = np.array([raw.count(b"[") - 1 for raw in raws], dtype=np.int64)
    flat = _numbers([raw for raw, count in zip(raws, counts.tolist(), strict=True) if count])
    if len(flat) != 2 * int(counts.sum()):
        raise PrometheusRefused("the answer is none of Prometheus: a sample is not a time and a value", 200)
    return Answer([each.metric for each in series], counts, flat[0::2].copy(), flat[1::2].copy())


def read_label_sets(body: bytes) -> list[dict[str, str]]:
    """Series without their samples; raises `PrometheusRefused`."""
    try:
        return _LABELS.decode(body).data
    except _UNREADABLE as error:
        raise _unreadable(body, error) from error


def read_error(body: bytes) -> ErrorAnswer | None:
    """What Prometheus says of an error, in its own words; None if somebody else answered."""
    try:
        found = msgspec.json.decode(body, type=ErrorAnswer)
    except _UNREADABLE:
        return None
    return found if found.error else None


def _unreadable(body: bytes, error: Exception) -> PrometheusRefused:
    excerpt = shown(body[:400].decode("utf-8", "replace"))
    return PrometheusRefused(f"the answer is none of Prometheus: {error}: {excerpt}", 200)


def _numbers(raws: Sequence[bytes]) -> FloatColumn:
    """Times and values in turn, of all series one after the other."""
    parts = [_read(b",".join(raws[first:last])) for first, last in _stretches(raws)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.float64)


def _stretches(raws: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """From and to which series there are so many bytes."""
    ends = np.cumsum([len(raw) for raw in raws], dtype=np.int64)
    marks = np.flatnonzero(np.diff(ends // _AT_ONCE)) + 1
    return pairwise(dict.fromkeys([0, *marks.tolist(), len(raws)]))


def _read(text: bytes) -> FloatColumn:
    text = text.translate(None, b'[]" \n\t\r')
    if b"N" in text or b"I" in text:
        for word in (b"NaN", b"+Inf", b"-Inf", b"Inf"):
            text = text.replace(word, b"null")
    try:
        return np.array(_NUMBERS.decode(b"[" + text + b"]"), dtype=np.float64)
    except _UNREADABLE:
        return np.array([_number(each) for each in text.split(b",")], dtype=np.float64)


def _number(text: bytes) -> float:
    """Numbers that Go can write and JSON cannot."""
    try:
        number = float(text)
    except ValueError:
        return np.nan
    return number if np.isfinite(number) else np.nan
