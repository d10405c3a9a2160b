"""How is a plan carried out, and what is remembered of it? Orders, marks, evictions and nodes given back, side by side.

What could not be done is folded into what is remembered: a group that failed is left alone for a while, a node that
nobody took back is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Final, TypeAlias

import msgspec

from trellis.controllers.nodes.providing import Giving, Ordering, Providing
from trellis.controllers.nodes.reporting import Reporting
from trellis.core.buffers.said import Said
from trellis.core.nodes.down_actions import EvictPod, ReleaseNode, SetTaints
from trellis.core.nodes.down_memory import DownMemory, nodes_added, removal_failed
from trellis.core.nodes.down_verdicts import NODE_RELEASED
from trellis.core.nodes.memory import UpMemory, order_failed, order_unfinished
from trellis.core.nodes.planning import Memory, Plans
from trellis.core.nodes.up_settings import UpSettings
from trellis.core.nodes.verdicts import GiveBack, Order
from trellis.kube import actions as kube
from trellis.kube.outcomes import Outcome, Result
from trellis.kube.patches import merge_patch
from trellis.kube.resources import NODES, PODS
from trellis.kube.writer import Writer


class Carried(msgspec.Struct, frozen=True):
    """What is to be remembered, what was written, and which nodes are not as the plan would have them.

    `failed` are the groups of which nothing could be ordered.
    """

    memory: Memory
    outcomes: tuple[Outcome, ...]
    unchanged: tuple[str, ...] = ()
    failed: frozenset[str] = frozenset()


_Change: TypeAlias = SetTaints | EvictPod

# What says that an order will be refused again; anything else is over with the next view of the cluster.
_FINAL: Final = (Result.INVALID,)


class Carrying:
    """Carries plans out."""

    def __init__(self, writer: Writer, providing: Providing, reporting: Reporting, settings: UpSettings) -> None:
        self._writer = writer
        self._providing = providing
        self._reporting = reporting
        self._settings = settings

    async def carry_out(self, plans: Plans, now: float) -> Carried:
        """Do all of it."""
        releases = [each for each in plans.down.actions if isinstance(each, ReleaseNode)]
        others = [each for each in plans.down.actions if not isinstance(each, ReleaseNode)]
        async with asyncio.TaskGroup() as group:
            orders = [(each, group.create_task(self._order(each, now))) for each in plans.up.orders]
            backs = [group.create_task(self._give_back(*each, now)) for each in _by_group(plans.up.give_backs)]
            leaving = [(each, group.create_task(self._release(each, now))) for each in releases]
            changing = group.create_task(self._change(others))
        up, down = plans.up.memory, plans.down.memory
        failed: set[str] = set()
        outcomes = [*changing.result(), *(each for task in backs for each in task.result())]
        for order, ordering in orders:
            became = ordering.result()
            up, down = self._ordered(order, became, up, down, now)
            outcomes += became.outcomes
            if not _is_made(became) and not _is_skipped(became):
                failed.add(order.group)
        for release, task in leaving:
            given, written = task.result()
            outcomes += written
            if not given:
                down = removal_failed(down, release.node, now)
        unmarked = tuple(_unmarked(changing.result()))
        return Carried(Memory(up, down), tuple(outcomes), unmarked, frozenset(failed))

    async def _order(self, order: Order, now: float) -> Ordering:
        return await self._providing.order(order.group, order.target, now)

    def _ordered(
        self, order: Order, became: Ordering, up: UpMemory, down: DownMemory, now: float
    ) -> tuple[UpMemory, DownMemory]:
        lacking = [each for each in became.outcomes if not each.applied]
        final = next((each.message for each in lacking if each.result in _FINAL), None)
        why = str(became.said) if became.said is not None else final
        self._reporting.ordered(order, why, len(lacking))
        if why is not None:
            up = order_failed(up, order.group, why, now, self._settings)
        elif lacking:
            up = order_unfinished(up, order.group)
        return up, nodes_added(down, now) if _is_made(became) else down

    async def _give_back(self, group: str, backs: Sequence[GiveBack], now: float) -> tuple[Outcome, ...]:
        instances = [each.instance for each in backs]
        giving = await self._providing.release(group, instances, now)
        for each in backs:
            self._reporting.given_back(group, each.instance, each.why, _why_not(each.instance, giving, instances))
        return giving.outcomes

    async def _release(self, release: ReleaseNode, now: float) -> tuple[bool, tuple[Outcome, ...]]:
        giving = await self._providing.release(release.group, [release.instance], now)
        why = _why_not(release.instance, giving)
        self._reporting.given_back(release.group, release.node, Said(NODE_RELEASED), why)
        return why is None, giving.outcomes

    async def _change(self, actions: Iterable[_Change]) -> tuple[Outcome, ...]:
        outcomes = await self._writer.write_all(map(_translated, actions))
        for outcome in outcomes:
            if isinstance(outcome.action, kube.EvictPod):
                self._reporting.evicted(outcome)
        return outcomes


def _translated(action: _Change) -> kube.Action:
    """The same for the writer."""
    match action:
        case SetTaints(node=name, uid=uid, resource_version=version, taints=taints):
            # The list is replaced as a whole, which holds for this version of the node alone.
            patch = merge_patch({"spec": {"taints": [msgspec.to_builtins(each) for each in taints]}})
            return kube.PatchObject(kube.Target(NODES, name, uid=uid, resource_version=version), patch)
        case EvictPod(namespace=namespace, name=name, uid=uid, grace_period_seconds=grace):
            return kube.EvictPod(kube.Target(PODS, name, namespace, uid), grace)


def _unmarked(outcomes: Iterable[Outcome]) -> Iterable[str]:
    """Nodes whose taints were not written."""
    for each in outcomes:
        if isinstance(each.action, kube.PatchObject) and not each.applied:
            yield each.action.target.name


def _by_group(backs: Iterable[GiveBack]) -> Iterable[tuple[str, list[GiveBack]]]:
    """A provider is asked once for each group: an order of a thousand nodes may fail as a whole."""
    found: dict[str, list[GiveBack]] = {}
    for each in backs:
        found.setdefault(each.group, []).append(each)
    return found.items()


def _is_made(became: Ordering) -> bool:
    """Whether anything came of an order."""
    if not became.outcomes:
        return became.said is None
    return any(each.applied for each in became.outcomes)


def _is_skipped(became: Ordering) -> bool:
    """Whether nothing was tried, because nothing may be written."""
    tried = [each for each in became.outcomes if each.result is not Result.SKIPPED]
    return became.said is None and not tried


def _why_not(instance: str, giving: Giving, together: Collection[str] = ()) -> str | None:
    """Why an instance was not given back, of those that were given back `together`; None if it was."""
    said = giving.refused.get(instance)
    if said is not None:
        return str(said)
    others = {*together} - {instance}
    lacking = (each for each in giving.outcomes if not each.applied and each.result is not Result.GONE)
    return next((each.message for each in lacking if each.action.target.name not in others), None)
