"""What can CPU be sized by? Something that says what the coming hours will use, at any moment of the past too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from trellis.core.recommend.recollection import Recent, Recollection, Remembered, Season
from trellis.core.usage.columns import FloatColumn


class Candidate(Protocol):
    """One way to size. It is asked about many rows and moments at once, and must mind the past at each."""

    @property
    def name(self) -> str:
        """What explanations call it."""

    def quantiles(self, remembered: Remembered, fractions: Sequence[float], /) -> FloatColumn:
        """What so many of the samples will stay below, (fractions, rows, moments); NaN where it cannot say."""


SEASON: Final = Recollection("season", ((Season(), 0.75), (Recent(), 0.25)))

# In the order in which they are preferred where they cost the same. Each is the best for some workloads and none is for
# most: what has a rhythm, what has one and strays from it, what changes within hours, and what does not change.
CANDIDATES: Final = (
    SEASON,
    Recollection("season and last hours", ((Season(), 0.5), (Recent(), 0.5))),
    Recollection("last hours", ((Recent(6.0), 1.0),)),
    Recollection("last day", ((Recent(24.0), 1.0),)),
)
