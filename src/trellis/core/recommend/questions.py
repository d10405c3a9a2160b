"""Who is asked about which rows? Each recommender once per group of VPAs, and shadows about the same rows again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
import numpy as np

from trellis.core.recommend.board import Board
from trellis.core.recommend.parameters import ParameterValues
from trellis.core.recommend.protocol import Recommender
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.core.usage.view import RowsView


class Chosen(msgspec.Struct, frozen=True):
    """Some rows: their positions in the view, and the numbers of their containers and VPAs.

    `siblings` is how many containers of the row's VPA are among those that are sized, itself included.
    """

    positions: IntColumn
    numbers: IntColumn
    owners: IntColumn
    siblings: FloatColumn

    def part(self, which: IntColumn | BoolColumn) -> Chosen:
        """Some of them."""
        return Chosen(self.positions[which], self.numbers[which], self.owners[which], self.siblings[which])


class Question(msgspec.Struct, frozen=True):
    """What a recommender, by the name it is served under, is asked about, with a value for each of its parameters."""

    recommender: str
    values: ParameterValues
    about: Chosen


def live_rows(view: RowsView, placed: IntColumn, board: Board) -> Chosen:
    """The rows that are current and belong to a container that is sized; `placed` has their container numbers."""
    containers = board.containers
    known = placed >= 0
    sized = np.zeros(len(placed), dtype=np.bool_)
    sized[known] = containers.scaled[placed[known]]
    positions = np.flatnonzero(known & sized & view.current)
    numbers = placed[positions]
    owners = containers.vpa[numbers]
    siblings = np.bincount(owners, minlength=board.vpas.reach)[owners].astype(np.float64)
    return Chosen(positions, numbers, owners, siblings)


def questions(live: Chosen, board: Board) -> list[Question]:
    """One for each group. Those whose recommender failed last time come last: it may fail the others, too."""
    groups = board.vpas.group[live.owners]
    order = np.argsort(groups, kind="stable")
    found, begins = np.unique(groups[order], return_index=True)
    ends = np.append(begins, len(order))[1:]
    asked = [
        Question(board.groups[group].recommender, board.groups[group].values, live.part(order[begin:end]))
        for group, begin, end in zip(found.tolist(), begins.tolist(), ends.tolist(), strict=True)
        if group >= 0
    ]
    return sorted(asked, key=lambda question: bool(board.vpas.failed[question.about.owners].any()))


def shadow_questions(live: Chosen, board: Board, recommenders: Mapping[str, Recommender]) -> Iterator[Question]:
    """One for each recommender that is anybody's shadow, with its parameters as they are for everybody."""
    for name, vpas in board.shadows.by_recommender(recommenders).items():
        wants = np.zeros(board.vpas.reach, dtype=np.bool_)
        wants[vpas] = True
        values = {parameter.name: parameter.default for parameter in recommenders[name].parameters}
        yield Question(name, values, live.part(wants[live.owners]))
