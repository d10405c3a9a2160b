"""Parses a column of dates with a time of day at once, if all of it is written in one form.

NumPy can read dates as well, but crashes the process where a long column holds one that is none: digits are
checked here before anything is made of them.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import numpy.typing as npt

from trellis.base.errors import InvalidTime
from trellis.base.times import parse_time
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.sources.series.csv_parser import TextColumn, build_field_error

_RULE: Final = "is not a time: write seconds since 1970, or as in 2026-11-15T18:00:00Z"
_FORM: Final = re.compile(
    rb"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
    rb"(?:[T ](?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?)?)?"
    rb"(?: ?(?:Z|z|UTC|GMT|(?P<sign>[-+])(?P<ahead>\d\d)(?::?(?P<more>\d\d))?))?"
)
_MOST: Final = {"hour": 23, "minute": 59, "second": 59, "ahead": 23, "more": 59}
_MONTHS: Final = 12
_ZERO: Final = np.uint8(ord("0"))


def parse_timestamps(source: str, column: str, texts: TextColumn, first: int) -> FloatColumn:
    """Seconds since 1970; what says no zone is UTC. `first` is the row of the first."""
    uniform = _parse_uniform(texts)
    if uniform is not None:
        return uniform
    seconds = np.empty(len(texts))
    for place, text in enumerate(texts.tolist()):
        try:
            seconds[place] = parse_time(_convert_to_rfc_3339(text)).timestamp()
        except InvalidTime:
            raise build_field_error(source, first + place, column, text, _RULE) from None
    return seconds


def _parse_uniform(texts: TextColumn) -> FloatColumn | None:
    """Parse a whole column digit by digit; None if the forms differ or a time is invalid."""
    form = _FORM.fullmatch(bytes(texts[0]))
    width = texts.dtype.itemsize
    if form is None or form.end() != width:
        return None
    letters = np.ascontiguousarray(texts).view(np.uint8).reshape(len(texts), width)
    digits = letters - _ZERO  # what is before 0 wraps around
    is_digit = digits <= 9
    may_differ = is_digit[0].copy()
    if form["sign"]:
        may_differ[form.start("sign")] = True
        is_digit[:, form.start("sign")] = np.isin(letters[:, form.start("sign")], (ord("+"), ord("-")))
    if not (is_digit[:, may_differ].all() and (letters[:, ~may_differ] == letters[0, ~may_differ]).all()):
        return None
    parts = {name: _read_number(digits, form, name) for name in form.groupdict() if name != "sign"}
    return _compute_seconds(parts, letters[:, form.start("sign")] == ord("-") if form["sign"] else None)


def _compute_seconds(parts: dict[str, IntColumn], is_behind: npt.NDArray[np.bool_] | None) -> FloatColumn | None:
    months = 12 * (parts["year"] - 1970) + parts["month"] - 1
    begins, ends = (_compute_first_day(months), _compute_first_day(months + 1))
    is_valid = (parts["month"] >= 1) & (parts["month"] <= _MONTHS)
    is_valid &= (parts["day"] >= 1) & (parts["day"] <= ends - begins)
    for name, most in _MOST.items():
        is_valid &= parts[name] <= most
    if not is_valid.all():
        return None
    minutes = 60 * parts["hour"] + parts["minute"]
    ahead = 60 * parts["ahead"] + parts["more"]
    minutes -= ahead if is_behind is None else np.where(is_behind, -ahead, ahead)
    days = begins + parts["day"] - 1
    seconds: FloatColumn = (86_400 * days + 60 * minutes + parts["second"]).astype(np.float64)
    return seconds + parts["fraction"] / 1e9


def _compute_first_day(months: IntColumn) -> IntColumn:
    days: IntColumn = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return days


def _read_number(digits: npt.NDArray[np.uint8], form: re.Match[bytes], name: str) -> IntColumn:
    """The number of one part; of a fraction, in billionths."""
    begin, end = form.span(name)
    if begin < 0:
        return np.zeros(len(digits), dtype=np.int64)
    powers = 10 ** np.arange(end - begin - 1, -1, -1, dtype=np.int64)
    if name == "fraction":
        powers *= 10 ** (9 - (end - begin))
    numbers: IntColumn = digits[:, begin:end].astype(np.int64) @ powers
    return numbers


def _convert_to_rfc_3339(text: bytes) -> str:
    form = _FORM.fullmatch(text.strip())
    if form is None:
        return text.decode("utf-8", "replace")
    part = {name: (value or b"00").decode() for name, value in form.groupdict().items()}
    zone = f"{part['sign']}{part['ahead']}:{part['more']}" if form["sign"] else "Z"
    date, clock = f"{part['year']}-{part['month']}-{part['day']}", f"{part['hour']}:{part['minute']}:{part['second']}"
    return f"{date}T{clock}.{part['fraction']}{zone}"
