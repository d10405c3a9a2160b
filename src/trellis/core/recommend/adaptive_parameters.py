"""What may a user set of the adaptive recommender, beside how it sizes?"""

from __future__ import annotations

import msgspec

from trellis.core.recommend.choosing import ChoiceTerms
from trellis.core.recommend.costs import Weights
from trellis.core.recommend.parameters import Parameter, ParameterKind, ParameterValues
from trellis.core.recommend.settings import DAY
from trellis.core.usage.hours import HOUR

_HEAVIEST = 1000.0


class AdaptiveFigures(msgspec.Struct, frozen=True):
    """The values; the window in seconds."""

    replayed_window: float
    switching_gain: float
    time_over_weight: float
    overrun_weight: float
    change_weight: float


CHOOSING_PARAMETERS = (
    Parameter(
        "replayed-window",
        ParameterKind.DURATION,
        "Candidates are compared by how they would have done in this time.",
        *(14 * DAY, "seconds", 3 * DAY, 28 * DAY),
    ),
    Parameter(
        "switching-gain",
        ParameterKind.NUMBER,
        "Another candidate is switched to if it would have cost less by this fraction.",
        *(0.03, "fraction", 0.0, 1.0),
    ),
    Parameter(
        "time-over-weight",
        ParameterKind.NUMBER,
        "What it costs to use more than the target all the time, where setting aside what is used costs 1.",
        *(10.0, "times", 0.0, _HEAVIEST),
    ),
    Parameter(
        "overrun-weight",
        ParameterKind.NUMBER,
        "What it costs to use as much again above the target as is used altogether.",
        *(5.0, "times", 0.0, _HEAVIEST),
    ),
    Parameter(
        "change-weight",
        ParameterKind.NUMBER,
        "What a change of the target costs, for one a day.",
        *(0.01, "times", 0.0, _HEAVIEST),
    ),
)


def choosing_terms(values: ParameterValues, fraction: float, margin: float) -> ChoiceTerms:
    """How to choose, by a value for every parameter, and by the percentile and margin that it is to be used with."""
    given = {name: values[name.replace("_", "-")] for name in AdaptiveFigures.__struct_fields__}
    figures = msgspec.convert(given, AdaptiveFigures)
    return ChoiceTerms(
        window=round(figures.replayed_window / HOUR),
        fraction=fraction,
        margin=margin,
        gain=figures.switching_gain,
        weights=Weights(figures.time_over_weight, figures.overrun_weight, figures.change_weight),
    )
