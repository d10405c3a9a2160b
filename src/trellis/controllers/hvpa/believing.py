"""Which of what recommenders say is about the target of now? After another one is named, not what they said before.

A recommendation stays where it is until its recommender's next pass, and until then it is the demand of the target
before this one.
"""

from __future__ import annotations

import msgspec

from trellis.api.hvpa import Hvpa, ResourceTotals
from trellis.api.vpa import PodRecommendation, VerticalPodAutoscaler
from trellis.core.hvpa.surroundings import Surroundings, is_about, is_owned


class SaidBefore(msgspec.Struct):
    """What recommenders had said when the target became another one; nothing once all of them have said more.

    `uid`, `generation` and `advice` are those of its own VPA when that was first seen with the new target.
    """

    totals: ResourceTotals | None
    is_awaited: bool = True
    uid: str | None = None
    generation: int = 0
    advice: PodRecommendation | None = None

    def without_it(self, hvpa: Hvpa, around: Surroundings) -> tuple[Hvpa, Surroundings]:
        """An Hvpa and what is around it, as if it had not been said."""
        if self.totals is not None and hvpa.status is not None:
            if hvpa.status.totals == self.totals:
                hvpa = msgspec.structs.replace(hvpa, status=msgspec.structs.replace(hvpa.status, totals=None))
            else:
                self.totals = None
        vpas = [_silenced(each) if self._is_old(each, hvpa) else each for each in around.vpas]
        return hvpa, msgspec.structs.replace(around, vpas=vpas)

    def _is_old(self, vpa: VerticalPodAutoscaler, hvpa: Hvpa) -> bool:
        target = vpa.spec.target_ref
        if not self.is_awaited or not is_owned(vpa.metadata, hvpa):
            return False
        if not is_about(hvpa.spec.target_ref, target.kind, target.name):
            # It is still to be pointed at the new target, and nobody listens to it before.
            return False
        metadata, advice = vpa.metadata, vpa.status.recommendation if vpa.status is not None else None
        if self.uid is None:
            self.uid, self.generation, self.advice = metadata.uid, metadata.generation, advice
        # Not every recommender tells which spec its recommendation is for.
        observed = vpa.status.observed_generation if vpa.status is not None else None
        is_old = advice == self.advice if observed is None else observed < self.generation
        # One that was made since has never been about another target.
        self.is_awaited = is_old and metadata.uid == self.uid
        return self.is_awaited


def _silenced(vpa: VerticalPodAutoscaler) -> VerticalPodAutoscaler:
    return msgspec.structs.replace(vpa, status=None)
