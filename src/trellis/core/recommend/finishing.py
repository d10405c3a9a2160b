"""What becomes of answers before they are published? Rounding, whole CPUs, what stays from before, and policies.

A value that was published stays while there is nothing newer to put in its place: the container is there, but its
recommender cannot say (no sample since a restart without history), or the VPA is held (its target is missing for a
while, its parameters cannot be used, its recommender failed). What is not recommended any more, because the container
is gone or the policy took the resource out, is not kept. While the history of a VPA is being fetched all of it stays.
"""

from __future__ import annotations

import numpy as np

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
from trellis.core.recommend.capping.policy import cap
from trellis.core.recommend.integer_cpu import whole_cores
from trellis.core.recommend.rounding import humanized, rounded_up
from trellis.core.recommend.settings import PipelineSettings
from trellis.core.recommend.vpas import NO_GROUP
from trellis.core.usage.columns import BoolColumn, FloatColumn

_BOUNDED = slice(TARGET, UPPER_BOUND + 1)


def finish(answers: Answers, board: Board, settings: PipelineSettings) -> FloatColumn:
    """The amounts that should be published, (what, resource, container number)."""
    containers = board.containers
    reach = containers.reach
    controlled = containers.controlled()
    amounts = np.empty((len(PUBLISHED_AS), len(RESOURCES), reach))
    amounts[TARGET] = amounts[UNCAPPED] = answers.bounds[MIDDLE]
    amounts[LOWER_BOUND], amounts[UPPER_BOUND] = answers.bounds[LOWER], answers.bounds[UPPER]
    amounts[TOTAL] = np.where(board.vpas.totals[containers.vpa[:reach]], answers.totals, np.nan)
    amounts[:, ~controlled] = np.nan
    _round(amounts, containers.integer[:reach], settings)
    _keep(amounts, answers, board, controlled)
    cluster = (settings.max_allowed_cpu, settings.max_allowed_memory)
    amounts[_BOUNDED] = cap(amounts[_BOUNDED], containers.least(), containers.most(), cluster)
    return amounts


def _round(amounts: FloatColumn, integer: BoolColumn, settings: PipelineSettings) -> None:
    if settings.round_cpu_millicores > 1:
        amounts[:, CPU] = rounded_up(amounts[:, CPU], settings.round_cpu_millicores)
    if settings.round_memory_bytes > 1:
        amounts[:, MEMORY] = rounded_up(amounts[:, MEMORY], settings.round_memory_bytes)
    if settings.humanize_memory:
        amounts[:, MEMORY] = humanized(amounts[:, MEMORY])
    if settings.integer_cpu and integer.any():
        amounts[:TOTAL, CPU, integer] = whole_cores(amounts[:TOTAL, CPU, integer])


def _keep(amounts: FloatColumn, answers: Answers, board: Board, controlled: BoolColumn) -> None:
    containers, vpas = board.containers, board.vpas
    published = containers.published[:, :, : containers.reach]
    held = vpas.problem | vpas.fetching | (vpas.group == NO_GROUP)
    held[list(answers.failures)] = True
    stays = controlled & (answers.live | held[containers.vpa[: containers.reach]])
    stays &= np.isnan(amounts[TARGET]) & ~np.isnan(published[TARGET])
    if stays.any():
        amounts[:, stays] = published[:, stays]
    # The few samples since the start say less than what is about to come.
    fetching = vpas.fetching[containers.vpa[: containers.reach]]
    amounts[:, :, fetching] = published[:, :, fetching]
