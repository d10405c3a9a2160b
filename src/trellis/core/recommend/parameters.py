"""Parameters of recommenders: their declaration, the checking of values, and the parameters that all of them have.

A recommender declares its parameters once, as data. The declaration reads what `spec.recommenders[].parameters` and
the command line set, documents itself, and refuses with the field, the value and the rule.

All recommenders have the minimum CPU and memory of a pod, which its containers share.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

import msgspec
import numpy as np

from trellis.api.problems import INVALID, UNKNOWN_FIELD, MapKey, Path, ValidationProblem
from trellis.base.durations import Duration, parse_duration
from trellis.base.errors import InvalidInput
from trellis.base.names import suggest_name
from trellis.core.recommend.amounts import MILLICORES_PER_CORE, truncate_amounts
from trellis.core.recommend.settings import MEBIBYTE, DefaultSettings
from trellis.core.usage.columns import FloatColumn

PARAMETERS_PATH: Path = ("spec", "recommenders", 0, "parameters")

ParameterValue: TypeAlias = float | int | bool | str
ParameterValues: TypeAlias = Mapping[str, ParameterValue]


class ParameterKind(StrEnum):
    """The kind of a value. A duration is written as `24h` and read as seconds."""

    NUMBER = "number"
    WHOLE = "whole number"
    DURATION = "duration"
    SWITCH = "true or false"
    CHOICE = "choice"


class Parameter(msgspec.Struct, frozen=True):
    """A declared parameter. The range includes its ends; only kind CHOICE has `choices`."""

    name: str
    kind: ParameterKind
    meaning: str
    default: ParameterValue
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()

    def read(self, text: object) -> ParameterValue:
        """The value that was written, or `InvalidInput` with the rule that it breaks."""
        value = self._parse(text)
        if self.minimum is not None and not isinstance(value, str) and value < self.minimum:
            raise InvalidInput(text, f"must be at least {self.format(self.minimum)}")
        if self.maximum is not None and not isinstance(value, str) and value > self.maximum:
            raise InvalidInput(text, f"must be at most {self.format(self.maximum)}")
        return value

    def format(self, value: ParameterValue) -> str:
        """The text of a value, as a user writes it."""
        if isinstance(value, bool):
            return str(value).lower()
        if self.kind is ParameterKind.DURATION and isinstance(value, int | float):
            return str(Duration(round(value * 10**9)))
        return f"{value:.15g}" if isinstance(value, float) else str(value)

    @property
    def accepts(self) -> str:
        """What may be written, in words."""
        choices = f": {', '.join(self.choices)}" if self.choices else ""
        unit = f", {self.unit}" if self.unit and self.kind is not ParameterKind.DURATION else ""
        minimum, maximum = (self.format(bound) if bound is not None else "" for bound in (self.minimum, self.maximum))
        limits = f", {minimum} to {maximum}" if minimum and maximum else f", at least {minimum}" if minimum else ""
        limits = f", at most {maximum}" if maximum and not minimum else limits
        return f"{self.kind}{choices}{unit}{limits}"

    def _parse(self, text: object) -> ParameterValue:
        if not isinstance(text, str):
            raise InvalidInput(text, "must be text; put it in quotes")
        match self.kind:
            case ParameterKind.DURATION:
                return parse_duration(text).total_seconds()
            case ParameterKind.SWITCH:
                if text not in {"true", "false"}:
                    raise InvalidInput(text, "must be true or false")
                return text == "true"
            case ParameterKind.CHOICE:
                if text not in self.choices:
                    raise InvalidInput(text, f"must be one of {', '.join(self.choices)}")
                return text
            case ParameterKind.WHOLE:
                return _parse_integer(text)
            case ParameterKind.NUMBER:
                return _parse_number(text)


class ReadParameters(msgspec.Struct, frozen=True):
    """The value of every declared parameter; not to be used if there are problems."""

    values: ParameterValues
    problems: tuple[ValidationProblem, ...] = ()

    @property
    def message(self) -> str:
        """All problems in one line."""
        return "; ".join(str(problem) for problem in self.problems)


def read_parameters(
    declared: Sequence[Parameter], texts: Mapping[str, str], defaults: ParameterValues | None = None
) -> ReadParameters:
    """Values from texts, over the process's own `defaults`, over the declared defaults."""
    values = {parameter.name: parameter.default for parameter in declared} | dict(defaults or {})
    if not texts:
        return ReadParameters(values)
    by_name = {parameter.name: parameter for parameter in declared}
    problems = list(_find_unknown(by_name, texts))
    for name, text in texts.items():
        if name not in by_name:
            continue
        try:
            values[name] = by_name[name].read(text)
        except InvalidInput as error:
            problems.append(ValidationProblem((*PARAMETERS_PATH, MapKey(name)), INVALID, error.rule, text))
    return ReadParameters(values, tuple(problems))


def _find_unknown(by_name: Mapping[str, Parameter], texts: Mapping[str, str]) -> Iterator[ValidationProblem]:
    names = ", ".join(sorted(by_name)) or "none"
    for name in texts:
        if name not in by_name:
            rule = f"the recommender has no such parameter; its parameters are {names}"
            yield ValidationProblem(
                (*PARAMETERS_PATH, MapKey(name)), UNKNOWN_FIELD, rule, suggestion=suggest_name(name, by_name)
            )


def _parse_number(text: str) -> float:
    try:
        number = float(text) if "_" not in text else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidInput(text, "must be a number")
    return number


def _parse_integer(text: str) -> int:
    number = _parse_number(text)
    if not number.is_integer():
        raise InvalidInput(text, "must be a whole number")
    return int(number)


_LARGEST_POD_MINIMUM = 1e9  # a million cores, or a pebibyte


def declare_pod_minimums(settings: DefaultSettings) -> tuple[Parameter, Parameter]:
    """The parameters that say what a pod is to have; those of every recommender have these names."""
    return (
        Parameter(
            "pod-recommendation-min-cpu-millicores",
            ParameterKind.NUMBER,
            "Minimum CPU of a pod, divided by its number of containers.",
            *(settings.pod_min_cpu_millicores, "millicores", 0.0, _LARGEST_POD_MINIMUM),
        ),
        Parameter(
            "pod-recommendation-min-memory-mb",
            ParameterKind.NUMBER,
            "Minimum memory of a pod, divided by its number of containers.",
            *(settings.pod_min_memory_mebibytes, "MiB", 0.0, _LARGEST_POD_MINIMUM),
        ),
    )


def share_pod_minimums(pod_millicores: float, pod_mebibytes: float, containers: FloatColumn) -> FloatColumn:
    """(CPU, MEMORY; row): what is to be had by a pod, divided by how many containers of it are recommended for."""
    fraction = 1.0 / np.maximum(containers, 1.0)
    # By way of cores and of a fraction, as upstream does it: a millicore may be lost to rounding, here as there.
    pod = (pod_millicores * 0.001 * MILLICORES_PER_CORE, pod_mebibytes * MEBIBYTE)
    return np.stack([truncate_amounts(np.trunc(amount) * fraction) for amount in pod])
