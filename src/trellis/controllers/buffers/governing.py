"""What sizes the new pods of a target? The VPA or Hvpa that governs its topmost controller.

An operator's object may own a Deployment: whether it could be a target itself decides whose word counts, and is asked
of its scale. Where nothing sizes any pod of a namespace nobody is asked.
"""

from __future__ import annotations

from collections.abc import Mapping

from trellis.api.kube.slices import Labels
from trellis.core.admission.governors import Governors
from trellis.core.model.owners import Lookup, Owners, ScaleAnswer, TargetRef
from trellis.core.sizing.governors import Governor
from trellis.kube.scales import ScaleLookups


class Governing:
    """Finds governors. `workloads` are the kinds that are followed; of others the scale is asked, and remembered."""

    def __init__(self, governors: Governors, workloads: Mapping[str, Lookup], scales: ScaleLookups) -> None:
        self._governors = governors
        self._workloads = workloads
        self._scales = scales

    async def find(self, target: TargetRef, labels: Labels, scale: ScaleAnswer | None) -> Governor | None:
        """What sizes the pods of a target that have these labels; its own scale is needed if it is not followed."""
        if not self._governors.rules_in(target.namespace):
            return None
        answers = {target: scale} if scale is not None else {}
        owners = Owners(self._workloads, answers)
        while (unasked := owners.follow(target).unasked) is not None:
            answers[unasked] = await self._scales.find(unasked)
        found = self._governors.find(owners.follow(target).topmost or target, labels, owners)
        return found if isinstance(found, Governor) else None
