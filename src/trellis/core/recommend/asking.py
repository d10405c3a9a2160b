"""What do the recommenders say? Each is asked once per group of VPAs, and one that fails stops nobody else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
import numpy as np

from trellis.base.errors import shown
from trellis.core.recommend.amounts import LARGEST, RESOURCES
from trellis.core.recommend.board import Board
from trellis.core.recommend.fence import described, impossible, misshapen
from trellis.core.recommend.parameters import ParameterValues
from trellis.core.recommend.protocol import Estimates, Recommender, Rows
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.core.usage.view import RowsView


class Answers(msgspec.Struct, frozen=True):
    """Everything that was answered, by container number; NaN where nothing was.

    `live` are containers that exist now, are sized and have a row, which `positions` says in the view; -1 without.
    `failures` are messages by VPA number.
    """

    bounds: FloatColumn
    totals: FloatColumn
    confidence: FloatColumn
    positions: IntColumn
    failures: Mapping[int, str]

    @property
    def live(self) -> BoolColumn:
        """Which containers are live."""
        return self.positions >= 0


class _Question(msgspec.Struct, frozen=True):
    """One group: positions of its rows in the view, and the numbers of their containers and VPAs."""

    group: int
    positions: IntColumn
    numbers: IntColumn
    owners: IntColumn
    containers: FloatColumn


def ask(
    view: RowsView, placed: IntColumn, board: Board, recommenders: Mapping[str, Recommender], now: float
) -> Answers:
    """The answers for all rows that are current and belong to a container that is sized."""
    reach = board.containers.reach
    positions = np.full(reach, -1, dtype=np.int64)
    bounds = np.full((3, len(RESOURCES), reach), np.nan)
    totals = np.full((len(RESOURCES), reach), np.nan)
    trust = np.full(reach, np.nan)
    failures: dict[int, str] = {}
    for question in _questions(view, placed, board, positions):
        group = board.groups[question.group]
        rows = Rows.of(view, question.positions, question.containers)
        answer = _answer(recommenders[group.recommender], rows, group.values, now)
        if isinstance(answer, str):
            failures.update(dict.fromkeys(np.unique(question.owners).tolist(), answer))
            continue
        wrong = impossible(answer)
        if wrong.any():
            failures.update(_blame(board, recommenders[group.recommender], question, answer.bounds, wrong))
        at = question.numbers
        bounds[:, :, at] = np.trunc(np.minimum(answer.bounds, LARGEST))
        if answer.totals is not None:
            totals[:, at] = np.trunc(np.minimum(answer.totals, LARGEST))
        if answer.confidence is not None:
            trust[at] = answer.confidence
    if failures:
        withheld = np.isin(board.containers.vpa[:reach], list(failures))
        bounds[:, :, withheld], totals[:, withheld], trust[withheld] = np.nan, np.nan, np.nan
    return Answers(bounds, totals, trust, positions, failures)


def _questions(view: RowsView, placed: IntColumn, board: Board, live: IntColumn) -> Iterator[_Question]:
    """One per group; says on the way where the containers are that are live."""
    containers, vpas = board.containers, board.vpas
    known = placed >= 0
    sized = np.zeros(len(placed), dtype=np.bool_)
    sized[known] = containers.scaled[placed[known]]
    positions = np.flatnonzero(known & sized & view.current)
    numbers = placed[positions]
    live[numbers] = positions
    owners = containers.vpa[numbers]
    share = np.bincount(owners, minlength=vpas.reach)[owners].astype(np.float64)
    groups = vpas.group[owners]
    order = np.argsort(groups, kind="stable")
    found, begins = np.unique(groups[order], return_index=True)
    ends = np.append(begins, len(order))[1:]
    for group, begin, end in zip(found.tolist(), begins.tolist(), ends.tolist(), strict=True):
        part = order[begin:end]
        if group >= 0:
            yield _Question(group, positions[part], numbers[part], owners[part], share[part])


def _answer(recommender: Recommender, rows: Rows, values: ParameterValues, now: float) -> Estimates | str:
    """The answer, or what went wrong."""
    try:
        answer = recommender.estimate(rows, values, now)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other recommenders must not suffer for it
        return f"recommender {recommender.name} failed: {type(error).__name__}: {shown(str(error), 200)}"
    wrong = misshapen(answer, len(rows))
    return f"recommender {recommender.name} {wrong}" if wrong else answer


def _blame(
    board: Board, recommender: Recommender, question: _Question, bounds: FloatColumn, wrong: BoolColumn
) -> dict[int, str]:
    """A message for each VPA with an impossible row: its first one."""
    blamed: dict[int, str] = {}
    for at in np.flatnonzero(wrong).tolist():
        owner = int(question.owners[at])
        if owner not in blamed:
            (key,) = board.containers.keys([int(question.numbers[at])])
            told = described(bounds[:, :, at])
            blamed[owner] = f"recommender {recommender.name} gave an impossible answer for {key.container}: {told}"
    return blamed
