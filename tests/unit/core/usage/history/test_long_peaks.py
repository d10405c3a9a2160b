"""Peaks of memory over 280 days, in cells of six hours, across restarts."""

from __future__ import annotations

import base64
import math
import zlib
from contextlib import suppress

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.builders.usage_samples import batch, kill, pod, row
from trellis.base.errors import InvalidCheckpoint
from trellis.core.recording.usage_rows import UsageRowLine
from trellis.core.usage.checkpoints.compressed_history import LONGEST_PEAKS_TEXT, decode_peaks, encode_peaks
from trellis.core.usage.checkpoints.format import build_checkpoint_status
from trellis.core.usage.history.hourly import CELL_HOURS, CELLS, MEMORY_SERIES, HourlyHistory, LongPeaks, Peaks
from trellis.core.usage.model import UsageModel

HOUR = 3600.0
CELL = CELL_HOURS * HOUR
START = 78_000 * CELL
WEB = ("shop", "web")
FIRST = round(START / CELL)


def known(of: HourlyHistory, until: float, number: int = 0) -> dict[int, float]:
    """Cells since START to their peaks, in units of 1e8."""
    [values] = of.read_peaks(np.array([number]), until)
    first = int(until // CELL) - CELLS + 1
    return {first + int(cell) - FIRST: float(values[cell]) / 1e8 for cell in np.flatnonzero(~np.isnan(values))}


def lived(hours: int) -> UsageModel:
    """Memory that grows by 1e8 an hour, from 1e8."""
    model = UsageModel()
    model.keep_history([WEB])
    model.track_pods("shop", [pod("web-1")], START)
    for hour in range(hours):
        now = START + hour * HOUR
        model.ingest(batch(("web-1", "app", now, 0.1, 1e8 * (hour + 1))), now)
    return model


def history_of(model: UsageModel) -> HourlyHistory:
    return model.view(row(model)).history


@given(st.lists(st.lists(st.tuples(st.integers(-3000, 3000), st.floats(1.0, 50.0)), max_size=8), max_size=8))
def test_a_ring_has_the_highest_value_of_every_cell_it_reaches(batches: list[list[tuple[int, float]]]) -> None:
    ring, slow = LongPeaks(), dict[int, float]()
    ring.reserve(2)
    for values in batches:
        cells = np.array([FIRST + cell for cell, _ in values], dtype=np.int64)
        ring.add(np.ones(len(values), dtype=np.int64), cells, np.array([value for _, value in values]))
        for cell, value in values:
            slow[cell] = max(slow.get(cell, 0.0), value)
    newest = max(slow, default=0)
    [result] = ring.read(np.array([1]), FIRST + newest)
    expected = [slow.get(newest - CELLS + 1 + place, math.nan) for place in range(CELLS)]
    assert result == pytest.approx(np.array(expected, dtype=np.float32), nan_ok=True)
    assert np.isnan(ring.read(np.array([0]), FIRST + newest)).all()


def test_hours_become_peaks_of_six() -> None:
    model = lived(15)
    assert known(history_of(model), START + 14 * HOUR) == pytest.approx({0: 6.0, 1: 12.0, 2: 14.0})


def test_peaks_outlast_the_hours() -> None:
    model = lived(2)
    later = START + 100 * 24 * HOUR
    model.ingest(batch(("web-1", "app", later, 0.1, 5e8)), later)
    model.ingest(batch(("web-1", "app", later + HOUR, 0.1, 5e8)), later + HOUR)
    assert known(history_of(model), later + HOUR) == pytest.approx({0: 2.0, 400: 5.0})


def test_a_kill_raises_its_peak() -> None:
    model = lived(3)
    model.record_ooms([kill("web-1", START + 60, 5e9)], START + 2 * HOUR)
    assert known(history_of(model), START + 3 * HOUR)[0] == pytest.approx(60.0)


def test_peaks_survive_a_restart_and_merge_with_later_ones() -> None:
    stopped = START + 15 * HOUR
    model = lived(15)
    (saved,) = model.save_rows(row(model), stopped)
    assert 0 < len(saved.peaks) < 100
    assert build_checkpoint_status(saved)["peaks"] == saved.peaks
    copy = UsageModel()
    copy.restore(UsageRowLine.of(saved).to_saved_row())
    copy.keep_history([WEB])
    assert known(history_of(copy), stopped) == pytest.approx({0: 6.0, 1: 12.0, 2: 15.0}, rel=0.006)


def test_a_checkpoint_of_an_earlier_release_has_the_peaks_of_its_hours() -> None:
    model = lived(15)
    (saved,) = model.save_rows(row(model), START + 15 * HOUR)
    copy = UsageModel()
    copy.restore(msgspec.structs.replace(saved, peaks=""))
    copy.keep_history([WEB])
    assert known(history_of(copy), START + 15 * HOUR) == pytest.approx({0: 6.0, 1: 12.0, 2: 15.0}, rel=0.006)


def test_a_recording_of_an_earlier_release_is_read() -> None:
    line = msgspec.to_builtins(UsageRowLine.of(lived(3).save_rows(row(lived(3)), START + 3 * HOUR)[0]))
    assert line.pop("peaks")
    assert msgspec.convert(line, UsageRowLine).to_saved_row().peaks == ""


def test_peaks_that_change_are_news_of_the_row() -> None:
    ring = HourlyHistory(2)
    ring.allocate(1)
    before = ring.revisions(np.array([0]), START)
    ring.merge_peaks(np.zeros(1, dtype=np.int64), np.array([FIRST]), np.array([1e9]))
    assert (ring.revisions(np.array([0]), START) != before).tolist() == [[False, True]]
    assert ring.copy_rows(np.array([0])).read_peaks(np.array([0]), START).tolist()[0][-1] == 1e9
    ring.release(np.array([0]))
    ring.allocate(1)
    assert known(ring, START) == {}
    ring.add(np.zeros(2, dtype=np.int64), MEMORY_SERIES, np.array([START, START + HOUR]), np.array([2e8, 3e8]))
    assert known(ring, START + HOUR) == pytest.approx({0: 2.0})


def noise(spread: float) -> Peaks:
    return (1e9 * np.random.default_rng(1).lognormal(0.0, spread, CELLS)).astype(np.float32)


@pytest.mark.parametrize(("spread", "longest"), [(0.02, 1500), (0.2, 2000), (3.0, 3200)])
def test_all_peaks_fit_and_come_back_within_half_a_percent(spread: float, longest: int) -> None:
    peaks = noise(spread)
    peaks[200:240] = np.nan
    text = encode_peaks(FIRST, peaks)
    assert len(text) < longest < LONGEST_PEAKS_TEXT
    newest, result = decode_peaks(text)
    assert newest == FIRST
    assert (np.isnan(result) == np.isnan(peaks)).all()
    assert (np.nan_to_num(np.abs(result - peaks) - 0.0051 * (peaks + 1e5)) <= 0).all()


def test_no_peaks_are_no_text() -> None:
    assert encode_peaks(-1, np.full(CELLS, np.nan, dtype=np.float32)) == ""


@given(st.binary(max_size=200))
@settings(max_examples=40)
def test_bytes_from_anywhere_are_refused_or_read(data: bytes) -> None:
    for text in (base64.b64encode(data).decode(), base64.b64encode(zlib.compress(b"\x01" + data)).decode()):
        with suppress(InvalidCheckpoint):
            assert not np.isinf(decode_peaks(text)[1]).any()


@pytest.mark.parametrize(
    "text",
    [
        "not base64!",
        base64.b64encode(b"not zlib").decode(),
        base64.b64encode(zlib.compress(b"")).decode(),
        base64.b64encode(zlib.compress(b"\x01\0\0\0\0\x05\0")).decode(),
        base64.b64encode(zlib.compress(bytes(10_000_000))).decode(),
        "A" * (LONGEST_PEAKS_TEXT + 4),
    ],
)
def test_a_text_that_has_no_peaks_is_refused(text: str) -> None:
    with pytest.raises(InvalidCheckpoint, match=r"status\.peaks"):
        decode_peaks(text)


def test_peaks_from_the_future_are_refused() -> None:
    (saved,) = lived(2).save_rows(row(lived(2)), START + 2 * HOUR)
    ahead = msgspec.structs.replace(saved, peaks=encode_peaks(FIRST + 1000, decode_peaks(saved.peaks)[1]))
    with pytest.raises(InvalidCheckpoint, match="lastUpdateTime"):
        UsageModel().restore(ahead)
