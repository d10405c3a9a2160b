"""Decides which statuses have changed enough to be written.

A status is written at once when the target, the uncapped target or the total moved by more than `change_threshold` of
what is published, when a bound moved away from the target by as much, when a value appears or vanishes, or when the
conditions, a message that matters or the generation changed. What is published has full precision; the threshold says
when to write and not what.

Bounds come closer to the target with every sample of a new container: by confidence alone the upper one falls from a
thousand times the target to twice of it within a day. That narrowing is written at once only when it exceeds
`narrowing_threshold`, which makes ten writes of it. A bound that is published too wide keeps pods from being touched;
it does no harm for a while.

Anything smaller is written once the status is old. `max_age` is the most that a difference, however small, stays
unpublished; each object waits for a share of it that depends on its name, between a half and all of it, so that
objects which came together are not written together for ever.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trellis.base.reasons import Reason
from trellis.core.recommend.amounts import LOWER_BOUND, TARGET, TOTAL, UNCAPPED, UPPER_BOUND
from trellis.core.recommend.settings import PipelineSettings
from trellis.core.recommend.state.vpa_store import VpaStore
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn

GENERATION_OBSERVED = Reason("GenerationObserved", "The object was edited since its status was written.")
CONDITIONS_CHANGED = Reason("ConditionsChanged", "A condition, or a message that matters, is another one.")
VALUES_CAME_OR_WENT = Reason("ValuesCameOrWent", "A container or a resource was added or is no longer recommended.")
TARGET_MOVED = Reason("TargetMoved", "A target or a total moved by more than the threshold.")
BOUNDS_MOVED = Reason("BoundsMoved", "A bound moved away by more than the threshold, or came much closer.")
STATUS_AGED = Reason("StatusAged", "Something smaller has changed, and the status is old.")

# In the order of their bits.
WRITE_REASONS = (
    GENERATION_OBSERVED,
    CONDITIONS_CHANGED,
    VALUES_CAME_OR_WENT,
    TARGET_MOVED,
    BOUNDS_MOVED,
    STATUS_AGED,
)
_ESTIMATES = [TARGET, UNCAPPED, TOTAL]


def find_write_reasons(
    amounts: FloatColumn, truth: IntColumn, board: VpaStore, settings: PipelineSettings, now: float
) -> IntColumn:
    """Why each VPA needs a write, as bits of `WRITE_REASONS`; 0 where it needs none."""
    vpas, containers = board.vpas, board.containers
    reach = vpas.reach
    owners = containers.vpa[: containers.reach]
    found = _compare_amounts(amounts, containers.published[:, :, : containers.reach], settings)
    vpas.written[vpas.used & np.isnan(vpas.written)] = now  # as old as it is known
    old = now - vpas.written[:reach] >= settings.max_age * vpas.patience[:reach]
    causes = (
        vpas.observed[:reach] != vpas.generation[:reach],
        (truth != vpas.truth[:reach]) | (vpas.said[:reach] != vpas.told[:reach]),
        _any_container(found.came_or_went, owners, reach),
        _any_container(found.moved, owners, reach),
        _any_container(found.bounds_moved, owners, reach),
        old & _any_container(found.any_at_all, owners, reach),
    )
    reasons = np.zeros(reach, dtype=np.int64)
    for bit, cause in enumerate(causes):
        reasons |= cause.astype(np.int64) << bit
    reasons[~vpas.active()] = 0
    return reasons


def decode_write_reasons(bits: int) -> tuple[Reason, ...]:
    """The reasons that bits stand for."""
    return tuple(reason for bit, reason in enumerate(WRITE_REASONS) if bits >> bit & 1)


class _AmountDifferences(NamedTuple):
    """What happened to each container."""

    came_or_went: BoolColumn
    moved: BoolColumn
    bounds_moved: BoolColumn
    any_at_all: BoolColumn


def _compare_amounts(amounts: FloatColumn, before: FloatColumn, settings: PipelineSettings) -> _AmountDifferences:
    step = amounts - before
    little = before * settings.change_threshold
    much = before * settings.narrowing_threshold
    estimates = np.abs(step[_ESTIMATES]) > little[_ESTIMATES]
    low, high = step[LOWER_BOUND], step[UPPER_BOUND]
    bounds = (low > much[LOWER_BOUND]) | (low < -little[LOWER_BOUND])
    bounds |= (high > little[UPPER_BOUND]) | (high < -much[UPPER_BOUND])
    return _AmountDifferences(
        came_or_went=np.any(np.isnan(amounts) != np.isnan(before), axis=(0, 1)),
        moved=np.any(estimates, axis=(0, 1)),
        bounds_moved=np.any(bounds, axis=0),
        any_at_all=np.any(np.nan_to_num(step), axis=(0, 1)),
    )


def _any_container(containers: BoolColumn, owners: IntColumn, reach: int) -> BoolColumn:
    found = np.zeros(reach + 1, dtype=np.bool_)  # the last is for numbers that belong to nobody
    found[owners[containers]] = True
    return found[:-1]
