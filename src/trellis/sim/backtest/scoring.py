"""How did a variant size some series? Replayed step by step, and scored at every margin.

The rules for kills and for changes are those of the replay, and the recommenders decide as they do in a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np

from trellis.core.recommend.curves import FACTORS
from trellis.core.recommend.margins import score_margins
from trellis.core.recommend.presets import preset
from trellis.core.recommend.replay import Replayed, Rule, replay
from trellis.core.recommend.replay import Terms as ReplayTerms
from trellis.core.recommend.replayed import Clock, RecommenderRule
from trellis.core.recommend.scores import score
from trellis.core.usage.columns import FloatColumn
from trellis.sim.backtest.layout import Block
from trellis.sim.backtest.request import Asked, Terms

_TOLD_EVERY: Final = 24  # steps
_WEEK_DAYS: Final = 7.0
_MEASURES: Final = 5

# Told which part is done.
Tell = Callable[[float], None]


class Scored(msgspec.Struct, frozen=True):
    """One variant on all series of a batch. `cpu` is (measures, factors, series) and `memory` (measures, series).

    The measures are footprint, time over, overrun, changes a day, and kills a week. `used` is the mean usage in the
    scored time, (CPU, memory; series). NaN where nothing was measured.
    """

    cpu: FloatColumn
    memory: FloatColumn
    used: FloatColumn

    @classmethod
    def nothing(cls, count: int) -> Scored:
        """So many series of which nothing is known yet."""
        shapes = ((_MEASURES, len(FACTORS), count), (_MEASURES, count), (2, count))
        return cls(*(np.full(shape, np.nan) for shape in shapes))

    def at(self, places: Sequence[int]) -> Scored:
        """Some of the series."""
        return Scored(self.cpu[..., places], self.memory[..., places], self.used[..., places])


class _Telling(msgspec.Struct, frozen=True):
    """A rule that says how far it is."""

    rule: Rule
    steps: int
    tell: Tell

    def decide(self, step: int, now: float, /) -> FloatColumn:
        if step % _TOLD_EVERY == 0:
            self.tell(step / self.steps)
        return self.rule.decide(step, now)

    def observe(self, step: int, used: FloatColumn, needed: FloatColumn, /) -> None:
        self.rule.observe(step, used, needed)


def replay_block(block: Block, asked: Asked, terms: Terms, tell: Tell) -> Replayed:
    """What became of all series of a block: CPU, and after that memory."""
    recommender = preset(asked.made(), asked.parameters)
    clock = Clock(block.usage.begin, block.usage.step)
    rule = RecommenderRule(recommender, block.names, clock)
    killed = np.arange(2 * len(block)) >= len(block)
    how = ReplayTerms(threshold=terms.threshold, killed=killed)
    return replay(block.usage, _Telling(rule, block.usage.steps, tell), how)


def put_scores(into: Scored, block: Block, done: Replayed) -> None:
    """Score a block, and put it where its series belong."""
    count = len(block)
    cpu, memory = (
        Replayed(done.targets[:, part], done.changes[:, part], done.kills[:, part])
        for part in (slice(count), slice(count, None))
    )
    for resource, scores in (
        (0, score_margins(block.part(0), cpu, FACTORS, block.scored)),
        (1, score(block.part(1), memory, block.scored)),
    ):
        measures = np.stack(
            [scores.footprint, scores.time_over, scores.overrun, scores.changes, scores.kills * _WEEK_DAYS]
        )
        (into.cpu, into.memory)[resource][..., block.places] = measures
        into.used[resource, block.places] = _used(block, resource)


def _used(block: Block, resource: int) -> FloatColumn:
    usage = block.part(resource)
    counts, sums = np.zeros(len(block)), np.zeros(len(block))
    for values, scored in zip(usage.values, block.scored, strict=True):
        known = ~np.isnan(values) & scored
        counts += known.sum(axis=0)
        sums += np.where(known, values, 0.0).sum(axis=0)
    with np.errstate(invalid="ignore"):
        return sums / counts
