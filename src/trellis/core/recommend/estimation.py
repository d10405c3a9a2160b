"""Runs the recommenders: each once per group of VPAs, and shadow recommenders on the same rows again.

A recommender that fails stops no other. Those that run in another process are started first and waited for last, so
that a slow one does not hold up the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias, runtime_checkable

import msgspec
import numpy as np

from trellis.base.errors import RecommenderFailure, format_value
from trellis.core.recommend.amounts import LARGEST_AMOUNT, RESOURCES
from trellis.core.recommend.parameters import ParameterValues
from trellis.core.recommend.protocol import NO_EXPLANATION, Estimates, Explanations, Recommender, Rows
from trellis.core.recommend.state.shadows import ShadowEstimates
from trellis.core.recommend.state.vpa_store import VpaStore
from trellis.core.recommend.validation import describe_bounds, find_impossible_rows, find_shape_problem
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.core.usage.view import RowsView


class RowSelection(msgspec.Struct, frozen=True):
    """Some rows: their positions in the view, and the numbers of their containers and VPAs.

    `siblings` is how many containers of the row's VPA are among those that are sized, itself included.
    """

    positions: IntColumn
    numbers: IntColumn
    owners: IntColumn
    siblings: FloatColumn

    def part(self, which: IntColumn | BoolColumn) -> RowSelection:
        return RowSelection(self.positions[which], self.numbers[which], self.owners[which], self.siblings[which])


class EstimateQuery(msgspec.Struct, frozen=True):
    """The rows that a recommender, by the name it is served under, estimates, and the values of its parameters."""

    recommender: str
    values: ParameterValues
    about: RowSelection


def select_live_rows(view: RowsView, placed: IntColumn, store: VpaStore) -> RowSelection:
    """The rows that are current and belong to a container that is sized; `placed` has their container numbers."""
    containers = store.containers
    placed_rows = placed >= 0
    sized = np.zeros(len(placed), dtype=np.bool_)
    sized[placed_rows] = containers.scaled[placed[placed_rows]]
    positions = np.flatnonzero(placed_rows & sized & view.current)
    numbers = placed[positions]
    owners = containers.vpa[numbers]
    siblings = np.bincount(owners, minlength=store.vpas.reach)[owners].astype(np.float64)
    return RowSelection(positions, numbers, owners, siblings)


def build_queries(live: RowSelection, store: VpaStore) -> list[EstimateQuery]:
    """One for each group. Those whose recommender failed last time come last: it may fail the others, too."""
    groups = store.vpas.group[live.owners]
    order = np.argsort(groups, kind="stable")
    numbers, begins = np.unique(groups[order], return_index=True)
    ends = np.append(begins, len(order))[1:]
    queries = [
        EstimateQuery(store.groups[group].recommender, store.groups[group].values, live.part(order[begin:end]))
        for group, begin, end in zip(numbers.tolist(), begins.tolist(), ends.tolist(), strict=True)
        if group >= 0
    ]
    return sorted(queries, key=lambda question: bool(store.vpas.failed[question.about.owners].any()))


def build_shadow_queries(
    live: RowSelection, store: VpaStore, recommenders: Mapping[str, Recommender]
) -> Iterator[EstimateQuery]:
    """One for each recommender that is a shadow of any VPA, with the defaults of its parameters."""
    for name, vpas in store.shadows.by_recommender(recommenders).items():
        wants = np.zeros(store.vpas.reach, dtype=np.bool_)
        wants[vpas] = True
        values = {parameter.name: parameter.default for parameter in recommenders[name].parameters}
        yield EstimateQuery(name, values, live.part(wants[live.owners]))


# Gives the answer, or raises.
PendingEstimates: TypeAlias = Callable[[], Estimates]


@runtime_checkable
class RemoteRecommender(Protocol):
    """A recommender in another process: `begin` starts the estimate, and the result is collected later."""

    def begin(self, rows: Rows, values: ParameterValues, now: float, /) -> PendingEstimates:
        """Begin, and come back at once."""


class EstimateOrigin(msgspec.Struct, frozen=True):
    """The recommender that answered a query, its parameters and its explanation."""

    recommender: str
    values: ParameterValues
    explanation: Explanations


NO_ORIGIN: Final = EstimateOrigin("", {}, NO_EXPLANATION)


class PassEstimates(msgspec.Struct, frozen=True):
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
    told: Sequence[EstimateOrigin] = ()
    shadows: Mapping[str, ShadowEstimates] = {}

    @classmethod
    def none(cls, containers: int) -> PassEstimates:
        """No answer, for so many container numbers."""
        nowhere = np.full(containers, -1, dtype=np.int64)
        unknown = np.full((3, len(RESOURCES), containers), np.nan)
        return cls(unknown, unknown[0].copy(), unknown[0, 0].copy(), nowhere, nowhere.copy(), nowhere.copy())

    @property
    def live(self) -> BoolColumn:
        """Which containers are live."""
        return self.positions >= 0


def estimate_all(
    view: RowsView, placed: IntColumn, store: VpaStore, recommenders: Mapping[str, Recommender], now: float
) -> PassEstimates:
    """The answers for all rows that are current and belong to a container that is sized."""
    live = select_live_rows(view, placed, store)
    queries = build_queries(live, store)
    shadows = list(build_shadow_queries(live, store, recommenders))
    results = _run_queries([*queries, *shadows], view, recommenders, now)
    answers = PassEstimates.none(store.containers.reach)
    answers.positions[live.numbers] = live.positions
    failures: dict[int, str] = {}
    origins: list[EstimateOrigin] = []
    for question, answer in zip(queries, results, strict=False):
        failures |= _find_failures(store, recommenders[question.recommender].name, question.about, answer)
        if isinstance(answer, Estimates):
            _store_estimates(answers, question.about, answer, len(origins))
            origins.append(EstimateOrigin(question.recommender, question.values, answer.explanation))
    if failures:
        withheld = np.isin(store.containers.vpa[: store.containers.reach], list(failures))
        answers.bounds[:, :, withheld] = np.nan
        answers.totals[:, withheld] = np.nan
        answers.confidence[withheld] = np.nan
    beside = {
        query.recommender: _build_shadow(store, recommenders[query.recommender].name, query.about, answer)
        for query, answer in zip(shadows, results[len(queries) :], strict=True)
    }
    return msgspec.structs.replace(answers, failures=failures, told=origins, shadows=beside)


def _run_queries(
    queries: Sequence[EstimateQuery], view: RowsView, recommenders: Mapping[str, Recommender], now: float
) -> list[Estimates | str]:
    """The estimates for each query, or an error message."""
    begun = [_start_query(recommenders[query.recommender], view, query, now) for query in queries]
    results: dict[int, Estimates | str] = {}
    for number in sorted(range(len(queries)), key=lambda at: begun[at].is_elsewhere):
        results[number] = _collect_estimates(begun[number])
    return [results[number] for number in range(len(queries))]


class _StartedQuery(msgspec.Struct, frozen=True):
    recommender: str
    rows: int
    is_elsewhere: bool
    pending: PendingEstimates


def _start_query(recommender: Recommender, view: RowsView, question: EstimateQuery, now: float) -> _StartedQuery:
    rows = Rows.of(view, question.about.positions, question.about.siblings)
    is_elsewhere = isinstance(recommender, RemoteRecommender)
    if isinstance(recommender, RemoteRecommender):
        pending = recommender.begin(rows, question.values, now)
    else:
        pending = partial(recommender.estimate, rows, question.values, now)
    return _StartedQuery(recommender.name, len(rows), is_elsewhere, pending)


def _collect_estimates(begun: _StartedQuery) -> Estimates | str:
    """The answer, or what went wrong."""
    try:
        answer = begun.pending()
    except RecommenderFailure as failure:
        return str(failure)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other recommenders must not suffer for it
        return f"recommender {begun.recommender} failed: {type(error).__name__}: {format_value(str(error), 200)}"
    wrong = find_shape_problem(answer, begun.rows)
    return f"recommender {begun.recommender} {wrong}" if wrong else answer


def _store_estimates(answers: PassEstimates, about: RowSelection, answer: Estimates, number: int) -> None:
    at = about.numbers
    answers.bounds[:, :, at] = np.trunc(np.minimum(answer.bounds, LARGEST_AMOUNT))
    if answer.totals is not None:
        answers.totals[:, at] = np.trunc(np.minimum(answer.totals, LARGEST_AMOUNT))
    if answer.confidence is not None:
        answers.confidence[at] = answer.confidence
    answers.asked[at], answers.nth[at] = number, np.arange(len(at))


def _find_failures(store: VpaStore, name: str, about: RowSelection, answer: Estimates | str) -> dict[int, str]:
    """What went wrong, by VPA number; of an impossible answer for several containers of one, the first."""
    if isinstance(answer, str):
        return dict.fromkeys(np.unique(about.owners).tolist(), answer)
    blamed: dict[int, str] = {}
    for at in np.flatnonzero(find_impossible_rows(answer)).tolist():
        owner = int(about.owners[at])
        if owner not in blamed:
            (key,) = store.containers.keys([int(about.numbers[at])])
            described = describe_bounds(answer.bounds[:, :, at])
            blamed[owner] = f"recommender {name} gave an impossible answer for {key.container}: {described}"
    return blamed


def _build_shadow(store: VpaStore, name: str, about: RowSelection, answer: Estimates | str) -> ShadowEstimates:
    """What came of a shadow. It may well be wrong about one VPA and right about the others."""
    failures = _find_failures(store, name, about, answer)
    if isinstance(answer, str):
        return ShadowEstimates.failed(about.numbers, failures)
    bounds = np.trunc(np.minimum(answer.bounds, LARGEST_AMOUNT))
    bounds[:, :, np.isin(about.owners, list(failures))] = np.nan
    return ShadowEstimates(about.numbers, bounds, answer.explanation, failures)
