"""Replays a variant over some series step by step, and scores it at every margin.

The rules for kills and for changes are those of the replay, and the recommenders decide as they do in a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np

from trellis.core.recommend.evaluation.margin_curves import MARGIN_FACTORS
from trellis.core.recommend.evaluation.replay import RecommenderRule, ReplayClock, ReplayResult, SizingRule, replay_rule
from trellis.core.recommend.evaluation.replay import ReplaySettings as ReplayTerms
from trellis.core.recommend.evaluation.scores import compute_scores, score_margins
from trellis.core.recommend.registry import apply_preset
from trellis.core.usage.columns import FloatColumn
from trellis.sim.backtest.layout import SeriesBlock
from trellis.sim.backtest.request import BacktestTerms, BacktestVariant

_PROGRESS_STEPS: Final = 24  # steps
_WEEK_DAYS: Final = 7.0
_MEASURES: Final = 5

# Called with the share that is done.
OnPartDone = Callable[[float], None]


class BatchScores(msgspec.Struct, frozen=True):
    """The scores of one variant on a batch. `cpu` is (measures, factors, series), `memory` (measures, series).

    The measures are footprint, time over, overrun, changes a day, and kills a week. `used` is the mean usage in the
    scored time, (CPU, memory; series). NaN where nothing was measured.
    """

    cpu: FloatColumn
    memory: FloatColumn
    used: FloatColumn

    @classmethod
    def empty(cls, count: int) -> BatchScores:
        """Empty scores for a number of series."""
        shapes = ((_MEASURES, len(MARGIN_FACTORS), count), (_MEASURES, count), (2, count))
        return cls(*(np.full(shape, np.nan) for shape in shapes))

    def select(self, places: Sequence[int]) -> BatchScores:
        """The scores of some of the series."""
        return BatchScores(self.cpu[..., places], self.memory[..., places], self.used[..., places])


class _ProgressRule(msgspec.Struct, frozen=True):
    """A rule that reports progress."""

    rule: SizingRule
    steps: int
    on_progress: OnPartDone

    def decide(self, step: int, now: float, /) -> FloatColumn:
        if step % _PROGRESS_STEPS == 0:
            self.on_progress(step / self.steps)
        return self.rule.decide(step, now)

    def observe(self, step: int, used: FloatColumn, needed: FloatColumn, /) -> None:
        self.rule.observe(step, used, needed)


def replay_block(
    block: SeriesBlock, variant: BacktestVariant, terms: BacktestTerms, on_progress: OnPartDone
) -> ReplayResult:
    """Replay a variant over all series of a block, CPU and then memory."""
    recommender = apply_preset(variant.make_recommender(), variant.parameters)
    clock = ReplayClock(block.usage.begin, block.usage.step)
    rule = RecommenderRule(recommender, block.names, clock)
    killed = np.arange(2 * len(block)) >= len(block)
    replay_terms = ReplayTerms(threshold=terms.threshold, killed=killed)
    return replay_rule(block.usage, _ProgressRule(rule, block.usage.steps, on_progress), replay_terms)


def score_block(scores_of_batch: BatchScores, block: SeriesBlock, replayed: ReplayResult) -> None:
    """Score a block into the columns of its series."""
    count = len(block)
    cpu, memory = (
        ReplayResult(replayed.targets[:, part], replayed.changes[:, part], replayed.kills[:, part])
        for part in (slice(count), slice(count, None))
    )
    for resource, scores in (
        (0, score_margins(block.part(0), cpu, MARGIN_FACTORS, block.scored)),
        (1, compute_scores(block.part(1), memory, block.scored)),
    ):
        measures = np.stack(
            [scores.footprint, scores.time_over, scores.overrun, scores.changes, scores.kills * _WEEK_DAYS]
        )
        (scores_of_batch.cpu, scores_of_batch.memory)[resource][..., block.places] = measures
        scores_of_batch.used[resource, block.places] = _average_usage(block, resource)


def _average_usage(block: SeriesBlock, resource: int) -> FloatColumn:
    usage = block.part(resource)
    counts, sums = np.zeros(len(block)), np.zeros(len(block))
    for values, scored in zip(usage.values, block.scored, strict=True):
        measured = ~np.isnan(values) & scored
        counts += measured.sum(axis=0)
        sums += np.where(measured, values, 0.0).sum(axis=0)
    with np.errstate(invalid="ignore"):
        return sums / counts
