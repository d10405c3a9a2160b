"""How many replicas has a target whose kind nobody knows? Its scale is asked, if a Buffer goes by the number."""

from __future__ import annotations

from trellis.base.errors import KubeError, UnreadableObject
from trellis.core.model.owners import TargetRef
from trellis.core.model.target_problems import TargetProblem
from trellis.kube.client import Client
from trellis.kube.scalable_kinds import LookupTimes, ScalableKinds


class Replicas:
    """Counts by target; what is wrong with a target is told by whoever asks for its selector."""

    def __init__(self, client: Client) -> None:
        self._kinds = ScalableKinds(client, LookupTimes())

    async def find(self, target: TargetRef) -> int | None:
        """How many there are; None if its scale does not say."""
        try:
            found = await self._kinds.read(target)
        except (KubeError, UnreadableObject):
            return None
        return None if isinstance(found, TargetProblem) else found.scale.status.replicas
