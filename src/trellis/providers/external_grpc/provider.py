"""The provider externalgrpc: orders and releases nodes through a server of Cluster Autoscaler's protocol.

The protocol increases sizes by a difference, and a request has no name. Orders stay absolute in this way:

- The target size is read right before an increase, and the difference to it is sent. The calls of a group follow one
  another, and only the leader sends.
- An increase is not sent again unless the server has said that nothing came of it. After an error the target size is
  read again. If it shows nothing and the server did not answer, the group is suspended until it does, or for
  `HOLD_SECONDS`.
- A confirmed increase counts, even if the server still answers with the older target size.
- An increase says which size it is based on. Our own server refuses it with ABORTED if the size is another one, and the
  difference is computed anew: orders of several clients do not add up there. Other servers skip that field.

What the protocol cannot give with those: between reading and sending, another client may change the size, and both
changes count. A server that carries out a request after `HOLD_SECONDS`, or after the process that sent it was killed
and another one has read the size, adds nodes twice. The excess shows in the target size, and is removed as unneeded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from trellis.api.kube.nodes import Node
from trellis.base.errors import InvalidMessage
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.base.wording import pluralize
from trellis.core.nodes.node_groups import (
    GroupOptions,
    GroupState,
    InstanceState,
    NodeGroup,
    find_order_problem,
    find_release_problems,
)
from trellis.providers.external_grpc.answers import GROUP_INVALID, is_placeholder, name_node
from trellis.providers.external_grpc.group_reader import GroupReader, build_unsettled
from trellis.providers.external_grpc.messages import DeleteRequest, DeltaRequest, Empty, ExpectedSize, GroupMessage
from trellis.providers.external_grpc.rpcs import (
    DECREASE_TARGET_SIZE,
    DELETE_NODES,
    INCREASE_SIZE,
    NODE_GROUPS,
    REFRESH,
    Caller,
    CallFailed,
    CallStatus,
)
from trellis.providers.external_grpc.unsettled_changes import UnsettledChanges
from trellis.providers.protocol import UNKNOWN_GROUP, GroupProblem, Groups, Ordered, Released, Tended

GROUP_NOT_ANSWERED = Reason(
    "NodeGroupNotAnswered", "The server did not answer about one of its node groups.", Severity.WARNING
)
CHANGE_FAILED = Reason("NodeChangeFailed", "The server did not carry out a change of a node group.", Severity.WARNING)
CHANGE_NOT_SENT = Reason("NodeChangeNotSent", "A change was not sent: the process is read-only or does not lead.")

# How often an order begins anew because another client has changed the size meanwhile.
_ATTEMPTS: Final = 3
_CONCURRENT_GROUPS: Final = 8
# How long the last answer about a group counts if the server does not answer about it, as for whole providers.
_RECENT_SECONDS: Final = 120.0


class ExternalGrpcProvider:
    """Node groups of a server. `find_send_problem` says why changes may not be sent now."""

    name: str = "externalgrpc"

    def __init__(
        self,
        caller: Caller,
        list_nodes: Callable[[], Collection[Node]],
        *,
        defaults: GroupOptions = GroupOptions(),  # noqa: B008 - frozen, so that one can serve all
        find_send_problem: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._caller = caller
        self._list_nodes = list_nodes
        self._find_send_problem = find_send_problem
        self._changes = UnsettledChanges()
        self._reader = GroupReader(caller, defaults, self._changes)
        self._locks: dict[str, asyncio.Lock] = {}
        self._last_states: dict[str, tuple[GroupState, float]] = {}

    async def groups(self, now: float, /) -> Groups:
        """All groups of the server. Raises `CallFailed` if it does not answer: that is no list without groups."""
        await self._refresh()
        listed, problems = _index_groups((await self._caller.call(NODE_GROUPS, Empty())).groups)
        self._reader.forget_others(listed)
        nodes, places = self._index_nodes(), asyncio.Semaphore(_CONCURRENT_GROUPS)

        async def read(group: GroupMessage) -> GroupState | DetailedReason:
            async with places:
                return await self._read_or_recall(group, nodes, now)

        states: list[GroupState] = []
        for group, result in zip(listed, await asyncio.gather(*map(read, listed.values())), strict=True):
            if isinstance(result, GroupState):
                states.append(result)
            else:
                problems.append(GroupProblem(group, result))
        usable, shared = _without_shared_instances(states)
        return Groups(usable, (*problems, *shared))

    async def order(self, group: str, target: int, now: float, /) -> Ordered:
        """Send the difference to the target size that the server has now."""
        async with self._locks.setdefault(group, asyncio.Lock()):
            try:
                problem = await self._order(group, target, now)
            except (CallFailed, InvalidMessage) as error:
                problem = DetailedReason(CHANGE_FAILED, f"nothing was ordered of {group}: {error}")
        return Ordered(error=problem)

    async def release(self, group: str, instances: Sequence[str], now: float, /) -> Released:
        """Delete instances by name; decrease the target size for those that the server does not list."""
        async with self._locks.setdefault(group, asyncio.Lock()):
            try:
                return await self._release(group, instances, now)
            except (CallFailed, InvalidMessage) as error:
                problem = DetailedReason(CHANGE_FAILED, f"nothing was released of {group}: {error}")
        return Released(refused=dict.fromkeys(instances, problem))

    async def tend(self, now: float, /) -> Tended:
        """Nothing is written for instances while they start. Their age counts from here."""
        self._reader.remember_first_seen(now)
        return Tended()

    async def _refresh(self) -> None:
        try:
            await self._caller.call(REFRESH, Empty())
        except CallFailed as error:
            if error.status is not CallStatus.UNIMPLEMENTED:
                raise

    def _index_nodes(self) -> dict[str, Node]:
        return {node.spec.provider_id: node for node in self._list_nodes() if node.spec.provider_id}

    async def _read_or_recall(
        self, group: GroupMessage, nodes: Mapping[str, Node], now: float
    ) -> GroupState | DetailedReason:
        """The state of a group. If the server does not answer about it, the last one, suspended."""
        try:
            state = await self._reader.read_state(group, nodes, now)
        except (CallFailed, InvalidMessage) as error:
            failure = DetailedReason(GROUP_NOT_ANSWERED, f"{group.id}: {error}")
            last, read_at = self._last_states.get(group.id, (None, now))
            if last is None or now - read_at >= _RECENT_SECONDS:
                return failure
            return msgspec.structs.replace(last, suspended=failure)
        if isinstance(state, GroupState):
            self._last_states[group.id] = (state, now)
        return state

    async def _order(self, group: str, target: int, now: float) -> DetailedReason | None:
        """Order nodes up to the target; returns why fewer were ordered."""
        listed, _ = _index_groups((await self._caller.call(NODE_GROUPS, Empty())).groups)
        if group not in listed:
            return _build_unknown_group(group)
        for _ in range(_ATTEMPTS):
            result = await self._order_difference(listed[group], target, now)
            if not isinstance(result, _SizeChanged):
                return result
        return DetailedReason(CHANGE_FAILED, f"the size of {group} changes all the time; nothing was ordered")

    async def _order_difference(
        self, group: GroupMessage, target: int, now: float
    ) -> DetailedReason | _SizeChanged | None:
        name = group.id
        size = await self._reader.read_target(name)
        unsettled = self._changes.find_size(name, size, now)
        if unsettled is not None and unsettled.is_confirmed:
            size = unsettled.expected
        if target <= size:
            return None
        if unsettled is not None and not unsettled.is_confirmed:
            return build_unsettled(name, unsettled)
        limits = NodeGroup(name, Node(), group.max_size, group.min_size)
        problem = find_order_problem(GroupState(limits, size), target) or self._build_send_problem(name)
        return problem or await self._increase(name, size, target, now)

    async def _increase(self, group: str, size: int, target: int, now: float) -> DetailedReason | _SizeChanged | None:
        """Send an increase once, and find out what came of it."""
        # Before it is sent: a call that is cancelled leaves the order unsettled.
        self._changes.begin_order(group, size, target, now)
        failure: CallFailed | None = None
        try:
            await self._caller.call(INCREASE_SIZE, DeltaRequest(target - size, group, ExpectedSize(size)))
        except CallFailed as error:
            failure = error
        else:
            self._changes.confirm_order(group)
        try:
            now_size = await self._reader.read_target(group)
        except CallFailed as error:
            if failure is None:
                return None
            return DetailedReason(CHANGE_FAILED, f"{failure}; and then {error}")
        if now_size >= target:
            self._changes.end_order(group)
            return None
        if failure is None:
            return None
        if now_size > size or not failure.is_unanswered:
            self._changes.end_order(group)
        if failure.status is CallStatus.ABORTED and now_size != size:
            return _SizeChanged()
        ordered = max(0, now_size - size)
        return DetailedReason(
            CHANGE_FAILED, f"{ordered} of {pluralize(target - size, 'node')} of {group} were ordered: {failure}"
        )

    async def _release(self, group: str, instances: Sequence[str], now: float) -> Released:
        listed, _ = _index_groups((await self._caller.call(NODE_GROUPS, Empty())).groups)
        nodes = self._index_nodes()
        state = await self._reader.read_state(listed[group], nodes, now) if group in listed else None
        if not isinstance(state, GroupState):
            unusable = state if state is not None else _build_unknown_group(group)
            return Released(refused=dict.fromkeys(instances, unusable))
        refused = find_release_problems(state, instances)
        by_id = state.index_by_id()
        accepted = [instance for instance in dict.fromkeys(instances) if instance not in refused]
        leaving = [instance for instance in accepted if by_id[instance].state is InstanceState.LEAVING]
        wanted = [instance for instance in accepted if instance not in leaving]
        problem = self._build_send_problem(group) if wanted else None
        if problem is not None:
            return Released(tuple(leaving), refused={**refused, **dict.fromkeys(wanted, problem)})
        unlisted = [instance for instance in wanted if is_placeholder(group, instance)]
        machines = [instance for instance in wanted if not is_placeholder(group, instance)]
        failed = {
            **await self._delete(group, machines, nodes, now),
            **await self._cancel(group, unlisted, now),
        }
        released = tuple(instance for instance in accepted if instance not in failed)
        await self._settle_release(state, len(wanted) - len(failed), now)
        return Released(released, refused={**refused, **failed})

    async def _settle_release(self, state: GroupState, count: int, now: float) -> None:
        """Remember that a size has fallen, unless the server shows it already."""
        group = state.group.name
        if count:
            self._changes.record_decrease(group, state.target, count, now)
            try:
                self._changes.find_size(group, await self._reader.read_target(group), now)
            except CallFailed:
                # The next answer tells.
                return

    async def _delete(
        self, group: str, machines: Sequence[str], nodes: Mapping[str, Node], now: float
    ) -> dict[str, DetailedReason]:
        """Delete instances. Returns those that are not deleted, with the reason."""
        if not machines:
            return {}
        request = DeleteRequest(tuple(name_node(machine, nodes.get(machine)) for machine in machines), group)
        remaining: Collection[str] = ()
        # A server that has not answered may still delete them: they are not named again at once.
        may_be_deleted = True
        try:
            await self._caller.call(DELETE_NODES, request)
        except CallFailed as error:
            may_be_deleted = error.is_unanswered
            remaining = await self._find_remaining(group, machines, nodes, now)
            reason = DetailedReason(CHANGE_FAILED, str(error))
            return dict.fromkeys(remaining, reason)
        finally:
            for machine in machines:
                if may_be_deleted or machine not in remaining:
                    self._changes.release(group, machine, now)
        return {}

    async def _find_remaining(
        self, group: str, machines: Sequence[str], nodes: Mapping[str, Node], now: float
    ) -> Collection[str]:
        """Which instances the server still lists and does not delete; all of them if it does not answer."""
        try:
            instances = await self._reader.read_instances(group, nodes, now)
        except CallFailed:
            return machines
        present = {instance.id for instance in instances if instance.state is not InstanceState.LEAVING}
        return [machine for machine in machines if machine in present]

    async def _cancel(self, group: str, unlisted: Sequence[str], now: float) -> dict[str, DetailedReason]:
        """Decrease the target size by nodes that the server does not list. Returns those that still count."""
        if not unlisted:
            return {}
        before = await self._reader.read_target(group)
        try:
            await self._caller.call(DECREASE_TARGET_SIZE, DeltaRequest(-len(unlisted), group))
        except CallFailed as error:
            after = await self._reader.read_target(group)
            kept = unlisted[max(0, before - after) :]
            return dict.fromkeys(kept, DetailedReason(CHANGE_FAILED, str(error)))
        for placeholder in unlisted:
            self._changes.release(group, placeholder, now)
        return {}

    def _build_send_problem(self, group: str) -> DetailedReason | None:
        why = self._find_send_problem()
        return DetailedReason(CHANGE_NOT_SENT, f"{group}: {why}") if why is not None else None


class _SizeChanged:
    """An increase was aborted because the size was another one: it is read again."""


def _index_groups(groups: Iterable[GroupMessage]) -> tuple[dict[str, GroupMessage], list[GroupProblem]]:
    """The groups by their ids; of two with one id the first counts, and one without an id does not."""
    by_id: dict[str, GroupMessage] = {}
    problems: list[GroupProblem] = []
    for group in groups:
        if not group.id:
            problems.append(GroupProblem("", DetailedReason(GROUP_INVALID, "the server has a group without an id")))
        elif group.id in by_id:
            problems.append(GroupProblem(group.id, DetailedReason(GROUP_INVALID, f"{group.id} is listed twice")))
        else:
            by_id[group.id] = group
    return by_id, problems


def _without_shared_instances(states: Iterable[GroupState]) -> tuple[tuple[GroupState, ...], list[GroupProblem]]:
    """The groups, without those that have an instance of an earlier one: it would count and be deleted twice."""
    usable: list[GroupState] = []
    problems: list[GroupProblem] = []
    owners: dict[str, str] = {}
    for state in states:
        name = state.group.name
        taken = next((instance.id for instance in state.instances if instance.id in owners), None)
        if taken is None:
            usable.append(state)
            owners.update((instance.id, name) for instance in state.instances)
        else:
            reason = DetailedReason(GROUP_INVALID, f"{name} has the instance {taken}, as {owners[taken]} has")
            problems.append(GroupProblem(name, reason))
    return tuple(usable), problems


def _build_unknown_group(group: str) -> DetailedReason:
    return DetailedReason(UNKNOWN_GROUP, f"the server has no node group {group}")
