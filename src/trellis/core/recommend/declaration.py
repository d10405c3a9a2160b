"""What a recommender declares of itself, checked before it is asked for estimates.

`UnavailableRecommender` stands in for one that cannot be loaded: it declares nothing and fails, so that its VPAs keep
what they have and their conditions give the reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NoReturn

import msgspec

from trellis.base.errors import InvalidInput, RecommenderFailure
from trellis.core.recommend.parameters import Parameter, ParameterKind, ParameterValue, ParameterValues
from trellis.core.recommend.protocol import Recommender, Rows

_PARAMETER_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_PYTHON_TYPES: dict[ParameterKind, tuple[type, ...]] = {
    ParameterKind.NUMBER: (int, float),
    ParameterKind.WHOLE: (int,),
    ParameterKind.DURATION: (int, float),
    ParameterKind.SWITCH: (bool,),
    ParameterKind.CHOICE: (str,),
}


class RecommenderDeclaration(msgspec.Struct, frozen=True):
    """What a recommender says of itself."""

    needs_history: bool
    parameters: tuple[Parameter, ...] = ()
    needs_runs: bool = False


def read_declaration(recommender: object) -> RecommenderDeclaration:
    """What it declares, or `InvalidInput` with everything that keeps it from being a recommender."""
    wrong = list(_find_problems(recommender))
    if wrong:
        raise InvalidInput(type(recommender).__name__, f"is no recommender: {'; '.join(wrong)}")
    declared: Recommender = recommender  # type: ignore[assignment]  # looked at above
    return RecommenderDeclaration(declared.needs_history, tuple(declared.parameters), needs_runs(declared))


def needs_runs(recommender: Recommender) -> bool:
    """Whether `rows.runs` must know something. Who says nothing about it does without."""
    return getattr(recommender, "needs_runs", False) is True


def _find_problems(recommender: object) -> Iterator[str]:
    name = getattr(recommender, "name", None)
    if not isinstance(name, str) or not name:
        yield "it has no attribute `name` that is a text"
    if not isinstance(getattr(recommender, "needs_history", None), bool):
        yield "it has no attribute `needs_history` that is true or false"
    if not isinstance(getattr(recommender, "needs_runs", False), bool):
        yield "its attribute `needs_runs` is neither true nor false"
    if not callable(getattr(recommender, "estimate", None)):
        yield "it has no method `estimate`"
    parameters = getattr(recommender, "parameters", None)
    if not isinstance(parameters, tuple | list) or not all(isinstance(each, Parameter) for each in parameters):
        yield "it has no attribute `parameters` that is a tuple of `Parameter`"
        return
    for parameter in parameters:
        yield from _find_parameter_problems(parameter)
    for twice in (name for name, times in Counter(each.name for each in parameters).items() if times > 1):
        yield f"it declares the parameter {twice} twice"


def _find_parameter_problems(parameter: Parameter) -> Iterator[str]:
    name = parameter.name
    if not _PARAMETER_NAME.fullmatch(str(name)):
        yield f"the parameter {name!r} is not called like-this"
        return
    if not parameter.meaning:
        yield f"the parameter {name} does not say what it means"
    if (parameter.kind is ParameterKind.CHOICE) != bool(parameter.choices):
        yield f"the parameter {name} must have choices if it is one, and else none"
        return
    if not _is_of_kind(parameter.kind, parameter.default):
        yield f"the default of the parameter {name} is no {parameter.kind}"
        return
    try:
        parameter.read(parameter.show(parameter.default))
    except InvalidInput as error:
        yield f"the default of the parameter {name} {error.rule}"


def _is_of_kind(kind: ParameterKind, value: ParameterValue) -> bool:
    # To Python true is 1.
    return isinstance(value, _PYTHON_TYPES[kind]) and (kind is ParameterKind.SWITCH or not isinstance(value, bool))


class UnavailableRecommender:
    """Stands in for a recommender, and takes whatever parameters are meant for it."""

    needs_history = False
    parameters: tuple[Parameter, ...] = ()

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self.why = why

    def estimate(self, _rows: Rows, _values: ParameterValues, _now: float, /) -> NoReturn:
        """No answer."""
        raise RecommenderFailure(self.why)
