"""Which phases does a run consist of?

A phase is a stretch of about the same usage, of CPU and of memory. The next one begins when usage has been elsewhere
for two places of time in a row: a single one may be an outlier, or half in one phase and half in the other. What grows
steadily is a sequence of short phases, and so can be told apart by how far it has grown.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.core.usage.rings import Ring

# Usage is about the same up to this fraction of it, or up to this fraction of the most that any run of a row used. CPU
# strays by itself, memory hardly does.
ALIKE: Final = np.array([0.4, 0.2])
_NEGLIGIBLE: Final = np.array([0.1, 0.05])
# What a place weighs in its phase that is elsewhere, or may be half in the phase before.
_DOUBTFUL: Final = np.float32(1e-6)


class Sequences(NamedTuple):
    """The phases of runs: `starts` and `ends` are places, (..., phases), and `levels` (..., resources, phases).

    Phases that a run does not have start at its end and have the level NaN. `phases` is how many it has, `lengths` how
    many places it has lasted.
    """

    starts: IntColumn
    ends: IntColumn
    levels: FloatColumn
    phases: IntColumn
    lengths: IntColumn

    def of_rows(self, runs: int, rows: IntColumn) -> Sequences:
        """The runs of some rows, as (rows, runs, ...), where each row has so many runs."""
        which = rows[:, np.newaxis] * runs + np.arange(runs)
        return Sequences(
            self.starts[which], self.ends[which], self.levels[which], self.phases[which], self.lengths[which]
        )


def sequences(means: Ring, negligible: FloatColumn) -> Sequences:
    """The phases of runs from means (runs, resources, places), NaN where nothing is known.

    `negligible` is up to which difference usage is the same in any case, (runs, resources).
    """
    known = ~np.isnan(means)
    ever: BoolColumn = known[:, 0] | known[:, 1]
    lengths = np.where(ever.any(axis=1), means.shape[-1] - ever[:, ::-1].argmax(axis=1), 0)
    begins, elsewhere = _changes(means, known, lengths, negligible.astype(np.float32))
    phases = begins.sum(axis=1)
    most = int(phases.max(initial=0))
    run, place = np.nonzero(begins)
    phase = np.arange(len(run)) - np.repeat(np.cumsum(phases) - phases, phases)
    starts = np.repeat(lengths[:, np.newaxis], most, axis=1)
    starts[run, phase] = place
    ends = np.concatenate([starts[:, 1:], lengths[:, np.newaxis]], axis=1)[:, :most]
    levels = np.full((len(means), 2, most), np.nan)
    for resource in range(2):
        weights = np.where(begins | elsewhere, _DOUBTFUL, np.float32(1.0)) * known[:, resource]
        levels[run, resource, phase] = _means(means[:, resource], weights, begins)
    return Sequences(starts, ends, levels, phases, lengths)


def negligible_in(means: Ring) -> FloatColumn:
    """Up to which difference usage is the same in any case, (rows, resources), from (rows, runs, resources, places)."""
    highest = np.fmax.reduce(np.fmax.reduce(means, axis=1), axis=-1)
    found: FloatColumn = np.nan_to_num(highest.astype(np.float64)) * _NEGLIGIBLE
    return found


def distances(one: FloatColumn, other: FloatColumn, negligible: FloatColumn) -> FloatColumn:
    """How far levels (..., resources) are from each other: up to 1 they are alike; infinitely far if nothing is known.

    What is known of one and not of the other makes no difference.
    """
    bearable = np.maximum(ALIKE * np.maximum(one, other), negligible)
    apart = np.abs(one - other) / np.maximum(bearable, np.finfo(np.float64).tiny)
    found: FloatColumn = np.nan_to_num(np.fmax.reduce(apart, axis=-1), nan=np.inf)
    return found


def _changes(means: Ring, known: BoolColumn, lengths: IntColumn, negligible: Ring) -> tuple[BoolColumn, BoolColumn]:
    """(runs, places): where phases begin, and where usage is elsewhere than in the phase so far.

    Where nothing is known, usage is taken to be as before; at the beginning, as it will be.
    """
    found, elsewhere = np.zeros((2, len(means), means.shape[-1]), dtype=np.bool_)
    found[:, 0] = lengths > 0
    by_place = np.ascontiguousarray(np.moveaxis(means, -1, 0))
    first = known.argmax(axis=-1)[..., np.newaxis]
    level = used = np.take_along_axis(means, first, axis=-1)[..., 0]
    alike = ALIKE.astype(np.float32)
    count = np.ones(len(means), dtype=np.float32)
    away = np.zeros(len(means), dtype=np.bool_)
    for place in range(1, int(lengths.max(initial=0))):
        used = np.where(np.isnan(by_place[place]), used, by_place[place])
        bearable = np.maximum(alike * np.maximum(used, level), negligible)
        departs = (np.abs(used - level) > bearable).any(axis=1)
        begun = departs & away
        found[:, place - 1] |= begun & (place < lengths)
        count = np.where(begun, np.float32(1.0), count + ~departs)
        share = np.where(begun, np.float32(1.0), ~departs / count)
        level = level + (used - level) * share[:, np.newaxis]
        away = departs & ~begun
        elsewhere[:, place] = away
    return found, elsewhere


def _means(values: Ring, weights: Ring, begins: BoolColumn) -> Ring:
    """The weighted mean of each phase of all runs, one after the other; NaN where nothing is known."""
    at = np.flatnonzero(begins)
    if not len(at):
        return np.zeros(0, dtype=np.float32)
    total = np.add.reduceat(np.where(weights > 0, values * weights, np.float32(0.0)).reshape(-1), at)
    weight = np.add.reduceat(weights.reshape(-1), at)
    return np.divide(total, weight, out=np.full(len(at), np.nan, dtype=np.float32), where=weight > 0)
