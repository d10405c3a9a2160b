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
from trellis.core.nodes.scale_up.memory import (
    ScaleUpMemory,
    record_failed_order,
    record_release,
    record_unfinished_order,
)
from trellis.core.nodes.settings import ScaleUpSettings
from trellis.kube.resources import NODES, PODS
from trellis.kube.watch.cache import ObjectChange
from trellis.kube.watch.informer import Informer
from trellis.kube.write import actions as kube
from trellis.kube.write.actions import CreateObject, DeleteObject
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.kube.write.patches import merge_patch
from trellis.kube.write.writer import Writer

# How long to wait for the watch; after that the next pass may plan the same again.
_PATIENCE_SECONDS: Final = 5.0


class PendingNodeWrites:
    """Waits until the watch shows writes of nodes."""

    def __init__(self, nodes: Informer[Node]) -> None:
        self._nodes = nodes
        # By the name of the node, so that a change is compared with the writes of its node only.
        self._unseen: dict[str, list[WriteOutcome]] = {}
        self._all_seen = asyncio.Event()

    def subscribe(self) -> None:
        self._nodes.subscribe(self._node_changed)

    async def wait_for(self, outcomes: Iterable[WriteOutcome]) -> None:
        """Return once all writes of nodes are seen that were applied, or after a while."""
        for outcome in outcomes:
            if outcome.applied and outcome.action.target.resource is NODES and not self._is_seen(outcome):
                self._unseen.setdefault(outcome.action.target.name, []).append(outcome)
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
        left = [outcome for outcome in self._unseen.pop(name, ()) if not self._is_seen(outcome)]
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


def _is_as_new(observed: str, written: str) -> bool:
    """Versions of one kind are numbers that grow."""
    return not (observed.isdigit() and written.isdigit()) or int(observed) >= int(written)


class NodePlanResult(msgspec.Struct, frozen=True):
    """The memory for the next pass, what was written, and the nodes whose taints were not written.

    `failed` are the groups whose order failed.
    """

    memory: AutoscalerMemory
    outcomes: tuple[WriteOutcome, ...]
    unchanged: tuple[str, ...] = ()
    failed: frozenset[str] = frozenset()


_Change: TypeAlias = SetTaints | DrainPod

# Results after which the same order would be refused again; after any other, the next pass may retry it.
_FINAL: Final = (Result.INVALID,)


class NodeExecutor:
    """Executes the plans of a pass."""

    def __init__(
        self, writer: Writer, provider_client: ProviderClient, reporter: ActionReporter, settings: ScaleUpSettings
    ) -> None:
        self._writer = writer
        self._provider_client = provider_client
        self._reporter = reporter
        self._settings = settings

    async def carry_out(self, plans: PassPlans, now: float) -> NodePlanResult:
        """Execute both plans, the order of a group before its releases."""
        releases = [action for action in plans.down.actions if isinstance(action, ReleaseNode)]
        others = [action for action in plans.down.actions if not isinstance(action, ReleaseNode)]
        async with asyncio.TaskGroup() as group:
            orders = [(order, group.create_task(self._order(order, now))) for order in plans.up.orders]
            ordering = {order.group: task for order, task in orders}
            backs = [
                group.create_task(self._give_back(name, backs, now, ordering.get(name)))
                for name, backs in _by_group(plans.up.releases)
            ]
            leaving = [
                (release, group.create_task(self._release(release, now, ordering.get(release.group))))
                for release in releases
            ]
            changing = group.create_task(self._change(others))
        up, down = plans.up.memory, plans.down.memory
        failed: set[str] = set()
        outcomes = [*changing.result()]
        for order, task in orders:
            result = task.result()
            up, down = self._ordered(order, result, up, down, now)
            outcomes += result.outcomes
            if not _is_made(result) and not _is_skipped(result):
                failed.add(order.group)
        for giving in backs:
            released, written = giving.result()
            outcomes += written
            for failed_instance in released:
                up = record_release(up, failed_instance.group, failed_instance.instance)
        for release, leaves in leaving:
            is_released, written = leaves.result()
            outcomes += written
            if is_released:
                up = record_release(up, release.group, release.instance)
            else:
                down = record_failed_removal(down, release.node, now)
        unmarked = tuple(_untainted(changing.result()))
        return NodePlanResult(AutoscalerMemory(up, down), tuple(outcomes), unmarked, frozenset(failed))

    async def _order(self, order: NodeOrder, now: float) -> OrderResult:
        return await self._provider_client.order(order.group, order.target, now)

    def _ordered(
        self, order: NodeOrder, result: OrderResult, up: ScaleUpMemory, down: ScaleDownMemory, now: float
    ) -> tuple[ScaleUpMemory, ScaleDownMemory]:
        lacking = [outcome for outcome in result.outcomes if not outcome.applied]
        final = next((outcome.message for outcome in lacking if outcome.result in _FINAL), None)
        failure = str(result.said) if result.said is not None else final
        self._reporter.ordered(order, failure, len(lacking))
        if failure is not None:
            up = record_failed_order(up, order.group, failure, now, self._settings)
        elif lacking:
            up = record_unfinished_order(up, order.group)
        return up, record_added_nodes(down, now) if _is_made(result) else down

    async def _give_back(
        self, group: str, backs: Sequence[ReleaseFailedInstance], now: float, order: asyncio.Task[OrderResult] | None
    ) -> tuple[list[ReleaseFailedInstance], tuple[WriteOutcome, ...]]:
        """Release failed instances of a group; those that were released, and what was written."""
        await _finish(order)
        instances = [back.instance for back in backs]
        giving = await self._provider_client.release(group, instances, now)
        released: list[ReleaseFailedInstance] = []
        for back in backs:
            failure = _release_failure(back.instance, giving, instances)
            self._reporter.given_back(group, back.instance, back.why, failure)
            if failure is None:
                released.append(back)
        return released, giving.outcomes

    async def _release(
        self, release: ReleaseNode, now: float, order: asyncio.Task[OrderResult] | None
    ) -> tuple[bool, tuple[WriteOutcome, ...]]:
        await _finish(order)
        giving = await self._provider_client.release(release.group, [release.instance], now)
        failure = _release_failure(release.instance, giving)
        self._reporter.given_back(release.group, release.node, DetailedReason(NODE_RELEASED), failure)
        return failure is None, giving.outcomes

    async def _change(self, actions: Iterable[_Change]) -> tuple[WriteOutcome, ...]:
        outcomes = await self._writer.write_all(map(_to_kube_action, actions))
        for outcome in outcomes:
            if isinstance(outcome.action, kube.CreateEviction):
                self._reporter.evicted(outcome)
        return outcomes


async def _finish(order: asyncio.Task[OrderResult] | None) -> None:
    """Wait for the order of a group before its releases.

    The target of the order counts the instances that are released: a provider that released them first would order as
    many nodes too many.
    """
    if order is not None:
        await asyncio.wait({order})


def _to_kube_action(action: _Change) -> kube.Action:
    """The write that executes an action of the plan."""
    match action:
        case SetTaints(node=name, uid=uid, resource_version=version, taints=taints):
            # The list is replaced as a whole, which holds for this version of the node alone.
            patch = merge_patch({"spec": {"taints": [msgspec.to_builtins(taint) for taint in taints]}})
            return kube.PatchObject(kube.Target(NODES, name, uid=uid, resource_version=version), patch)
        case DrainPod(namespace=namespace, name=name, uid=uid, grace_period_seconds=grace):
            return kube.CreateEviction(kube.Target(PODS, name, namespace, uid), grace)


def _untainted(outcomes: Iterable[WriteOutcome]) -> Iterable[str]:
    """Nodes whose taints were not written."""
    for outcome in outcomes:
        if isinstance(outcome.action, kube.PatchObject) and not outcome.applied:
            yield outcome.action.target.name


def _by_group(backs: Iterable[ReleaseFailedInstance]) -> Iterable[tuple[str, list[ReleaseFailedInstance]]]:
    """Failed instances by group, for one request each: an order of a thousand nodes may fail at once."""
    by_group: dict[str, list[ReleaseFailedInstance]] = {}
    for back in backs:
        by_group.setdefault(back.group, []).append(back)
    return by_group.items()


def _is_made(result: OrderResult) -> bool:
    """Whether an order succeeded at least in part."""
    if not result.outcomes:
        return result.said is None
    return any(outcome.applied for outcome in result.outcomes)


def _is_skipped(result: OrderResult) -> bool:
    """Whether nothing was tried, because nothing may be written."""
    tried = [outcome for outcome in result.outcomes if outcome.result is not Result.SKIPPED]
    return result.said is None and not tried


def _release_failure(instance: str, giving: ReleaseResult, together: Collection[str] = ()) -> str | None:
    """Why an instance was not released, of those that were released `together`; None if it was."""
    refusal = giving.refused.get(instance)
    if refusal is not None:
        return str(refusal)
    others = {*together} - {instance}
    lacking = (outcome for outcome in giving.outcomes if not outcome.applied and outcome.result is not Result.GONE)
    return next((outcome.message for outcome in lacking if outcome.action.target.name not in others), None)
