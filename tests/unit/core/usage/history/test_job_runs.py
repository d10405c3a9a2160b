"""Run history: the right runs from their start on, in intervals that grow, across restarts."""

from __future__ import annotations

import base64
import math
import pickle
import zlib
from contextlib import suppress

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.builders.usage_samples import batch, kill, row
from trellis.api.kinds.checkpoint import RUNS_LENGTH
from trellis.base.errors import InvalidCheckpoint
from trellis.core.usage.checkpoints.compressed_history import LONGEST_RUNS_TEXT, decode_runs, encode_runs
from trellis.core.usage.history.job_runs import (
    FIRST_INTERVAL_SECONDS,
    HIGHEST,
    INTERVALS,
    MEAN,
    MOST_DOUBLINGS,
    RUNS,
    SAME_RUN_SECONDS,
    RunHistory,
    StoredRun,
)
from trellis.core.usage.model import UsageModel
from trellis.core.usage.tracked_pods import TrackedContainer, TrackedPod

START = 1_700_000_000.0
MINUTE = 60.0
WEB = ("shop", "web")
CPU, MEMORY = 0, 1

Sample = tuple[int, float, float, float]  # row, start of its pod, time since then, value


class Oracle:
    """The same, sample by sample."""

    def __init__(self, rows: int) -> None:
        self.begins: list[list[float]] = [[-math.inf] * RUNS for _ in range(rows)]
        self.samples: list[list[list[tuple[float, float]]]] = [[[] for _ in range(RUNS)] for _ in range(rows)]

    def add(self, samples: list[Sample]) -> None:
        # The newest pods of a batch come first: they are those whose runs are kept.
        for number, start in sorted({sample[:2] for sample in samples}, key=lambda item: -item[1]):
            self._begin(number, start)
        for number, start, offset, value in samples:
            at = self._find(number, start)
            if at is not None:
                self.samples[number][at].append((offset, value))

    def read_runs(self, number: int) -> list[tuple[float, dict[int, tuple[float, float]]]]:
        """Runs, newest first, each as mean and maximum by interval."""
        runs = [(begin, own) for begin, own in zip(self.begins[number], self.samples[number], strict=True) if own]
        minutes = [int(offset // FIRST_INTERVAL_SECONDS) for _, own in runs for offset, _ in own]
        width = 1
        while any(minute // width >= INTERVALS for minute in minutes):
            width *= 2
        result = []
        for begin, own in sorted(runs, key=lambda run: -run[0]):
            intervals: dict[int, list[float]] = {}
            for offset, value in own:
                intervals.setdefault(int(offset // FIRST_INTERVAL_SECONDS) // width, []).append(value)
            result.append(
                (begin, {interval: (float(np.mean(all_)), max(all_)) for interval, all_ in intervals.items()})
            )
        return result

    def _find(self, number: int, start: float) -> int | None:
        distances = [abs(begin - start) for begin in self.begins[number]]
        at = distances.index(min(distances))
        return at if distances[at] <= SAME_RUN_SECONDS else None

    def _begin(self, number: int, start: float) -> None:
        begins = self.begins[number]
        at = begins.index(min(begins))
        if self._find(number, start) is None and start > begins[at]:
            begins[at], self.samples[number][at] = start, []


def added(runs: RunHistory, samples: list[Sample], resource: int = CPU) -> None:
    numbers, starts, offsets, values = (np.array(column) for column in zip(*samples, strict=True))
    runs.add(numbers, resource, starts.astype(float), (starts + offsets).astype(float), values.astype(float))


def read_runs(runs: RunHistory, number: int, resource: int = CPU) -> list[tuple[float, dict[int, tuple[float, float]]]]:
    """What is remembered, as the oracle says it."""
    result = runs.read_recent(np.array([number]))
    return [
        (
            begin,
            {
                interval: (float(run[MEAN, interval]), float(run[HIGHEST, interval]))
                for interval in find_known_intervals(run)
            },
        )
        for begin, run in zip(result.begin[0].tolist(), result.values[0, :, resource], strict=True)
        if not math.isnan(begin)
    ]


def find_known_intervals(run: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> list[int]:
    intervals: list[int] = np.flatnonzero(~np.isnan(run[MEAN])).tolist()
    return intervals


samples_of = st.tuples(
    st.integers(0, 2),
    st.integers(0, 60).map(lambda tens: 10.0 * tens),
    st.one_of(st.integers(0, 5_000), st.integers(0, 60_000)).map(float),
    st.floats(0.0, 8.0, width=32),
)


@given(st.lists(st.lists(samples_of, min_size=1, max_size=20), min_size=1, max_size=8))
def test_the_history_equals_the_reference_implementation(batches: list[list[Sample]]) -> None:
    runs, oracle = RunHistory(), Oracle(3)
    runs.allocate(3)
    for item in batches:
        added(runs, item)
        oracle.add(item)
    for number in range(3):
        result, expected = read_runs(runs, number), oracle.read_runs(number)
        assert [run[0] for run in result] == [run[0] for run in expected]
        for (_, own), (_, other) in zip(result, expected, strict=True):
            assert own.keys() == other.keys()
            assert np.allclose([own[interval] for interval in other], list(other.values()), rtol=1e-4, atol=1e-5)


@given(st.lists(samples_of, min_size=1, max_size=40))
def test_rows_do_not_touch_each_other(samples: list[Sample]) -> None:
    together, alone = RunHistory(), RunHistory()
    together.allocate(3)
    alone.allocate(3)
    added(together, samples)
    for number in range(3):
        own = [sample for sample in samples if sample[0] == number]
        if own:
            added(alone, own)
    for number in range(3):
        assert read_runs(together, number) == read_runs(alone, number)


class TestRuns:
    """Runs of one row, by themselves."""

    def record_run(self, *samples: tuple[float, float, float]) -> RunHistory:
        runs = RunHistory()
        runs.allocate(1)
        for sample in samples:
            added(runs, [(0, *sample)])
        return runs

    def test_pods_that_start_together_are_one_run_of_which_the_highest_counts(self) -> None:
        result = read_runs(self.record_run((1000.0, 70.0, 1.0), (1010.0, 70.0, 3.0), (1200.0, 70.0, 5.0)), 0)
        assert result == [(1200.0, {1: (5.0, 5.0)}), (1000.0, {1: (2.0, 3.0)})]

    def test_a_sample_counts_by_the_start_of_its_own_pod(self) -> None:
        result = read_runs(self.record_run((1000.0, 59.0, 1.0), (1029.0, 59.0, 2.0)), 0)
        assert result == [(1000.0, {0: (1.5, 2.0)})]

    def test_a_long_run_has_longer_intervals(self) -> None:
        runs = self.record_run(*((0.0, MINUTE * minute, float(minute)) for minute in range(12 * 60)))
        result = runs.read_recent(np.array([0]))
        assert result.width.tolist() == [8 * MINUTE]
        assert result.values[0, 0, CPU, HIGHEST, 10] == 87.0
        assert result.values[0, 0, CPU, MEAN, 10] == pytest.approx(83.5)

    def test_short_runs_are_widened_to_be_seen_beside_a_long_one_and_else_are_not(self) -> None:
        runs = self.record_run((0.0, 90_000.0, 1.0), (200_000.0, 0.0, 2.0), (200_000.0, 60.0, 4.0))
        assert runs.read_recent(np.array([0])).width.tolist() == [16 * MINUTE]
        assert read_runs(runs, 0)[0] == (200_000.0, {0: (3.0, 4.0)})
        short = runs.read_recent(np.array([0]), longest=86_400.0)
        assert short.width.tolist() == [MINUTE]
        assert short.values[0, 0, CPU, HIGHEST, :2].tolist() == [2.0, 4.0]
        assert np.isnan(short.begin[0, 1:]).all()

    def test_the_oldest_run_makes_space_and_what_is_older_is_left_out(self) -> None:
        runs = self.record_run(*((100.0 * number, 0.0, 1.0) for number in range(1, RUNS + 3)), (1.0, 0.0, 9.0))
        assert [begin for begin, _ in read_runs(runs, 0)] == [100.0 * number for number in range(RUNS + 2, 2, -1)]

    def test_a_thousand_pods_that_come_at_once_leave_the_newest_runs(self) -> None:
        runs = RunHistory()
        runs.allocate(1)
        added(runs, [(0, 100.0 * number, 0.0, float(number)) for number in range(1000)])
        assert [begin for begin, _ in read_runs(runs, 0)] == [100.0 * number for number in range(999, 999 - RUNS, -1)]

    def test_pods_with_unknown_start_times_are_left_out(self) -> None:
        assert read_runs(self.record_run((math.nan, 0.0, 1.0)), 0) == []

    def test_a_sample_from_before_its_pod_belongs_to_its_beginning(self) -> None:
        assert read_runs(self.record_run((1000.0, -20.0, 1.0)), 0) == [(1000.0, {0: (1.0, 1.0)})]

    def test_a_kill_raises_the_highest_and_leaves_the_mean(self) -> None:
        runs = self.record_run()
        added(runs, [(0, 0.0, 0.0, 2.0)], MEMORY)
        for offset in (10.0, 70.0):
            at, time = np.array([0.0]), np.array([offset])
            runs.raise_highest(np.array([0]), MEMORY, at, time, np.array([9.0]))
        assert read_runs(runs, 0, MEMORY) == [(0.0, {0: (2.0, 9.0), 1: (9.0, 9.0)})]

    def test_a_reused_row_has_no_runs_of_the_released_one(self) -> None:
        runs = self.record_run((1000.0, 60.0, 1.0))
        before = runs.revisions(np.array([0]))[0]
        runs.release(np.array([0]))
        assert runs.allocate(1).tolist() == [0]
        assert read_runs(runs, 0) == []
        assert runs.revisions(np.array([0]))[0] > before

    def test_it_takes_21_kilobytes_a_row_whatever_happens(self) -> None:
        runs = RunHistory()
        runs.allocate(1024)
        added(runs, [(number, 100.0 * run, 1e6, 1.0) for number in range(0, 1024, 64) for run in range(20)])
        assert runs.nbytes / 1024 < 21_600

    def test_a_copy_can_be_sent_and_has_the_rows_asked_for_alone(self) -> None:
        runs = RunHistory()
        runs.allocate(3)
        added(runs, [(number, 100.0, 60.0, float(number)) for number in range(3)])
        copy = pickle.loads(pickle.dumps(runs.copy_rows(np.array([2, 0]))))  # noqa: S301 - made here
        assert [read_runs(copy, number) for number in range(2)] == [read_runs(runs, 2), read_runs(runs, 0)]
        assert copy.size == 2
        assert runs.copy_rows(np.zeros(0, dtype=np.int64)).size == 0


def made_up(begin: float, doublings: int, seed: int, intervals: int) -> StoredRun:
    draw = np.random.default_rng(seed)
    values = np.full((2, 2, INTERVALS), np.nan, dtype=np.float32)
    mean = 10.0 ** draw.uniform(-6, 3, (2, intervals)) * np.array([[1.0], [1e9]])
    values[:, MEAN, :intervals], values[:, HIGHEST, :intervals] = mean, mean * (1 + draw.random((2, intervals)))
    return StoredRun(begin, begin + 60.0, doublings, values)


stored_runs = st.builds(
    made_up, st.floats(0.0, 2e9), st.integers(0, MOST_DOUBLINGS), st.integers(0, 2**16), st.integers(0, INTERVALS)
)


class TestText:
    """Runs as a checkpoint has them."""

    @given(st.lists(stored_runs, max_size=4))
    @settings(max_examples=40)
    def test_what_is_written_is_read_within_one_percent(self, runs: list[StoredRun]) -> None:
        text = encode_runs(runs)
        result = decode_runs(text) if text else []
        for own, other in zip(result, runs, strict=True):
            assert own[:3] == other[:3]
            units = np.array([1e-3, 1e5])[:, np.newaxis, np.newaxis]
            assert np.allclose(own.values, other.values, rtol=0.0051, atol=0.0051 * units.max(), equal_nan=True)

    def test_what_does_not_fit_leaves_out_the_oldest_runs(self) -> None:
        runs = [made_up(1000.0 * number, 0, number, INTERVALS) for number in range(RUNS)]
        text = encode_runs(runs)
        assert 0 < len(text) <= LONGEST_RUNS_TEXT == RUNS_LENGTH
        assert [run.begin for run in decode_runs(text)] == [run.begin for run in runs[-len(decode_runs(text)) :]]
        assert len(decode_runs(text)) < RUNS

    def test_runs_as_they_are_all_fit(self) -> None:
        draw = np.random.default_rng(3)
        runs = []
        for number in range(RUNS):
            shape = np.repeat([0.2, 2.0, 0.5], [30, 36, 30]) * (1 + 0.1 * draw.standard_normal(INTERVALS))
            values = np.stack([np.stack([shape, shape * 1.1]), np.stack([shape, shape]) * 1e9]).astype(np.float32)
            runs.append(StoredRun(1e4 * number, 1e4 * number + 60, 3, values))
        assert len(decode_runs(encode_runs(runs))) == RUNS

    @given(st.binary(max_size=200))
    @settings(max_examples=40)
    def test_bytes_from_anywhere_are_refused_or_read(self, data: bytes) -> None:
        for text in (base64.b64encode(data).decode(), base64.b64encode(zlib.compress(b"\x01" + data)).decode()):
            with suppress(InvalidCheckpoint):
                assert not any(np.isinf(run.values).any() for run in decode_runs(text))

    @pytest.mark.parametrize(
        "text",
        [
            "not base64!",
            base64.b64encode(b"not zlib").decode(),
            base64.b64encode(zlib.compress(b"")).decode(),
            base64.b64encode(zlib.compress(b"\x02\x00")).decode(),
            base64.b64encode(zlib.compress(b"\x01\x01")).decode(),
            base64.b64encode(zlib.compress(bytes([1, 13]) + bytes(13 * (17 + 768)))).decode(),
            base64.b64encode(zlib.compress(b"\x01\x01" + b"\xff" * (17 + 768))).decode(),
            base64.b64encode(zlib.compress(bytes(10_000_000))).decode(),
            base64.b64encode(zlib.compress(b"\x01\0")[:-1]).decode(),
            "A" * (LONGEST_RUNS_TEXT + 4),
        ],
    )
    def test_a_text_that_is_no_runs_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidCheckpoint, match=r"status\.runs"):
            decode_runs(text)


def job(name: str, started: float, vpa: str = "web") -> TrackedPod:
    return TrackedPod("shop", name, f"uid-of-{name}", vpa, True, (TrackedContainer("app"),), started)


class TestInTheModel:
    """The rows that have such a memory, and how it comes and goes."""

    def lived(self, runs: int, minutes: int = 5) -> UsageModel:
        model = UsageModel()
        model.keep_runs([WEB])
        for number in range(runs):
            begin = START + 3600.0 * number
            model.track_pods("shop", [job(f"web-{number}", begin), job(f"api-{number}", begin, "api")], begin)
            for minute in range(minutes):
                now = begin + MINUTE * minute + 30
                lines = [(f"{name}-{number}", "app", now, 0.1 * (minute + 1), 1e8) for name in ("web", "api")]
                model.ingest(batch(*lines), now)
        return model

    def highest(self, model: UsageModel) -> list[list[float]]:
        view = model.view(row(model))
        result = view.runs.read_recent(view.run_rows)
        runs = result.values[0, ~np.isnan(result.begin[0]), CPU, HIGHEST]
        return [run[~np.isnan(run)].tolist() for run in runs]

    def test_it_is_kept_for_the_vpas_asked_for_alone(self) -> None:
        model = self.lived(2)
        assert model.sizes().runs == 1
        assert self.highest(model) == [pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])] * 2
        model.keep_runs([])
        assert model.sizes().runs == 0
        assert set(model.view().run_rows.tolist()) == {-1}

    def test_it_outlives_a_restart_and_the_run_goes_on(self) -> None:
        model = self.lived(2)
        (saved,) = model.save_rows(row(model), START + 4000)
        assert 0 < len(saved.runs) < 400
        copy = UsageModel()
        copy.keep_runs([WEB])
        copy.track_pods("shop", [job("web-1", START + 3600)], START + 4000)
        copy.ingest(batch(("web-1", "app", START + 4020, 0.7, 1e8)), START + 4020)
        copy.restore(saved)
        assert self.highest(copy) == [
            pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.7], rel=0.006),
            pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5], rel=0.006),
        ]

    def test_what_was_restored_twice_is_there_once(self) -> None:
        model = self.lived(2)
        (saved,) = model.save_rows(row(model), START + 4000)
        copy = UsageModel()
        copy.restore(saved)
        once = self.highest(copy)
        copy.restore(saved)
        assert self.highest(copy) == once

    def test_a_long_run_is_restored_into_one_that_has_just_begun(self) -> None:
        model = self.lived(1, minutes=300)
        (saved,) = model.save_rows(row(model), START + 20_000)
        copy = UsageModel()
        copy.keep_runs([WEB])
        copy.track_pods("shop", [job("web-0", START)], START)
        copy.ingest(batch(("web-0", "app", START, 99.0, 1e8)), START)
        copy.restore(saved)
        (highest,) = self.highest(copy)
        assert len(highest) == 75
        assert highest[0] == 99.0
        assert highest[-1] == pytest.approx(30.0, rel=0.006)

    def test_it_is_not_saved_where_no_vpa_asks_for_it(self) -> None:
        model = self.lived(1)
        (saved,) = model.save_rows(row(model, vpa="api"), START + 4000)
        assert saved.runs == ""

    def test_a_run_from_the_future_is_refused(self) -> None:
        model = self.lived(1)
        (saved,) = model.save_rows(row(model), START + 4000)
        ahead = [run._replace(begin=START + 1e7) for run in decode_runs(saved.runs)]
        with pytest.raises(InvalidCheckpoint, match="lastUpdateTime"):
            UsageModel().restore(msgspec.structs.replace(saved, runs=encode_runs(ahead)))

    def test_a_kill_is_in_it(self) -> None:
        model = self.lived(1)
        model.record_ooms([kill("web-0", START + 120, 5e9)], START + 300)
        view = model.view(row(model))
        assert view.runs.read_recent(view.run_rows).values[0, 0, MEMORY, HIGHEST, 2] == pytest.approx(6e9)

    def test_an_abandoned_row_has_forgotten_its_runs(self) -> None:
        model = self.lived(2)
        model.reset_vpa(*WEB)
        assert model.sizes().runs == 0

    def test_a_view_that_is_sent_has_runs_if_it_is_to(self) -> None:
        view = self.lived(2).view()
        with_runs, without = view.detach(history=False, runs=True), view.detach(history=False)
        assert sorted(with_runs.run_rows.tolist()) == [-1, 0]
        assert set(without.run_rows.tolist()) == {-1}
        assert without.runs.size == 0
        number = int(with_runs.run_rows.max())
        assert read_runs(with_runs.runs, number) == read_runs(view.runs, int(view.run_rows.max()))
