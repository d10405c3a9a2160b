"""Who is on a node beside the pods that belong to it, and may they be moved?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from trellis.api.kube.pods import Pod
from trellis.core.buffers.said import Said
from trellis.core.nodes.budgets import Budgets
from trellis.core.nodes.down_settings import DownSettings
from trellis.core.nodes.drainability import why_stays
from trellis.core.nodes.pods import PlacedPod

# A pod that should have been gone for so long will never go by itself: its kubelet is dead.
_OVERDUE_SECONDS: Final = 30.0


class Tenants(msgspec.Struct, frozen=True):
    """`moving` would have to go elsewhere, `going` are being deleted already; `stays` says why one may not be moved.

    Pods that were to be gone long ago are not among them.
    """

    moving: tuple[PlacedPod, ...] = ()
    going: tuple[PlacedPod, ...] = ()
    stays: Said | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing has to be waited for."""
        return not self.moving and not self.going

    @property
    def uids(self) -> frozenset[str]:
        """Who would have to be moved."""
        return frozenset(each.pod.metadata.uid for each in self.moving)


NOBODY: Final = Tenants()


def tenants_of(pods: Iterable[PlacedPod], now: float, budgets: Budgets, settings: DownSettings) -> Tenants:
    """Those of one node."""
    others = [each for each in pods if not each.is_fixed and not _is_overdue(each.pod, now)]
    if not others:
        return NOBODY
    moving = tuple(each for each in others if each.pod.metadata.deletion_timestamp is None)
    going = tuple(each for each in others if each.pod.metadata.deletion_timestamp is not None)
    found = (why_stays(each, budgets, settings) for each in moving)
    return Tenants(moving, going, next((each for each in found if each is not None), None))


def _is_overdue(pod: Pod, now: float) -> bool:
    deleted = pod.metadata.deletion_timestamp
    return deleted is not None and now - deleted.timestamp() > _OVERDUE_SECONDS
