"""Executes plans: orders, taints, evictions and releases of nodes, concurrently.

Failures go into the memory of the next plan: a node group that failed is in backoff, a node that could not be released
is kept. `PendingNodeWrites` waits until the watch shows what was written: a pass on an older view would order the same
nodes again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Final, TypeAlias

import msgspec

from trellis.api.kube.nodes import Node
from trellis.base.reasons import DetailedReason
from trellis.controllers.nodes.events import ActionReporter
from trellis.controllers.nodes.provider_client import OrderResult, ProviderClient, ReleaseResult
from trellis.core.nodes.autoscaler_pass import AutoscalerMemory, PassPlans
from trellis.core.nodes.scale_down.decisions import NODE_RELEASED, DrainPod, ReleaseNode, SetTaints
from trellis.core.nodes.scale_down.memory import ScaleDownMemory, record_added_nodes, record_failed_removal
from trellis.core.nodes.scale_up.decisions import NodeOrder, ReleaseFailedInstance
from trellis.core.nodes.scale_up.memory import ScaleUpMemory, record_failed_order, record_unfinished_order
from trellis.core.nodes.settings import ScaleUpSettings
from trellis.kube.resources import NODES, PODS
from trellis.kube.watch.cache import ObjectChange
from trellis.kube.watch.informer import Informer
from trellis.kube.write import actions as kube
from trellis.kube.write.actions import CreateObject, DeleteObject
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.kube.write.patches import merge_patch
from trellis.kube.write.writer import Writer

# A watch that is later than this is not waited for: what is planned then is planned again.
_PATIENCE_SECONDS: Final = 5.0


class PendingNodeWrites:
    """Waits for writes of nodes to come back."""

    def __init__(self, nodes: Informer[Node]) -> None:
        self._nodes = nodes
        # By the names of their nodes: of thousands that were ordered each is looked for when it comes.
        self._unseen: dict[str, list[WriteOutcome]] = {}
        self._all_seen = asyncio.Event()

    def subscribe(self) -> None:
        """Begin to listen."""
        self._nodes.subscribe(self._node_changed)

    async def wait_for(self, outcomes: Iterable[WriteOutcome]) -> None:
        """Return once all writes of nodes are seen that were applied, or after a while."""
        for each in outcomes:
            if each.applied and each.action.target.resource is NODES and not self._is_seen(each):
                self._unseen.setdefault(each.action.target.name, []).append(each)
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while self._unseen:
                    self._all_seen.clear()
                    await self._all_seen.wait()
        except TimeoutError:
            return
        finally:
            self._unseen.clear()

    def _node_changed(self, change: ObjectChange[Node]) -> None:
        name = change.key[1]
        left = [each for each in self._unseen.pop(name, ()) if not self._is_seen(each)]
        if left:
            self._unseen[name] = left
        elif not self._unseen:
            self._all_seen.set()

    def _is_seen(self, outcome: WriteOutcome) -> bool:
        action = outcome.action
        node = self._nodes.get("", action.target.name)
        if isinstance(action, DeleteObject):
            same = node is not None and node.metadata.uid == action.target.uid
            return not same or (node is not None and node.metadata.deletion_timestamp is not None)
        if isinstance(action, CreateObject):
            return node is not None
        return node is None or _is_as_new(node.metadata.resource_version, outcome.resource_version)


def _is_as_new(seen: str, written: str) -> bool:
    """Versions of one kind are numbers that grow."""
    return not (seen.isdigit() and written.isdigit()) or int(seen) >= int(written)


class NodePlanResult(msgspec.Struct, frozen=True):
    """What is to be remembered, what was written, and which nodes are not as the plan would have them.

    `failed` are the groups of which nothing could be ordered.
    """

    memory: AutoscalerMemory
    outcomes: tuple[WriteOutcome, ...]
    unchanged: tuple[str, ...] = ()
    failed: frozenset[str] = frozenset()


_Change: TypeAlias = SetTaints | DrainPod

# What says that an order will be refused again; anything else is over with the next view of the cluster.
_FINAL: Final = (Result.INVALID,)


class NodeExecutor:
    """Carries plans out."""

    def __init__(
        self, writer: Writer, providing: ProviderClient, reporting: ActionReporter, settings: ScaleUpSettings
    ) -> None:
        self._writer = writer
        self._providing = providing
        self._reporting = reporting
        self._settings = settings

    async def carry_out(self, plans: PassPlans, now: float) -> NodePlanResult:
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
                down = record_failed_removal(down, release.node, now)
        unmarked = tuple(_untainted(changing.result()))
        return NodePlanResult(AutoscalerMemory(up, down), tuple(outcomes), unmarked, frozenset(failed))

    async def _order(self, order: NodeOrder, now: float) -> OrderResult:
        return await self._providing.order(order.group, order.target, now)

    def _ordered(
        self, order: NodeOrder, became: OrderResult, up: ScaleUpMemory, down: ScaleDownMemory, now: float
    ) -> tuple[ScaleUpMemory, ScaleDownMemory]:
        lacking = [each for each in became.outcomes if not each.applied]
        final = next((each.message for each in lacking if each.result in _FINAL), None)
        why = str(became.said) if became.said is not None else final
        self._reporting.ordered(order, why, len(lacking))
        if why is not None:
            up = record_failed_order(up, order.group, why, now, self._settings)
        elif lacking:
            up = record_unfinished_order(up, order.group)
        return up, record_added_nodes(down, now) if _is_made(became) else down

    async def _give_back(
        self, group: str, backs: Sequence[ReleaseFailedInstance], now: float
    ) -> tuple[WriteOutcome, ...]:
        instances = [each.instance for each in backs]
        giving = await self._providing.release(group, instances, now)
        for each in backs:
            self._reporting.given_back(group, each.instance, each.why, _why_not(each.instance, giving, instances))
        return giving.outcomes

    async def _release(self, release: ReleaseNode, now: float) -> tuple[bool, tuple[WriteOutcome, ...]]:
        giving = await self._providing.release(release.group, [release.instance], now)
        why = _why_not(release.instance, giving)
        self._reporting.given_back(release.group, release.node, DetailedReason(NODE_RELEASED), why)
        return why is None, giving.outcomes

    async def _change(self, actions: Iterable[_Change]) -> tuple[WriteOutcome, ...]:
        outcomes = await self._writer.write_all(map(_to_kube_action, actions))
        for outcome in outcomes:
            if isinstance(outcome.action, kube.CreateEviction):
                self._reporting.evicted(outcome)
        return outcomes


def _to_kube_action(action: _Change) -> kube.Action:
    """The same for the writer."""
    match action:
        case SetTaints(node=name, uid=uid, resource_version=version, taints=taints):
            # The list is replaced as a whole, which holds for this version of the node alone.
            patch = merge_patch({"spec": {"taints": [msgspec.to_builtins(each) for each in taints]}})
            return kube.PatchObject(kube.Target(NODES, name, uid=uid, resource_version=version), patch)
        case DrainPod(namespace=namespace, name=name, uid=uid, grace_period_seconds=grace):
            return kube.CreateEviction(kube.Target(PODS, name, namespace, uid), grace)


def _untainted(outcomes: Iterable[WriteOutcome]) -> Iterable[str]:
    """Nodes whose taints were not written."""
    for each in outcomes:
        if isinstance(each.action, kube.PatchObject) and not each.applied:
            yield each.action.target.name


def _by_group(backs: Iterable[ReleaseFailedInstance]) -> Iterable[tuple[str, list[ReleaseFailedInstance]]]:
    """A provider is asked once for each group: an order of a thousand nodes may fail as a whole."""
    found: dict[str, list[ReleaseFailedInstance]] = {}
    for each in backs:
        found.setdefault(each.group, []).append(each)
    return found.items()


def _is_made(became: OrderResult) -> bool:
    """Whether anything came of an order."""
    if not became.outcomes:
        return became.said is None
    return any(each.applied for each in became.outcomes)


def _is_skipped(became: OrderResult) -> bool:
    """Whether nothing was tried, because nothing may be written."""
    tried = [each for each in became.outcomes if each.result is not Result.SKIPPED]
    return became.said is None and not tried


def _why_not(instance: str, giving: ReleaseResult, together: Collection[str] = ()) -> str | None:
    """Why an instance was not given back, of those that were given back `together`; None if it was."""
    said = giving.refused.get(instance)
    if said is not None:
        return str(said)
    others = {*together} - {instance}
    lacking = (each for each in giving.outcomes if not each.applied and each.result is not Result.GONE)
    return next((each.message for each in lacking if each.action.target.name not in others), None)
