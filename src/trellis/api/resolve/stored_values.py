"""Readers of stored quantities and durations: a value that cannot be read counts as absent and is never an error."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from trellis.base.durations import Duration, parse_duration
from trellis.base.errors import InvalidInput
from trellis.base.quantities import Quantity


# A cluster has few different amounts, and parsing one takes longer than most of its uses.
@lru_cache(maxsize=4096, typed=True)
def read_stored_amount(text: str | int | None) -> Quantity | None:
    """An amount; None if it cannot be read."""
    if text is None:
        return None
    try:
        return Quantity.parse(text)
    except InvalidInput:
        return None


def read_stored_amounts(written: Mapping[str, str | int] | None) -> dict[str, Quantity]:
    """The readable amounts of a map."""
    read = {name: read_stored_amount(text) for name, text in (written or {}).items()}
    return {name: amount for name, amount in read.items() if amount is not None}


def read_stored_duration(text: str | None, default: Duration) -> Duration:
    """A duration, or the default."""
    if text is None:
        return default
    try:
        return parse_duration(text)
    except InvalidInput:
        return default


def read_stored_seconds(value: int | None) -> Duration | None:
    """A number of seconds as a duration; a negative one, which an earlier schema may have accepted, is zero."""
    return None if value is None else Duration.from_seconds(max(value, 0))
