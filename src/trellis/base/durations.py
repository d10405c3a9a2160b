"""Durations: Go durations such as `1h30m`, and spans with days and weeks such as `14d`.

The rules for durations are those of Go's `time.ParseDuration` and `Duration.String`, to the last nanosecond: a fraction
goes through a 64-bit float there, so it does here. A Go duration has no unit longer than the hour, because days differ
in length. Spans are for files that plan days and weeks (scenarios, node groups of kwok): they run on UTC, where a day
is always 24 hours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import ClassVar, Final, NoReturn

from trellis.base.errors import InvalidDuration, format_value

_SECOND = 10**9
_UNITS = {
    "ns": 1,
    "us": 1000,
    "\u00b5s": 1000,  # the micro sign
    "\u03bcs": 1000,  # the Greek letter mu
    "ms": 10**6,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_LONGEST = 2**63 - 1  # nanoseconds, 292 years
_TERM = re.compile(r"(?=.)([0-9]*)(?:\.([0-9]*))?([^0-9.]*)", re.DOTALL)  # leaves no character out


class Duration:
    """A whole number of nanoseconds; immutable.

    No msgspec struct, for the reason that `Quantity` gives: it is read from text.
    """

    __slots__ = ("nanos",)

    nanos: int
    ZERO: ClassVar[Duration]

    def __init__(self, nanos: int) -> None:
        object.__setattr__(self, "nanos", nanos)

    @classmethod
    def from_seconds(cls, seconds: int) -> Duration:
        """A duration of whole seconds, as in fields such as `periodSeconds`."""
        return cls(seconds * _SECOND)

    def total_seconds(self) -> float:
        """Seconds, as near as a float can say: exact to the microsecond for 285 years."""
        return self.nanos / _SECOND

    def timedelta(self) -> timedelta:
        """As a timedelta, truncated to microseconds."""
        return timedelta(microseconds=abs(self.nanos) // 1000) * (-1 if self.nanos < 0 else 1)

    def __eq__(self, other: object) -> bool:
        return self.nanos == other.nanos if isinstance(other, Duration) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __lt__(self, other: Duration) -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: Duration) -> bool:
        return self.nanos <= other.nanos

    def __gt__(self, other: Duration) -> bool:
        return self.nanos > other.nanos

    def __ge__(self, other: Duration) -> bool:
        return self.nanos >= other.nanos

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __str__(self) -> str:
        sign, nanos = ("-" if self.nanos < 0 else ""), abs(self.nanos)
        if nanos < _SECOND:
            return sign + _below_a_second(nanos)
        minutes, rest = divmod(nanos, 60 * _SECOND)
        hours, minutes_part = divmod(minutes, 60)
        text = f"{_decimal(rest, 9)}s"
        if minutes:
            text = f"{minutes_part}m{text}"
        return f"{sign}{hours}h{text}" if hours else sign + text

    def __repr__(self) -> str:
        return f'Duration("{self}")'

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a duration cannot be changed: {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a duration cannot be changed: {name}")

    def __reduce__(self) -> tuple[type[Duration], tuple[int]]:
        return Duration, (self.nanos,)


Duration.ZERO = Duration(0)


def parse_duration(value: object) -> Duration:
    """Parse a Go duration. A number without a unit is refused, except `0`."""
    if not isinstance(value, str):
        raise InvalidDuration(value, "a duration is text with a unit, such as 90s or 1h30m")
    negative = value.startswith("-")
    rest = value[1:] if value.startswith(("-", "+")) else value
    if rest == "0":
        return Duration.ZERO
    if not rest:
        raise InvalidDuration(value, "a duration is a number with a unit, such as 90s or 1h30m")
    nanos = sum(_term_nanos(value, *term) for term in _TERM.findall(rest))
    if nanos > _LONGEST + negative:
        raise InvalidDuration(value, "longer than a duration can be, 2562047h47m16.854775807s")
    return Duration(-nanos if negative else nanos)


def _term_nanos(value: str, integer: str, fraction: str, unit: str) -> int:
    if not integer and not fraction:
        raise InvalidDuration(value, "a number is missing; a duration is written like 90s or 1h30m")
    if not unit:
        raise InvalidDuration(value, "the unit is missing; the units are ns, us, ms, s, m and h")
    if unit not in _UNITS:
        raise InvalidDuration(value, f"{format_value(unit)} is not a unit; the units are ns, us, ms, s, m and h")
    integer = integer.lstrip("0") or "0"
    nanos = int(integer) * _UNITS[unit] if len(integer) <= 19 else _LONGEST + 2
    return nanos + _fraction_nanos(fraction, _UNITS[unit])


def _fraction_nanos(fraction: str, unit: int) -> int:
    """Go's arithmetic: the digits that fit an int64, scaled as a float, and cut off."""
    digits = scale = 0
    for digit in fraction:
        longer = digits * 10 + int(digit)
        if digits > _LONGEST // 10 or longer > _LONGEST + 1:
            break
        digits, scale = longer, scale + 1
    return int(digits * (unit / 10.0**scale)) if digits else 0


def _below_a_second(nanos: int) -> str:
    if nanos == 0:
        return "0s"
    if nanos < 1000:
        return f"{nanos}ns"
    return f"{_decimal(nanos, 3)}\u00b5s" if nanos < 10**6 else f"{_decimal(nanos, 6)}ms"


def _decimal(number: int, places: int) -> str:
    """The number with its decimal point moved left, without zeros at the end."""
    integer, fraction = divmod(number, 10**places)
    return f"{integer}.{fraction:0{places}d}".rstrip("0") if fraction else str(integer)


SPAN_PATTERN: Final = r"^([0-9]{1,6}(\.[0-9]{1,6})?(w|d|h|m|s))+$|^0$"
SPAN_RULE: Final = "must be a span such as 90s, 10m, 36h or 14d"
_SPAN_SECONDS: Final = {"w": 7 * 86_400, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_SPAN_WORDS: Final = {"m": "min"}
_SPAN_FORM: Final = re.compile(SPAN_PATTERN.replace("$", r"\Z"), re.ASCII)
_SPAN_TERM: Final = re.compile(r"([0-9.]+)([wdhms])", re.ASCII)


def parse_span(text: str) -> float:
    """The seconds of a span. A number without a unit is refused, except `0`."""
    if _SPAN_FORM.match(text) is None:
        raise InvalidDuration(text, SPAN_RULE)
    return sum(float(number) * _SPAN_SECONDS[unit] for number, unit in _SPAN_TERM.findall(text))


def format_span(seconds: float) -> str:
    """The text of a span, in days, hours, minutes and seconds; fractions of a second to the millisecond."""
    return "".join(f"{count}{unit}" for count, unit in _split_span(seconds))


def describe_span(seconds: float) -> str:
    """A span for people: `4 d 4 h`, `30 min`."""
    return " ".join(f"{count} {_SPAN_WORDS.get(unit, unit)}" for count, unit in _split_span(seconds))


def _split_span(seconds: float) -> Iterator[tuple[str, str]]:
    rest, is_begun = round(seconds, 3), False
    for unit in ("d", "h", "m"):
        count, rest = divmod(rest, _SPAN_SECONDS[unit])
        if count:
            is_begun = True
            yield f"{count:.0f}", unit
    if rest or not is_begun:
        yield f"{round(rest, 3):g}", "s"
