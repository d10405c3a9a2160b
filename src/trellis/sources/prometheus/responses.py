"""Reads Prometheus's responses: series of numbers without an object for each sample, and errors.

The decoder skips over the values of a series, which is the bulk of the bytes. They are then stripped of brackets and
quotes and read as one long list of numbers, a few thousand at a time: 4 million samples a second, and no longer than
some milliseconds without letting other threads run.

An error names the setting to change, where there is one, and whether the query asked for too much.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np

from trellis.base.errors import PrometheusLimitExceeded, PrometheusRefused, format_value
from trellis.core.usage.columns import FloatColumn, IntColumn

_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_NOTHING: Final = msgspec.Raw(b"[]")
# Bytes of values that are read in one go: 30,000 samples, some 5 ms.
_AT_ONCE: Final = 1 << 20
_MATRIX: Final = "matrix"
_VECTOR: Final = "vector"


class QueryResult(msgspec.Struct, frozen=True):
    """Series by series: `labels` and `counts` have an entry for each, `times` and `values` one for each sample.

    Times are in seconds since 1970. A value that is not a finite number is NaN.
    """

    labels: Sequence[Mapping[str, str]]
    counts: IntColumn
    times: FloatColumn
    values: FloatColumn

    @property
    def owners(self) -> IntColumn:
        """The position of the series of each sample."""
        return np.repeat(np.arange(len(self.labels), dtype=np.int64), self.counts)


class ErrorResponse(msgspec.Struct, frozen=True, rename="camel"):
    """An error response of Prometheus."""

    error: str = ""
    error_type: str = ""


class _ResponseData(msgspec.Struct, rename="camel"):
    result_type: str
    result: msgspec.Raw


class _ResponseBody(msgspec.Struct):
    status: str
    data: _ResponseData


class _LabelSets(msgspec.Struct):
    status: str
    data: list[dict[str, str]]


class _ResponseSeries(msgspec.Struct, gc=False):
    metric: dict[str, str] = {}
    values: msgspec.Raw = _NOTHING
    value: msgspec.Raw = _NOTHING


_BODIES: Final = msgspec.json.Decoder(_ResponseBody)
_SERIES: Final = msgspec.json.Decoder(list[_ResponseSeries])
_LABELS: Final = msgspec.json.Decoder(_LabelSets)
_NUMBERS: Final = msgspec.json.Decoder(list[float | None])


def read_query_result(body: bytes) -> QueryResult:
    """A vector or a matrix; raises `PrometheusRefused` if the body is neither."""
    try:
        data = _BODIES.decode(body).data
        if data.result_type not in (_MATRIX, _VECTOR):
            raise PrometheusRefused(f"the response is a {data.result_type} instead of a matrix or vector", 200)
        series = _SERIES.decode(data.result)
    except _UNREADABLE as error:
        raise _build_unreadable_error(body, error) from error
    if data.result_type == _VECTOR:
        raws = [bytes(item.value) for item in series]
        counts = np.array([1 if len(raw) > 2 else 0 for raw in raws], dtype=np.int64)
    else:
        raws = [bytes(item.values) for item in series]
        # Each sample is a list in a list.
        counts = np.array([raw.count(b"[") - 1 for raw in raws], dtype=np.int64)
    flat = _read_numbers([raw for raw, count in zip(raws, counts.tolist(), strict=True) if count])
    if len(flat) != 2 * int(counts.sum()):
        raise PrometheusRefused("the response is not one of Prometheus: a sample is not a time and a value", 200)
    return QueryResult([item.metric for item in series], counts, flat[0::2].copy(), flat[1::2].copy())


def read_label_sets(body: bytes) -> list[dict[str, str]]:
    """Series without their samples; raises `PrometheusRefused`."""
    try:
        return _LABELS.decode(body).data
    except _UNREADABLE as error:
        raise _build_unreadable_error(body, error) from error


def read_error(body: bytes) -> ErrorResponse | None:
    """The error in a response of Prometheus; None if the body is not one of Prometheus."""
    try:
        response = msgspec.json.decode(body, type=ErrorResponse)
    except _UNREADABLE:
        return None
    return response if response.error else None


def _build_unreadable_error(body: bytes, error: Exception) -> PrometheusRefused:
    excerpt = format_value(body[:400].decode("utf-8", "replace"))
    return PrometheusRefused(f"the response is not one of Prometheus: {error}: {excerpt}", 200)


def _read_numbers(raws: Sequence[bytes]) -> FloatColumn:
    """Times and values in turn, of all series one after the other."""
    parts = [_parse_numbers(b",".join(raws[first:last])) for first, last in _split_by_bytes(raws)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.float64)


def _split_by_bytes(raws: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Ranges of series with a bounded number of bytes."""
    ends = np.cumsum([len(raw) for raw in raws], dtype=np.int64)
    marks = np.flatnonzero(np.diff(ends // _AT_ONCE)) + 1
    return pairwise(dict.fromkeys([0, *marks.tolist(), len(raws)]))


def _parse_numbers(text: bytes) -> FloatColumn:
    text = text.translate(None, b'[]" \n\t\r')
    if b"N" in text or b"I" in text:
        for word in (b"NaN", b"+Inf", b"-Inf", b"Inf"):
            text = text.replace(word, b"null")
    try:
        return np.array(_NUMBERS.decode(b"[" + text + b"]"), dtype=np.float64)
    except _UNREADABLE:
        return np.array([_parse_number(number) for number in text.split(b",")], dtype=np.float64)


def _parse_number(text: bytes) -> float:
    """Numbers that Go can write and JSON cannot."""
    try:
        number = float(text)
    except ValueError:
        return np.nan
    return number if np.isfinite(number) else np.nan


_TIMEOUT: Final = "timeout"
# Prometheus, Thanos, Mimir and VictoriaMetrics each have words of their own for it. To take another error for one of
# these costs a few smaller queries, which fail in the same way.
_TOO_MUCH: Final = re.compile(
    r"too (?:many|much|large|long|big)|larger than|exceed|limit|maximum|timed out|deadline|-search\.max", re.IGNORECASE
)
# The recommender has a flag for each setting; a command takes most of them from a file.
_CREDENTIALS: Final = (
    "set prometheus-bearer-token-file, or username and password: for the recommender by flags, for other commands in "
    "the file of --prometheus-config"
)
_ADDRESS: Final = "see --prometheus-address of the recommender, --prometheus-url of other commands"
_ADVICE: Final = {
    401: f"it does not accept the credentials; {_CREDENTIALS}",
    403: f"the credentials do not allow queries; {_CREDENTIALS}",
    404: f"this address does not serve the API of Prometheus; {_ADDRESS}",
}
_REDIRECTS: Final = range(300, 400)


def build_refusal(address: str, status: int, headers: Mapping[str, str], body: bytes) -> PrometheusRefused:
    """The error of a response other than 200."""
    response = read_error(body)
    reason = response.error if response else _format_excerpt(body)
    kind = response.error_type if response else ""
    if status in _REDIRECTS:
        reason = f"it redirects to {headers.get('Location', 'another address')}; {_ADDRESS}"
    elif status in _ADVICE and not kind:
        reason = f"{_ADVICE[status]}{f' ({reason})' if reason else ''}"
    message = f"Prometheus at {address} answers {status}: {reason or 'no reason'}"
    return (PrometheusLimitExceeded if _asks_too_much(status, kind, reason) else PrometheusRefused)(
        message, status, kind
    )


def is_temporary(error: PrometheusRefused) -> bool:
    """Whether the same query may succeed later."""
    if isinstance(error, PrometheusLimitExceeded):
        return False
    return error.status == 429 or error.status >= 500


def retry_after(headers: Mapping[str, str], most: float) -> float | None:
    """The seconds in the Retry-After header, at most `most`."""
    text = headers.get("Retry-After", "")
    return min(float(text), most) if text.isascii() and text.isdigit() else None


def _asks_too_much(status: int, kind: str, reason: str) -> bool:
    if status == 413 or kind == _TIMEOUT:
        return True
    return status in (400, 422) and _TOO_MUCH.search(reason) is not None


def _format_excerpt(body: bytes) -> str:
    """The beginning of a body in one line: a proxy responds with a page."""
    return format_value(" ".join(body[:400].decode("utf-8", "replace").split())) if body else ""
