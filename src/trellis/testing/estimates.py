"""Requests estimates from a recommender, and compares them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from trellis.core.recommend.parameters import ParameterValue
from trellis.core.recommend.protocol import Estimates, Recommender, Rows
from trellis.core.recommend.validation import describe_bounds, find_impossible_rows, find_shape_problem
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.testing.conformance import Nonconformance
from trellis.testing.rows import NOW

_CLOSE: Final = 1e-9  # the order in which a processor adds up must not matter


def default_values(recommender: Recommender) -> dict[str, ParameterValue]:
    """A value for each parameter, as declared."""
    return {parameter.name: parameter.default for parameter in recommender.parameters}


def request_estimates(
    recommender: Recommender, rows: Rows, parameters: Mapping[str, ParameterValue] | None = None, now: float = NOW
) -> Estimates:
    """The estimates for these rows; raises `Nonconformance` if they have the wrong shape."""
    values = default_values(recommender) | dict(parameters or {})
    context = "".join(f", {name}={value}" for name, value in (parameters or {}).items())
    try:
        estimates = recommender.estimate(rows, values, now)
    except Exception as error:
        raise Nonconformance(f"it raised {type(error).__name__} for {len(rows)} rows{context}: {error}") from error
    problem = find_shape_problem(estimates, len(rows))
    if problem:
        raise Nonconformance(f"it {problem}{context}")
    return estimates


def try_estimating(recommender: Recommender, rows: Rows) -> None:
    """Request estimates for their side effects alone; errors are ignored."""
    try:
        recommender.estimate(rows, default_values(recommender), NOW)
    except Exception:  # noqa: BLE001 - the caller knows what was done
        return


def require_possible(estimates: Estimates, rows: Rows, context: str = "") -> None:
    """Raise unless every estimate is possible."""
    impossible = np.flatnonzero(find_impossible_rows(estimates))
    if len(impossible):
        position = int(impossible[0])
        context = f" with {context}" if context else ""
        raise Nonconformance(
            f"an invalid recommendation for row {position}{context}: "
            f"{describe_bounds(estimates.bounds[:, :, position])}"
        )
    if estimates.confidence is not None and (np.isnan(estimates.confidence) | (estimates.confidence < 0)).any():
        raise Nonconformance(f"a confidence is negative or NaN, among {len(rows)} rows")


def require_equal(expected: Estimates, actual: Estimates, rows: Rows, case: str) -> None:
    """Raise unless two results are equal; `case` says in the message how the second one was requested."""
    for name in ("bounds", "totals", "confidence"):
        expected_column, actual_column = getattr(expected, name), getattr(actual, name)
        if (expected_column is None) != (actual_column is None):
            raise Nonconformance(f"the result {case} differs: only one of the two has {name}")
        if expected_column is not None and not np.allclose(
            expected_column, actual_column, rtol=_CLOSE, atol=0.0, equal_nan=True
        ):
            raise Nonconformance(
                f"the result {case} differs: {describe_first_difference(expected_column, actual_column, name)}"
            )
    if expected.explanation.keys() != actual.explanation.keys():
        raise Nonconformance(
            f"the explanation {case} has other columns: {sorted(expected.explanation)}, {sorted(actual.explanation)}"
        )
    for name, column in expected.explanation.items():
        actual_column = actual.explanation[name]
        same = (
            np.allclose(column, actual_column, rtol=_CLOSE, atol=0.0, equal_nan=True)
            if isinstance(column, np.ndarray)
            else list(column) == list(actual_column)
        )
        if not same:
            raise Nonconformance(f"the explanation {case} differs: {name}, among {len(rows)} rows")


def select_rows(rows: Rows, positions: Sequence[int]) -> Rows:
    """Some of the rows, in the order given."""
    chosen = np.array(positions, dtype=np.int64)
    return Rows(rows.usage.select(chosen), rows.containers[chosen])


def select_estimates(estimates: Estimates, positions: IntColumn) -> Estimates:
    """The estimates of some rows."""
    return Estimates(
        bounds=estimates.bounds[..., positions],
        totals=None if estimates.totals is None else estimates.totals[..., positions],
        confidence=None if estimates.confidence is None else estimates.confidence[positions],
        explanation={
            name: column[positions] if isinstance(column, np.ndarray) else [column[at] for at in positions.tolist()]
            for name, column in estimates.explanation.items()
        },
    )


def fingerprint(rows: Rows) -> str:
    """A text that changes with anything in the rows."""
    usage = rows.usage
    digest = hashlib.sha256(repr(usage.keys).encode())
    columns: list[np.ndarray[Any, Any]] = [
        rows.containers,
        usage.rows,
        usage.vpas,
        usage.first,
        usage.last,
        usage.count,
        usage.last_oom,
    ]
    columns += [usage.current, usage.started, usage.requests, usage.total_rows, usage.history_rows]
    columns.append(usage.run_rows)
    for bank in (usage.cpu, usage.memory):
        columns += [bank.weights(usage.rows), bank.totals(usage.rows), bank.references(usage.rows)]
    columns.append(usage.history.read_summaries(usage.history_rows[usage.history_rows >= 0], NOW))
    columns += usage.runs.read_recent(usage.run_rows[usage.run_rows >= 0])
    for column in columns:
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()


def describe_first_difference(expected: FloatColumn, actual: FloatColumn, name: str) -> str:
    differs = ~np.isclose(expected, actual, rtol=_CLOSE, atol=0.0, equal_nan=True)
    position = tuple(np.argwhere(differs)[0].tolist())
    return f"{name}[{', '.join(map(str, position))}] is {expected[position]:g} and {actual[position]:g}"
