"""Where was an earlier run when it was where this one is now?

In the phase that is most like the present one: by the usage in it and in the two before it, and then by when it began.
In it, as far as this run is in its own: a phase that has lasted longer than in the earlier run is over any moment, and
so is one that by the clock is further on than it seems. Who is told early waits; who is told late is short.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from trellis.core.recommend.phase_sequences import Sequences, distances
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn

# How much the present phase counts, and those before it.
_WEIGHTS: Final = (1.0, 0.5, 0.25)
_FARTHEST: Final = 3.0  # what is unlike is not more so for being far off
_CLOCK: Final = 0.5
_JUDGED: Final = 3  # places after which a run can be told from others


class Present(NamedTuple):
    """Runs as they are now: their last phases, newest first, (runs, phases before, resources), and when they began.

    `phase` is the number of the present one, from 0 on, `begun` the place where it did and `place` where the run is
    now. A run that is not `judged` has not been seen long enough to be told from others.
    """

    levels: FloatColumn
    phase: IntColumn
    begun: IntColumn
    place: IntColumn
    judged: BoolColumn


class Alignment(NamedTuple):
    """Where each earlier run was, (runs, earlier runs): the place, the last place of the phase, and whether alike."""

    place: IntColumn
    last_of_phase: IntColumn
    alike: BoolColumn


def present(found: Sequences, which: IntColumn, place: IntColumn) -> Present:
    """Some of the runs as they are at places; -1 is a run that has not begun."""
    there = which >= 0
    phase = np.where(there, found.phases[which] - 1, -1)
    everyone = which[:, np.newaxis]
    before = phase[:, np.newaxis] - np.arange(len(_WEIGHTS))
    at = np.clip(before, 0, max(found.starts.shape[1] - 1, 0))
    if not found.starts.shape[1]:
        levels, begun = np.full((len(which), len(_WEIGHTS), 2), np.nan), np.zeros(len(which), dtype=np.int64)
    else:
        levels = np.where((before >= 0)[..., np.newaxis], found.levels[everyone, :, at], np.nan)
        begun = found.starts[which, at[:, 0]]
    judged = there & (phase >= 0) & (found.lengths[which] >= _JUDGED)
    return Present(levels, phase, begun, place, judged)


def aligned(now: Present, earlier: Sequences, negligible: FloatColumn) -> Alignment:
    """Runs against earlier ones: `earlier` has axes (runs, earlier runs, ...), `negligible` is (runs, resources)."""
    clock = np.broadcast_to(now.place[:, np.newaxis], earlier.lengths.shape)
    last = np.maximum(earlier.lengths - 1, 0)
    if not earlier.starts.shape[-1]:
        return Alignment(clock, last, np.zeros(clock.shape, dtype=np.bool_))
    near, before = _likeness(now, earlier, negligible)
    begun = now.begun[:, np.newaxis, np.newaxis]
    apart = np.abs(earlier.starts - begun) / (4.0 + np.maximum(earlier.starts, begun))
    phase = (np.minimum(near, _FARTHEST) + before + _CLOCK * apart).argmin(axis=-1)[..., np.newaxis]
    start = np.take_along_axis(earlier.starts, phase, axis=-1)[..., 0]
    end = np.take_along_axis(earlier.ends, phase, axis=-1)[..., 0]
    elapsed = (now.place - now.begun)[:, np.newaxis]
    place = np.minimum(start + elapsed, end)
    on_time = (start <= clock) & (clock < end)
    place = np.where(on_time, np.maximum(place, clock), place)
    # By what came before, or by the clock: a phase that was taken for two has another one before it.
    follows = np.take_along_axis(before, phase, axis=-1)[..., 0] <= sum(_WEIGHTS[1:])
    alike = (np.take_along_axis(near, phase, axis=-1)[..., 0] <= 1.0) & (follows | on_time)
    judged = now.judged[:, np.newaxis]
    return Alignment(
        place=np.where(judged, place, clock),
        last_of_phase=np.where(judged, end - 1, last),
        alike=np.where(judged, alike, earlier.lengths > 0),
    )


def _likeness(now: Present, earlier: Sequences, negligible: FloatColumn) -> tuple[FloatColumn, FloatColumn]:
    """(runs, earlier runs, phases): how far each phase is from the present one, and those before it from those."""
    bearable = negligible[:, np.newaxis, np.newaxis]
    levels = np.moveaxis(earlier.levels, -2, -1)
    near = distances(levels, now.levels[:, np.newaxis, np.newaxis, 0], bearable)
    before = np.zeros_like(near)
    for back, weight in enumerate(_WEIGHTS[1:], start=1):
        missing = np.full_like(levels[:, :, :back], np.nan)
        theirs = np.concatenate([missing, levels[:, :, :-back]], axis=2)[:, :, : levels.shape[2]]
        apart = np.minimum(distances(theirs, now.levels[:, np.newaxis, np.newaxis, back], bearable), _FARTHEST)
        has = now.phase[:, np.newaxis, np.newaxis] >= back
        have = np.arange(levels.shape[2]) >= back
        # Both began with this phase, or only one of them did.
        before += weight * np.where(has & have, apart, np.where(has | have, 1.0, 0.0))
    return near, before
