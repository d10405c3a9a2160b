"""The recommenders that come with Trellis, by the name that a VerticalPodAutoscaler chooses them by.

Any other name is served by the default algorithm, as by upstream.

Presets are other defaults for declared parameters, for all VPAs, written as `name=value`. Where one process serves
several names, `recommender.name=value` says whose parameter it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from trellis.base.errors import InvalidInput
from trellis.base.names import suggest_name
from trellis.core.recommend.forecast.candidates import FORECAST_CANDIDATES
from trellis.core.recommend.parameters import Parameter, ParameterValues
from trellis.core.recommend.protocol import Estimates, Recommender, Rows
from trellis.core.recommend.recommenders.adaptive import AdaptiveRecommender
from trellis.core.recommend.recommenders.default import DefaultRecommender
from trellis.core.recommend.recommenders.phases import PhasesRecommender
from trellis.core.recommend.recommenders.seasonal import SeasonalRecommender
from trellis.core.recommend.recommenders.window import WindowRecommender
from trellis.core.recommend.settings import DefaultSettings
from trellis.core.recommend.validation import needs_runs


def read_presets(texts: Sequence[str], recommenders: Sequence[str]) -> dict[str, dict[str, str]]:
    """Presets by recommender and parameter; the last of two counts."""
    presets: dict[str, dict[str, str]] = {}
    for text in texts:
        key, is_set, value = text.partition("=")
        if not is_set or not key:
            raise InvalidInput(text, "must be written as parameter=value, or as recommender.parameter=value")
        recommender, parameter = _split_key(text, key.strip(), recommenders)
        presets.setdefault(recommender, {})[parameter] = value.strip()
    return presets


def replace_defaults(declared: Sequence[Parameter], presets: Mapping[str, str]) -> tuple[Parameter, ...]:
    """The same parameters with other defaults."""
    by_name = {parameter.name: parameter for parameter in declared}
    for name, text in presets.items():
        if name not in by_name:
            guess = suggest_name(name, by_name)
            hint = f" (did you mean {guess}?)" if guess else ""
            raise InvalidInput(
                name, f"is not a parameter of this recommender{hint}; its parameters are {', '.join(by_name) or 'none'}"
            )
        try:
            value = by_name[name].read(text)
        except InvalidInput as error:
            raise InvalidInput(f"{name}={text}", error.rule) from error
        by_name[name] = msgspec.structs.replace(by_name[name], default=value)
    return tuple(by_name.values())


def apply_preset(recommender: Recommender, presets: Mapping[str, str]) -> Recommender:
    """The same recommender with other defaults."""
    return (
        _PresetRecommender(recommender, replace_defaults(recommender.parameters, presets)) if presets else recommender
    )


class _PresetRecommender:
    def __init__(self, recommender: Recommender, parameters: tuple[Parameter, ...]) -> None:
        self.name = recommender.name
        self.needs_history = recommender.needs_history
        self.needs_runs = needs_runs(recommender)
        self.parameters = parameters
        self._recommender = recommender

    def estimate(self, rows: Rows, values: ParameterValues, now: float, /) -> Estimates:
        return self._recommender.estimate(rows, values, now)


def _split_key(text: str, key: str, recommenders: Sequence[str]) -> tuple[str, str]:
    """The recommender and the parameter that are meant. Names may have dots in them, parameters have none."""
    recommender, is_named, parameter = key.rpartition(".")
    if is_named and recommender in recommenders:
        return recommender, parameter
    if is_named:
        known_names = ", ".join(recommenders)
        rule = f"there is no recommender {recommender} here; served are {known_names}; add it to --recommender-name"
        raise InvalidInput(text, rule)
    if len(recommenders) > 1:
        rule = (
            f"name the recommender of the parameter, as in {recommenders[0]}.{key}; the recommenders are "
            f"{', '.join(recommenders)}"
        )
        raise InvalidInput(text, rule)
    return recommenders[0], parameter


def create_built_in_recommenders(settings: DefaultSettings | None = None) -> dict[str, Recommender]:
    """The built-in recommenders by name, with their fallbacks and candidates."""
    default = DefaultRecommender(settings)
    recommenders: tuple[Recommender, ...] = (
        default,
        WindowRecommender(default, settings),
        SeasonalRecommender(default, settings),
        AdaptiveRecommender(default, FORECAST_CANDIDATES, settings),
        PhasesRecommender(default, settings),
    )
    return {recommender.name: recommender for recommender in recommenders}


def build_recommenders(
    names: Iterable[str], settings: DefaultSettings, presets: Mapping[str, Mapping[str, str]]
) -> dict[str, Recommender]:
    """The recommenders by these names, with other parameter defaults where a name has presets."""
    built_in = create_built_in_recommenders(settings)
    return {
        name: apply_preset(built_in.get(name) or DefaultRecommender(settings, name), presets.get(name, {}))
        for name in names
    }
