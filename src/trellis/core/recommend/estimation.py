"""Runs the recommenders: each once per group of VPAs, and shadow recommenders on the same rows again.

A failing recommender stops no other. Recommenders in other processes are started first and awaited last, so that a slow
one does not delay the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias, runtime_checkable

import msgspec
import numpy as np

from trellis.base.errors import RecommenderFailure, format_value
from trellis.core.recommend.amounts import LARGEST_AMOUNT, MIDDLE, RESOURCES
from trellis.core.recommend.parameters import ParameterValues
from trellis.core.recommend.protocol import NO_EXPLANATION, Estimates, Explanations, Recommender, Rows
from trellis.core.recommend.state.vpa_store import VpaStore
from trellis.core.recommend.validation import describe_bounds, find_impossible_rows, find_shape_problem
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.core.usage.view import RowsView


class RowSelection(msgspec.Struct, frozen=True):
    """Selected rows: their positions in the view, and the numbers of their containers and VPAs.

    `siblings` is how many containers of the row's VPA are among those that are sized, itself included.
    """

    positions: IntColumn
    numbers: IntColumn
    owners: IntColumn
    siblings: FloatColumn

    def select(self, selected: IntColumn | BoolColumn) -> RowSelection:
        return RowSelection(
            self.positions[selected], self.numbers[selected], self.owners[selected], self.siblings[selected]
        )


class EstimateQuery(msgspec.Struct, frozen=True):
    """The rows that a recommender, by the name it is served under, estimates, and the values of its parameters."""

    recommender: str
    values: ParameterValues
    rows: RowSelection


def select_live_rows(view: RowsView, container_numbers: IntColumn, store: VpaStore) -> RowSelection:
    """The rows that are current and belong to a container that is sized; `container_numbers` is by row."""
    containers = store.containers
    has_container = container_numbers >= 0
    sized = np.zeros(len(container_numbers), dtype=np.bool_)
    sized[has_container] = containers.scaled[container_numbers[has_container]]
    positions = np.flatnonzero(has_container & sized & view.current)
    numbers = container_numbers[positions]
    owners = containers.vpa[numbers]
    siblings = np.bincount(owners, minlength=store.vpas.numbers_end)[owners].astype(np.float64)
    return RowSelection(positions, numbers, owners, siblings)


def build_queries(live: RowSelection, store: VpaStore) -> list[EstimateQuery]:
    """One query per group. Groups whose recommender failed in the last pass come last."""
    groups = store.vpas.group[live.owners]
    order = np.argsort(groups, kind="stable")
    numbers, begins = np.unique(groups[order], return_index=True)
    ends = np.append(begins, len(order))[1:]
    queries = [
        EstimateQuery(store.groups[group].recommender, store.groups[group].values, live.select(order[begin:end]))
        for group, begin, end in zip(numbers.tolist(), begins.tolist(), ends.tolist(), strict=True)
        if group >= 0
    ]
    return sorted(queries, key=lambda query: bool(store.vpas.failed[query.rows.owners].any()))


def build_shadow_queries(
    live: RowSelection, store: VpaStore, recommenders: Mapping[str, Recommender]
) -> Iterator[EstimateQuery]:
    """One query per recommender that is a shadow of any VPA, with the defaults of its parameters."""
    for name, vpas in store.shadows.group_by_recommender(recommenders).items():
        is_shadowed = np.zeros(store.vpas.numbers_end, dtype=np.bool_)
        is_shadowed[vpas] = True
        values = {parameter.name: parameter.default for parameter in recommenders[name].parameters}
        yield EstimateQuery(name, values, live.select(is_shadowed[live.owners]))


# Waits for the estimates and returns them, or raises.
PendingEstimates: TypeAlias = Callable[[], Estimates]


@runtime_checkable
class RemoteRecommender(Protocol):
    """A recommender in another process: `start_estimate` starts the estimate, and the result is collected later."""

    def start_estimate(self, rows: Rows, values: ParameterValues, now: float, /) -> PendingEstimates:
        """Start an estimate and return at once; the result is a function that waits for it."""


class EstimateOrigin(msgspec.Struct, frozen=True):
    """The recommender behind a query's estimates, its parameters and its explanation."""

    recommender: str
    values: ParameterValues
    explanation: Explanations


NO_ORIGIN: Final = EstimateOrigin("", {}, NO_EXPLANATION)


class ShadowEstimates(msgspec.Struct, frozen=True):
    """The estimates of a shadow recommender, by container number: `bounds` is (bound, resource, container).

    NaN where it could not say. `failures` is what went wrong with it, by VPA number.
    """

    numbers: IntColumn
    bounds: FloatColumn
    explanation: Explanations = NO_EXPLANATION
    failures: Mapping[int, str] = {}

    @classmethod
    def failed(cls, numbers: IntColumn, failures: Mapping[int, str]) -> ShadowEstimates:
        """The result of a shadow recommender that failed."""
        return cls(numbers, np.full((3, len(RESOURCES), len(numbers)), np.nan), failures=failures)

    @property
    def failure(self) -> str:
        """The first failure; empty without any."""
        return next(iter(self.failures.values()), "")


class PassEstimates(msgspec.Struct, frozen=True):
    """The estimates of all recommenders, by container number; NaN where there is none.

    `positions` has the row of each container in the view, -1 without: the containers that exist now and are sized.
    `failures` are messages by VPA number. `origins` has one entry per query with estimates; `origin_numbers` is the
    entry of a container, -1 without any, and `origin_rows` its row in that query. `shadows` has the estimates of shadow
    recommenders, by name.
    """

    bounds: FloatColumn
    totals: FloatColumn
    confidence: FloatColumn
    positions: IntColumn
    origin_numbers: IntColumn
    origin_rows: IntColumn
    failures: Mapping[int, str] = {}
    origins: Sequence[EstimateOrigin] = ()
    shadows: Mapping[str, ShadowEstimates] = {}

    @classmethod
    def empty(cls, containers: int) -> PassEstimates:
        """No estimates, for a number of containers."""
        no_numbers = np.full(containers, -1, dtype=np.int64)
        unknown = np.full((3, len(RESOURCES), containers), np.nan)
        return cls(unknown, unknown[0].copy(), unknown[0, 0].copy(), no_numbers, no_numbers.copy(), no_numbers.copy())

    @property
    def live(self) -> BoolColumn:
        """Mask of the live containers."""
        return self.positions >= 0


def estimate_all(
    view: RowsView, container_numbers: IntColumn, store: VpaStore, recommenders: Mapping[str, Recommender], now: float
) -> PassEstimates:
    """The estimates for all rows that are current and belong to a container that is sized."""
    live = select_live_rows(view, container_numbers, store)
    queries = build_queries(live, store)
    shadows = list(build_shadow_queries(live, store, recommenders))
    results = _run_queries([*queries, *shadows], view, recommenders, now)
    estimates = PassEstimates.empty(store.containers.numbers_end)
    estimates.positions[live.numbers] = live.positions
    failures: dict[int, str] = {}
    origins: list[EstimateOrigin] = []
    for query, result in zip(queries, results, strict=False):
        failures |= _find_failures(store, recommenders[query.recommender].name, query.rows, result)
        if isinstance(result, Estimates):
            _store_estimates(estimates, query.rows, result, len(origins))
            origins.append(EstimateOrigin(query.recommender, query.values, result.explanation))
    if failures:
        is_failed = np.isin(store.containers.vpa[: store.containers.numbers_end], list(failures))
        estimates.bounds[:, :, is_failed] = np.nan
        estimates.totals[:, is_failed] = np.nan
        estimates.confidence[is_failed] = np.nan
    shadow_estimates = {
        query.recommender: _build_shadow(store, recommenders[query.recommender].name, query.rows, result)
        for query, result in zip(shadows, results[len(queries) :], strict=True)
    }
    return msgspec.structs.replace(estimates, failures=failures, origins=origins, shadows=shadow_estimates)


def _run_queries(
    queries: Sequence[EstimateQuery], view: RowsView, recommenders: Mapping[str, Recommender], now: float
) -> list[Estimates | str]:
    """The estimates for each query, or an error message."""
    started = [_start_query(recommenders[query.recommender], view, query, now) for query in queries]
    results: dict[int, Estimates | str] = {}
    for number in sorted(range(len(queries)), key=lambda at: started[at].is_remote):
        results[number] = _collect_estimates(started[number])
    return [results[number] for number in range(len(queries))]


class _StartedQuery(msgspec.Struct, frozen=True):
    recommender: str
    rows: int
    is_remote: bool
    pending: PendingEstimates


def _start_query(recommender: Recommender, view: RowsView, query: EstimateQuery, now: float) -> _StartedQuery:
    rows = Rows.from_view(view, query.rows.positions, query.rows.siblings)
    is_remote = isinstance(recommender, RemoteRecommender)
    if isinstance(recommender, RemoteRecommender):
        pending = recommender.start_estimate(rows, query.values, now)
    else:
        pending = partial(recommender.estimate, rows, query.values, now)
    return _StartedQuery(recommender.name, len(rows), is_remote, pending)


def _collect_estimates(started: _StartedQuery) -> Estimates | str:
    """The estimates of a query, or an error message."""
    try:
        result = started.pending()
    except RecommenderFailure as failure:
        return str(failure)
    except Exception as error:  # noqa: BLE001 - the failure of one recommender must not stop the others
        return f"recommender {started.recommender} failed: {type(error).__name__}: {format_value(str(error), 200)}"
    problem = find_shape_problem(result, started.rows)
    return f"recommender {started.recommender} {problem}" if problem else result


def _store_estimates(estimates: PassEstimates, selection: RowSelection, result: Estimates, number: int) -> None:
    container_numbers = selection.numbers
    estimates.bounds[:, :, container_numbers] = np.trunc(np.minimum(result.bounds, LARGEST_AMOUNT))
    if result.totals is not None:
        estimates.totals[:, container_numbers] = np.trunc(np.minimum(result.totals, LARGEST_AMOUNT))
    if result.confidence is not None:
        estimates.confidence[container_numbers] = result.confidence
    estimates.origin_numbers[container_numbers], estimates.origin_rows[container_numbers] = (
        number,
        np.arange(len(container_numbers)),
    )


def _find_failures(store: VpaStore, name: str, selection: RowSelection, result: Estimates | str) -> dict[int, str]:
    """Error messages by VPA number; of several invalid containers of a VPA, the first."""
    if isinstance(result, str):
        return dict.fromkeys(np.unique(selection.owners).tolist(), result)
    failures: dict[int, str] = {}
    for at in np.flatnonzero(find_impossible_rows(result)).tolist():
        owner = int(selection.owners[at])
        if owner not in failures:
            (key,) = store.containers.keys([int(selection.numbers[at])])
            described = describe_bounds(result.bounds[:, :, at])
            failures[owner] = f"recommender {name} returned an invalid recommendation for {key.container}: {described}"
    return failures


def _build_shadow(store: VpaStore, name: str, selection: RowSelection, result: Estimates | str) -> ShadowEstimates:
    """The estimates of a shadow recommender, NaN for VPAs for which they are invalid."""
    failures = _find_failures(store, name, selection, result)
    if isinstance(result, str):
        return ShadowEstimates.failed(selection.numbers, failures)
    bounds = np.trunc(np.minimum(result.bounds, LARGEST_AMOUNT))
    bounds[:, :, np.isin(selection.owners, list(failures))] = np.nan
    return ShadowEstimates(selection.numbers, bounds, result.explanation, failures)


def compare_shadows(
    shadows: Mapping[str, ShadowEstimates], bounds: FloatColumn
) -> Iterator[tuple[str, str, FloatColumn]]:
    """The difference of each shadow's targets from those of the serving recommender, as a fraction of them.

    For each recommender and resource, over the containers for which both could say.
    """
    for name, shadow in shadows.items():
        serving_bounds = bounds[MIDDLE][:, shadow.numbers]
        for resource, shadow_targets, serving_targets in zip(
            RESOURCES, shadow.bounds[MIDDLE], serving_bounds, strict=True
        ):
            is_comparable = ~np.isnan(shadow_targets) & (serving_targets > 0)
            yield name, resource, shadow_targets[is_comparable] / serving_targets[is_comparable] - 1.0
