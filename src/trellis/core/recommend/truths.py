"""Which conditions hold for each VPA? For all of them at once, as bits."""

from __future__ import annotations

import numpy as np

from trellis.core.recommend.amounts import TARGET
from trellis.core.recommend.asking import Answers
from trellis.core.recommend.board import Board
from trellis.core.recommend.conditions import Holds
from trellis.core.recommend.vpas import NO_GROUP
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn


def truths(amounts: FloatColumn, answers: Answers, board: Board) -> IntColumn:
    """The bits of every VPA number. Whose recommender was not asked, or failed, is as sure as it was before."""
    vpas, containers = board.vpas, board.containers
    reach, owners = vpas.reach, containers.vpa[: containers.reach]
    low = _owners_of(unsure(answers), owners, reach)
    not_asked = vpas.failed[:reach] | (vpas.group[:reach] == NO_GROUP)
    low = np.where(not_asked, (vpas.truth[:reach] > 0) & (vpas.truth[:reach] & Holds.LOW_CONFIDENCE > 0), low)
    found = np.zeros(reach, dtype=np.int64)
    for bit, holds in (
        (Holds.PROVIDED, _owners_of(~np.isnan(amounts[TARGET]).all(axis=0), owners, reach)),
        (Holds.NO_PODS, vpas.pods[:reach] == 0),
        (Holds.UNSUPPORTED_CONFIG, vpas.problem[:reach] | (vpas.group[:reach] == NO_GROUP)),
        (Holds.LOW_CONFIDENCE, low),
        (Holds.FETCHING, vpas.fetching[:reach]),
        (Holds.CONFLICTING, vpas.rivals[:reach]),
        (Holds.FAILED, vpas.failed[:reach]),
        (Holds.NO_HISTORY, vpas.unwarmed[:reach]),
        (Holds.NO_BOOST, vpas.unboosted[:reach]),
    ):
        found[holds] |= bit
    return found


def unsure(answers: Answers) -> BoolColumn:
    """Containers that were recommended for with less than full confidence."""
    answered = ~np.isnan(answers.bounds).all(axis=(0, 1))
    found: BoolColumn = answered & (answers.confidence < 1)
    return found


def _owners_of(containers: BoolColumn, owners: IntColumn, reach: int) -> BoolColumn:
    found = np.zeros(reach, dtype=np.bool_)
    found[owners[containers]] = True
    return found
