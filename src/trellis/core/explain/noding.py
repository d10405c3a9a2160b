"""Which nodes would the node autoscaler add or remove, told what was collected? Its own plans.

What it remembers from plan to plan is not known here. A node with its mark is taken for one that it is removing, and
chunks of Buffers for being where a plan would put them.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from trellis.api.buffer import Buffer
from trellis.api.kube.nodes import Node
from trellis.api.kube.workloads import DaemonSet
from trellis.core.explain.settings import Components
from trellis.core.explain.updating import knows_rooms
from trellis.core.fit import Storage
from trellis.core.model.collected import Collected
from trellis.core.model.keys import key_of
from trellis.core.nodes import DownMemory, DownPlan, DownView, GroupState, Said, Snapshot, UpMemory, UpPlan
from trellis.core.nodes.down import plan_down
from trellis.core.nodes.down_actions import SetTaints
from trellis.core.nodes.down_memory import Removal
from trellis.core.nodes.down_verdicts import NODE_NOT_TRIED, NodeVerdict
from trellis.core.nodes.groups import InstanceState
from trellis.core.nodes.marks import marked_since
from trellis.core.nodes.up import plan_up


class KnownGroups(msgspec.Struct, frozen=True):
    """Groups of nodes as a provider tells of them, and what is wrong with others, by name.

    Without `declared` nobody was found who declares any.
    """

    states: tuple[GroupState, ...] = ()
    problems: tuple[tuple[str, Said], ...] = ()
    declared: bool = False


class Noded(msgspec.Struct, frozen=True):
    """All nodes and pods as they were read, and both plans. `view` is what the plan for fewer nodes was made from."""

    snapshot: Snapshot
    view: DownView
    down: DownPlan
    up: UpPlan
    memory: DownMemory
    groups: KnownGroups
    components: Components
    now: float

    def verdict(self, node: str) -> NodeVerdict | None:
        """What is said of a node. One that others came before is tried first instead."""
        found = _verdict(self.down, node)
        if found is None or found.said.reason != NODE_NOT_TRIED:
            return found
        first = msgspec.structs.replace(self.memory, unneeded={node: self.now})
        return _verdict(plan_down(self.view, first, self.now, self.components.nodes_down), node)

    def later(self, node: str, at: float) -> NodeVerdict | None:
        """What will be said of a node if nothing happens until then."""
        plan = plan_down(self.view, self.down.memory, at, self.components.nodes_down)
        return _verdict(plan, node)


def noded_in(collected: Collected, groups: KnownGroups, components: Components, now: float) -> Noded | None:
    """Both plans; None if not all nodes and pods are known."""
    if not knows_rooms(collected):
        return None
    storage = storage_of(collected)
    snapshot = snapshot_of(collected, groups, storage, components.expendable_below)
    seats = plan_up(snapshot, UpMemory(), now, components.nodes_up).memory.seats
    view = DownView(snapshot, tuple(collected.pdbs), storage, seats)
    memory = DownMemory(removals={each.node: each for each in _removals(snapshot, now)})
    down = plan_down(view, memory, now, components.nodes_down)
    up = _up(snapshot, down, UpMemory(seats=seats), components, now)
    return Noded(snapshot, view, down, up, memory, groups, components, now)


def snapshot_of(collected: Collected, groups: KnownGroups, storage: Storage, expendable_below: int) -> Snapshot:
    """All that was collected. Volumes come before the pods that have them."""
    snapshot = Snapshot(expendable_below)
    for each in collected.namespaces:
        snapshot.put_namespace(each.metadata.name, each.metadata.labels)
    snapshot.put_storage(storage)
    for node in collected.nodes:
        snapshot.put_node(node.metadata.name, node)
    for pod in collected.pods:
        snapshot.put_pod(key_of(pod), pod)
    for buffer in collected.buffers:
        snapshot.put_buffer(key_of(buffer), known_by_uid(buffer))
    for daemon_set in collected.workloads[DaemonSet.__name__]:
        if isinstance(daemon_set, DaemonSet):
            snapshot.put_daemon_set(key_of(daemon_set), daemon_set)
    snapshot.put_groups(groups.states)
    return snapshot


def known_by_uid(buffer: Buffer) -> Buffer:
    """A Buffer with a UID, by which its chunks are known: its name, where it was collected without one."""
    if buffer.metadata.uid:
        return buffer
    metadata = msgspec.structs.replace(buffer.metadata, uid="/".join(key_of(buffer)))
    return msgspec.structs.replace(buffer, metadata=metadata)


def storage_of(collected: Collected) -> Storage:
    """All claims, volumes and classes."""
    return Storage(
        claims=collected.claims.objects,
        volumes={each.metadata.name: each for each in collected.volumes},
        classes={each.metadata.name: each for each in collected.storage_classes},
    )


def _removals(snapshot: Snapshot, now: float) -> Iterator[Removal]:
    """The removals that nodes with a mark may be part of, as if all pods on them had been there from the start."""
    for name, node in snapshot.nodes.items():
        since, known = marked_since(node), snapshot.ties.instances.get(name)
        if since is None or known is None or known[1].state is InstanceState.LEAVING:
            continue
        here = [each.pod.metadata.uid for each in snapshot.on(name).values() if not each.is_fixed]
        pods = frozenset(here)
        group, instance = known
        began = min(since, now)
        yield Removal(
            name, node.metadata.uid, group, instance.id, began, now, pods, bool(pods), len(pods), marked=began
        )


def _up(snapshot: Snapshot, down: DownPlan, memory: UpMemory, components: Components, now: float) -> UpPlan:
    """The plan for more nodes, which counts on those that are kept after all; the snapshot is as before afterwards."""
    before: dict[str, Node] = {}
    for each in down.actions:
        if isinstance(each, SetTaints):
            node = before[each.node] = snapshot.nodes[each.node]
            spec = msgspec.structs.replace(node.spec, taints=each.taints)
            snapshot.put_node(each.node, msgspec.structs.replace(node, spec=spec))
    try:
        return plan_up(snapshot, memory, now, components.nodes_up)
    finally:
        for name, node in before.items():
            snapshot.put_node(name, node)


def _verdict(plan: DownPlan, node: str) -> NodeVerdict | None:
    return next((each for each in plan.nodes if each.node == node), None)
