"""The kwok provider: orders nodes by creating Node objects and releases them by deleting Node objects.

An order creates the Node at once, so that it cannot be lost, and holds kwok and the scheduler off until its
boot time is over. Groups fail as their declarations say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import Any

import msgspec

from trellis.api.kinds.kwok_node_group import GROUP_LABEL, GroupFailureMode
from trellis.api.kube.coordination import ConfigMap
from trellis.api.kube.nodes import Node
from trellis.api.registry import KWOK_NODE_GROUP
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.base.wording import pluralize
from trellis.core.nodes.node_groups import GroupState, InstanceState, find_order_problem, find_release_problems
from trellis.kube.resources import NODES
from trellis.kube.write.actions import Action, CreateObject, DeleteObject, Target, build_target
from trellis.providers.declared.declarations import (
    DeclarationReader,
    Declarations,
    build_unknown_group,
    find_undeclared_groups,
)
from trellis.providers.declared.orders import build_steps, generate_names
from trellis.providers.kwok.declarations import DeclaredGroup, build_kwok_group
from trellis.providers.kwok.instances import KwokOrder, build_instance, build_node, next_action
from trellis.providers.kwok.settings import CONFIG_MAP
from trellis.providers.protocol import Groups, Ordered, Released, Tended

ORDER_REFUSED = Reason("NodeOrderRefused", "The provider refused an order for nodes.", Severity.WARNING)


class KwokObjects(msgspec.Struct, frozen=True):
    """The objects that the provider reads: the ConfigMap with the groups, if it exists, and all nodes."""

    config: ConfigMap | None
    nodes: Collection[Node]


class KwokProvider:
    """Groups of nodes that kwok simulates. Each call calls `read_objects` once, which may return a snapshot."""

    name: str = "kwok"

    def __init__(self, read_objects: Callable[[], KwokObjects], where: str = CONFIG_MAP) -> None:
        self._read_objects = read_objects
        self._declarations = DeclarationReader(KWOK_NODE_GROUP, where, build_kwok_group)

    async def groups(self, now: float, /) -> Groups:
        """Each group with its nodes; nodes of undeclared groups are reported as problems."""
        return await asyncio.to_thread(_build_groups, await self._build_view(), now)

    async def order(self, group: str, target: int, now: float, /) -> Ordered:
        """Create the missing nodes, with names derived from the existing ones."""
        view = await self._build_view()
        declared = view.declared.groups.get(group)
        if declared is None:
            return Ordered(error=build_unknown_group(group))
        state = view.build_state(group, now)
        refused = find_order_problem(state, target)
        if refused is not None:
            return Ordered(error=refused)
        missing = max(0, target - state.target)
        healthy_count = min(missing, _count_healthy(declared, state.target))
        names = list(islice(generate_names(group, {node.metadata.name for node in view.nodes}), missing))
        if healthy_count < missing and declared.fails is not None:
            return await _fail_order(declared, names, healthy_count, now)
        return _build_order(declared, names, now)

    async def release(self, group: str, instances: Sequence[str], now: float, /) -> Released:
        """Delete Nodes, which kwok observes."""
        view = await self._build_view()
        if group not in view.declared.groups:
            return Released(refused=dict.fromkeys(instances, build_unknown_group(group)))
        state = view.build_state(group, now)
        refused = find_release_problems(state, instances)
        released = tuple(instance for instance in dict.fromkeys(instances) if instance not in refused)
        leaving = {instance.id for instance in state.instances if instance.state is InstanceState.LEAVING}
        by_name = {node.metadata.name: node for node in view.members[group]} if released else {}
        deleted = (by_name[instance] for instance in released if instance not in leaving)
        return Released(
            released,
            build_steps(DeleteObject(build_target(NODES, node, with_version=False)) for node in deleted),
            refused,
        )

    async def tend(self, now: float, /) -> Tended:
        """Label booted nodes for kwok, and remove the taint of those that are ready."""
        return await asyncio.to_thread(_build_tended, await self._build_view(), now)

    async def _build_view(self) -> _ProviderView:
        objects = self._read_objects()
        declared = await self._declarations.read(objects.config)
        members: dict[str, list[Node]] = {}
        for node in objects.nodes:
            group = node.metadata.labels.get(GROUP_LABEL)
            if group:
                members.setdefault(group, []).append(node)
        return _ProviderView(declared, objects.nodes, members)


class _ProviderView(msgspec.Struct, frozen=True):
    """The groups and nodes at one moment."""

    declared: Declarations[DeclaredGroup]
    nodes: Collection[Node]
    members: dict[str, list[Node]]

    def build_state(self, group: str, now: float) -> GroupState:
        instances = tuple(build_instance(node, now) for node in self.members.get(group, ()))
        target = sum(instance.state is not InstanceState.LEAVING for instance in instances)
        return GroupState(self.declared.groups[group].group, target, instances)


def _build_groups(view: _ProviderView, now: float) -> Groups:
    states = tuple(view.build_state(name, now) for name in view.declared.groups)
    return Groups(states, (*view.declared.problems, *find_undeclared_groups(view.declared, view.members)))


def _build_tended(view: _ProviderView, now: float) -> Tended:
    needs = [next_action(node, now) for nodes in view.members.values() for node in nodes]
    later = [need for need in needs if isinstance(need, float)]
    actions = (need for need in needs if need is not None and not isinstance(need, float))
    return Tended(build_steps(actions), min(later, default=None))


def _count_healthy(declared: DeclaredGroup, target: int) -> int:
    """How many more nodes of a group can be ordered before it fails."""
    if declared.fails is None:
        return declared.group.max_size
    return max(0, (declared.fails.after or 0) - target)


def _build_order(declared: DeclaredGroup, names: Sequence[str], now: float) -> Ordered:
    return Ordered(tuple(names), build_steps(_build_creations(declared, declared.document, names, now)))


async def _fail_order(declared: DeclaredGroup, names: Sequence[str], healthy_count: int, now: float) -> Ordered:
    """The result of an order whose first `healthy_count` nodes succeed, and the others fail as declared."""
    mode = declared.fails.how if declared.fails is not None else ""
    good, bad = names[:healthy_count], names[healthy_count:]
    creations = _build_creations(declared, declared.document, good, now)
    match mode:
        case GroupFailureMode.HANG:
            await asyncio.get_running_loop().create_future()
        case GroupFailureMode.REFUSE_ORDERS:
            refused = f"{len(bad)} of {pluralize(len(names), 'node')}"
            error = DetailedReason(ORDER_REFUSED, f"{declared.group.name} has no machine for {refused}")
            return Ordered(tuple(good), build_steps(creations), error)
        case GroupFailureMode.OTHER_SHAPE:
            creations += _build_creations(declared, declared.other_document, bad, now)
        case GroupFailureMode.NEVER_COME_UP | GroupFailureMode.FAIL_TO_START:
            creations += _build_creations(declared, declared.document, bad, now, mode)
    # Lost orders are confirmed like all others.
    return Ordered(tuple(names), build_steps(creations))


def _build_creations(
    declared: DeclaredGroup, document: dict[str, Any], names: Sequence[str], now: float, failure_mode: str = ""
) -> list[Action]:
    order = KwokOrder(now, declared.group.boot_seconds, failure_mode)
    return [CreateObject(Target(NODES, name), build_node(document, name, order)) for name in names]
