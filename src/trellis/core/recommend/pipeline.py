"""What should every VerticalPodAutoscaler recommend now, and which of them have to be told?

One call for all: recommenders are asked, answers are finished, conditions found, and what differs enough from what is
published becomes a write. Only what is written costs more than its places in the columns.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from trellis.core.recommend.amounts import UNCAPPED
from trellis.core.recommend.asking import Answers, ask
from trellis.core.recommend.board import Board
from trellis.core.recommend.changes import changed
from trellis.core.recommend.conditions import Holds, Shortage
from trellis.core.recommend.finishing import finish
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.results import Columns, Complaint, Counted, PassResult
from trellis.core.recommend.settings import PipelineSettings
from trellis.core.recommend.status import Desired, status_writes
from trellis.core.recommend.truths import truths, unsure
from trellis.core.recommend.vpas import MODES, NO_GROUP
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.core.usage.view import RowsView

__all__ = ["PassResult", "recommend"]


def recommend(
    view: RowsView,
    board: Board,
    recommenders: Mapping[str, Recommender],
    settings: PipelineSettings,
    now: float,
) -> PassResult:
    """One pass over all rows; the board learns of the writes when they are applied."""
    board.settle(recommenders)
    places = board.places(view.keys)
    answers = ask(view, places, board, recommenders, now)
    board.fail(answers.failures)
    amounts = finish(answers, board, settings)
    truth = truths(amounts, answers, board)
    reasons = changed(amounts, truth, board, settings, now)
    due = np.flatnonzero(reasons)
    desired = Desired(amounts, truth, reasons, _shortages(due, answers, board, view))
    return PassResult(
        writes=list(status_writes(due.tolist(), desired, board, now)),
        columns=_columns(view, places, amounts, board),
        answers=answers,
        counts=_counts(truth, board),
        failures=_complaints(board, np.flatnonzero(board.vpas.failed)),
        bad_parameters=_complaints(board, np.flatnonzero(board.vpas.group == NO_GROUP)),
        unhosted=tuple(board.shadows.unhosted(recommenders)),
    )


def _shortages(due: IntColumn, answers: Answers, board: Board, view: RowsView) -> dict[int, Shortage]:
    """Of each VPA that is written about: the container with the least confidence, if it is too little."""
    numbers = np.flatnonzero(unsure(answers))
    owners = board.containers.vpa[numbers]
    is_due = np.zeros(board.vpas.reach, dtype=np.bool_)
    is_due[due] = True
    numbers, owners = numbers[is_due[owners]], owners[is_due[owners]]
    order = np.lexsort((answers.confidence[numbers], owners))
    found, first = np.unique(owners[order], return_index=True)
    least = numbers[order][first]
    at = answers.positions[least]
    spans = np.nan_to_num(view.last[at] - view.first[at])
    names = [key.container for key in board.containers.keys(least.tolist())]
    told = map(Shortage, names, view.count[at].tolist(), spans.tolist())
    return dict(zip(found.tolist(), told, strict=True))


def _columns(view: RowsView, places: IntColumn, amounts: FloatColumn, board: Board) -> Columns:
    containers, vpas = board.containers, board.vpas
    owners = containers.vpa[: containers.reach]
    return Columns(
        keys=view.keys,
        rows=view.rows,
        places=places,
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
    codes, counts = np.unique(board.vpas.mode[served] * 8 + has * 4 + lacks * 2 + wrong, return_counts=True)
    return {
        Counted(str(MODES[code // 8]), bool(code & 4), not code & 2, bool(code & 1)): count
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True)
    }


def _complaints(board: Board, numbers: IntColumn) -> tuple[Complaint, ...]:
    entries = [board.vpas.entries[number] for number in numbers.tolist()]
    return tuple(
        Complaint(entry.vpa.namespace, entry.vpa.name, entry.failure or entry.parameter_problem) for entry in entries
    )
