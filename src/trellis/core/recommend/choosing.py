"""Which candidate would have served a row best lately? Each is replayed over the row's own last weeks.

The cheapest is chosen, day by day, and another is only switched to where it would have cost clearly less: so a choice
lasts. What was chosen on earlier days is worked out again from the same history, and need not be remembered.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from trellis.core.recommend.candidates import Candidate
from trellis.core.recommend.costs import Weights, cost
from trellis.core.recommend.past_hours import SAMPLE_MEASURES, SAMPLE_SHARES, past_hours, since_known
from trellis.core.recommend.recollection import Remembered
from trellis.core.recommend.replay import HOUR, Table, Usage, replay
from trellis.core.recommend.scores import Tally, tallies
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.core.usage.rings import Ring

_DAY = 24
_DAYS_CHOSEN = 4  # today's choice and those before it, which it does not leave without a reason
_LEAST_HOURS = 48  # with less to replay there is nothing to choose by


class ChoiceTerms(msgspec.Struct, frozen=True):
    """How to choose: what is replayed, in hours, by which percentile and margin, and what counts as a cost.

    `gain` is by how much another candidate must be cheaper to be switched to, as a fraction.
    """

    window: int = 14 * _DAY
    fraction: float = 0.9
    margin: float = 0.15
    gain: float = 0.03
    weights: Weights = Weights()


class Choice(msgspec.Struct, frozen=True):
    """The number of a candidate for each row, and what each would have cost, (candidates, rows); NaN if unknown."""

    number: IntColumn
    costs: FloatColumn


def choose(summaries: Ring, candidates: Sequence[Candidate], terms: ChoiceTerms) -> Choice:
    """From summaries of CPU (rows, measures, hours) up to the moment of the choice."""
    summaries = since_known(summaries)
    hours = summaries.shape[-1]
    if hours <= _LEAST_HOURS:
        return Choice(np.zeros(len(summaries), dtype=np.int64), np.full((len(candidates), len(summaries)), np.nan))
    first = max(hours - terms.window - (_DAYS_CHOSEN - 1) * _DAY, 1)
    remembered = Remembered(past_hours(summaries), np.arange(first, hours))
    found = [each.quantiles(remembered, (terms.fraction,))[0] for each in candidates]
    decisions = np.moveaxis(np.stack(found) * (1.0 + terms.margin), 2, 0)
    used = np.moveaxis(summaries[:, SAMPLE_MEASURES, first:], (0, 1, 2), (2, 1, 0)).astype(np.float64)
    usage = Usage(used, weights=SAMPLE_SHARES)
    comparable = np.logical_not(np.isnan(decisions).any(axis=1))
    steps = list(tallies(usage, replay(usage, Table(decisions)), comparable))
    sums = {
        name: np.cumsum(np.concatenate([getattr(each, name) for each in steps]), axis=0)
        for name in Tally.__struct_fields__
    }
    return _chosen(sums, hours - first, terms)


def _chosen(sums: dict[str, FloatColumn], steps: int, terms: ChoiceTerms) -> Choice:
    """The choices of the last days, one after the other."""
    number = np.zeros(sums["time"].shape[-1], dtype=np.int64)
    rows = np.arange(len(number))
    costs = np.empty(sums["target"].shape[1:])
    for ago in range(_DAYS_CHOSEN - 1, -1, -1):
        end = steps - ago * _DAY
        if end < 1:
            continue
        costs = _costs(sums, end, terms)
        with np.errstate(invalid="ignore"):
            best = np.argmin(np.nan_to_num(costs, nan=np.inf), axis=0)
            switches = costs[best, rows] < costs[number, rows] * (1.0 - terms.gain)
        number = np.where(switches, best, number)
    return Choice(number, costs)


def _costs(sums: dict[str, FloatColumn], end: int, terms: ChoiceTerms) -> FloatColumn:
    """(candidates, rows) over the window that ends before a step."""
    begin = end - terms.window
    tally = Tally(**{name: each[end - 1] - (each[begin - 1] if begin > 0 else 0.0) for name, each in sums.items()})
    found = cost(tally.scores(HOUR), terms.weights)
    found[:, tally.steps < _LEAST_HOURS] = np.nan
    return found
