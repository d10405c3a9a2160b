"""Which nodes might not be needed? What can be said of a node without trying where its pods would go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from trellis.api.kube.nodes import Node
from trellis.core.buffers.said import Said
from trellis.core.nodes.down_look import DownLook
from trellis.core.nodes.down_memory import Held, Removal
from trellis.core.nodes.down_verdicts import (
    NODE_GOING,
    NODE_IN_USE,
    NODE_OF_NO_GROUP,
    NODE_STARTING,
    NODE_UNREADY_KEPT,
    PODS_ARE_COMING,
    SCALE_DOWN_DISABLED,
    SCALE_DOWN_OFF,
)
from trellis.core.nodes.drainability import DO_NOT_DISRUPT
from trellis.core.nodes.groups import GroupState
from trellis.core.nodes.sizes import GROUP_AT_MINIMUM, why_no_release
from trellis.core.nodes.tenants import Tenants, tenants_of

SCALE_DOWN_DISABLED_BY: Final = "cluster-autoscaler.kubernetes.io/scale-down-disabled"


class Candidate(msgspec.Struct, frozen=True):
    """A node that might go. `since` is since when it has been unneeded, None if it was not."""

    name: str
    number: int
    group: str
    instance: str
    tenants: Tenants
    utilization: float
    price: float
    is_ready: bool
    since: float | None

    @property
    def turn(self) -> tuple[bool, float, bool, float, float, str]:
        """Who is tried first: who has been unneeded for longest; of others who is empty, and of those who costs most.

        Then who has the least on it.
        """
        is_new, occupied = self.since is None, not self.tenants.is_empty
        return is_new, self.since or 0.0, occupied, 0.0 if occupied else -self.price, self.utilization, self.name


class Screen:
    """Looks at nodes one by one."""

    def __init__(self, look: DownLook) -> None:
        self._look = look

    def look_at(self, name: str, node: Node) -> Candidate | Held | Said:
        """A candidate; or that it was tried in vain a short while ago; or why else the node is none."""
        number = self._look.snapshot.table.find(name)
        known = self._look.snapshot.ties.instances.get(name)
        if known is None:
            return Said(NODE_OF_NO_GROUP)
        if self._look.stands.leaving[number]:
            return Said(NODE_GOING)
        if self._look.stands.starting[number]:
            return Said(NODE_STARTING)
        forbidden = self.why_kept(node)
        if forbidden is not None:
            return forbidden
        ready, used = bool(self._look.stands.ready[number]), float(self._look.used[number])
        if not ready and not self._look.settings.scale_down_unready_enabled:
            return Said(NODE_UNREADY_KEPT)
        if ready and used > self._look.settings.scale_down_utilization_threshold:
            return Said(NODE_IN_USE)
        held = self._look.memory.held.get(name)
        if held is not None and self._look.now < held.until:
            return held
        tenants = self.tenants(name)
        if tenants.stays is not None:
            return tenants.stays
        if any(not each.pod.spec.node_name for each in tenants.moving):
            return Said(PODS_ARE_COMING)
        group, instance = known
        price = self._look.snapshot.groups[group].group.price
        since = self._look.memory.unneeded.get(name, held.since if held is not None else None)
        return Candidate(name, number, group, instance.id, tenants, used, price, ready, since)

    def why_kept(self, node: Node) -> Said | None:
        """What somebody has said against the removal of a node."""
        if not self._look.settings.scale_down_enabled:
            return Said(SCALE_DOWN_OFF)
        for key in (SCALE_DOWN_DISABLED_BY, DO_NOT_DISRUPT):
            if node.metadata.annotations.get(key) == "true":
                return Said(SCALE_DOWN_DISABLED, f"{key}: true")
        return None

    def tenants(self, name: str) -> Tenants:
        """Who is on a node."""
        look = self._look
        return tenants_of(look.snapshot.on(name).values(), look.now, look.budgets, look.settings)


class Minimums:
    """How many nodes of each group may still go. Those that come first are asked about first."""

    def __init__(
        self, groups: Mapping[str, GroupState], removals: Iterable[Removal], candidates: Iterable[Candidate]
    ) -> None:
        # Two nodes may say that they are the same instance; it goes once.
        wanted: dict[str, dict[str, None]] = {}
        for group, instance in (
            *((each.group, each.instance) for each in removals),
            *((each.group, each.instance) for each in candidates),
        ):
            wanted.setdefault(group, {})[instance] = None
        self._left: dict[str, int] = {}
        self._said: dict[str, Said] = {name: Said(GROUP_AT_MINIMUM) for name in wanted}
        for name, ids in wanted.items():
            refused = why_no_release(groups[name], ids)
            self._left[name] = len(ids) - len(refused)
            self._said.update((name, said) for said in refused.values())

    def why_not(self, group: str) -> Said | None:
        """Why no more nodes of a group may go; None if another one may."""
        return None if self._left[group] > 0 else self._said[group]

    def take(self, group: str) -> None:
        """Count one that goes."""
        self._left[group] -= 1
