"""Splits runs into phases, and aligns a run with earlier runs by its current phase.

A phase is a stretch of about the same usage, of CPU and of memory. The next phase begins when usage has differed for
two intervals in a row: a single interval may be an outlier, or half in one phase and half in the other. Steadily
growing usage is a sequence of short phases, which are distinguished by how far it has grown.

A run is aligned with the phase of an earlier run that is most like its present one: by the usage in it and in the two
before it, and then by when it began. Within the phase, by how far this run is in its own: a phase that has lasted
longer than in the earlier run is over any moment, and so is one that by the clock is further on than it seems. An early
forecast costs waiting; a late one costs a shortage.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.core.usage.history.hours import Ring

# Usage is about the same up to this fraction of it, or up to this fraction of the most that any run of a row used. CPU
# strays by itself, memory hardly does.
ALIKE_FRACTIONS: Final = np.array([0.4, 0.2])
_NEGLIGIBLE_FRACTIONS: Final = np.array([0.1, 0.05])
# What an interval weighs in its phase that is elsewhere, or may be half in the phase before.
_DOUBTFUL_WEIGHT: Final = np.float32(1e-6)


class PhaseSequences(NamedTuple):
    """The phases of runs: `starts` and `ends` are intervals, (..., phases), and `levels` (..., resources, phases).

    Phases that a run does not have start at its end and have the level NaN. `phases` is how many it has, `lengths` how
    many intervals it has lasted.
    """

    starts: IntColumn
    ends: IntColumn
    levels: FloatColumn
    phases: IntColumn
    lengths: IntColumn

    def select_rows(self, runs: int, rows: IntColumn) -> PhaseSequences:
        """The runs of some rows, as (rows, runs, ...), where each row has the same number of runs."""
        which = rows[:, np.newaxis] * runs + np.arange(runs)
        return PhaseSequences(
            self.starts[which], self.ends[which], self.levels[which], self.phases[which], self.lengths[which]
        )


def split_into_phases(means: Ring, negligible: FloatColumn) -> PhaseSequences:
    """The phases of runs from means (runs, resources, intervals), NaN where nothing is known.

    `negligible` is up to which difference usage is the same in any case, (runs, resources).
    """
    known = ~np.isnan(means)
    ever: BoolColumn = known[:, 0] | known[:, 1]
    lengths = np.where(ever.any(axis=1), means.shape[-1] - ever[:, ::-1].argmax(axis=1), 0)
    begins, elsewhere = _find_phase_starts(means, known, lengths, negligible.astype(np.float32))
    phases = begins.sum(axis=1)
    most = int(phases.max(initial=0))
    run, interval = np.nonzero(begins)
    phase = np.arange(len(run)) - np.repeat(np.cumsum(phases) - phases, phases)
    starts = np.repeat(lengths[:, np.newaxis], most, axis=1)
    starts[run, phase] = interval
    ends = np.concatenate([starts[:, 1:], lengths[:, np.newaxis]], axis=1)[:, :most]
    levels = np.full((len(means), 2, most), np.nan)
    for resource in range(2):
        weights = np.where(begins | elsewhere, _DOUBTFUL_WEIGHT, np.float32(1.0)) * known[:, resource]
        levels[run, resource, phase] = _compute_phase_means(means[:, resource], weights, begins)
    return PhaseSequences(starts, ends, levels, phases, lengths)


def find_negligible_differences(means: Ring) -> FloatColumn:
    """The differences that are no change of usage, (rows, resources), from (rows, runs, resources, intervals)."""
    highest = np.fmax.reduce(np.fmax.reduce(means, axis=1), axis=-1)
    differences: FloatColumn = np.nan_to_num(highest.astype(np.float64)) * _NEGLIGIBLE_FRACTIONS
    return differences


def measure_distances(levels: FloatColumn, other_levels: FloatColumn, negligible: FloatColumn) -> FloatColumn:
    """The distances of levels (..., resources): up to 1 they are alike; infinite where usage is unknown.

    What is known of one and not of the other makes no difference.
    """
    tolerated = np.maximum(ALIKE_FRACTIONS * np.maximum(levels, other_levels), negligible)
    differences = np.abs(levels - other_levels) / np.maximum(tolerated, np.finfo(np.float64).tiny)
    distances: FloatColumn = np.nan_to_num(np.fmax.reduce(differences, axis=-1), nan=np.inf)
    return distances


def _find_phase_starts(
    means: Ring, known: BoolColumn, lengths: IntColumn, negligible: Ring
) -> tuple[BoolColumn, BoolColumn]:
    """(runs, intervals): where phases begin, and where usage is elsewhere than in the phase so far.

    Where nothing is known, usage is taken to be as before; at the beginning, as it will be.
    """
    begins, elsewhere = np.zeros((2, len(means), means.shape[-1]), dtype=np.bool_)
    begins[:, 0] = lengths > 0
    by_interval = np.ascontiguousarray(np.moveaxis(means, -1, 0))
    first = known.argmax(axis=-1)[..., np.newaxis]
    level = used = np.take_along_axis(means, first, axis=-1)[..., 0]
    alike = ALIKE_FRACTIONS.astype(np.float32)
    count = np.ones(len(means), dtype=np.float32)
    is_away = np.zeros(len(means), dtype=np.bool_)
    for interval in range(1, int(lengths.max(initial=0))):
        used = np.where(np.isnan(by_interval[interval]), used, by_interval[interval])
        tolerated = np.maximum(alike * np.maximum(used, level), negligible)
        is_departing = (np.abs(used - level) > tolerated).any(axis=1)
        is_begun = is_departing & is_away
        begins[:, interval - 1] |= is_begun & (interval < lengths)
        count = np.where(is_begun, np.float32(1.0), count + ~is_departing)
        share = np.where(is_begun, np.float32(1.0), ~is_departing / count)
        level = level + (used - level) * share[:, np.newaxis]
        is_away = is_departing & ~is_begun
        elsewhere[:, interval] = is_away
    return begins, elsewhere


def _compute_phase_means(values: Ring, weights: Ring, begins: BoolColumn) -> Ring:
    """The weighted mean of each phase of all runs, one after the other; NaN where nothing is known."""
    at = np.flatnonzero(begins)
    if not len(at):
        return np.zeros(0, dtype=np.float32)
    total = np.add.reduceat(np.where(weights > 0, values * weights, np.float32(0.0)).reshape(-1), at)
    weight = np.add.reduceat(weights.reshape(-1), at)
    return np.divide(total, weight, out=np.full(len(at), np.nan, dtype=np.float32), where=weight > 0)


# How much the present phase counts, and those before it.
_PHASE_WEIGHTS: Final = (1.0, 0.5, 0.25)
_FARTHEST: Final = 3.0  # what is unlike is not more so for being far off
_CLOCK: Final = 0.5
_LEAST_INTERVALS: Final = 3  # intervals after which a run can be distinguished from others


class RunPositions(NamedTuple):
    """Runs as they are now: their last phases, newest first, (runs, phases before, resources), and when they began.

    `phase` is the number of the present one, from 0 on, `begun` the interval in which it began, and `interval` the
    current one. A run that is not `is_comparable` is too short to be distinguished from others.
    """

    levels: FloatColumn
    phase: IntColumn
    begun: IntColumn
    interval: IntColumn
    is_comparable: BoolColumn


class RunAlignment(NamedTuple):
    """The position in each earlier run, (runs, earlier runs): interval, last interval of the phase, whether alike."""

    interval: IntColumn
    phase_last_interval: IntColumn
    alike: BoolColumn


def locate_runs(phases: PhaseSequences, run_numbers: IntColumn, interval: IntColumn) -> RunPositions:
    """The state of some runs at intervals; run number -1 is a run that has not begun."""
    has_run = run_numbers >= 0
    phase = np.where(has_run, phases.phases[run_numbers] - 1, -1)
    run_rows = run_numbers[:, np.newaxis]
    before = phase[:, np.newaxis] - np.arange(len(_PHASE_WEIGHTS))
    at = np.clip(before, 0, max(phases.starts.shape[1] - 1, 0))
    if not phases.starts.shape[1]:
        levels, begun = (
            np.full((len(run_numbers), len(_PHASE_WEIGHTS), 2), np.nan),
            np.zeros(len(run_numbers), dtype=np.int64),
        )
    else:
        levels = np.where((before >= 0)[..., np.newaxis], phases.levels[run_rows, :, at], np.nan)
        begun = phases.starts[run_numbers, at[:, 0]]
    is_comparable = has_run & (phase >= 0) & (phases.lengths[run_numbers] >= _LEAST_INTERVALS)
    return RunPositions(levels, phase, begun, interval, is_comparable)


def align_runs(now: RunPositions, earlier: PhaseSequences, negligible: FloatColumn) -> RunAlignment:
    """Runs against earlier ones: `earlier` has axes (runs, earlier runs, ...), `negligible` is (runs, resources)."""
    clock = np.broadcast_to(now.interval[:, np.newaxis], earlier.lengths.shape)
    last = np.maximum(earlier.lengths - 1, 0)
    if not earlier.starts.shape[-1]:
        return RunAlignment(clock, last, np.zeros(clock.shape, dtype=np.bool_))
    near, before = _compare_phases(now, earlier, negligible)
    begun = now.begun[:, np.newaxis, np.newaxis]
    start_differences = np.abs(earlier.starts - begun) / (4.0 + np.maximum(earlier.starts, begun))
    phase = (np.minimum(near, _FARTHEST) + before + _CLOCK * start_differences).argmin(axis=-1)[..., np.newaxis]
    start = np.take_along_axis(earlier.starts, phase, axis=-1)[..., 0]
    end = np.take_along_axis(earlier.ends, phase, axis=-1)[..., 0]
    elapsed = (now.interval - now.begun)[:, np.newaxis]
    interval = np.minimum(start + elapsed, end)
    on_time = (start <= clock) & (clock < end)
    interval = np.where(on_time, np.maximum(interval, clock), interval)
    # By what came before, or by the clock: a phase that was taken for two has another one before it.
    follows = np.take_along_axis(before, phase, axis=-1)[..., 0] <= sum(_PHASE_WEIGHTS[1:])
    alike = (np.take_along_axis(near, phase, axis=-1)[..., 0] <= 1.0) & (follows | on_time)
    is_comparable = now.is_comparable[:, np.newaxis]
    return RunAlignment(
        interval=np.where(is_comparable, interval, clock),
        phase_last_interval=np.where(is_comparable, end - 1, last),
        alike=np.where(is_comparable, alike, earlier.lengths > 0),
    )


def _compare_phases(
    now: RunPositions, earlier: PhaseSequences, negligible: FloatColumn
) -> tuple[FloatColumn, FloatColumn]:
    """(runs, earlier runs, phases): how far each phase is from the present one, and those before it from those."""
    negligible_differences = negligible[:, np.newaxis, np.newaxis]
    levels = np.moveaxis(earlier.levels, -2, -1)
    near = measure_distances(levels, now.levels[:, np.newaxis, np.newaxis, 0], negligible_differences)
    before = np.zeros_like(near)
    for back, weight in enumerate(_PHASE_WEIGHTS[1:], start=1):
        missing = np.full_like(levels[:, :, :back], np.nan)
        earlier_levels = np.concatenate([missing, levels[:, :, :-back]], axis=2)[:, :, : levels.shape[2]]
        distances = np.minimum(
            measure_distances(earlier_levels, now.levels[:, np.newaxis, np.newaxis, back], negligible_differences),
            _FARTHEST,
        )
        has_current = now.phase[:, np.newaxis, np.newaxis] >= back
        has_earlier = np.arange(levels.shape[2]) >= back
        # Both began with this phase, or only one of them did.
        before += weight * np.where(has_current & has_earlier, distances, np.where(has_current | has_earlier, 1.0, 0.0))
    return near, before
