"""What would have come of sizing by a rule? Its decisions, each from the past alone, held against what was used then.

Time goes by in steps, an hour each by default. At the beginning of a step the rule decides, for all series at once;
then it is shown what was used in it. So no rule can know more than it would have known. A decision is applied if it
moves the target by more than a threshold, as an updater would do it.
"""

from __future__ import annotations

from typing import Protocol

import msgspec
import numpy as np

from trellis.base.errors import InternalError
from trellis.core.usage.columns import BoolColumn, FloatColumn

HOUR = 3600.0
DAY = 86_400.0


class Usage(msgspec.Struct, frozen=True):
    """What was used: `values` is (steps, points, series), NaN where nothing is known, the first step at `begin`.

    Points of a step follow each other in time and are worth the same, or stand for shares of it as `weights` says.
    """

    values: FloatColumn
    begin: float = 0.0
    step: float = HOUR
    weights: FloatColumn | None = None

    def __post_init__(self) -> None:
        if self.values.ndim != 3 or (self.weights is not None and self.weights.shape != self.values.shape[1:2]):
            raise InternalError(f"usage of shape {self.values.shape} is not (steps, points, series)")

    @property
    def steps(self) -> int:
        """How many there are."""
        return len(self.values)

    def shares(self, steps: slice) -> FloatColumn:
        """What each point of some steps is worth, as `values`: 0 where nothing is known."""
        known = ~np.isnan(self.values[steps])
        if self.weights is None:
            return known.astype(np.float64)
        return known * self.weights[:, np.newaxis]


class Rule(Protocol):
    """What decides. It may decide for several variants of itself at once, in axes before that of the series."""

    def decide(self, step: int, now: float, /) -> FloatColumn:
        """The targets (..., series) from now on; NaN where it cannot say, and the target stays as it is."""

    def observe(self, step: int, used: FloatColumn, needed: FloatColumn, /) -> None:
        """What was used in the step after that, (points, series), and what killed containers are taken to need."""


class Table(msgspec.Struct, frozen=True):
    """A rule whose decisions, (steps, ..., series), were computed beforehand; who did it minded the past."""

    decisions: FloatColumn

    def decide(self, step: int, _now: float, /) -> FloatColumn:
        """Those of that step."""
        found: FloatColumn = self.decisions[step]
        return found

    def observe(self, _step: int, _used: FloatColumn, _needed: FloatColumn, /) -> None:
        """It learns nothing."""


class Terms(msgspec.Struct, frozen=True):
    """How decisions are applied, and what becomes of who has too little memory.

    A target moves when the decision differs by more than `threshold`, as a fraction of it. Where `killed`, usage above
    the target is an out-of-memory kill: the target rises at once to `kill_ratio` times what was used, and to
    `kill_bytes` more than that at least.
    """

    threshold: float = 0.05
    killed: BoolColumn | None = None
    kill_ratio: float = 1.2
    kill_bytes: float = 104_857_600.0


class Replayed(msgspec.Struct, frozen=True):
    """What happened: targets, and how often they were changed or a container was killed, all (steps, ..., series).

    A target is the mean over its step, in which kills may raise it; before the first decision there is none.
    """

    targets: FloatColumn
    changes: BoolColumn
    kills: FloatColumn

    def with_margins(self, factors: FloatColumn) -> Replayed:
        """Variants of a rule without any, (steps, factors, series): its targets so many times what they were.

        A threshold is a fraction, so that each would have changed when the rule itself did. It holds as long as nobody
        was killed.
        """
        targets = self.targets[:, np.newaxis] * factors[:, np.newaxis]
        shape = targets.shape
        changes = np.broadcast_to(self.changes[:, np.newaxis], shape)
        return Replayed(targets, changes, np.broadcast_to(self.kills[:, np.newaxis], shape))


def replay(usage: Usage, rule: Rule, terms: Terms = Terms()) -> Replayed:  # noqa: B008 - frozen, so that one can serve all
    """Let the rule decide, step by step."""
    target: FloatColumn | None = None
    targets, changes, kills = [], [], []
    for step, used in enumerate(usage.values):
        wanted = np.asarray(rule.decide(step, usage.begin + step * usage.step), dtype=np.float64)
        target = np.full(wanted.shape, np.nan) if target is None else target
        # The first target of all is no change of one.
        begins = np.isnan(target) & ~np.isnan(wanted)
        moves = np.abs(wanted - target) > terms.threshold * target
        target = np.where(begins | moves, wanted, target)
        held, count, needed = target, np.zeros(target.shape), np.full(target.shape, np.nan)
        if terms.killed is not None:
            target, held, count, needed = _suffered(used, target, terms, terms.killed)
        targets.append(held)
        changes.append(moves)
        kills.append(count)
        rule.observe(step, used, needed)
    if not targets:
        raise InternalError("there is nothing to replay")
    return Replayed(np.stack(targets), np.stack(changes), np.stack(kills))


def _suffered(
    used: FloatColumn, target: FloatColumn, terms: Terms, killed: BoolColumn
) -> tuple[FloatColumn, FloatColumn, FloatColumn, FloatColumn]:
    """The target after a step, its mean in it, the kills, and what the killed are taken to need."""
    count, needed = np.zeros(target.shape), np.full(target.shape, np.nan)
    if not ((used > target[..., np.newaxis, :]) & killed).any():
        return target, target, count, needed
    held = np.zeros(target.shape)
    for value in used:
        dies = (value > target) & killed
        raised = np.maximum(terms.kill_ratio * value, value + terms.kill_bytes)
        target = np.where(dies, raised, target)
        needed = np.where(dies, np.fmax(needed, raised), needed)
        count += dies
        held += target
    return target, held / len(used), count, needed
