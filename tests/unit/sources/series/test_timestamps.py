"""Dates in files of usage: all forms and zones, and invalid ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.base.errors import InvalidSeries
from trellis.sources.series.timestamps import parse_timestamps

LONG = 2000  # NumPy reads short columns in another way


def read(*texts: str) -> list[float]:
    result = parse_timestamps("usage.csv", "timestamp", np.array([text.encode() for text in texts]), 2)
    return [float(item) for item in result]


@pytest.mark.parametrize(
    "text",
    [
        "2026-09-21T06:00:00Z",
        "2026-09-21T06:00:00",
        "2026-09-21 06:00:00",
        "2026-09-21 06:00",
        "2026-09-21 06:00:00.000000",
        "2026-09-21 06:00:00 UTC",
        "2026-09-21T06:00:00+00:00",
        "2026-09-21T08:00:00+0200",
        "2026-09-21T11:30:00+05:30",
        "2026-09-20 23:00:00-07",
    ],
)
def test_all_forms_of_a_time_are_parsed(text: str) -> None:
    assert set(read(*[text] * LONG)) == {1_789_970_400.0}
    assert read(text, "2026-09-21T06:00:00.5Z") == [1_789_970_400.0, 1_789_970_400.5]


@pytest.mark.parametrize("wrong", ["2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-01T24:00:00Z", "later", ""])
def test_an_invalid_time_is_reported_with_its_row(wrong: str) -> None:
    texts = ["2026-09-21T06:00:00Z"] * LONG
    texts[1234] = wrong
    with pytest.raises(InvalidSeries, match=f'row 1236, column timestamp: "{wrong}" is not a time'):
        read(*texts)


@given(
    moments=st.lists(st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)), min_size=1, max_size=20),
    minutes=st.sampled_from([0, 60, 120, -420, 330, -570]),
)
def test_columns_are_read_as_python_does(moments: list[datetime], minutes: int) -> None:
    zone = timezone(timedelta(minutes=minutes))
    texts = [moment.replace(tzinfo=UTC).astimezone(zone).isoformat(timespec="microseconds") for moment in moments]
    assert read(*texts) == pytest.approx([moment.replace(tzinfo=UTC).timestamp() for moment in moments], abs=1e-5)
