"""Hourly summaries of the last weeks, for rows whose recommender needs them."""

from __future__ import annotations

import base64
import math
import zlib
from collections import defaultdict
from contextlib import suppress

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.builders.usage_samples import batch, kill, pod, row
from trellis.base.errors import InvalidCheckpoint
from trellis.core.usage.checkpoints.compressed_history import LONGEST_HISTORY_TEXT, decode_history, encode_history
from trellis.core.usage.history.hourly import CPU_SERIES, MEMORY_SERIES, HourlyHistory
from trellis.core.usage.history.hours import MEASURES, Ring
from trellis.core.usage.model import UsageModel
from trellis.core.usage.settings import UsageSettings

HOUR = 3600.0
START = 472_222 * HOUR
MEAN, P50, P90, P95, MAXIMUM = range(5)
WEB = ("shop", "web")


def history(days: int = 2) -> HourlyHistory:
    made = HourlyHistory(days)
    assert made.allocate(1).tolist() == [0]
    return made


def add(to: HourlyHistory, *samples: tuple[float, float], number: int = 0, resource: int = CPU_SERIES) -> None:
    times, values = np.array(samples, dtype=np.float64).reshape(-1, 2).T
    to.add(np.full(len(times), number), resource, times, values)


def read_known_hours(
    history: HourlyHistory, until: float, number: int = 0, resource: int = CPU_SERIES
) -> dict[int, list[float]]:
    """Hours since START to their five measures."""
    values = history.read_summaries(np.array([number]), until)[0, resource]
    first = int((until - START) // HOUR) - history.hours
    hours = np.flatnonzero(~np.isnan(values[0]))
    return {first + int(hour): values[:, hour].tolist() for hour in hours}


times = st.integers(-3 * 3600, 70 * 3600).map(lambda second: START + second)
batches = st.lists(st.lists(st.tuples(times, st.floats(0.001, 50.0)), max_size=12), max_size=8)


@given(batches)
def test_means_and_maxima_do_not_depend_on_the_order_of_samples(
    batches: list[list[tuple[float, float]]],
) -> None:
    ring = history(days=4)
    slow: dict[int, list[float]] = defaultdict(list)
    for samples in batches:
        add(ring, *samples)
        for time, value in samples:
            slow[math.floor((time - START) / HOUR)].append(value)
    until = START + 90 * HOUR
    ring.close_quiet_hours(until)
    result = read_known_hours(ring, until)
    assert sorted(result) == sorted(slow)
    for hour, values in slow.items():
        measures = result[hour]
        assert measures[MEAN] == pytest.approx(sum(values) / len(values), rel=1e-5)
        assert measures[MAXIMUM] == pytest.approx(max(values), rel=1e-6)
        assert measures[P50] <= measures[P90] * 1.00001
        assert measures[P90] <= measures[P95] * 1.00001
        assert measures[P95] <= measures[MAXIMUM] * 1.00001
        assert measures[P50] >= min(values) * 0.95 - 0.01


def test_the_percentiles_of_an_hour_that_fills_up_are_as_fine_as_the_histograms() -> None:
    ring = history()
    values = np.random.default_rng(1).lognormal(-1, 1, 600)
    for minute in range(60):
        add(ring, *((START + 60 * minute, value) for value in values[10 * minute : 10 * minute + 10]))
    add(ring, (START + HOUR, 1.0))
    measures = read_known_hours(ring, START + HOUR)[0]
    for measure, fraction in ((P50, 0.5), (P90, 0.9), (P95, 0.95)):
        assert measures[measure] == pytest.approx(np.quantile(values, fraction), rel=0.06)


def test_an_old_hour_in_one_batch_has_the_percentiles_of_its_values() -> None:
    ring = history()
    add(ring, (START + 5 * HOUR, 1.0))
    add(ring, *((START + second, float(second)) for second in range(1, 101)))
    assert read_known_hours(ring, START + 5 * HOUR)[0] == [50.5, 50.0, 90.0, 95.0, 100.0]


def test_the_running_hour_is_not_shown_and_an_hour_without_samples_is_unknown() -> None:
    ring = history()
    add(ring, (START, 1.0))
    assert read_known_hours(ring, START + 60) == {}
    assert list(read_known_hours(ring, START + HOUR)) == [0]
    add(ring, (START + 3 * HOUR, 2.0))
    add(ring, (START + 4 * HOUR, 3.0))
    assert list(read_known_hours(ring, START + 4 * HOUR + 60)) == [0, 3]


def test_closing_an_hour_does_not_change_it() -> None:
    ring = history()
    add(ring, *((START + 60 * minute, 1.0 + minute) for minute in range(50)))
    add(ring, (START - HOUR, 7.0), (START + 60, 7.0))
    before = read_known_hours(ring, START + 2 * HOUR)
    ring.close_quiet_hours(START + 2 * HOUR)
    assert read_known_hours(ring, START + 2 * HOUR) == before
    assert list(before) == [-1, 0]


def test_new_hours_replace_the_oldest() -> None:
    ring = history(days=1)
    for hour in range(60):
        add(ring, (START + hour * HOUR, float(hour)))
    result = read_known_hours(ring, START + 59 * HOUR)
    assert list(result) == list(range(35, 59))
    assert [measures[MEAN] for measures in result.values()] == list(range(35, 59))


def test_a_long_silence_leaves_no_old_hours_behind() -> None:
    ring = history(days=1)
    add(ring, *((START + hour * HOUR, 1.0) for hour in range(24)))
    add(ring, (START + 40 * HOUR, 2.0))
    add(ring, (START + 41 * HOUR, 2.0))
    assert list(read_known_hours(ring, START + 41 * HOUR)) == [17, 18, 19, 20, 21, 22, 23, 40]
    add(ring, (START + 400 * HOUR, 3.0))
    add(ring, (START + 401 * HOUR, 3.0))
    assert list(read_known_hours(ring, START + 401 * HOUR)) == [400]


def test_hours_older_than_the_ring_are_dropped() -> None:
    ring = history(days=1)
    add(ring, (START + 100 * HOUR, 1.0), (START + 101 * HOUR, 1.0))
    add(ring, (START, 9.0))
    assert list(read_known_hours(ring, START + 101 * HOUR)) == [100]


def test_rows_and_resources_have_rings_of_their_own() -> None:
    ring = HourlyHistory(2)
    numbers = ring.allocate(300)  # more than fit a block
    times_of_all = np.full(300, START)
    for resource, factor in ((CPU_SERIES, 1.0), (MEMORY_SERIES, 1e8)):
        values = np.array([(number + 1) * factor for number in range(300)])
        ring.add(numbers, resource, times_of_all, values)
        ring.add(numbers, resource, times_of_all + 3600, values)
    result = ring.read_summaries(numbers, START + HOUR)
    assert result.shape == (300, 2, len(MEASURES), 48)
    assert result.dtype == np.float32
    assert result[:, CPU_SERIES, MEAN, -1].tolist() == (numbers + 1).tolist()
    assert result[:, MEMORY_SERIES, MAXIMUM, -1] == pytest.approx((numbers + 1) * 1e8)


def test_a_kill_raises_the_maximum_of_its_hour() -> None:
    ring = history()
    add(ring, (START, 1e8), resource=MEMORY_SERIES)
    add(ring, (START + HOUR, 1e8), resource=MEMORY_SERIES)
    at = np.array([START + 60, START + HOUR + 60, START + 2 * HOUR + 60])
    ring.raise_maximum(np.zeros(3, dtype=np.int64), MEMORY_SERIES, at, np.array([5e8, 6e8, 7e8]))
    add(ring, (START + 2 * HOUR, 1e8), (START + 3 * HOUR, 1e8), resource=MEMORY_SERIES)
    result = read_known_hours(ring, START + 3 * HOUR, resource=MEMORY_SERIES)
    assert {hour: measures[MAXIMUM] for hour, measures in result.items()} == {0: 5e8, 1: 6e8, 2: 7e8}
    assert result[0][MEAN] == pytest.approx(1e8)


def assert_close(result: Ring, values: Ring) -> None:
    """Within half a percent, and of half a percent of a millicore or of 100 KB."""
    for resource, unit in ((CPU_SERIES, 1e-3), (MEMORY_SERIES, 1e5)):
        assert (np.abs(result[resource] - values[resource]) <= 0.0051 * (values[resource] + unit)).all()


class TestText:
    """The history of a row as text."""

    def day_and_night(self, hours: int = 840) -> Ring:
        rng = np.random.default_rng(1)
        values = np.empty((2, len(MEASURES), hours), dtype=np.float32)
        for hour in range(hours):
            load = 1 + 0.6 * math.sin(2 * math.pi * hour / 24)
            for resource, (level, noise) in enumerate(((0.3 * load, 0.2), (4e8 * (1 + 0.1 * load), 0.02))):
                usage = level * np.exp(noise * rng.standard_normal(60))
                values[resource, :, hour] = (usage.mean(), *np.quantile(usage, [0.5, 0.9, 0.95]), usage.max())
        return values

    def noise(self, hours: int) -> Ring:
        rng = np.random.default_rng(1)
        values = np.exp(rng.uniform(-6, 6, (2, len(MEASURES), hours))) * np.array([1.0, 1e9])[:, None, None]
        return np.sort(values, axis=1).astype(np.float32)

    def test_values_come_back_within_half_a_percent(self) -> None:
        values = self.day_and_night()
        newest, result = decode_history(encode_history(472_222, values))
        assert newest == 472_222
        assert_close(result, values)

    def test_thirty_five_days_of_a_service_take_less_than_half_of_the_space(self) -> None:
        assert len(encode_history(472_222, self.day_and_night())) < LONGEST_HISTORY_TEXT / 2

    def test_hours_without_values_stay_unknown(self) -> None:
        values = self.day_and_night(100)
        values[:, :, 40:60] = np.nan
        values[1, :, :70] = np.nan
        _, result = decode_history(encode_history(472_222, values))
        assert np.isnan(result).tolist() == np.isnan(values).tolist()

    def test_hours_before_the_first_known_one_take_no_space(self) -> None:
        values = np.full((2, len(MEASURES), 840), np.nan, dtype=np.float32)
        assert encode_history(-1, values) == ""
        values[0, :, -2:] = 1.0
        text = encode_history(472_222, values)
        assert len(text) < 100
        newest, result = decode_history(text)
        assert (newest, result.shape) == (472_222, (2, len(MEASURES), 2))

    def test_the_oldest_hours_are_left_out_where_there_is_no_space(self) -> None:
        values = self.noise(3000)
        text = encode_history(472_222, values)
        assert LONGEST_HISTORY_TEXT * 0.9 < len(text) <= LONGEST_HISTORY_TEXT
        _, result = decode_history(text)
        hours = result.shape[-1]
        assert 700 < hours < 3000
        assert_close(result, values[:, :, -hours:])

    @given(st.binary(max_size=200))
    @settings(max_examples=40)
    def test_bytes_from_anywhere_are_refused_or_read(self, data: bytes) -> None:
        for text in (base64.b64encode(data).decode(), base64.b64encode(zlib.compress(b"\x01" + data)).decode()):
            with suppress(InvalidCheckpoint):
                assert not np.isinf(decode_history(text)[1]).any()

    @pytest.mark.parametrize(
        "text",
        [
            "not base64!",
            "é",
            base64.b64encode(b"not zlib").decode(),
            base64.b64encode(zlib.compress(b"")).decode(),
            base64.b64encode(zlib.compress(b"\x02" + b"\0" * 6)).decode(),
            base64.b64encode(zlib.compress(b"\x01\0\0\0\0\x05\0")).decode(),
            base64.b64encode(zlib.compress(bytes(10_000_000))).decode(),
            base64.b64encode(zlib.compress(b"\x01\0\0\0\0\0\0")[:-1]).decode(),
            "A" * (LONGEST_HISTORY_TEXT + 4),
        ],
    )
    def test_a_text_that_is_no_history_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidCheckpoint, match=r"status\.history"):
            decode_history(text)


class TestInTheModel:
    """The rows that have a history, and how it comes and goes."""

    def lived(self, hours: int) -> UsageModel:
        model = UsageModel(UsageSettings(history_days=2))
        model.keep_history([WEB])
        model.track_pods("shop", [pod("web-1"), pod("web-2"), pod("api-1", "api")], START)
        for quarter in range(4 * hours):
            now = START + 900 * quarter
            lines = [(name, "app", now, 0.1 * (quarter // 4 + 1), 1e8) for name in ("web-1", "web-2", "api-1")]
            model.ingest(batch(*lines), now)
        return model

    def means(self, model: UsageModel, until: float) -> dict[int, float]:
        view = model.view(row(model))
        return {
            hour: values[MEAN]
            for hour, values in read_known_hours(view.history, until, int(view.history_rows[0])).items()
        }

    def test_it_is_kept_for_the_vpas_asked_for_alone(self) -> None:
        model = self.lived(3)
        assert model.sizes().histories == 1
        assert self.means(model, START + 2 * HOUR) == pytest.approx({0: 0.1, 1: 0.2})
        model.keep_history([])
        assert model.sizes().histories == 0
        assert set(model.view().history_rows.tolist()) == {-1}

    def test_it_is_filled_from_old_samples(self) -> None:
        model = UsageModel()
        model.keep_history([WEB])
        now = START + 24 * HOUR
        model.track_pods("shop", [pod("web-1"), pod("web-2")], now)
        for name in ("web-1", "web-2"):
            model.ingest(batch(*((name, "app", START + hour * HOUR, 0.1 * (hour + 1), 1e8) for hour in range(24))), now)
        assert self.means(model, now) == pytest.approx({hour: 0.1 * (hour + 1) for hour in range(24)})
        assert model.view().count.tolist() == [48]

    def test_it_outlives_a_restart_and_the_hour_that_was_running_with_it(self) -> None:
        model = self.lived(3)
        stopped = START + 3 * HOUR - 60
        (saved,) = model.save_rows(row(model), stopped)
        assert 0 < len(saved.history) < 300
        copy = UsageModel(UsageSettings(history_days=2))
        copy.restore(saved)
        copy.keep_history([WEB])
        assert self.means(copy, START + 3 * HOUR) == pytest.approx({0: 0.1, 1: 0.2, 2: 0.3}, rel=0.006)

    def test_it_is_not_saved_where_no_vpa_asks_for_it(self) -> None:
        model = self.lived(1)
        (saved,) = model.save_rows(row(model, vpa="api"), START + HOUR)
        assert saved.history == ""

    def test_a_history_from_the_future_is_refused(self) -> None:
        (saved,) = self.lived(2).save_rows(row(self.lived(2)), START + 2 * HOUR)
        ahead = msgspec.structs.replace(saved, history=encode_history(10_000_000, decode_history(saved.history)[1]))
        with pytest.raises(InvalidCheckpoint, match="lastUpdateTime"):
            UsageModel().restore(ahead)

    def test_a_kill_is_in_it(self) -> None:
        model = self.lived(1)
        model.record_ooms([kill("web-1", START + 60, 5e9)], START + HOUR)
        model.ingest(batch(("web-1", "app", START + HOUR, 0.1, 1e8)), START + HOUR)
        view = model.view(row(model))
        number = int(view.history_rows[0])
        assert read_known_hours(view.history, START + HOUR, number, MEMORY_SERIES)[0][MAXIMUM] == pytest.approx(6e9)
