"""Which recommenders come with Trellis? By the name that a VerticalPodAutoscaler chooses them by.

A name that is none of them is answered to by the default algorithm, as upstream does with whatever name it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trellis.core.recommend.adaptive import AdaptiveRecommender
from trellis.core.recommend.candidates import CANDIDATES
from trellis.core.recommend.default import DefaultRecommender
from trellis.core.recommend.phases import PhasesRecommender
from trellis.core.recommend.presets import preset
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.seasonal import SeasonalRecommender
from trellis.core.recommend.settings import DefaultSettings
from trellis.core.recommend.window import WindowRecommender


def built_in_recommenders(settings: DefaultSettings | None = None) -> dict[str, Recommender]:
    """All of them; those that fall back, or choose, are given what they fall back to and choose from here."""
    default = DefaultRecommender(settings)
    every: tuple[Recommender, ...] = (
        default,
        WindowRecommender(default, settings),
        SeasonalRecommender(default, settings),
        AdaptiveRecommender(default, CANDIDATES, settings),
        PhasesRecommender(default, settings),
    )
    return {each.name: each for each in every}


def recommenders_called(
    names: Iterable[str], settings: DefaultSettings, presets: Mapping[str, Mapping[str, str]]
) -> dict[str, Recommender]:
    """Who answers to these names, with other defaults for their parameters where some are given for a name."""
    built_in = built_in_recommenders(settings)
    return {
        name: preset(built_in.get(name) or DefaultRecommender(settings, name), presets.get(name, {})) for name in names
    }
