"""The usage model against a reference implementation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders.usage_samples import Line, batch, kill, pod, row
from support.oracles.containers import DAY, SlowContainer, SlowRow
from support.oracles.histograms import SlowHistogram
from trellis.core.usage.columns import IntColumn
from trellis.core.usage.histograms.decaying_histograms import HistogramBank
from trellis.core.usage.model import UsageModel
from trellis.core.usage.settings import Tuning, UsageSettings

START = 1_700_000_000.0
# No sum of equal weights is exactly one of these parts of their total: rounding cannot move them over an edge.
FRACTIONS = (0.1371, 0.5033, 0.9017, 0.9511)

cores = st.sampled_from([0.0, 0.004, 0.01, 0.25, 1.0, 7.5, 900.0, 5000.0])
sizes = st.sampled_from([0.0, 1.0, 9e6, 1e7, 2e8, 2.5e8, 3e9, 2e12])


def assert_same(bank: HistogramBank, rows: IntColumn, slow: SlowHistogram) -> None:
    """Equal to 1e-9, whatever the reference that each of them has settled for."""
    reference = float(bank.references(rows)[0])
    if slow.reference is None:
        assert math.isnan(reference)
        return
    scale = math.exp2((reference - slow.reference) / slow.half_life)
    result = bank.weights(rows)[:, 0] * scale
    assert result == pytest.approx(np.array(slow.weights), rel=1e-9, abs=1e-9 * max(slow.total, 1.0))
    assert bank.totals(rows)[0] * scale == pytest.approx(slow.total, rel=1e-9, abs=1e-9)
    expected = [slow.percentile(fraction) for fraction in FRACTIONS]
    assert bank.percentiles(FRACTIONS, rows)[:, 0] == pytest.approx(expected, rel=1e-9)


def assert_row_is(model: UsageModel, slow: SlowRow, container: str = "app") -> None:
    rows = row(model, container)
    view = model.view(rows)
    assert_same(view.cpu, rows, slow.cpu)
    assert_same(view.memory, rows, slow.memory)
    assert view.count.tolist() == [slow.count]
    assert view.first.tolist() == [pytest.approx(slow.first)] if slow.first is not None else math.isnan(view.first[0])
    assert view.last.tolist() == [pytest.approx(slow.last)] if slow.last is not None else math.isnan(view.last[0])


class Life:
    """The same pods in the model and in the oracle: some of one VPA, each of them replaced now and then."""

    def __init__(self, pods: int, window: float = DAY) -> None:
        self.settings = UsageSettings(memory_window=window)
        self.model = UsageModel(self.settings)
        self.slow = SlowRow(window=window)
        self.generations = [0] * pods
        self.containers = [SlowContainer(self.slow, 3e8) for _ in range(pods)]
        self.kills: set[tuple[str, float]] = set()
        self.now = START
        self.follow()

    def name(self, which: int) -> str:
        return f"web-{which}-{self.generations[which]}"

    def follow(self) -> None:
        self.model.track_pods("shop", [pod(self.name(n), memory=3e8) for n in range(len(self.generations))], self.now)

    def replace(self, which: int) -> None:
        self.generations[which] += 1
        self.containers[which] = SlowContainer(self.slow, 3e8)
        self.follow()

    def sample(self, lines: list[tuple[int, float, float, float]]) -> None:
        result: list[Line] = []
        for which, offset, cpu, memory in lines:
            result.append((self.name(which), "app", self.now + offset, cpu, memory))
        self.model.ingest(batch(*result), self.now)
        for which, offset, cpu, memory in lines:
            if not math.isnan(cpu):
                self.containers[which].add_cpu(self.now + offset, cpu)
            if not math.isnan(memory):
                self.containers[which].add_memory(self.now + offset, memory)

    def kill(self, which: int, offset: float, memory: float) -> None:
        name, time = self.name(which), self.now + offset
        self.model.record_ooms([kill(name, time, memory)], self.now)
        if (name, time) not in self.kills:
            self.kills.add((name, time))
            self.containers[which].record_oom(time, None if math.isnan(memory) else memory)


def steps(pods: int, spans: st.SearchStrategy[float]) -> st.SearchStrategy[list[tuple[str, object]]]:
    which = st.integers(0, pods - 1)
    offsets = st.sampled_from([0.0, 0.0, -30.0, -600.0, 10.0])
    lines = st.lists(st.tuples(which, offsets, cores | st.just(math.nan), sizes | st.just(math.nan)), max_size=6)
    kills = st.tuples(which, st.sampled_from([0.0, -30.0, -600.0, -2 * DAY]), sizes | st.just(math.nan))
    return st.lists(
        st.one_of(
            st.tuples(st.just("sample"), lines),
            st.tuples(st.just("kill"), kills),
            st.tuples(st.just("wait"), spans),
            st.tuples(st.just("replace"), which),
        ),
        max_size=25,
    )


def run(life: Life, script: list[tuple[str, object]]) -> None:
    for action, argument in script:
        if action == "sample":
            life.sample(argument)  # type: ignore[arg-type]  # drawn by `steps`, as are the others
        elif action == "kill":
            life.kill(*argument)  # type: ignore[misc]
        elif action == "wait":
            life.now += argument  # type: ignore[operator]
        else:
            life.replace(argument)  # type: ignore[arg-type]


@given(steps(3, st.sampled_from([60.0, 3600.0, 20_000.0, DAY])), st.sampled_from([3600.0, DAY, 3 * DAY]))
def test_a_row_is_the_sum_of_all_its_containers(script: list[tuple[str, object]], window: float) -> None:
    life = Life(3, window)
    run(life, script)
    assert_row_is(life.model, life.slow)


@given(steps(1, st.sampled_from([60.0, DAY, 40 * DAY, 99 * DAY, 130 * DAY, 400 * DAY])))
def test_samples_far_apart_count_as_in_single_batches(script: list[tuple[str, object]]) -> None:
    life = Life(1)
    run(life, script)
    assert_row_is(life.model, life.slow)


readings = st.lists(st.tuples(st.integers(0, 1), st.integers(-40, 0), cores, sizes), min_size=1, max_size=60)


@given(readings, st.sampled_from([1800.0, 5400.0, DAY]), st.booleans())
def test_history_in_one_batch_counts_as_in_single_batches(
    result: list[tuple[int, int, float, float]], window: float, in_order: bool
) -> None:
    life = Life(2, window)
    life.sample([(0, -50 * 1800.0, 0.1, 1e8)])
    if in_order:
        result.sort(key=lambda reading: reading[1])
    life.sample([(which, step * 1800.0, cpu, memory) for which, step, cpu, memory in result])
    assert_row_is(life.model, life.slow)
    life.sample([(0, 10.0, 0.1, 3e9), (1, 10.0, 0.1, 3e9)])
    assert_row_is(life.model, life.slow)


def test_two_samples_of_a_container_in_one_batch_count_both() -> None:
    life = Life(2)
    life.sample([(0, 0.0, 0.5, 2e8), (1, 0.0, 0.5, 2e8), (0, 60.0, 1.0, 3e8), (0, 120.0, 0.1, 1e8)])
    assert life.slow.count == 4
    assert_row_is(life.model, life.slow)


def test_containers_of_one_pod_feed_rows_of_their_own() -> None:
    model = UsageModel()
    model.track_pods("shop", [pod("web-1", containers=("app", "proxy"))], START)
    model.ingest(batch(("web-1", "app", START, 1.0, 1e9), ("web-1", "proxy", START, 0.1, 1e8)), START)
    view = model.view()
    assert {
        key.container: cpu for key, cpu in zip(view.keys, view.cpu.percentiles([0.9], view.rows)[0], strict=True)
    } == {
        "app": pytest.approx(1.016281389),
        "proxy": pytest.approx(0.110265643),
    }


def test_accepted_samples_are_reported_for_metrics() -> None:
    model = UsageModel()
    model.track_pods("shop", [pod("a"), pod("b")], START)
    result = model.ingest(batch(("a", "app", START, 1.0, 1e9), ("b", "app", START, math.nan, 2e9)), START)
    assert result.accepted == 2
    assert result.dropped == {}
    assert result.changed_rows.tolist() == row(model).tolist()
    assert result.rows.tolist() == row(model).tolist() * 2
    assert result.memory.tolist() == [1e9, 2e9]
    assert result.cpu[0] == 1.0
    assert math.isnan(result.cpu[1])


@pytest.mark.req("CR-23")
def test_a_row_can_have_a_memory_window_of_its_own() -> None:
    model = UsageModel()
    model.tune("shop", "web", "app", Tuning(memory_window=3600.0))
    model.track_pods("shop", [pod("a", containers=("app", "other"))], START)
    for hour in range(24):
        time = START + hour * 3600
        model.ingest(batch(("a", "app", time, 0.1, 1e8), ("a", "other", time, 0.1, 1e8)), time)
    view = model.view()
    total = dict(zip([key.container for key in view.keys], view.memory.totals(view.rows), strict=True))
    assert total["app"] > 20 * total["other"] / 2
    assert total["app"] > 12


def test_a_removed_tuning_restores_the_settings() -> None:
    model = UsageModel(UsageSettings(oom_bump_up_ratio=1.5))
    model.track_pods("shop", [pod("a"), pod("b"), pod("c")], START)
    needed = []
    for name, tuning in (("a", None), ("b", Tuning(oom_bump_up_ratio=3.0)), ("c", None)):
        model.tune("shop", "web", "app", tuning)
        needed += model.record_ooms([kill(name, START, 1e9)], START).memory.tolist()
    assert needed == [1.5e9, 3e9, 1.5e9]


def test_a_changed_window_holds_from_the_next_window_on() -> None:
    life = Life(1)
    life.sample([(0, 0.0, 0.1, 1e8)])
    life.slow.window = 3600.0
    life.model.tune("shop", "web", "app", Tuning(memory_window=3600.0))
    for hour in range(1, 60):
        life.now = START + hour * 3600
        life.sample([(0, 0.0, 0.1, 1e8 + hour)])
    assert_row_is(life.model, life.slow)
