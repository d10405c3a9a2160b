"""`phases` sizes a run for its next phase before it begins, and explains its fallback."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings

from support.builders.usage_samples import kill, row
from trellis.base.errors import InvalidInput
from trellis.core.recommend.amounts import CPU, LOWER, MEMORY, MIDDLE, UPPER
from trellis.core.recommend.forecast.phase_alignment import split_into_phases
from trellis.core.recommend.protocol import Estimates, Recommender, Rows
from trellis.core.recommend.recommenders.default import DefaultRecommender
from trellis.core.recommend.recommenders.phases import PhasesRecommender
from trellis.core.recommend.registry import apply_preset
from trellis.core.recommend.validation import needs_runs, read_declaration
from trellis.core.usage.columns import FloatColumn
from trellis.core.usage.history.job_runs import INTERVALS
from trellis.core.usage.model import UsageModel
from trellis.core.usage.samples import Samples
from trellis.core.usage.tracked_pods import TrackedContainer, TrackedPod
from trellis.testing.estimates import request_estimates, require_possible
from trellis.testing.rows import example_rows
from trellis.testing.usage import any_rows

GIB = 2.0**30
HOUR, DAY = 3600.0, 86_400.0
MINUTE = 60.0
START = 1_700_000_000.0
VPA = ("shop", "web")

Levels = Sequence[tuple[int, float, float]]  # minutes, cores and GiB of each phase

TRAINING: Levels = ((30, 0.2, 1.0), (20, 2.0, 1.0), (20, 0.5, 6.0))


class World:
    """A workload that is run again and again, a sample a minute."""

    def __init__(self, gap: float = HOUR) -> None:
        self.model = UsageModel()
        self.model.keep_runs([VPA])
        self.gap = gap
        self.now = START
        self.pods: list[TrackedPod] = []
        self.names = 0
        self._draw = np.random.default_rng(7)

    def start(self) -> TrackedPod:
        """A pod, started now."""
        self.names += 1
        name = f"web-{self.names}"
        pod = TrackedPod("shop", name, f"uid-of-{name}", "web", True, (TrackedContainer("app"),), self.now)
        self.pods.append(pod)
        self.model.track_pods("shop", self.pods, self.now)
        return pod

    def stop(self, pod: TrackedPod) -> None:
        self.pods.remove(pod)
        self.model.track_pods("shop", self.pods, self.now)

    def use(self, *used: tuple[TrackedPod, float, float]) -> None:
        """A minute, in which pods use so many cores and GiB."""
        self.now += MINUTE
        pods, cpu, memory = zip(*used, strict=True)
        self._ingest(pods, np.full(len(pods), self.now), np.array(cpu), np.array(memory))

    def run(self, program: Levels) -> None:
        """A whole run, and the time until the next."""
        pod, begin = self.start(), self.now
        cpu, memory = used_in(program, CPU) / 1000.0, used_in(program, MEMORY) / GIB
        self.now += MINUTE * len(cpu)
        self._ingest([pod] * len(cpu), begin + MINUTE * np.arange(1.0, len(cpu) + 1), cpu, memory)
        self.stop(pod)
        self.now += self.gap

    def _ingest(self, pods: Sequence[TrackedPod], times: FloatColumn, cpu: FloatColumn, memory: FloatColumn) -> None:
        stray = 1 + 0.05 * self._draw.standard_normal(len(cpu)).clip(-2, 2)
        names = ["shop"] * len(pods), [pod.name for pod in pods], ["app"] * len(pods)
        self.model.ingest(Samples(*names, times - 20.0, cpu * stray, memory * GIB), self.now)

    def estimate_web(self, recommender: Recommender | None = None, **given: float) -> Estimates:
        asked = recommender or phases()
        view = self.model.view(row(self.model))
        values = {parameter.name: parameter.default for parameter in asked.parameters}
        values |= {name.replace("_", "-"): value for name, value in given.items()}
        return asked.estimate(Rows.from_view(view, np.arange(1), np.ones(1)), values, self.now)


def phases() -> PhasesRecommender:
    return PhasesRecommender(DefaultRecommender())


def trained(runs: int = 6, gap: float = HOUR, program: Levels = TRAINING) -> World:
    world = World(gap)
    for _ in range(runs):
        world.run(program)
    return world


def read_explanation(result: Estimates, what: str) -> float | str:
    value = result.explanation[what][0]
    return value if isinstance(value, str) else float(value)


def simulate_targets(world: World, program: Levels, recommenders: Sequence[Recommender], every: int = 3) -> FloatColumn:
    """(minutes, recommenders, resources): what each recommends for every minute of one more run, before it begins.

    They are asked `every` so many minutes.
    """
    pod = world.start()
    result: list[list[FloatColumn]] = []
    used = zip(used_in(program, CPU) / 1000.0, used_in(program, MEMORY) / GIB, strict=True)
    for minute, (cpu, memory) in enumerate(used):
        second = minute % every == 0
        result.append(
            [world.estimate_web(recommender).target[:, 0] for recommender in recommenders] if second else result[-1]
        )
        world.use((pod, cpu, memory))
    world.stop(pod)
    return np.array(result)


def used_in(program: Levels, resource: int) -> FloatColumn:
    return np.repeat([item[1 + resource] for item in program], [item[0] for item in program]) * (1000.0, GIB)[resource]


@pytest.mark.req("CR-27")
def test_the_target_rises_before_the_next_phase_and_that_of_default_after_it() -> None:
    # Every fourth day, so that what default remembers is mostly the phase that the run is in.
    world = trained(6, gap=4 * DAY)
    targets = simulate_targets(world, TRAINING, [phases(), DefaultRecommender()])
    busy, needed = 30, 2000.0
    assert (targets[busy - 8 : busy, 0, CPU] >= needed).all()
    assert (targets[:15, 0, CPU] < 500).all()
    assert (targets[busy - 8 : busy + 1, 1, CPU] < needed).all()
    assert targets[-1, 1, CPU] >= needed
    short = (targets[:, :, CPU] < used_in(TRAINING, CPU)[:, np.newaxis]).sum(axis=0)
    assert short[0] == 0
    assert short[1] >= 3


@pytest.mark.req("CR-27")
def test_memory_is_raised_before_its_phase_and_lowered_after_it() -> None:
    world = trained()
    targets = simulate_targets(world, TRAINING, [phases(), DefaultRecommender()])
    assert (targets[:, 0, MEMORY] >= used_in(TRAINING, MEMORY)).all()
    assert (targets[:15, 0, MEMORY] < 1.5 * GIB).all()
    assert (targets[30:50, 0, MEMORY] >= 6 * GIB).all()
    assert targets[:, 0, MEMORY].mean() < 0.9 * targets[:, 1, MEMORY].mean()


@pytest.mark.parametrize("seed", range(3))
def test_phases_may_last_longer_or_shorter_than_before(seed: int) -> None:
    draw = np.random.default_rng(seed)

    def program() -> Levels:
        return [(round(minutes * draw.uniform(0.7, 1.3)), cpu, memory) for minutes, cpu, memory in TRAINING]

    world = World()
    for _ in range(6):
        world.run(program())
    once_more = program()
    targets = simulate_targets(world, once_more, [phases()])[:, 0]
    for resource in (CPU, MEMORY):
        assert (targets[:, resource] >= 0.99 * used_in(once_more, resource)).all()
    assert targets[:10, CPU].max() < 500


def test_a_phase_longer_than_ever_keeps_the_target_of_the_next_phase() -> None:
    targets = simulate_targets(trained(), ((55, 0.2, 1.0), (20, 2.0, 1.0)), [phases()])[:, 0]
    assert (targets[25:, CPU] >= 2000).all()


def test_between_runs_the_target_is_that_of_the_first_phase() -> None:
    world = trained()
    result = world.estimate_web()
    assert 200 < result.target[CPU, 0] < 300
    assert GIB < result.target[MEMORY, 0] < 1.2 * GIB
    assert result.upper[CPU, 0] > 2000
    assert read_explanation(result, "phase") == 0
    world.start()
    assert world.estimate_web().target.tolist() == result.target.tolist()


def test_a_pod_is_too_small_before_the_next_phase_and_not_too_large_until_the_last() -> None:
    world = trained()
    pod = world.start()
    first = world.estimate_web().target[CPU, 0]
    for _ in range(25):
        world.use((pod, 0.2, 1.0))
    before = world.estimate_web()
    assert before.lower[CPU, 0] > first
    assert before.upper[MEMORY, 0] >= 6 * GIB
    for minutes, cpu, memory in ((5, 0.2, 1.0), (20, 2.0, 1.0), (5, 0.5, 6.0)):
        for _ in range(minutes):
            world.use((pod, cpu, memory))
    assert world.estimate_web().upper[CPU, 0] < before.target[CPU, 0]


def test_a_horizon_longer_than_a_run_sizes_for_the_full_run() -> None:
    result = trained().estimate_web(horizon=2 * HOUR, memory_horizon=2 * HOUR)
    assert result.target[CPU, 0] >= 2000
    assert result.target[MEMORY, 0] >= 6 * GIB


def test_the_explanation_has_the_phase_of_a_run_and_the_time_to_the_next_rise() -> None:
    world = trained()
    pod = world.start()
    for _ in range(20):
        world.use((pod, 0.2, 1.0))
    result = world.estimate_web()
    assert (read_explanation(result, "cpu"), read_explanation(result, "memory")) == ("phases", "phases")
    assert (read_explanation(result, "runs"), read_explanation(result, "alike"), read_explanation(result, "phase")) == (
        6,
        6,
        1,
    )
    assert 8 * MINUTE <= float(read_explanation(result, "seconds-to-rise")) <= 12 * MINUTE
    assert result.confidence is not None
    assert result.confidence[0] >= 1


def test_a_changed_program_is_sized_as_by_default_until_it_has_enough_runs() -> None:
    changed: Levels = ((20, 1.0, 3.0), (20, 4.0, 9.0))
    world = trained()
    pod = world.start()
    for _ in range(10):
        world.use((pod, 1.0, 3.0))
    result = world.estimate_web()
    assert read_explanation(result, "cpu") == read_explanation(result, "memory") == "unlike earlier runs"
    assert result.target.tolist() == world.estimate_web(DefaultRecommender()).target.tolist()
    world.stop(pod)
    for _ in range(3):
        world.run(changed)
    targets = simulate_targets(world, changed, [phases()])[:, 0]
    assert (targets[5:, CPU] >= used_in(changed, CPU)[5:]).all()


@pytest.mark.parametrize(("runs", "reason"), [(0, "too few runs"), (2, "too few runs"), (3, "phases")])
def test_with_too_few_runs_the_estimate_is_that_of_default_with_a_reason(runs: int, reason: str) -> None:
    world = trained(runs)
    pod = world.start()
    world.use((pod, 0.2, 1.0))
    result = world.estimate_web()
    assert read_explanation(result, "cpu") == reason
    same = result.target.tolist() == world.estimate_web(DefaultRecommender()).target.tolist()
    assert same == (reason != "phases")


def test_pods_that_run_on_are_sized_as_by_default() -> None:
    world = trained()
    pod = world.start()
    world.now += 25 * HOUR
    world.use((pod, 0.2, 1.0))
    result = world.estimate_web()
    assert read_explanation(result, "cpu") == "runs for too long"
    assert result.target.tolist() == world.estimate_web(DefaultRecommender()).target.tolist()


def test_rows_without_run_history_are_sized_as_by_default() -> None:
    recommender, default = phases(), DefaultRecommender()
    rows = example_rows(history=False)
    values = {parameter.name: parameter.default for parameter in recommender.parameters}
    usual = {parameter.name: parameter.default for parameter in default.parameters}
    result, expected = recommender.estimate(rows, values, START), default.estimate(rows, usual, START)
    assert np.array_equal(result.bounds, expected.bounds, equal_nan=True)
    assert set(result.explanation["cpu"]) == {"too few runs"}


def test_a_five_minute_cron_job_is_sized_for_its_full_run_at_once() -> None:
    world = trained(6, gap=300.0, program=((2, 0.1, 0.2), (1, 1.0, 1.0), (2, 0.1, 0.3)))
    result = world.estimate_web()
    assert result.target[CPU, 0] >= 1000
    assert result.target[MEMORY, 0] >= GIB


def test_a_training_of_twelve_hours_is_raised_in_time() -> None:
    program: Levels = ((240, 0.3, 1.0), (60, 3.0, 4.0), (420, 0.5, 2.0))
    world = trained(4, program=program)
    targets = simulate_targets(world, program[:2], [phases()], every=6)[:, 0]
    assert (targets[234:, CPU] >= 3000).all()
    assert (targets[20:200, CPU] < 500).all()
    assert (targets[225:, MEMORY] >= 4 * GIB).all()


def test_growing_memory_is_sized_by_the_growth_of_earlier_runs() -> None:
    ramp: Levels = [(1, 1.0, 1.0 + minute / 10) for minute in range(70)]
    targets = simulate_targets(trained(4, program=ramp), ramp, [phases()], every=2)[:, 0, MEMORY]
    used = used_in(ramp, MEMORY)
    assert (targets >= used).all()
    assert targets[10] < 6 * GIB


def test_of_overlapping_runs_the_highest_need_counts() -> None:
    world = trained()
    early = world.start()
    for _ in range(27):
        world.use((early, 0.2, 1.0))
    late = world.start()
    for _ in range(4):
        world.use((early, 2.0, 1.0), (late, 0.2, 1.0))
    assert world.estimate_web().target[CPU, 0] >= 2000
    for _ in range(17):
        world.use((early, 2.0, 1.0), (late, 0.2, 1.0))
    world.stop(early)
    assert read_explanation(world.estimate_web(), "cpu") == "phases"


def test_a_kill_of_an_earlier_run_is_in_the_memory_of_the_next() -> None:
    world = trained(3)
    pod = world.start()
    for _ in range(10):
        world.use((pod, 0.2, 1.0))
    world.model.record_ooms([kill(pod.name, world.now, 8 * GIB)], world.now)
    world.stop(pod)
    world.now += HOUR
    assert world.estimate_web().target[MEMORY, 0] >= 8 * GIB


def test_estimates_after_a_restart_are_equal() -> None:
    world = trained()
    pod = world.start()
    for _ in range(25):
        world.use((pod, 0.2, 1.0))
    before = world.estimate_web()
    saved = world.model.save_rows(row(world.model), world.now)
    world.model = UsageModel()
    world.model.keep_runs([VPA])
    world.model.restore_all(saved)
    world.model.track_pods("shop", world.pods, world.now)
    after = world.estimate_web()
    assert after.bounds == pytest.approx(before.bounds, rel=0.012)
    assert {name: read_explanation(after, name) for name in after.explanation} == {
        name: read_explanation(before, name) for name in before.explanation
    }
    world.use((pod, 0.2, 1.0))
    assert world.estimate_web().target[CPU, 0] >= 2000


def test_a_reused_recommender_estimates_like_a_new_instance() -> None:
    world, old = trained(4), phases()
    pod = world.start()
    for minute in range(20):
        world.use((pod, 0.2 if minute < 12 else 2.0, 1.0))
        for seconds in (0.0, 35.0):
            world.now += seconds
            own, fresh = world.estimate_web(old), world.estimate_web()
            assert own.bounds.tolist() == fresh.bounds.tolist()
            assert {name: str(read_explanation(own, name)) for name in own.explanation} == {
                name: str(read_explanation(fresh, name)) for name in fresh.explanation
            }
            world.now -= seconds
    world.stop(pod)
    for later in (0.0, 60.0, 600.0):
        world.now += later
        assert world.estimate_web(old).bounds.tolist() == world.estimate_web().bounds.tolist()


class TestSequences:
    """Where phases begin."""

    def starts(self, cpu: Sequence[float], memory: Sequence[float] = ()) -> list[int]:
        means = np.full((1, 2, INTERVALS), np.nan, dtype=np.float32)
        means[0, CPU, : len(cpu)] = cpu
        means[0, MEMORY, : len(memory)] = memory
        result = split_into_phases(means, np.array([[0.1, 0.1]]))
        return result.starts[0, : result.phases[0]].tolist()  # type: ignore[no-any-return]

    def test_one_begins_where_usage_changes_for_good(self) -> None:
        assert self.starts([1.0] * 10 + [3.0] * 10 + [1.0] * 5) == [0, 10, 20]

    def test_a_single_outlier_begins_none(self) -> None:
        assert self.starts([1.0] * 10 + [9.0] + [1.0] * 10) == [0]

    def test_one_that_has_just_begun_may_be_an_outlier(self) -> None:
        assert self.starts([1.0] * 10 + [9.0]) == [0]
        assert self.starts([1.0] * 10 + [9.0, 9.0]) == [0, 10]

    def test_usage_that_strays_stays_in_its_phase(self) -> None:
        draw = np.random.default_rng(1)
        assert self.starts((1 + 0.15 * draw.standard_normal(90)).tolist()) == [0]

    def test_either_resource_begins_one(self) -> None:
        assert self.starts([1.0] * 20, [1.0] * 10 + [2.0] * 10) == [0, 10]

    def test_gaps_are_bridged(self) -> None:
        nan = math.nan
        assert self.starts([nan, 1.0, nan, nan, 1.0, nan, 3.0, nan, 3.0]) == [0, 6]

    def test_what_grows_is_a_sequence_of_short_ones(self) -> None:
        assert len(self.starts([], np.linspace(1.0, 10.0, 90).tolist())) >= 5

    def test_nothing_has_none(self) -> None:
        assert self.starts([]) == []


class RecommenderWithoutRuns:
    """A recommender from before run history, without `needs_runs`."""

    name = "plain"
    needs_history = False
    parameters = ()

    def estimate(self, rows: Rows, _values: object, _now: float, /) -> Estimates:
        return Estimates(np.full((3, 2, len(rows)), np.nan))


def test_a_recommender_without_a_declaration_of_runs_gets_none() -> None:
    assert not read_declaration(RecommenderWithoutRuns()).needs_runs
    assert not needs_runs(RecommenderWithoutRuns())


def test_a_recommender_declares_that_it_needs_runs() -> None:
    recommender = phases()
    assert read_declaration(recommender).needs_runs
    assert needs_runs(apply_preset(recommender, {"horizon": "20m"}))
    assert msgspec.convert(
        {"needs_history": False}, type(read_declaration(RecommenderWithoutRuns()))
    ) == read_declaration(RecommenderWithoutRuns())


def test_a_recommender_with_an_invalid_declaration_of_runs_is_refused() -> None:
    odd = RecommenderWithoutRuns()
    odd.needs_runs = "often"  # type: ignore[attr-defined]
    with pytest.raises(InvalidInput, match="its attribute `needs_runs` is not a bool"):
        read_declaration(odd)


@given(any_rows(history=False, runs=True))
@settings(max_examples=15)
def test_any_rows_get_valid_estimates(rows: Rows) -> None:
    require_possible(request_estimates(phases(), rows), rows)


def test_bounds_are_in_order_in_every_phase_of_a_run() -> None:
    world, recommender = trained(4), phases()
    pod = world.start()
    for minutes, cpu, memory in ((10, 0.2, 1.0), (6, 2.0, 1.0), (6, 0.5, 6.0), (6, 5.0, 0.1)):
        for _ in range(minutes):
            bounds = world.estimate_web(recommender).bounds
            assert (bounds[LOWER] <= bounds[MIDDLE]).all()
            assert (bounds[MIDDLE] <= bounds[UPPER]).all()
            world.use((pod, cpu, memory))
