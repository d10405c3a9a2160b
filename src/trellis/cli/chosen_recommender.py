"""Which recommender does a command line mean, and what has been set of it?"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trellis.base.errors import InvalidInput
from trellis.base.names import nearest
from trellis.controllers.recommender.plugins import installed_plugins
from trellis.core.recommend.built_in import built_in_recommenders
from trellis.core.recommend.presets import preset, read_presets
from trellis.core.recommend.protocol import Recommender
from trellis.sim.backtest.arguments import SHORT_NAMES
from trellis.sim.backtest.request import made


class Chosen(msgspec.Struct, frozen=True):
    """A recommender with its parameters set, and those that were set, as they were written."""

    recommender: Recommender
    parameters: dict[str, str]


def chosen_recommender(name: str, sets: Sequence[str]) -> Chosen:
    """The recommender of a name, of Trellis or of one package beside it; raises `InvalidInput`."""
    installed = {each: plugins[0].value for each, plugins in installed_plugins().items() if len(plugins) == 1}
    choices = {**dict.fromkeys(built_in_recommenders(), ""), **installed}
    if name not in choices:
        guess = nearest(name, choices)
        hint = f' (did you mean "{guess}"?)' if guess else ""
        raise InvalidInput(name, f"there is no such recommender{hint}; there are {', '.join(choices)}")
    recommender = made(name, choices[name])
    given = _in_full(recommender, read_presets(sets, [name]).get(name, {}))
    return Chosen(preset(recommender, given), given)


def _in_full(recommender: Recommender, given: dict[str, str]) -> dict[str, str]:
    """The same with short names as all that they are short for."""
    declared = {each.name for each in recommender.parameters}
    found: dict[str, str] = {}
    for name, value in given.items():
        meant = [each for each in SHORT_NAMES.get(name, ()) if each in declared]
        found |= dict.fromkeys([name] if name in declared or not meant else meant, value)
    return found
