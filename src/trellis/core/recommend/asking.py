"""What do the recommenders say? One that fails stops nobody else.

Those that work elsewhere begin first and are waited for last, so that a slow one keeps nobody from working.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias, runtime_checkable

import msgspec
import numpy as np

from trellis.base.errors import RecommenderFailure, shown
from trellis.core.recommend.amounts import LARGEST, RESOURCES
from trellis.core.recommend.board import Board
from trellis.core.recommend.explaining import NO_EXPLANATION, Explanations
from trellis.core.recommend.fence import described, impossible, misshapen
from trellis.core.recommend.parameters import ParameterValues
from trellis.core.recommend.protocol import Estimates, Recommender, Rows
from trellis.core.recommend.questions import Chosen, Question, live_rows, questions, shadow_questions
from trellis.core.recommend.shadows import Shadow
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.core.usage.view import RowsView

# Gives the answer, or raises.
Pending: TypeAlias = Callable[[], Estimates]


@runtime_checkable
class Elsewhere(Protocol):
    """A recommender that works elsewhere: it is told to begin, and asked for its answer later."""

    def begin(self, rows: Rows, values: ParameterValues, now: float, /) -> Pending:
        """Begin, and come back at once."""


class Told(msgspec.Struct, frozen=True):
    """Who answered a question, with which parameters, and why so."""

    recommender: str
    values: ParameterValues
    explanation: Explanations


NOBODY: Final = Told("", {}, NO_EXPLANATION)


class Answers(msgspec.Struct, frozen=True):
    """Everything that was answered, by container number; NaN where nothing was.

    `live` are containers that exist now, are sized and have a row, which `positions` says in the view; -1 without.
    `failures` are messages by VPA number. `told` are the answers one by one: a container is the `nth` row of number
    `asked` among them, which is -1 without any. `shadows` is what other recommenders would have said, by their names.
    """

    bounds: FloatColumn
    totals: FloatColumn
    confidence: FloatColumn
    positions: IntColumn
    asked: IntColumn
    nth: IntColumn
    failures: Mapping[int, str] = {}
    told: Sequence[Told] = ()
    shadows: Mapping[str, Shadow] = {}

    @classmethod
    def none(cls, containers: int) -> Answers:
        """No answer, for so many container numbers."""
        nowhere = np.full(containers, -1, dtype=np.int64)
        unknown = np.full((3, len(RESOURCES), containers), np.nan)
        return cls(unknown, unknown[0].copy(), unknown[0, 0].copy(), nowhere, nowhere.copy(), nowhere.copy())

    @property
    def live(self) -> BoolColumn:
        """Which containers are live."""
        return self.positions >= 0


def ask(
    view: RowsView, placed: IntColumn, board: Board, recommenders: Mapping[str, Recommender], now: float
) -> Answers:
    """The answers for all rows that are current and belong to a container that is sized."""
    live = live_rows(view, placed, board)
    asked = questions(live, board)
    shadows = list(shadow_questions(live, board, recommenders))
    found = _answers([*asked, *shadows], view, recommenders, now)
    answers = Answers.none(board.containers.reach)
    answers.positions[live.numbers] = live.positions
    failures: dict[int, str] = {}
    told: list[Told] = []
    for question, answer in zip(asked, found, strict=False):
        failures |= _failures(board, recommenders[question.recommender].name, question.about, answer)
        if isinstance(answer, Estimates):
            _fill_in(answers, question.about, answer, len(told))
            told.append(Told(question.recommender, question.values, answer.explanation))
    if failures:
        withheld = np.isin(board.containers.vpa[: board.containers.reach], list(failures))
        answers.bounds[:, :, withheld] = np.nan
        answers.totals[:, withheld] = np.nan
        answers.confidence[withheld] = np.nan
    beside = {
        each.recommender: _shadow(board, recommenders[each.recommender].name, each.about, answer)
        for each, answer in zip(shadows, found[len(asked) :], strict=True)
    }
    return msgspec.structs.replace(answers, failures=failures, told=told, shadows=beside)


def _answers(
    asked: Sequence[Question], view: RowsView, recommenders: Mapping[str, Recommender], now: float
) -> list[Estimates | str]:
    """The answer to each question, or what went wrong."""
    begun = [_begun(recommenders[each.recommender], view, each, now) for each in asked]
    found: dict[int, Estimates | str] = {}
    for number in sorted(range(len(asked)), key=lambda at: begun[at].is_elsewhere):
        found[number] = _answer(begun[number])
    return [found[number] for number in range(len(asked))]


class _Begun(msgspec.Struct, frozen=True):
    recommender: str
    rows: int
    is_elsewhere: bool
    pending: Pending


def _begun(recommender: Recommender, view: RowsView, question: Question, now: float) -> _Begun:
    rows = Rows.of(view, question.about.positions, question.about.siblings)
    is_elsewhere = isinstance(recommender, Elsewhere)
    if isinstance(recommender, Elsewhere):
        pending = recommender.begin(rows, question.values, now)
    else:
        pending = partial(recommender.estimate, rows, question.values, now)
    return _Begun(recommender.name, len(rows), is_elsewhere, pending)


def _answer(begun: _Begun) -> Estimates | str:
    """The answer, or what went wrong."""
    try:
        answer = begun.pending()
    except RecommenderFailure as failure:
        return str(failure)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other recommenders must not suffer for it
        return f"recommender {begun.recommender} failed: {type(error).__name__}: {shown(str(error), 200)}"
    wrong = misshapen(answer, begun.rows)
    return f"recommender {begun.recommender} {wrong}" if wrong else answer


def _fill_in(answers: Answers, about: Chosen, answer: Estimates, number: int) -> None:
    at = about.numbers
    answers.bounds[:, :, at] = np.trunc(np.minimum(answer.bounds, LARGEST))
    if answer.totals is not None:
        answers.totals[:, at] = np.trunc(np.minimum(answer.totals, LARGEST))
    if answer.confidence is not None:
        answers.confidence[at] = answer.confidence
    answers.asked[at], answers.nth[at] = number, np.arange(len(at))


def _failures(board: Board, name: str, about: Chosen, answer: Estimates | str) -> dict[int, str]:
    """What went wrong, by VPA number; of an impossible answer for several containers of one, the first."""
    if isinstance(answer, str):
        return dict.fromkeys(np.unique(about.owners).tolist(), answer)
    blamed: dict[int, str] = {}
    for at in np.flatnonzero(impossible(answer)).tolist():
        owner = int(about.owners[at])
        if owner not in blamed:
            (key,) = board.containers.keys([int(about.numbers[at])])
            told = described(answer.bounds[:, :, at])
            blamed[owner] = f"recommender {name} gave an impossible answer for {key.container}: {told}"
    return blamed


def _shadow(board: Board, name: str, about: Chosen, answer: Estimates | str) -> Shadow:
    """What came of a shadow. It may well be wrong about one VPA and right about the others."""
    failures = _failures(board, name, about, answer)
    if isinstance(answer, str):
        return Shadow.failed(about.numbers, failures)
    bounds = np.trunc(np.minimum(answer.bounds, LARGEST))
    bounds[:, :, np.isin(about.owners, list(failures))] = np.nan
    return Shadow(about.numbers, bounds, answer.explanation, failures)
