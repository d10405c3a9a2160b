"""What does a replayed rule cost? Slack, shortage and unrest in one number, so that rules can be compared.

The unit is what the workload uses on average: a footprint of 1.5 costs 1.5. Time over the target and overrun volume are
both counted, because either alone can be had for nothing: a batch job that is always a little short is hardly over by
volume, and one that starves for an hour is hardly over in time.
"""

from __future__ import annotations

import msgspec

from trellis.core.recommend.scores import Scores
from trellis.core.usage.columns import FloatColumn


class Weights(msgspec.Struct, frozen=True):
    """What one unit of each costs, against 1 for a unit of footprint."""

    time_over: float = 10.0
    overrun: float = 5.0
    changes: float = 0.0
    """Per change a day."""
    kills: float = 0.0
    """Per kill a day."""


def cost(scores: Scores, weights: Weights) -> FloatColumn:
    """Per series and variant, as the scores are."""
    return (
        scores.footprint
        + weights.time_over * scores.time_over
        + weights.overrun * scores.overrun
        + weights.changes * scores.changes
        + weights.kills * scores.kills
    )
