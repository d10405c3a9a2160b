"""What comes next for a node that is being removed? Mark it, wait, evict its pods, give it back; or keep it after all.

Everything is looked at again with each step. Until the node has been given back it can be kept, and is, if a pod comes
or something on it would find no place any more.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.base.counted import counted, in_number
from trellis.core.buffers.said import Said
from trellis.core.nodes.down_actions import DownAction, EvictPod, ReleaseNode
from trellis.core.nodes.down_look import DownLook
from trellis.core.nodes.down_memory import Removal
from trellis.core.nodes.down_verdicts import (
    EVICTIONS_REFUSED,
    MARK_TAKEN_OFF,
    MARK_UNSEEN,
    NODE_DRAINING,
    NODE_MARKED,
    NODE_RELEASED,
    NODE_SETTLING,
    POD_CAME_MEANWHILE,
    RELEASE_UNSEEN,
)
from trellis.core.nodes.marks import is_marked, marking, unmarking
from trellis.core.nodes.tenants import Tenants


class Stepped(msgspec.Struct, frozen=True):
    """What is done and said. Without a `removal` the node is kept; `failed` says that it should not have been."""

    said: Said
    removal: Removal | None = None
    actions: tuple[DownAction, ...] = ()
    look: float | None = None
    failed: bool = False


def came_meanwhile(removal: Removal, tenants: Tenants) -> Said | None:
    """That a pod has come which was not there when the removal began."""
    for each in tenants.moving:
        if each.pod.metadata.uid not in removal.pods:
            return Said(POD_CAME_MEANWHILE, f"{each.key[0]}/{each.key[1]}")
    return None


def kept(node: Node, said: Said, *, failed: bool = False) -> Stepped:
    """The node stays, without our mark."""
    return Stepped(said, actions=(unmarking(node),) if is_marked(node) else (), failed=failed)


def step(removal: Removal, node: Node, tenants: Tenants, look: DownLook) -> Stepped:
    """The next step of a removal that nothing speaks against."""
    now, settings = look.now, look.settings
    if removal.released is not None:
        late = removal.released + settings.node_release_seconds
        return (
            Stepped(Said(NODE_RELEASED), removal, look=late)
            if now < late
            else kept(node, Said(RELEASE_UNSEEN), failed=True)
        )
    if not is_marked(node):
        if removal.marked is not None:
            return kept(node, Said(MARK_TAKEN_OFF))
        if now - removal.since >= settings.max_pod_eviction_seconds:
            return kept(node, Said(MARK_UNSEEN), failed=True)
        return Stepped(Said(NODE_MARKED), removal, (marking(node, removal.since),))
    if removal.marked is None:
        removal = msgspec.structs.replace(removal, marked=now, progress=now)
    settled = (removal.marked or now) + settings.node_delete_delay_after_taint_seconds
    if now < settled:
        return Stepped(Said(NODE_SETTLING), removal, look=settled)
    if tenants.is_empty:
        released = msgspec.structs.replace(removal, released=now)
        gives_back = ReleaseNode(removal.node, removal.group, removal.instance)
        return Stepped(Said(NODE_RELEASED), released, (gives_back,), now + settings.node_release_seconds)
    return _drain(removal, node, tenants, look)


def _drain(removal: Removal, node: Node, tenants: Tenants, look: DownLook) -> Stepped:
    now, left = look.now, len(tenants.moving)
    # Who is going may take as long as it was promised; only who is not let go is waited for in vain.
    if tenants.going or removal.left != left:
        removal = msgspec.structs.replace(removal, left=left, progress=now)
    late = removal.progress + look.settings.max_pod_eviction_seconds
    if now >= late:
        told = f"{counted(left, 'pod')} {in_number(left, 'is', 'are')} left"
        return kept(node, Said(EVICTIONS_REFUSED, told), failed=True)
    evictions = tuple(_evictions(removal.node, tenants, look))
    return Stepped(Said(NODE_DRAINING), removal, evictions, late)


def _evictions(node: str, tenants: Tenants, look: DownLook) -> Iterator[EvictPod]:
    for each in tenants.moving:
        if look.budgets.why_not(each.pod) is None:
            look.budgets.take(each.pod)
            grace = _grace(each.pod, look.settings.max_graceful_termination_seconds)
            yield EvictPod(node, each.key[0], each.key[1], each.pod.metadata.uid, grace)


def _grace(pod: Pod, most: int) -> int | None:
    own = pod.spec.termination_grace_period_seconds
    return most if own is not None and own > most else None
