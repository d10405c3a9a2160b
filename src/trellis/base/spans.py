"""How long is a plan? Spans such as `14d`, `36h` or `1d12h`, for files that tell of days and weeks.

Kubernetes' own durations end with the hour, because days differ in length on a clock with summer time. Here a day is
always 24 hours: what is planned runs on UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trellis.base.errors import InvalidDuration

SPAN_PATTERN: Final = r"^([0-9]{1,6}(\.[0-9]{1,6})?(w|d|h|m|s))+$|^0$"
SPAN_SAYS: Final = "must be a span such as 90s, 10m, 36h or 14d"
_SECONDS: Final = {"w": 7 * 86_400, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_WORDS: Final = {"m": "min"}
_FORM: Final = re.compile(SPAN_PATTERN.replace("$", r"\Z"), re.ASCII)
_TERM: Final = re.compile(r"([0-9.]+)([wdhms])", re.ASCII)


def parse_span(text: str) -> float:
    """Seconds. A bare number has no unit and is refused, but for `0`."""
    if _FORM.match(text) is None:
        raise InvalidDuration(text, SPAN_SAYS)
    return sum(float(number) * _SECONDS[unit] for number, unit in _TERM.findall(text))


def format_span(seconds: float) -> str:
    """As one would write it, in days, hours, minutes and seconds; fractions of a second to the millisecond."""
    return "".join(f"{count}{unit}" for count, unit in _parts(seconds))


def written_span(seconds: float) -> str:
    """The same in a text for people: `4 d 4 h`, `30 min`."""
    return " ".join(f"{count} {_WORDS.get(unit, unit)}" for count, unit in _parts(seconds))


def _parts(seconds: float) -> Iterator[tuple[str, str]]:
    rest, is_begun = round(seconds, 3), False
    for unit in ("d", "h", "m"):
        count, rest = divmod(rest, _SECONDS[unit])
        if count:
            is_begun = True
            yield f"{count:.0f}", unit
    if rest or not is_begun:
        yield f"{round(rest, 3):g}", "s"
