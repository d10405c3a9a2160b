"""What becomes of answers before they are published? Rounding, whole CPUs, what stays from before, and policies.

A value that was published stays while there is nothing newer to put in its place: the container is there, but its
recommender cannot say (no sample since a restart without history), or the VPA is held (its target is missing for a
while, its parameters cannot be used, its recommender failed). What is not recommended any more, because the container
is gone or the policy took the resource out, is not kept. While the history of a VPA is being fetched all of it stays.

It is one list of stages, which a pass goes through for all containers at once, and who explains one watches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec
import numpy as np

from trellis.base.reason import Reason
from trellis.core.recommend.amounts import (
    CPU,
    LOWER,
    LOWER_BOUND,
    MEMORY,
    MIDDLE,
    PUBLISHED_AS,
    RESOURCES,
    TARGET,
    TOTAL,
    UNCAPPED,
    UPPER,
    UPPER_BOUND,
)
from trellis.core.recommend.asking import Answers
from trellis.core.recommend.board import Board
from trellis.core.recommend.capping.container import CAPPED_TO_MAX_ALLOWED, CAPPED_TO_MIN_ALLOWED
from trellis.core.recommend.capping.policy import CAPPED_TO_CLUSTER_MAX, at_least, at_most, within_cluster
from trellis.core.recommend.integer_cpu import whole_cores
from trellis.core.recommend.results import RECOMMENDATION_KEPT
from trellis.core.recommend.rounding import humanized, rounded_up
from trellis.core.recommend.settings import PipelineSettings
from trellis.core.recommend.vpas import NO_GROUP
from trellis.core.usage.columns import BoolColumn, FloatColumn

RESOURCE_NOT_CONTROLLED = Reason(
    "ResourceNotControlled",
    "The policy of this container leaves the resource as it is, so that nothing is recommended.",
)
ROUNDED_UP = Reason("RoundedUp", "The recommendation was rounded up to a multiple that the recommender's flags name.")
HUMANIZED = Reason("Humanized", "The recommendation was rounded up to an amount of memory that is easy to read.")
WHOLE_CORES = Reason("WholeCores", "The recommendation was rounded up to whole cores, as the object asks for.")

_BOUNDED: Final = slice(TARGET, UPPER_BOUND + 1)


class Finishing(msgspec.Struct, frozen=True):
    """What stages go by."""

    answers: Answers
    board: Board
    settings: PipelineSettings
    controlled: BoolColumn


class Stage(msgspec.Struct, frozen=True):
    """One thing that becomes of all amounts at once, in place, and what is said of an amount that it changes."""

    reason: Reason
    change: Callable[[FloatColumn, Finishing], None]


# Called with every stage and the amounts (what, resource, container number) that come of it.
Watch: TypeAlias = Callable[[Reason | None, FloatColumn], None]


def finish(answers: Answers, board: Board, settings: PipelineSettings, watch: Watch | None = None) -> FloatColumn:
    """The amounts that should be published, (what, resource, container number).

    Who wants to `watch` sees what was found, without a reason, and what each stage makes of it.
    """
    containers = board.containers
    reach = containers.reach
    amounts = np.empty((len(PUBLISHED_AS), len(RESOURCES), reach))
    amounts[TARGET] = amounts[UNCAPPED] = answers.bounds[MIDDLE]
    amounts[LOWER_BOUND], amounts[UPPER_BOUND] = answers.bounds[LOWER], answers.bounds[UPPER]
    amounts[TOTAL] = np.where(board.vpas.totals[containers.vpa[:reach]], answers.totals, np.nan)
    if watch is not None:
        watch(None, amounts)
    going_by = Finishing(answers, board, settings, containers.controlled())
    for stage in STAGES:
        stage.change(amounts, going_by)
        if watch is not None:
            watch(stage.reason, amounts)
    return amounts


def _leave_out(amounts: FloatColumn, by: Finishing) -> None:
    amounts[:, ~by.controlled] = np.nan


def _round(amounts: FloatColumn, by: Finishing) -> None:
    if by.settings.round_cpu_millicores > 1:
        amounts[:, CPU] = rounded_up(amounts[:, CPU], by.settings.round_cpu_millicores)
    if by.settings.round_memory_bytes > 1:
        amounts[:, MEMORY] = rounded_up(amounts[:, MEMORY], by.settings.round_memory_bytes)


def _humanize(amounts: FloatColumn, by: Finishing) -> None:
    if by.settings.humanize_memory:
        amounts[:, MEMORY] = humanized(amounts[:, MEMORY])


def _make_whole(amounts: FloatColumn, by: Finishing) -> None:
    containers = by.board.containers
    integer = containers.integer[: containers.reach]
    if by.settings.integer_cpu and integer.any():
        amounts[:TOTAL, CPU, integer] = whole_cores(amounts[:TOTAL, CPU, integer])


def _keep(amounts: FloatColumn, by: Finishing) -> None:
    containers, vpas = by.board.containers, by.board.vpas
    published = containers.published[:, :, : containers.reach]
    held = vpas.problem | vpas.fetching | (vpas.group == NO_GROUP)
    held[list(by.answers.failures)] = True
    stays = by.controlled & (by.answers.live | held[containers.vpa[: containers.reach]])
    stays &= np.isnan(amounts[TARGET]) & ~np.isnan(published[TARGET])
    if stays.any():
        amounts[:, stays] = published[:, stays]
    # The few samples since the start say less than what is about to come.
    fetching = vpas.fetching[containers.vpa[: containers.reach]]
    amounts[:, :, fetching] = published[:, :, fetching]


def _raise(amounts: FloatColumn, by: Finishing) -> None:
    at_least(amounts[_BOUNDED], by.board.containers.least())


def _lower(amounts: FloatColumn, by: Finishing) -> None:
    at_most(amounts[_BOUNDED], by.board.containers.most())


def _lower_to_cluster(amounts: FloatColumn, by: Finishing) -> None:
    cluster = (by.settings.max_allowed_cpu, by.settings.max_allowed_memory)
    within_cluster(amounts[_BOUNDED], by.board.containers.most(), cluster)


STAGES: Final = (
    Stage(RESOURCE_NOT_CONTROLLED, _leave_out),
    Stage(ROUNDED_UP, _round),
    Stage(HUMANIZED, _humanize),
    Stage(WHOLE_CORES, _make_whole),
    Stage(RECOMMENDATION_KEPT, _keep),
    Stage(CAPPED_TO_MIN_ALLOWED, _raise),
    Stage(CAPPED_TO_MAX_ALLOWED, _lower),
    Stage(CAPPED_TO_CLUSTER_MAX, _lower_to_cluster),
)
