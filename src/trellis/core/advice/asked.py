"""Who is asked what workloads need, and by which figures?"""

from __future__ import annotations

import msgspec

from trellis.core.recommend.parameters import ParameterValues
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.settings import PipelineSettings
from trellis.core.usage.settings import UsageSettings


class Asked(msgspec.Struct, frozen=True):
    """A recommender with its parameters as they are for everybody, how usage is counted, and what follows an answer.

    `totals` is whether anybody wants to know what workloads used as a whole, time by time.
    """

    recommender: Recommender
    usage: UsageSettings = UsageSettings()
    pipeline: PipelineSettings = PipelineSettings()
    totals: bool = False

    @property
    def values(self) -> ParameterValues:
        """The parameters."""
        return {each.name: each.default for each in self.recommender.parameters}
