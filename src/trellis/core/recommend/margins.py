"""How well would a rule have sized with more margin, or with less? At many factors, in one look at the usage.

A sample is over a target times a factor where it is over the target by more than that factor. So every sample is put
between two factors, once, and sums over what lies above a factor are that factor's: fifty cost as much as three would
one by one.
"""

from __future__ import annotations

import numpy as np

from trellis.core.recommend.replay import Replayed, Usage
from trellis.core.recommend.scores import Scores, Tally
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn

_AT_ONCE = 1 << 19  # numbers: what is made of them stays in the caches


def score_margins(usage: Usage, replayed: Replayed, factors: FloatColumn, scored: BoolColumn | None = None) -> Scores:
    """As `score` of `replayed.with_margins(factors)`; the factors ascend, and nobody was killed."""
    series = usage.values.shape[2]
    time, used, steps, target = (np.zeros(series) for _ in range(4))
    changes, kills = np.zeros(series), np.zeros(series)
    over = np.zeros((3, series * (len(factors) + 1)))  # time, what was used, and the target then
    at_once = max(1, _AT_ONCE // max(1, usage.values[0].size))
    for begin in range(0, usage.steps, at_once):
        part = slice(begin, begin + at_once)
        shares = usage.shares(part)
        if scored is not None:
            shares *= scored[part, np.newaxis]
        spent = shares.sum(axis=1)
        held = replayed.targets[part]
        time += spent.sum(axis=0)
        used += (shares * np.nan_to_num(usage.values[part])).sum(axis=(0, 1))
        steps += (spent > 0).sum(axis=0)
        target += (np.nan_to_num(held) * spent).sum(axis=0)
        changes += (replayed.changes[part] & (spent > 0)).sum(axis=0)
        kills += (replayed.kills[part] * (spent > 0)).sum(axis=0)
        over += _above(usage.values[part], held, shares, factors)
    # From the sums between factors to those above each.
    above = over.reshape(3, series, -1)[:, :, ::-1].cumsum(axis=2)[:, :, -2::-1].transpose(0, 2, 1)
    scales = factors[:, np.newaxis]
    return Tally(
        time=time,
        used=used,
        steps=steps,
        target=target * scales,
        time_over=above[0],
        overrun=np.maximum(above[1] - scales * above[2], 0.0),
        changes=np.broadcast_to(changes, (len(factors), series)),
        kills=np.broadcast_to(kills, (len(factors), series)),
    ).scores(usage.step)


def _above(values: FloatColumn, held: FloatColumn, shares: FloatColumn, factors: FloatColumn) -> FloatColumn:
    """Time, usage and target of samples above the least factor, summed by series and by how many factors are below."""
    size = values.shape[2] * (len(factors) + 1)
    with np.errstate(invalid="ignore"):
        step, point, which = np.nonzero((values > factors[0] * held[:, np.newaxis]) & (shares > 0))
    value, wanted, worth = values[step, point, which], held[step, which], shares[step, point, which]
    with np.errstate(divide="ignore"):
        places = _places(factors, value / wanted)
    cells = which * (len(factors) + 1) + places
    return np.stack([np.bincount(cells, weights, size) for weights in (worth, worth * value, worth * wanted)])


def _places(factors: FloatColumn, ratios: FloatColumn) -> IntColumn:
    """How many factors lie below each ratio, of which none lies below the first.

    By the logarithm, which is ten times faster than a search and may be one off.
    """
    rate = np.log(factors[-1] / factors[0]) / (len(factors) - 1)
    guess = np.ceil(np.log(ratios / factors[0]) / rate)
    places: IntColumn = np.clip(guess, 1, len(factors)).astype(np.int64)
    places -= (places > 1) & (factors[places - 1] >= ratios)
    places += (places < len(factors)) & (factors[np.minimum(places, len(factors) - 1)] < ratios)
    return places
