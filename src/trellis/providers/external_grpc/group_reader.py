"""Reads one group of a server: its target size and instances each time, and its shape once a minute."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from trellis.api.kube.nodes import Node
from trellis.base.errors import InvalidMessage
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.core.nodes.node_groups import GroupOptions, GroupState, Instance
from trellis.providers.external_grpc.answers import (
    GroupShape,
    build_default_options,
    build_group,
    build_instances,
    build_placeholders,
    find_group_fault,
    name_template,
    read_options,
    read_template,
    strip_node,
)
from trellis.providers.external_grpc.messages import GroupMessage, GroupRequest, NodePriceRequest, OptionsRequest
from trellis.providers.external_grpc.node_messages import TimeMessage
from trellis.providers.external_grpc.rpcs import (
    NODE_PRICE,
    NODES,
    OPTIONS,
    TARGET_SIZE,
    TEMPLATE,
    A,
    Caller,
    CallFailed,
    CallStatus,
    Q,
    Rpc,
)
from trellis.providers.external_grpc.unsettled_changes import UnsettledChanges, UnsettledSize

ORDER_UNSETTLED = Reason(
    "NodeOrderUnsettled",
    "An order was not answered, and the target size does not show yet what came of it.",
    Severity.WARNING,
)
ALL_OR_NONE = Reason(
    "NodeGroupAllOrNone", "A node group only grows to its maximum and shrinks to zero at once.", Severity.WARNING
)

# How long the shape of a group counts before it is read again.
_SHAPE_SECONDS: Final = 60.0
_HOUR: Final = 3600


class KnownShape(msgspec.Struct, frozen=True):
    """A shape, and when it was read."""

    shape: GroupShape
    read_at: float


class GroupReader:
    """Reads groups. `defaults` are the autoscaler's settings, which options of a group replace."""

    def __init__(self, caller: Caller, defaults: GroupOptions, changes: UnsettledChanges) -> None:
        self._caller = caller
        self._defaults = defaults
        self._changes = changes
        self._shapes: dict[str, KnownShape] = {}
        # Since when instances without a node are known, by their groups and ids.
        self._first_seen: dict[tuple[str, str], float] = {}
        self._listed: dict[str, tuple[str, ...]] = {}

    async def read_state(
        self, group: GroupMessage, nodes: Mapping[str, Node], now: float
    ) -> GroupState | DetailedReason:
        """The state of a group; the reason if it cannot be used. Raises `CallFailed`.

        `nodes` are those of the cluster by their provider ids.
        """
        fault = find_group_fault(group)
        if fault is not None:
            return fault
        shape, target, instances = await asyncio.gather(
            self._read_shape(group.id, now), self.read_target(group.id), self.read_instances(group.id, nodes, now)
        )
        members = (nodes[instance.id] for instance in instances if instance.id in nodes)
        built = build_group(group, shape, members)
        if isinstance(built, DetailedReason):
            return built
        change = self._changes.find_size(group.id, target, now)
        if change is not None and change.is_confirmed:
            target = change.expected
        placeholders = build_placeholders(group.id, target, instances, self._build_first_seen(group.id, now))
        listed = (*instances, *placeholders)
        self._listed[group.id] = tuple(instance.id for instance in listed)
        return GroupState(built, target, listed, _find_suspension(group.id, shape, change))

    async def read_target(self, group: str) -> int:
        """The target size of a group."""
        return (await self._caller.call(TARGET_SIZE, GroupRequest(group))).size

    async def read_instances(self, group: str, nodes: Mapping[str, Node], now: float) -> tuple[Instance, ...]:
        """The instances that the server lists."""
        answer = await self._caller.call(NODES, GroupRequest(group))
        return build_instances(
            answer.instances,
            nodes,
            lambda instance: self._changes.is_released(group, instance, now),
            self._build_first_seen(group, now),
        )

    def remember_first_seen(self, now: float) -> None:
        """Remember the instances of the last answers, from which on an instance without a node may be overdue."""
        keys = [(group, instance) for group, instances in self._listed.items() for instance in instances]
        self._first_seen = {key: self._first_seen.get(key, now) for key in keys}
        self._changes.forget_old(now)

    def forget_others(self, groups: Mapping[str, GroupMessage]) -> None:
        """Forget groups that the server does not have any more."""
        self._shapes = {name: shape for name, shape in self._shapes.items() if name in groups}
        self._listed = {name: instances for name, instances in self._listed.items() if name in groups}

    def _build_first_seen(self, group: str, now: float) -> Callable[[str], float]:
        return lambda instance: self._first_seen.get((group, instance), now)

    async def _read_shape(self, group: str, now: float) -> GroupShape:
        """The shape of a group; the last one if it cannot be read now."""
        known = self._shapes.get(group)
        if known is not None and 0 <= now - known.read_at < _SHAPE_SECONDS:
            return known.shape
        try:
            shape = await self._request_shape(group, now)
        except (CallFailed, InvalidMessage):
            if known is None:
                raise
            return known.shape
        self._shapes[group] = KnownShape(shape, now)
        return shape

    async def _request_shape(self, group: str, now: float) -> GroupShape:
        template_answer = await _call_optional(self._caller, TEMPLATE, GroupRequest(group))
        template = read_template(template_answer) if template_answer is not None else None
        defaults = build_default_options(self._defaults)
        options_answer = await _call_optional(self._caller, OPTIONS, OptionsRequest(group, defaults))
        options = options_answer.options if options_answer is not None else None
        return GroupShape(
            strip_node(template) if template is not None else None,
            await self._read_price(template, now) if template is not None else None,
            read_options(options, self._defaults) if options is not None else GroupOptions(),
            is_all_or_none=options is not None and options.zero_or_max,
        )

    async def _read_price(self, template: Node, now: float) -> float | None:
        """The hourly price of a node; None if the server has none. A group is useful without a price."""
        start, end = TimeMessage(int(now)), TimeMessage(int(now) + _HOUR)
        request = NodePriceRequest(name_template(template), start, end, start, end)
        try:
            price = (await self._caller.call(NODE_PRICE, request)).price
        except (CallFailed, InvalidMessage):
            return None
        return price if 0 <= price < float("inf") else None


async def _call_optional(caller: Caller, rpc: Rpc[Q, A], request: Q) -> A | None:
    """The answer of a call that a server need not know; None if it does not."""
    try:
        return await caller.call(rpc, request)
    except CallFailed as error:
        if error.status is not CallStatus.UNIMPLEMENTED:
            raise
        return None


def _find_suspension(group: str, shape: GroupShape, change: UnsettledSize | None) -> DetailedReason | None:
    """Why the size of a group cannot change now."""
    if change is not None and not change.is_confirmed:
        return build_unsettled(group, change)
    if shape.is_all_or_none:
        return DetailedReason(ALL_OR_NONE, f"{group} has the option zeroOrMaxNodeScaling, and Trellis adds some nodes")
    return None


def build_unsettled(group: str, order: UnsettledSize) -> DetailedReason:
    """Why a group is left alone after an order without an answer."""
    return DetailedReason(
        ORDER_UNSETTLED,
        f"an order from {order.base} to {order.expected} nodes of {group} was not answered, and the target size is "
        f"still {order.base}",
    )
