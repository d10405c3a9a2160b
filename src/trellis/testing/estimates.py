"""Asks a recommender for estimates, and compares them."""

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


def ask_recommender(
    recommender: Recommender, rows: Rows, given: Mapping[str, ParameterValue] | None = None, now: float = NOW
) -> Estimates:
    """The answer, if it has the right shape."""
    values = default_values(recommender) | dict(given or {})
    with_what = "".join(f", {name}={value}" for name, value in (given or {}).items())
    try:
        answer = recommender.estimate(rows, values, now)
    except Exception as error:
        raise Nonconformance(f"it raised {type(error).__name__} for {len(rows)} rows{with_what}: {error}") from error
    wrong = find_shape_problem(answer, len(rows))
    if wrong:
        raise Nonconformance(f"it {wrong}{with_what}")
    return answer


def ask_quietly(recommender: Recommender, rows: Rows) -> None:
    """Ask for what happens meanwhile; what it raises is the consequence."""
    try:
        recommender.estimate(rows, default_values(recommender), NOW)
    except Exception:  # noqa: BLE001 - the caller knows what was done
        return


def must_be_possible(answer: Estimates, rows: Rows, with_what: str = "") -> None:
    """Raise unless all of an answer can be."""
    wrong = np.flatnonzero(find_impossible_rows(answer))
    if len(wrong):
        at = int(wrong[0])
        with_what = f" with {with_what}" if with_what else ""
        raise Nonconformance(
            f"an impossible answer for row {at}{with_what}: {describe_bounds(answer.bounds[:, :, at])}"
        )
    if answer.confidence is not None and (np.isnan(answer.confidence) | (answer.confidence < 0)).any():
        raise Nonconformance(f"a confidence that is negative or no number, among {len(rows)} rows")


def must_agree(first: Estimates, second: Estimates, rows: Rows, who: str) -> None:
    """Raise unless two answers are the same; `who` gave the second one."""
    for name in ("bounds", "totals", "confidence"):
        mine, theirs = getattr(first, name), getattr(second, name)
        if (mine is None) != (theirs is None):
            raise Nonconformance(f"{who}, it says something else: there are {name} once, and once there are none")
        if mine is not None and not np.allclose(mine, theirs, rtol=_CLOSE, atol=0.0, equal_nan=True):
            raise Nonconformance(f"{who}, it says something else: {_first_difference(mine, theirs, name)}")
    if first.explanation.keys() != second.explanation.keys():
        raise Nonconformance(
            f"{who}, it explains other things: {sorted(first.explanation)}, {sorted(second.explanation)}"
        )
    for name, column in first.explanation.items():
        theirs = second.explanation[name]
        same = (
            np.allclose(column, theirs, rtol=_CLOSE, atol=0.0, equal_nan=True)
            if isinstance(column, np.ndarray)
            else list(column) == list(theirs)
        )
        if not same:
            raise Nonconformance(f"{who}, it explains {name} of {len(rows)} rows otherwise")


def select_rows(rows: Rows, positions: Sequence[int]) -> Rows:
    """Some of the rows, in the order given."""
    chosen = np.array(positions, dtype=np.int64)
    return Rows(rows.usage.select(chosen), rows.containers[chosen])


def select_estimates(answer: Estimates, positions: IntColumn) -> Estimates:
    """What an answer says of some rows."""
    return Estimates(
        bounds=answer.bounds[..., positions],
        totals=None if answer.totals is None else answer.totals[..., positions],
        confidence=None if answer.confidence is None else answer.confidence[positions],
        explanation={
            name: column[positions] if isinstance(column, np.ndarray) else [column[at] for at in positions.tolist()]
            for name, column in answer.explanation.items()
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


def _first_difference(mine: FloatColumn, theirs: FloatColumn, name: str) -> str:
    differs = ~np.isclose(mine, theirs, rtol=_CLOSE, atol=0.0, equal_nan=True)
    at = tuple(np.argwhere(differs)[0].tolist())
    return f"{name}[{', '.join(map(str, at))}] is {mine[at]:g} once and {theirs[at]:g} then"
