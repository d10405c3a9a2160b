"""Validates recommenders: their declarations before use, and their estimates.

VPAs whose estimates are invalid keep their previous recommendation, and their condition gives the reason.
`UnavailableRecommender` stands in for a recommender that cannot be loaded: it declares nothing and fails, so that its
VPAs keep their recommendations as well.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NoReturn

import msgspec
import numpy as np

from trellis.base.errors import InvalidInput, RecommenderFailure
from trellis.core.recommend.amounts import LOWER, MIDDLE, RESOURCES, UPPER
from trellis.core.recommend.parameters import Parameter, ParameterKind, ParameterValue, ParameterValues
from trellis.core.recommend.protocol import LONGEST_EXPLANATION_TEXT, Estimates, Recommender, Rows
from trellis.core.usage.columns import BoolColumn, FloatColumn

_PARAMETER_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_PYTHON_TYPES: dict[ParameterKind, tuple[type, ...]] = {
    ParameterKind.NUMBER: (int, float),
    ParameterKind.WHOLE: (int,),
    ParameterKind.DURATION: (int, float),
    ParameterKind.SWITCH: (bool,),
    ParameterKind.CHOICE: (str,),
}


class RecommenderDeclaration(msgspec.Struct, frozen=True):
    """The attributes that a recommender declares."""

    needs_history: bool
    parameters: tuple[Parameter, ...] = ()
    needs_runs: bool = False


def read_declaration(recommender: object) -> RecommenderDeclaration:
    """The declaration of a recommender; raises `InvalidInput` with all problems."""
    problems = list(_find_problems(recommender))
    if problems:
        raise InvalidInput(type(recommender).__name__, f"is not a recommender: {'; '.join(problems)}")
    declared: Recommender = recommender  # type: ignore[assignment]  # checked above
    return RecommenderDeclaration(declared.needs_history, tuple(declared.parameters), needs_runs(declared))


def needs_runs(recommender: Recommender) -> bool:
    """Whether the recommender reads `rows.runs`. False if it does not declare it."""
    return getattr(recommender, "needs_runs", False) is True


def _find_problems(recommender: object) -> Iterator[str]:
    name = getattr(recommender, "name", None)
    if not isinstance(name, str) or not name:
        yield "it has no attribute `name` of type str"
    if not isinstance(getattr(recommender, "needs_history", None), bool):
        yield "it has no attribute `needs_history` of type bool"
    if not isinstance(getattr(recommender, "needs_runs", False), bool):
        yield "its attribute `needs_runs` is not a bool"
    if not callable(getattr(recommender, "estimate", None)):
        yield "it has no method `estimate`"
    parameters = getattr(recommender, "parameters", None)
    if not isinstance(parameters, tuple | list) or not all(
        isinstance(parameter, Parameter) for parameter in parameters
    ):
        yield "it has no attribute `parameters` that is a tuple of `Parameter`"
        return
    for parameter in parameters:
        yield from _find_parameter_problems(parameter)
    for duplicate in (name for name, times in Counter(parameter.name for parameter in parameters).items() if times > 1):
        yield f"it declares the parameter {duplicate} twice"


def _find_parameter_problems(parameter: Parameter) -> Iterator[str]:
    name = parameter.name
    if not _PARAMETER_NAME.fullmatch(str(name)):
        yield f"the name of the parameter {name!r} is not lower-case with dashes"
        return
    if not parameter.meaning:
        yield f"the parameter {name} has no meaning"
    if (parameter.kind is ParameterKind.CHOICE) != bool(parameter.choices):
        yield f"the parameter {name} must have choices if, and only if, it is a choice"
        return
    if not _matches_kind(parameter.kind, parameter.default):
        yield f"the default of the parameter {name} is not a {parameter.kind}"
        return
    try:
        parameter.read(parameter.format(parameter.default))
    except InvalidInput as error:
        yield f"the default of the parameter {name} {error.rule}"


def _matches_kind(kind: ParameterKind, value: ParameterValue) -> bool:
    # To Python true is 1.
    return isinstance(value, _PYTHON_TYPES[kind]) and (kind is ParameterKind.SWITCH or not isinstance(value, bool))


class UnavailableRecommender:
    """A stand-in for a recommender that cannot be used; accepts all parameters."""

    needs_history = False
    parameters: tuple[Parameter, ...] = ()

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason

    def estimate(self, _rows: Rows, _values: ParameterValues, _now: float, /) -> NoReturn:
        """Raises `RecommenderFailure` with the reason."""
        raise RecommenderFailure(self.reason)


MOST_EXPLANATION_COLUMNS: Final = 32


def find_explanation_problem(explanation: object, rows: int) -> str:
    """The problem of an explanation of a number of rows; empty without one."""
    if not isinstance(explanation, Mapping):
        return f"returned an explanation of type {type(explanation).__name__} instead of columns by name"
    if len(explanation) > MOST_EXPLANATION_COLUMNS:
        return f"returned an explanation of {len(explanation)} columns; the maximum is {MOST_EXPLANATION_COLUMNS}"
    for name, column in explanation.items():
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_EXPLANATION_TEXT:
            return "returned an explanation with a column whose name is not a short text"
        problem = _find_column_problem(column, rows)
        if problem:
            return f"returned an explanation with a column {name} {problem}"
    return ""


def _find_column_problem(column: object, rows: int) -> str:
    if isinstance(column, np.ndarray):
        if column.dtype != np.float64:
            return "that is neither a column of floats nor a list of texts"
        return f"of shape {column.shape} instead of {(rows,)}" if column.shape != (rows,) else ""
    if (
        isinstance(column, str)
        or not isinstance(column, Sequence)
        or not all(isinstance(value, str) for value in column)
    ):
        return "that is neither a column of floats nor a list of texts"
    return f"of {len(column)} texts for {rows} rows" if len(column) != rows else ""


_BOUND_NAMES = ("lower bound", "target", "upper bound")


def find_shape_problem(estimates: object, rows: int) -> str:
    """The problem of the shape of estimates; empty without one."""
    if not isinstance(estimates, Estimates):
        return f"returned {type(estimates).__name__} instead of Estimates"
    columns: tuple[tuple[str, object, tuple[int, ...]], ...] = (
        ("bounds", estimates.bounds, (3, len(RESOURCES), rows)),
        ("totals", estimates.totals, (len(RESOURCES), rows)),
        ("confidence", estimates.confidence, (rows,)),
    )
    for name, column, shape in columns:
        if column is None:
            continue
        if not isinstance(column, np.ndarray) or column.dtype != np.float64:
            return f"returned {name} that are not a column of floats"
        if column.shape != shape:
            return f"returned {name} of shape {column.shape} instead of {shape}"
    return find_explanation_problem(estimates.explanation, rows)


def find_impossible_rows(estimates: Estimates) -> BoolColumn:
    """Mask of rows with an amount that is negative, infinite, out of order, or missing beside others."""
    bounds = estimates.bounds
    missing = np.isnan(bounds)
    is_impossible = missing.any(axis=0) & ~missing.all(axis=0)
    is_impossible |= ((bounds < 0) | np.isinf(bounds)).any(axis=0)
    is_impossible |= (bounds[LOWER] > bounds[MIDDLE]) | (bounds[MIDDLE] > bounds[UPPER])
    if estimates.totals is not None:
        is_impossible |= (estimates.totals < 0) | np.isinf(estimates.totals)
    impossible: BoolColumn = is_impossible.any(axis=0)
    return impossible


def describe_bounds(bounds: FloatColumn) -> str:
    """The impossible bounds of one row, (bound, resource), in words."""
    parts = []
    for resource, amounts in zip(RESOURCES, bounds.T, strict=True):
        listed = ", ".join(f"{name} {amount:g}" for name, amount in zip(_BOUND_NAMES, amounts.tolist(), strict=True))
        parts.append(f"{resource}: {listed}")
    return "; ".join(parts)
