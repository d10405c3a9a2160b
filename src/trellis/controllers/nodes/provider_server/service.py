"""Answers the calls of the external gRPC protocol from the providers; nothing here knows of gRPC itself.

The protocol changes sizes by differences, and the providers take absolute orders. A change therefore reads the group
first, and the next change of the group waits until the watch shows it: two increases add up, and neither counts twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from trellis.api.kube.meta import Condition, ObjectMeta
from trellis.api.kube.nodes import Node
from trellis.base.reasons import DetailedReason
from trellis.base.wording import pluralize
from trellis.controllers.nodes.provider_client import PROVIDER_TIMED_OUT, ProviderClient
from trellis.controllers.nodes.provider_server.group_states import GroupStates, KnownGroups, MemberInstance
from trellis.core.nodes.node_groups import GROUP_AT_MAXIMUM, GroupState, InstanceState
from trellis.kube.write.outcomes import WriteOutcome
from trellis.providers.external_grpc import rpcs
from trellis.providers.external_grpc.answers import OUT_OF_RESOURCES
from trellis.providers.external_grpc.messages import (
    DeleteRequest,
    DeltaRequest,
    Empty,
    ErrorClass,
    GroupAnswer,
    GroupMessage,
    GroupRequest,
    GroupsAnswer,
    InstanceErrorMessage,
    InstanceMessage,
    InstancesAnswer,
    InstanceStateNumber,
    InstanceStatusMessage,
    LabelAnswer,
    NamedNode,
    NodePriceRequest,
    NodeRequest,
    OptionsAnswer,
    OptionsMessage,
    OptionsRequest,
    PriceAnswer,
    TargetAnswer,
    TemplateAnswer,
    build_duration,
    build_kube_duration,
)
from trellis.providers.external_grpc.node_messages import TimeMessage, encode_node
from trellis.providers.external_grpc.protobuf import Message
from trellis.providers.external_grpc.rpcs import CallFailed, CallStatus, Rpc
from trellis.providers.protocol import UNKNOWN_GROUP

# On the node of a template, so that a client that asks for its price names the group.
GROUP_ANNOTATION: Final = "nodes.trellis.x-k8s.io/node-group"

_STATE_NUMBERS: Final = {
    InstanceState.ORDERED: InstanceStateNumber.CREATING,
    InstanceState.RUNNING: InstanceStateNumber.RUNNING,
    InstanceState.LEAVING: InstanceStateNumber.DELETING,
    # A client deletes instances that are being created and have an error.
    InstanceState.FAILED: InstanceStateNumber.CREATING,
}
_READY: Final = Condition(type="Ready", status="True")
_SECONDS_PER_HOUR: Final = 3600
_NANOS: Final = 1e9
# How long a call waits until the groups show its change, and how often it reads them.
_SHOWN_SECONDS: Final = 3.0
_SHOWN_INTERVAL_SECONDS: Final = 0.05
# The size of a change that fits into the messages.
_MAX_DELTA: Final = 2**31 - 1


class Method(NamedTuple):
    """A call, and what answers it."""

    rpc: Rpc[Any, Any]
    answer: Callable[[Any], Awaitable[Message]]


class GroupService:
    """The calls of clients.

    `observe_writes` returns once the caches show these writes. `find_change_problem` says why nothing may be changed.
    """

    def __init__(
        self,
        states: GroupStates,
        provider_client: ProviderClient,
        *,
        observe_writes: Callable[[Iterable[WriteOutcome]], Awaitable[None]],
        now: Callable[[], float],
        find_change_problem: Callable[[], str | None],
    ) -> None:
        self._states = states
        self._provider_client = provider_client
        self._observe_writes = observe_writes
        self._now = now
        self._find_change_problem = find_change_problem
        self._locks: dict[str, asyncio.Lock] = {}
        self._observing = asyncio.Lock()

    @property
    def methods(self) -> tuple[Method, ...]:
        """Everything that is answered; a client gets UNIMPLEMENTED for the rest."""
        return (
            Method(rpcs.REFRESH, self._refresh),
            Method(rpcs.CLEANUP, self._answer_empty),
            Method(rpcs.NODE_GROUPS, self._list_groups),
            Method(rpcs.NODE_GROUP_FOR_NODE, self._find_group_of_node),
            Method(rpcs.TARGET_SIZE, self._read_target),
            Method(rpcs.INCREASE_SIZE, self._increase),
            Method(rpcs.DECREASE_TARGET_SIZE, self._decrease),
            Method(rpcs.DELETE_NODES, self._delete),
            Method(rpcs.NODES, self._list_instances),
            Method(rpcs.TEMPLATE, self._build_template),
            Method(rpcs.OPTIONS, self._read_options),
            Method(rpcs.NODE_PRICE, self._price_node),
            Method(rpcs.GPU_LABEL, self._answer_gpu_label),
            Method(rpcs.GPU_TYPES, self._answer_empty),
        )

    async def _refresh(self, _request: Empty) -> Empty:
        self._states.forget()
        await self._states.read()
        return Empty()

    async def _answer_empty(self, _request: Empty) -> Empty:
        return Empty()

    async def _answer_gpu_label(self, _request: Empty) -> LabelAnswer:
        return LabelAnswer()

    async def _list_groups(self, _request: Empty) -> GroupsAnswer:
        states = (await self._states.read()).states
        return GroupsAnswer(tuple(map(_build_group_message, states.values())))

    async def _find_group_of_node(self, request: NodeRequest) -> GroupAnswer:
        member = _find_member(await self._states.read(), request.node)
        return GroupAnswer(_build_group_message(member.group)) if member is not None else GroupAnswer()

    async def _read_target(self, request: GroupRequest) -> TargetAnswer:
        return TargetAnswer((await self._states.find(request.id)).target)

    async def _list_instances(self, request: GroupRequest) -> InstancesAnswer:
        await self._states.find(request.id)
        return InstancesAnswer(tuple(map(_build_instance_message, (await self._states.read()).members[request.id])))

    async def _build_template(self, request: GroupRequest) -> TemplateAnswer:
        group = (await self._states.find(request.id)).group
        template = group.template
        node = Node(
            metadata=ObjectMeta(
                name=f"{group.name}-template",
                labels=template.metadata.labels,
                annotations={**template.metadata.annotations, GROUP_ANNOTATION: group.name},
            ),
            spec=template.spec,
            # A client leaves out nodes that are not ready.
            status=msgspec.structs.replace(template.status, conditions=(_READY,)),
        )
        data = encode_node(node)
        return TemplateAnswer(data, data)

    async def _read_options(self, request: OptionsRequest) -> OptionsAnswer:
        """The options of a group; every other one is the default of the request, so that none is zero."""
        options = (await self._states.find(request.id)).group.options
        defaults = request.defaults
        changed: dict[str, Any] = {}
        if options.scale_down_utilization_threshold is not None:
            changed["utilization_threshold"] = options.scale_down_utilization_threshold
        if options.scale_down_gpu_utilization_threshold is not None:
            changed["gpu_utilization_threshold"] = options.scale_down_gpu_utilization_threshold
        for name, seconds in (
            ("unneeded", options.scale_down_unneeded_seconds),
            ("unready", options.scale_down_unready_seconds),
            ("max_provision", options.max_node_provision_seconds),
        ):
            if seconds is not None:
                changed[name] = build_duration(seconds)
                changed[f"old_{name}"] = build_kube_duration(seconds)
        fields = {name: getattr(defaults, name) for name in OptionsMessage.__struct_fields__}
        return OptionsAnswer(OptionsMessage(**{**fields, **changed}))

    async def _price_node(self, request: NodePriceRequest) -> PriceAnswer:
        known = await self._states.read()
        member = _find_member(known, request.node)
        name = request.node.annotations.get(GROUP_ANNOTATION, "")
        state = member.group if member is not None else known.states.get(name)
        if state is None:
            raise CallFailed(
                rpcs.NODE_PRICE.name, CallStatus.NOT_FOUND, f"no node group has the node {request.node.name}"
            )
        hours = _measure_seconds(request) / _SECONDS_PER_HOUR
        return PriceAnswer(state.group.price * hours)

    async def _increase(self, request: DeltaRequest) -> Empty:
        if not 0 < request.delta <= _MAX_DELTA:
            raise CallFailed(
                rpcs.INCREASE_SIZE.name, CallStatus.INVALID_ARGUMENT, f"delta is {request.delta}, but must be positive"
            )
        async with await self._change(request.id):
            state = await self._states.find(request.id)
            self._require_change(rpcs.INCREASE_SIZE)
            expected = request.expected
            if expected is not None and expected.size != state.target:
                details = f"{request.id} has a target size of {state.target}, and not {expected.size}"
                raise CallFailed(rpcs.INCREASE_SIZE.name, CallStatus.ABORTED, details)
            target = state.target + request.delta
            result = await self._provider_client.order(request.id, target, self._now())
            await self._observe(result.outcomes)
            if result.refusal is not None:
                raise _build_refusal(rpcs.INCREASE_SIZE, result.refusal)
            _require_applied(rpcs.INCREASE_SIZE, result.outcomes)
            await self._wait_until_shown(request.id, lambda shown: shown.target >= target)
        return Empty()

    async def _decrease(self, request: DeltaRequest) -> Empty:
        """Cancel orders of nodes that are not up yet, the last ones first."""
        if not -_MAX_DELTA <= request.delta < 0:
            raise CallFailed(
                rpcs.DECREASE_TARGET_SIZE.name,
                CallStatus.INVALID_ARGUMENT,
                f"delta is {request.delta}, but must be negative",
            )
        async with await self._change(request.id):
            state = await self._states.find(request.id)
            self._require_change(rpcs.DECREASE_TARGET_SIZE)
            waiting = [each for each in state.instances if each.state in (InstanceState.ORDERED, InstanceState.FAILED)]
            if len(waiting) < -request.delta:
                raise CallFailed(
                    rpcs.DECREASE_TARGET_SIZE.name,
                    CallStatus.FAILED_PRECONDITION,
                    f"{request.id} waits for {pluralize(len(waiting), 'node')}; nodes that exist are deleted by name",
                )
            newest = sorted(waiting, key=lambda instance: (instance.since, instance.id))[request.delta :]
            await self._release(rpcs.DECREASE_TARGET_SIZE, request.id, [instance.id for instance in newest])
        return Empty()

    async def _delete(self, request: DeleteRequest) -> Empty:
        async with await self._change(request.id):
            await self._states.find(request.id)
            self._require_change(rpcs.DELETE_NODES)
            known = await self._states.read()
            ids: list[str] = []
            for node in request.nodes:
                member = _find_member(known, node)
                if member is None or member.group.group.name != request.id:
                    details = f"{request.id} has no node {node.name or node.provider_id}"
                    raise CallFailed(rpcs.DELETE_NODES.name, CallStatus.NOT_FOUND, details)
                ids.append(member.instance.id)
            await self._release(rpcs.DELETE_NODES, request.id, ids)
        return Empty()

    async def _release(self, rpc: Rpc[Any, Any], group: str, instances: list[str]) -> None:
        result = await self._provider_client.release(group, instances, self._now())
        await self._observe(result.outcomes)
        for instance in instances:
            refusal = result.refused.get(instance)
            if refusal is not None:
                raise _build_refusal(rpc, refusal)
        _require_applied(rpc, result.outcomes)
        await self._wait_until_shown(group, lambda shown: _have_left(shown, instances))

    async def _wait_until_shown(self, group: str, is_shown: Callable[[GroupState], bool]) -> None:
        """Return once the group shows a change, or after a while: it may be in other objects than Nodes."""
        end = asyncio.get_running_loop().time() + _SHOWN_SECONDS
        while asyncio.get_running_loop().time() < end:
            try:
                state = (await self._states.read()).states.get(group)
            except CallFailed:
                return  # the change is done; the next call says what is wrong
            if state is None or is_shown(state):
                return
            await asyncio.sleep(_SHOWN_INTERVAL_SECONDS)
            self._states.forget()

    async def _change(self, group: str) -> asyncio.Lock:
        """Held during a change of a group; raises `CallFailed` if there is no such group."""
        await self._states.find(group)
        return self._locks.setdefault(group, asyncio.Lock())

    async def _observe(self, outcomes: tuple[WriteOutcome, ...]) -> None:
        """Return once the watch shows these writes."""
        async with self._observing:
            await self._observe_writes(outcomes)
        self._states.forget()

    def _require_change(self, rpc: Rpc[Any, Any]) -> None:
        problem = self._find_change_problem()
        if problem is not None:
            raise CallFailed(rpc.name, CallStatus.FAILED_PRECONDITION, problem)


def _have_left(state: GroupState, instances: Iterable[str]) -> bool:
    by_id = state.index_by_id()
    return all(name not in by_id or by_id[name].state is InstanceState.LEAVING for name in instances)


def _find_member(known: KnownGroups, node: NamedNode) -> MemberInstance | None:
    """The instance of a node: by its provider id, else by its name."""
    if node.provider_id:
        return known.by_provider_id.get(node.provider_id)
    return known.by_node.get(node.name)


def _build_group_message(state: GroupState) -> GroupMessage:
    group = state.group
    debug = f"{group.name}: {state.target} of {group.min_size} to {group.max_size}"
    return GroupMessage(group.name, group.min_size, group.max_size, debug)


def _build_instance_message(member: MemberInstance) -> InstanceMessage:
    instance = member.instance
    error = InstanceErrorMessage()
    if instance.state is InstanceState.FAILED:
        reason = instance.error
        code = reason.reason.code if reason is not None else "Failed"
        is_exhausted = reason is not None and reason.reason is OUT_OF_RESOURCES
        error_class = ErrorClass.OUT_OF_RESOURCES if is_exhausted else ErrorClass.OTHER
        error = InstanceErrorMessage(code, str(reason or "the node failed to start"), error_class)
    return InstanceMessage(member.provider_id, InstanceStatusMessage(_STATE_NUMBERS[instance.state], error))


def _measure_seconds(request: NodePriceRequest) -> float:
    """The seconds between the moments of a request."""
    start = request.start or request.old_start or TimeMessage()
    end = request.end or request.old_end or TimeMessage()
    return max(0.0, end.seconds - start.seconds + (end.nanos - start.nanos) / _NANOS)


def _build_refusal(rpc: Rpc[Any, Any], reason: DetailedReason) -> CallFailed:
    statuses: Mapping[Any, CallStatus] = {
        UNKNOWN_GROUP: CallStatus.NOT_FOUND,
        GROUP_AT_MAXIMUM: CallStatus.OUT_OF_RANGE,
        PROVIDER_TIMED_OUT: CallStatus.DEADLINE_EXCEEDED,
    }
    return CallFailed(rpc.name, statuses.get(reason.reason, CallStatus.FAILED_PRECONDITION), str(reason))


def _require_applied(rpc: Rpc[Any, Any], outcomes: Iterable[WriteOutcome]) -> None:
    """Report that not all writes of a change were applied; a client then reads the size again."""
    failed = [outcome for outcome in outcomes if not outcome.applied]
    if failed:
        raise CallFailed(rpc.name, CallStatus.ABORTED, f"{pluralize(len(failed), 'write')} failed: {failed[0].message}")
