"""How well did a rule size? What it set aside, how long and by how much that was too little, and how often it changed.

None of these says anything alone: who asks for nothing has no slack, and who asks for everything never has too little.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from trellis.core.recommend.replay import DAY, Replayed, Usage
from trellis.core.usage.columns import BoolColumn, FloatColumn

_AT_ONCE = 1 << 21  # numbers: a few steps of many series or many steps of a few


class Scores(msgspec.Struct, frozen=True):
    """By series, (..., series); NaN for one of which nothing was scored.

    `footprint` is the mean target in units of the mean usage. `time_over` is the share of time in which more was used
    than the target, and `overrun` is how much more, as a share of all that was used. `changes` and `kills` are per day.
    """

    footprint: FloatColumn
    time_over: FloatColumn
    overrun: FloatColumn
    changes: FloatColumn
    kills: FloatColumn
    days: FloatColumn


class Tally(msgspec.Struct, frozen=True):
    """The same, still to be divided: sums of some steps, each with the axes (..., series)."""

    time: FloatColumn
    used: FloatColumn
    steps: FloatColumn
    target: FloatColumn
    time_over: FloatColumn
    overrun: FloatColumn
    changes: FloatColumn
    kills: FloatColumn

    def scores(self, step: float) -> Scores:
        """What it amounts to, with steps of so many seconds."""
        days = self.steps * step / DAY
        with np.errstate(invalid="ignore", divide="ignore"):
            return Scores(
                self.target / self.used,
                self.time_over / self.time,
                self.overrun / self.used,
                self.changes / days,
                self.kills / days,
                days,
            )


def score(usage: Usage, replayed: Replayed, scored: BoolColumn | None = None) -> Scores:
    """Hold targets against usage; `scored` (steps, series) leaves out steps, as those of a warm-up."""
    total: dict[str, FloatColumn] = {}
    for part in tallies(usage, replayed, scored):
        for name in Tally.__struct_fields__:
            total[name] = total.get(name, np.zeros(1)) + getattr(part, name).sum(axis=0)
    return Tally(**total).scores(usage.step)


def tallies(usage: Usage, replayed: Replayed, scored: BoolColumn | None = None) -> Iterator[Tally]:
    """What happened in each step, in parts of some steps each: with an axis of steps before the others."""
    variants = replayed.targets.shape[1:-1]
    at_once = max(1, _AT_ONCE // max(1, usage.values[0].size * int(np.prod(variants))))
    for begin in range(0, usage.steps, at_once):
        part = slice(begin, begin + at_once)
        shares = usage.shares(part)
        if scored is not None:
            shares *= scored[part, np.newaxis]
        yield _tallied(usage.values[part], shares, replayed, part)


def _tallied(values: FloatColumn, shares: FloatColumn, replayed: Replayed, part: slice) -> Tally:
    target = replayed.targets[part]
    spread = (len(values), values.shape[1], *(1,) * (target.ndim - 2), values.shape[2])
    time = shares.sum(axis=1)
    spent = time.reshape(len(time), *spread[2:])
    known = spent > 0
    with np.errstate(invalid="ignore"):
        over = np.maximum(values.reshape(spread) - target[:, np.newaxis], 0.0)  # NaN where one of them is
    over = np.nan_to_num(over)
    worth = shares.reshape(spread)
    return Tally(
        time=time,
        used=(shares * np.nan_to_num(values)).sum(axis=1),
        steps=(time > 0).astype(np.float64),
        target=np.nan_to_num(target) * spent,
        time_over=((over > 0) * worth).sum(axis=1),
        overrun=(over * worth).sum(axis=1),
        changes=replayed.changes[part] * known,
        kills=replayed.kills[part] * known,
    )
