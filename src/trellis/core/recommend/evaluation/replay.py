"""Replays a sizing rule over recorded usage and applies its decisions, each from the past alone.

Time goes by in steps, an hour each by default. At the beginning of a step the rule decides, for all series at once;
then it observes what was used in it. So no rule can know more than it would have known. A decision is applied if it
moves the target by more than a threshold, as an updater would do it.

A recommender takes part as `RecommenderRule`: it decides as in a cluster, from a usage model that was fed with what
came before. Every series is a container of its own under a VPA of its own, so that all of them are rows of one model
and are decided on at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import msgspec
import numpy as np

from trellis.base.errors import InternalError
from trellis.core.cluster.oom_kill_detection import OomKill
from trellis.core.recommend.amounts import MILLICORES_PER_CORE
from trellis.core.recommend.parameters import ParameterValues, read_parameters
from trellis.core.recommend.protocol import Recommender, Rows
from trellis.core.recommend.validation import needs_runs
from trellis.core.usage.columns import BoolColumn, FloatColumn, RowKey
from trellis.core.usage.model import UsageModel
from trellis.core.usage.samples import Measurements
from trellis.core.usage.settings import UsageSettings
from trellis.core.usage.tracked_pods import TrackedContainer, TrackedPod

HOUR = 3600.0
DAY = 86_400.0


class ReplayedUsage(msgspec.Struct, frozen=True):
    """Recorded usage: `values` is (steps, points, series), NaN where unknown, the first step at `begin`.

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
        """The number of steps."""
        return len(self.values)

    def compute_shares(self, steps: slice) -> FloatColumn:
        """The weight of each point of some steps, as `values`: 0 where usage is unknown."""
        is_known = ~np.isnan(self.values[steps])
        if self.weights is None:
            return is_known.astype(np.float64)
        return is_known * self.weights[:, np.newaxis]


class SizingRule(Protocol):
    """A sizing rule. It may decide for several variants of itself at once, in axes before that of the series."""

    def decide(self, step: int, now: float, /) -> FloatColumn:
        """The targets (..., series) from now on; NaN where it cannot say, and the target stays as it is."""

    def observe(self, step: int, used: FloatColumn, needed: FloatColumn, /) -> None:
        """The usage of the step after that, (points, series), and the estimated needs of killed containers."""


class DecisionTable(msgspec.Struct, frozen=True):
    """A rule whose decisions, (steps, ..., series), were computed beforehand, each from the past alone."""

    decisions: FloatColumn

    def decide(self, step: int, _now: float, /) -> FloatColumn:
        """The decisions of that step."""
        decision: FloatColumn = self.decisions[step]
        return decision

    def observe(self, _step: int, _used: FloatColumn, _needed: FloatColumn, /) -> None:
        """Ignores usage: decisions are precomputed."""


class ReplaySettings(msgspec.Struct, frozen=True):
    """Settings of a replay: when targets move, and the effect of too little memory.

    A target moves when the decision differs by more than `threshold`, as a fraction of it. Where `killed`, usage above
    the target is an out-of-memory kill: the target rises at once to `kill_ratio` times what was used, and to
    `kill_bytes` more than that at least.
    """

    threshold: float = 0.05
    killed: BoolColumn | None = None
    kill_ratio: float = 1.2
    kill_bytes: float = 104_857_600.0


class ReplayResult(msgspec.Struct, frozen=True):
    """The result of a replay: targets, changes and kills, all (steps, ..., series).

    A target is the mean over its step, in which kills may raise it; before the first decision there is none.
    """

    targets: FloatColumn
    changes: BoolColumn
    kills: FloatColumn

    def with_margins(self, factors: FloatColumn) -> ReplayResult:
        """Variants of a rule without any, (steps, factors, series): its targets times each factor.

        A threshold is a fraction, so that each would have changed when the rule itself did. It holds as long as no
        container was killed.
        """
        targets = self.targets[:, np.newaxis] * factors[:, np.newaxis]
        shape = targets.shape
        changes = np.broadcast_to(self.changes[:, np.newaxis], shape)
        return ReplayResult(targets, changes, np.broadcast_to(self.kills[:, np.newaxis], shape))


def replay_rule(usage: ReplayedUsage, rule: SizingRule, settings: ReplaySettings = ReplaySettings()) -> ReplayResult:  # noqa: B008 - frozen, so that one can serve all
    """Let the rule decide, step by step."""
    target: FloatColumn | None = None
    targets, changes, kills = [], [], []
    for step, used in enumerate(usage.values):
        decision = np.asarray(rule.decide(step, usage.begin + step * usage.step), dtype=np.float64)
        target = np.full(decision.shape, np.nan) if target is None else target
        # The first target of all is no change of one.
        begins = np.isnan(target) & ~np.isnan(decision)
        moves = np.abs(decision - target) > settings.threshold * target
        target = np.where(begins | moves, decision, target)
        mean_target, count, needed = target, np.zeros(target.shape), np.full(target.shape, np.nan)
        if settings.killed is not None:
            target, mean_target, count, needed = _apply_kills(used, target, settings, settings.killed)
        targets.append(mean_target)
        changes.append(moves)
        kills.append(count)
        rule.observe(step, used, needed)
    if not targets:
        raise InternalError("there is nothing to replay")
    return ReplayResult(np.stack(targets), np.stack(changes), np.stack(kills))


def _apply_kills(
    used: FloatColumn, target: FloatColumn, settings: ReplaySettings, killed: BoolColumn
) -> tuple[FloatColumn, FloatColumn, FloatColumn, FloatColumn]:
    """The target after a step, its mean in it, the kills, and what the killed are taken to need."""
    count, needed = np.zeros(target.shape), np.full(target.shape, np.nan)
    if not ((used > target[..., np.newaxis, :]) & killed).any():
        return target, target, count, needed
    target_sums = np.zeros(target.shape)
    for value in used:
        is_killed = (value > target) & killed
        raised = np.maximum(settings.kill_ratio * value, value + settings.kill_bytes)
        target = np.where(is_killed, raised, target)
        needed = np.where(is_killed, np.fmax(needed, raised), needed)
        count += is_killed
        target_sums += target
    return target, target_sums / len(used), count, needed


_NAMESPACE, _CONTAINER = "replay", "app"


class ReplayClock(msgspec.Struct, frozen=True):
    """The start of the first step and the length of steps, in seconds."""

    begin: float
    step: float = HOUR


class RecommenderRule:
    """A recommender as a rule for the CPU of series, in cores, and after them the memory of each, in bytes."""

    def __init__(
        self,
        recommender: Recommender,
        series: Sequence[str],
        clock: ReplayClock,
        values: ParameterValues | None = None,
        settings: UsageSettings = UsageSettings(),  # noqa: B008 - frozen, so that one can serve all
    ) -> None:
        self._recommender = recommender
        self._values = read_parameters(recommender.parameters, {}, values).values
        self._clock = clock
        self._names = list(series)
        self._model = UsageModel(settings)
        if recommender.needs_history:
            self._model.keep_history([(_NAMESPACE, name) for name in self._names])
        if needs_runs(recommender):
            self._model.keep_runs([(_NAMESPACE, name) for name in self._names])
        container = (TrackedContainer(_CONTAINER),)
        pods = [TrackedPod(_NAMESPACE, name, name, name, True, container) for name in self._names]
        self._model.track_pods(_NAMESPACE, pods, clock.begin)
        count = len(self._names)
        self._slots = self._model.find_slots([_NAMESPACE] * count, self._names, [_CONTAINER] * count)
        self._rows = self._model.find_rows([RowKey(_NAMESPACE, name, _CONTAINER) for name in self._names])

    def decide(self, _step: int, now: float, /) -> FloatColumn:
        """The targets, in the units of the series."""
        view = self._model.view(self._rows)
        rows = Rows.from_view(view, np.arange(len(view)), np.ones(len(view)))
        target = self._recommender.estimate(rows, self._values, now).target.copy()
        target[0] /= MILLICORES_PER_CORE
        return target.reshape(-1)

    def observe(self, step: int, used: FloatColumn, needed: FloatColumn, /) -> None:
        """Feed the model; a kill is one of the last moment of the step."""
        count, points = len(self._names), len(used)
        begin = self._clock.begin + step * self._clock.step
        now = begin + self._clock.step
        # By series, and for each of them by time.
        slots, cpu, memory = (
            np.repeat(self._slots, points),
            used[:, :count].T.reshape(-1),
            used[:, count:].T.reshape(-1),
        )
        times = np.tile(begin + np.arange(points) * (self._clock.step / points), count)
        unknown = np.isnan(cpu) & np.isnan(memory)
        if unknown.any():
            is_known = np.flatnonzero(~unknown)
            slots, times, cpu, memory = slots[is_known], times[is_known], cpu[is_known], memory[is_known]
        self._model.ingest_slots(slots, Measurements(times, cpu, memory), now)
        killed = [self._names[number] for number in np.flatnonzero(~np.isnan(needed[count:])).tolist()]
        kills = [OomKill(_NAMESPACE, name, name, _CONTAINER, now - 1.0, math.nan) for name in killed]
        self._model.record_ooms(kills, now)


def combine_usage(cpu: FloatColumn, memory: FloatColumn, clock: ReplayClock) -> ReplayedUsage:
    """Usage of CPU and memory, each (steps, points, series), as such a rule takes it."""
    return ReplayedUsage(np.concatenate([cpu, memory], axis=2), clock.begin, clock.step)
