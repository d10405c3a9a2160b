"""What should every VerticalPodAutoscaler recommend now, and which of them have to be told?

One call for all: recommenders are asked, answers are finished, conditions found, and what differs enough from what is
published becomes a write. Only what is written costs more than its places in the columns.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from trellis.api.resolve import COUNTED_MODES, NO_MODE, WRITTEN_MODES, UpdateMode
from trellis.core.recommend.amounts import UNCAPPED
from trellis.core.recommend.asking import ask
from trellis.core.recommend.board import Board
from trellis.core.recommend.changes import changed
from trellis.core.recommend.conditions import Holds
from trellis.core.recommend.finishing import Watch, finish
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.results import Columns, Complaint, Counted, PassResult
from trellis.core.recommend.settings import PipelineSettings
from trellis.core.recommend.shortages import shortages
from trellis.core.recommend.status import Desired, status_writes
from trellis.core.recommend.truths import truths
from trellis.core.recommend.vpas import NO_GROUP
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.core.usage.view import RowsView

__all__ = ["PassResult", "recommend"]


def recommend(
    view: RowsView,
    board: Board,
    recommenders: Mapping[str, Recommender],
    settings: PipelineSettings,
    now: float,
    *,
    watch: Watch | None = None,
) -> PassResult:
    """One pass over all rows; the board learns of the writes when they are applied. `watch` sees answers finished."""
    board.settle(recommenders)
    places = board.places(view.keys)
    answers = ask(view, places, board, recommenders, now)
    board.fail(answers.failures)
    amounts = finish(answers, board, settings, watch)
    truth = truths(amounts, answers, board)
    reasons = changed(amounts, truth, board, settings, now)
    due = np.flatnonzero(reasons)
    columns = _columns(view, places, amounts, board)
    desired = Desired(amounts, truth, reasons, shortages(due, answers, columns))
    return PassResult(
        writes=list(status_writes(due.tolist(), desired, board, now)),
        columns=columns,
        answers=answers,
        truth=truth,
        counts=_counts(truth, board),
        failures=_complaints(board, np.flatnonzero(board.vpas.failed)),
        bad_parameters=_complaints(board, np.flatnonzero(board.vpas.group == NO_GROUP)),
        unhosted=tuple(board.shadows.unhosted(recommenders)),
    )


def _columns(view: RowsView, places: IntColumn, amounts: FloatColumn, board: Board) -> Columns:
    containers, vpas = board.containers, board.vpas
    owners = containers.vpa[: containers.reach]
    return Columns(
        keys=view.keys,
        rows=view.rows,
        places=places,
        owners=owners.copy(),
        count=view.count,
        first=view.first,
        last=view.last,
        amounts=amounts,
        previous=containers.published[UNCAPPED, :, : containers.reach].copy(),
        modes=vpas.mode[owners],
        pods=vpas.pods[owners],
        sized=containers.scaled[: containers.reach].copy(),
    )


def _counts(truth: IntColumn, board: Board) -> dict[Counted, int]:
    served = np.flatnonzero(board.vpas.active())
    bits = truth[served]
    has, lacks, wrong = (
        (bits & bit > 0).astype(np.int64) for bit in (Holds.PROVIDED, Holds.NO_PODS, Holds.UNSUPPORTED_CONFIG)
    )
    modes = board.vpas.mode[served]
    # Only quality is told apart by whether a mode was written.
    modes = np.where(modes == WRITTEN_MODES.index(NO_MODE), COUNTED_MODES.index(UpdateMode.RECREATE), modes)
    codes, counts = np.unique(modes * 8 + has * 4 + lacks * 2 + wrong, return_counts=True)
    return {
        Counted(COUNTED_MODES[code // 8], bool(code & 4), not code & 2, bool(code & 1)): count
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True)
    }


def _complaints(board: Board, numbers: IntColumn) -> tuple[Complaint, ...]:
    entries = [board.vpas.entries[number] for number in numbers.tolist()]
    return tuple(
        Complaint(entry.vpa.namespace, entry.vpa.name, entry.failure or entry.parameter_problem) for entry in entries
    )
