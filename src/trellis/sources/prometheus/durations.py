"""Durations as Prometheus writes them: `8d`, `1h30m`.

The rules are those of `model.ParseDuration` in prometheus/common. They differ from Go's: there are days, weeks and
years of 365 days; numbers are whole; units come in falling order, each at most once.
"""

from __future__ import annotations

import re
from typing import Final

from trellis.base.durations import Duration
from trellis.base.errors import InvalidDuration

_MILLI: Final = 10**6
_SECOND: Final = 1000 * _MILLI
_DAY: Final = 24 * 3600 * _SECOND
_UNITS: Final = {
    "y": 365 * _DAY,
    "w": 7 * _DAY,
    "d": _DAY,
    "h": 3600 * _SECOND,
    "m": 60 * _SECOND,
    "s": _SECOND,
    "ms": _MILLI,
}
_FORM: Final = re.compile("".join(f"(?:([0-9]+){unit})?" for unit in _UNITS))
_LONGEST: Final = 2**63 - 1  # nanoseconds, as Go counts them
_MOST_DIGITS: Final = 19
_RULE: Final = (
    "must be a duration of Prometheus, such as 8d or 1h30m, with the units y, w, d, h, m, s and ms in this order"
)


def parse_prometheus_duration(value: object) -> Duration:
    """Read what Prometheus reads. A bare number is refused, but for `0`."""
    if not isinstance(value, str) or not value:
        raise InvalidDuration(value, _RULE)
    if value == "0":
        return Duration.ZERO
    form = _FORM.fullmatch(value)
    if form is None:
        raise InvalidDuration(value, _RULE)
    terms = [
        (number.lstrip("0") or "0", size) for number, size in zip(form.groups(), _UNITS.values(), strict=True) if number
    ]
    if any(len(number) > _MOST_DIGITS for number, _ in terms):
        raise InvalidDuration(value, "longer than a duration can be, 292y")
    nanos = sum(int(number) * size for number, size in terms)
    if nanos > _LONGEST:
        raise InvalidDuration(value, "longer than a duration can be, 292y")
    return Duration(nanos)


def check_span(value: str) -> str | None:
    """The problem of a duration that must be longer than 0s, or None: the `check` of a setting."""
    try:
        return None if parse_prometheus_duration(value) else "must be longer than 0s"
    except InvalidDuration as error:
        return error.rule
