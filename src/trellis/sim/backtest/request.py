"""The request of a backtest: recommenders with parameters, one variant for each value of a sweep, and the terms.

Parameters on a command line are read and checked by their declarations, before anything is replayed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from importlib import import_module
from typing import Final

import msgspec

from trellis.base.errors import InvalidInput
from trellis.base.names import suggest_name
from trellis.core.recommend.evaluation.replay import DAY, HOUR
from trellis.core.recommend.parameters import Parameter, ParameterKind
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.registry import create_built_in_recommenders, replace_defaults
from trellis.core.recommend.validation import needs_runs, read_declaration
from trellis.sources.series.units import Machine


class BacktestVariant(msgspec.Struct, frozen=True):
    """A recommender by name, what to import for one that is installed, and its parameters."""

    name: str
    recommender: str
    value: str = ""
    parameters: dict[str, str] = {}

    def make_recommender(self) -> Recommender:
        """Make a new recommender."""
        return load_recommender(self.recommender, self.value)


class Sweep(msgspec.Struct, frozen=True):
    """A parameter as it was written, with its values, and the variants that have them."""

    recommender: str
    parameter: str
    values: tuple[str, ...]
    variants: tuple[str, ...]


class BacktestTerms(msgspec.Struct, frozen=True):
    """The interval of decisions in seconds, the warm-up that is not scored, and the least change that is applied.

    The warm-up is at most `warm_up_share` of a series. `machine` is what fractions are of.
    """

    step: float = HOUR
    warm_up: float = 7 * DAY
    threshold: float = 0.05
    warm_up_share: float = 0.4
    machine: Machine = Machine()


class BacktestRequest(msgspec.Struct, frozen=True):
    """All variants in order; the others are compared with the first."""

    variants: tuple[BacktestVariant, ...]
    sweeps: tuple[Sweep, ...] = ()
    terms: BacktestTerms = BacktestTerms()


def load_recommender(name: str, value: str = "") -> Recommender:
    """Load a recommender that comes with Trellis, or call the `module:attribute` of one that is installed."""
    if not value:
        return create_built_in_recommenders()[name]
    module, _, attribute = value.partition(":")
    try:
        recommender: Recommender = reduce(getattr, attribute.split("."), import_module(module))()  # type: ignore[operator]
    except Exception as error:
        raise InvalidInput(name, f"--recommenders: cannot be loaded: {type(error).__name__}: {error}") from error
    read_declaration(recommender)
    return recommender


MOST_VARIANTS: Final = 200
# Short names of parameters; each sets those that the recommender has.
SHORT_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "percentile": ("target-cpu-percentile", "target-memory-percentile"),
    "margin": ("recommendation-margin-fraction",),
}
_ROUNDING: Final = 1e-9  # A share of the step, so that the end of a range is in it.


def build_request(
    names: Sequence[str],
    sets: Sequence[str] = (),
    sweeps: Sequence[str] = (),
    terms: BacktestTerms = BacktestTerms(),  # noqa: B008 - frozen, so that one can serve all
    installed: Mapping[str, str] = {},
) -> BacktestRequest:
    """Build the request of a command line; `InvalidInput` names the flag, the parameter and its range."""
    recommenders = {
        name: load_recommender(name, value) for name, value in _select_recommenders(names, installed).items()
    }
    settings: dict[str, dict[str, str]] = {name: {} for name in recommenders}
    for text in sets:
        name, parameters, value = _split_setting(text, recommenders, "--set")
        settings[name] |= dict.fromkeys(parameters, value)
        _check_parameters(recommenders[name], settings[name], f"--set {text}")
    variants = {
        name: BacktestVariant(_title(name, settings[name]), name, installed.get(name, ""), settings[name])
        for name in recommenders
    }
    swept: list[BacktestVariant] = []
    result: list[Sweep] = []
    for text in sweeps:
        name, parameters, span = _split_setting(text, recommenders, "--sweep")
        declared = {parameter.name: parameter for parameter in recommenders[name].parameters}
        values = tuple(_values(text, declared[parameters[0]], span))
        swept_parameters = [variants[name].parameters | dict.fromkeys(parameters, value) for value in values]
        short = text.partition("=")[0].rpartition(".")[2]
        titles = [_title(name, settings[name] | {short: value}) for value in values]
        for title, chosen in zip(titles, swept_parameters, strict=True):
            _check_parameters(recommenders[name], chosen, f"--sweep {text}")
            swept.append(BacktestVariant(title, name, installed.get(name, ""), chosen))
        result.append(Sweep(name, short, values, tuple(titles)))
    every = {variant.name: variant for variant in (*variants.values(), *swept)}
    if len(every) > MOST_VARIANTS:
        raise InvalidInput(len(every), f"--sweep: must give at most {MOST_VARIANTS} variants, not {len(every)}")
    return BacktestRequest(tuple(every.values()), tuple(result), terms)


def _select_recommenders(names: Sequence[str], installed: Mapping[str, str]) -> dict[str, str]:
    """The named recommenders, each once, with what to import for them."""
    built_in = {name: "" for name, recommender in create_built_in_recommenders().items() if not needs_runs(recommender)}
    choices = built_in | dict(installed)
    for name in names:
        if name in create_built_in_recommenders() and name not in built_in:
            raise InvalidInput(
                name, "--recommenders: this recommender needs the runs of a Job, which a series does not have"
            )
        if name not in choices:
            guess = suggest_name(name, choices)
            hint = f" (did you mean {guess}?)" if guess else ""
            raise InvalidInput(name, f"--recommenders: unknown recommender{hint}; available: {', '.join(choices)}")
    if not names:
        raise InvalidInput("", "--recommenders: must name at least one recommender")
    return {name: choices[name] for name in dict.fromkeys(names)}


def _split_setting(text: str, recommenders: Mapping[str, Recommender], flag: str) -> tuple[str, tuple[str, ...], str]:
    """Split a setting into its recommender, its parameters and its value."""
    key, is_set, value = text.partition("=")
    name, is_named, parameter = key.strip().rpartition(".")
    if not is_set or not parameter:
        raise InvalidInput(text, f"{flag}: must be written as recommender.parameter=value")
    if not is_named and len(recommenders) > 1:
        raise InvalidInput(text, f"{flag}: must name the recommender, as in {next(iter(recommenders))}.{parameter}")
    name = name or next(iter(recommenders))
    if name not in recommenders:
        raise InvalidInput(text, f"{flag}: {name} is not in --recommenders {','.join(recommenders)}")
    declared = [parameter.name for parameter in recommenders[name].parameters]
    matching = tuple(
        declared_name for declared_name in SHORT_NAMES.get(parameter, (parameter,)) if declared_name in declared
    )
    if not matching:
        guess = suggest_name(parameter, (*declared, *SHORT_NAMES))
        hint = f" (did you mean {guess}?)" if guess else ""
        rule = f"{flag}: {name} has no parameter {parameter}{hint}; it has {', '.join(declared) or 'none'}"
        raise InvalidInput(text, rule)
    return name, matching, value.strip()


def _check_parameters(recommender: Recommender, settings: Mapping[str, str], where: str) -> None:
    try:
        replace_defaults(recommender.parameters, settings)
    except InvalidInput as error:
        accepted = {parameter.name: parameter.accepts for parameter in recommender.parameters}
        name = str(error.value).partition("=")[0]
        raise InvalidInput(error.value, f"{where}: {error.rule}; {name} is a {accepted[name]}") from error


def _values(text: str, parameter: Parameter, span: str) -> Iterator[str]:
    """The values of `begin:end:step`, the end included, or those of a list with commas."""
    if ":" not in span:
        yield from (value.strip() for value in span.split(","))
        return
    bounds = span.split(":")
    if len(bounds) != 3 or parameter.kind not in (ParameterKind.NUMBER, ParameterKind.WHOLE, ParameterKind.DURATION):
        raise InvalidInput(text, "--sweep: must be begin:end:step of numbers or durations, or values with commas")
    # The step of a range need not be within the bounds of the parameter.
    free = msgspec.structs.replace(parameter, minimum=None, maximum=None)
    try:
        begin, end, step = (float(free.read(bound.strip())) for bound in bounds)
    except InvalidInput as error:
        raise InvalidInput(text, f"--sweep: {error}") from error
    if step <= 0 or end < begin:
        raise InvalidInput(text, "--sweep: must go from a lower to a higher value, in steps above 0")
    if (end - begin) / step > MOST_VARIANTS:
        raise InvalidInput(text, f"--sweep: must give at most {MOST_VARIANTS} values")
    for number in itertools.count():
        value = begin + number * step
        if value > end + _ROUNDING * step:
            return
        yield parameter.format(round(value, 9) if parameter.kind is not ParameterKind.WHOLE else round(value))


def _title(name: str, settings: Mapping[str, str]) -> str:
    return " ".join([name, *(f"{key}={value}" for key, value in settings.items())])
