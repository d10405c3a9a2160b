"""Executes plans: orders, taints, evictions and releases of nodes, concurrently.

Failures go into the memory of the next plan: a node group that failed is in backoff, a node that could not be released
is kept. `PendingNodeWrites` waits until the watch shows all writes: a pass on an older view would order the same nodes
again.
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
from trellis.core.nodes.scale_down.remembered_state import ScaleDownMemory, record_added_nodes, record_failed_removal
from trellis.core.nodes.scale_up.decisions import NodeOrder, ReleaseFailedInstance
from trellis.core.nodes.scale_up.remembered_state import (
    ScaleUpMemory,
    record_failed_order,
    record_release,
    record_unfinished_order,
    record_withdrawn_bookings,
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
        self._pending: dict[str, list[WriteOutcome]] = {}
        self._all_observed = asyncio.Event()

    def subscribe(self) -> None:
        self._nodes.subscribe(self._node_changed)

    async def wait_for(self, outcomes: Iterable[WriteOutcome]) -> None:
        """Return once the watch shows all applied writes of nodes, or after a while."""
        for outcome in outcomes:
            if outcome.applied and outcome.action.target.resource is NODES and not self._is_observed(outcome):
                self._pending.setdefault(outcome.action.target.name, []).append(outcome)
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while self._pending:
                    self._all_observed.clear()
                    await self._all_observed.wait()
        except TimeoutError:
            return
        finally:
            self._pending.clear()

    def _node_changed(self, change: ObjectChange[Node]) -> None:
        name = change.key[1]
        pending = [outcome for outcome in self._pending.pop(name, ()) if not self._is_observed(outcome)]
        if pending:
            self._pending[name] = pending
        elif not self._pending:
            self._all_observed.set()

    def _is_observed(self, outcome: WriteOutcome) -> bool:
        action = outcome.action
        node = self._nodes.get("", action.target.name)
        if isinstance(action, DeleteObject):
            same = node is not None and node.metadata.uid == action.target.uid
            return not same or (node is not None and node.metadata.deletion_timestamp is not None)
        if isinstance(action, CreateObject):
            return node is not None
        return node is None or _is_current(node.metadata.resource_version, outcome.resource_version)


def _is_current(observed: str, written: str) -> bool:
    """Whether the observed version includes the write. Versions of one kind are increasing numbers."""
    return not (observed.isdigit() and written.isdigit()) or int(observed) >= int(written)


class NodePlanResult(msgspec.Struct, frozen=True):
    """The memory for the next pass, the results of writes, and the nodes whose taints were not written.

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

    async def execute(self, plans: PassPlans, now: float) -> NodePlanResult:
        """Execute both plans, the order of a group before its releases."""
        releases = [action for action in plans.down.actions if isinstance(action, ReleaseNode)]
        other_actions = [action for action in plans.down.actions if not isinstance(action, ReleaseNode)]
        async with asyncio.TaskGroup() as group:
            orders = [(order, group.create_task(self._order(order, now))) for order in plans.up.orders]
            order_tasks = {order.group: task for order, task in orders}
            failed_release_tasks = [
                group.create_task(self._release_failed(name, failed_instances, now, order_tasks.get(name)))
                for name, failed_instances in _group_instances(plans.up.releases)
            ]
            release_tasks = [
                (release, group.create_task(self._release(release, now, order_tasks.get(release.group))))
                for release in releases
            ]
            change_task = group.create_task(self._change(other_actions))
        up, down = plans.up.memory, plans.down.memory
        failed: set[str] = set()
        outcomes = [*change_task.result()]
        for order, task in orders:
            result = task.result()
            up, down = self._record_order(order, result, up, down, now)
            outcomes += result.outcomes
            if not _is_ordered(result) and not _is_skipped(result):
                failed.add(order.group)
        for failed_release_task in failed_release_tasks:
            released, written = failed_release_task.result()
            outcomes += written
            for failed_instance in released:
                up = record_release(up, failed_instance.group, failed_instance.instance)
        for release, release_task in release_tasks:
            is_released, written = release_task.result()
            outcomes += written
            if is_released:
                up = record_release(up, release.group, release.instance)
            else:
                down = record_failed_removal(down, release.node, now)
        untainted = tuple(_untainted(change_task.result()))
        return NodePlanResult(AutoscalerMemory(up, down), tuple(outcomes), untainted, frozenset(failed))

    async def _order(self, order: NodeOrder, now: float) -> OrderResult:
        return await self._provider_client.order(order.group, order.target, now)

    def _record_order(
        self, order: NodeOrder, result: OrderResult, up: ScaleUpMemory, down: ScaleDownMemory, now: float
    ) -> tuple[ScaleUpMemory, ScaleDownMemory]:
        unapplied = [outcome for outcome in result.outcomes if not outcome.applied]
        final = next((outcome.message for outcome in unapplied if outcome.result in _FINAL), None)
        failure = str(result.refusal) if result.refusal is not None else final
        self._reporter.report_order(order, failure, len(unapplied))
        if failure is not None:
            up = record_failed_order(up, order.group, failure, now, self._settings)
        elif unapplied:
            up = record_unfinished_order(up, order.group)
            message = f"{len(unapplied)} of {order.count} are missing"
            up = record_withdrawn_bookings(up, order.group, message, now, self._settings)
        return up, record_added_nodes(down, now) if _is_ordered(result) else down

    async def _release_failed(
        self,
        group: str,
        failed_instances: Sequence[ReleaseFailedInstance],
        now: float,
        order: asyncio.Task[OrderResult] | None,
    ) -> tuple[list[ReleaseFailedInstance], tuple[WriteOutcome, ...]]:
        """Release failed instances of a group. Returns those that were released, and the results of writes."""
        await _wait_for_order(order)
        instances = [failed_instance.instance for failed_instance in failed_instances]
        result = await self._provider_client.release(group, instances, now)
        released: list[ReleaseFailedInstance] = []
        for failed_instance in failed_instances:
            failure = _release_failure(failed_instance.instance, result, instances)
            self._reporter.report_release(group, failed_instance.instance, failed_instance.reason, failure)
            if failure is None:
                released.append(failed_instance)
        return released, result.outcomes

    async def _release(
        self, release: ReleaseNode, now: float, order: asyncio.Task[OrderResult] | None
    ) -> tuple[bool, tuple[WriteOutcome, ...]]:
        await _wait_for_order(order)
        result = await self._provider_client.release(release.group, [release.instance], now)
        failure = _release_failure(release.instance, result)
        self._reporter.report_release(release.group, release.node, DetailedReason(NODE_RELEASED), failure)
        return failure is None, result.outcomes

    async def _change(self, actions: Iterable[_Change]) -> tuple[WriteOutcome, ...]:
        outcomes = await self._writer.write_all(map(_to_kube_action, actions))
        for outcome in outcomes:
            if isinstance(outcome.action, kube.CreateEviction):
                self._reporter.report_eviction(outcome)
        return outcomes


async def _wait_for_order(order: asyncio.Task[OrderResult] | None) -> None:
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
            # The list is replaced as a whole, which is correct for this version of the node only.
            patch = merge_patch({"spec": {"taints": [msgspec.to_builtins(taint) for taint in taints]}})
            return kube.PatchObject(kube.Target(NODES, name, uid=uid, resource_version=version), patch)
        case DrainPod(namespace=namespace, name=name, uid=uid, grace_period_seconds=grace):
            return kube.CreateEviction(kube.Target(PODS, name, namespace, uid), grace)


def _untainted(outcomes: Iterable[WriteOutcome]) -> Iterable[str]:
    """Nodes whose taints were not written."""
    for outcome in outcomes:
        if isinstance(outcome.action, kube.PatchObject) and not outcome.applied:
            yield outcome.action.target.name


def _group_instances(
    failed_instances: Iterable[ReleaseFailedInstance],
) -> Iterable[tuple[str, list[ReleaseFailedInstance]]]:
    """Failed instances by group, for one request each: an order of a thousand nodes may fail at once."""
    by_group: dict[str, list[ReleaseFailedInstance]] = {}
    for failed_instance in failed_instances:
        by_group.setdefault(failed_instance.group, []).append(failed_instance)
    return by_group.items()


def _is_ordered(result: OrderResult) -> bool:
    """Whether an order succeeded at least in part."""
    if not result.outcomes:
        return result.refusal is None
    return any(outcome.applied for outcome in result.outcomes)


def _is_skipped(result: OrderResult) -> bool:
    """Whether nothing was written because the process is read-only."""
    tried = [outcome for outcome in result.outcomes if outcome.result is not Result.SKIPPED]
    return result.refusal is None and not tried


def _release_failure(instance: str, result: ReleaseResult, released_together: Collection[str] = ()) -> str | None:
    """Why an instance was not released, among those `released_together`; None if it was."""
    refusal = result.refused.get(instance)
    if refusal is not None:
        return str(refusal)
    others = {*released_together} - {instance}
    unapplied = (outcome for outcome in result.outcomes if not outcome.applied and outcome.result is not Result.GONE)
    return next((outcome.message for outcome in unapplied if outcome.action.target.name not in others), None)
