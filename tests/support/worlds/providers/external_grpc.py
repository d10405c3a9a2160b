"""Servers of the external gRPC protocol for tests: one of machines in memory that may have any fault, and ours.

    world = MachineWorld(GroupOfMachines("pool", maxSize=4))
    world.server.fail("NodeGroupIncreaseSize", After(CallStatus.DEADLINE_EXCEEDED))   # done, and not answered
    await world.provider.order("pool", 2, world.now)

`MachineWorld` and `KwokServerWorld` are `ProviderEnvironment`s. Messages go through their bytes in either. `serve` puts
a server behind a real socket, and `channels` closes what a test opened there.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

import grpc
import grpc.aio

from support.worlds.providers.kwok_nodes import NOW, Document, KwokWorld, group
from trellis.api.kube.meta import Condition, ObjectMeta
from trellis.api.kube.nodes import Node, NodeSpec, NodeStatus, Taint
from trellis.base.reasons import DetailedReason, Reason
from trellis.controllers.nodes.metrics import NODE_METRICS
from trellis.controllers.nodes.provider_client import ProviderClient
from trellis.controllers.nodes.provider_server.group_states import GroupStates
from trellis.controllers.nodes.provider_server.service import GroupService
from trellis.core.nodes import GroupState
from trellis.kube.write.writer import Writer
from trellis.providers.external_grpc import rpcs
from trellis.providers.external_grpc.messages import (
    DeleteRequest,
    DeltaRequest,
    Empty,
    GroupMessage,
    GroupRequest,
    GroupsAnswer,
    InstanceErrorMessage,
    InstanceMessage,
    InstancesAnswer,
    InstanceStateNumber,
    InstanceStatusMessage,
    OptionsAnswer,
    OptionsMessage,
    OptionsRequest,
    PriceAnswer,
    TargetAnswer,
    TemplateAnswer,
)
from trellis.providers.external_grpc.node_messages import encode_node
from trellis.providers.external_grpc.protobuf import Message, decode
from trellis.providers.external_grpc.provider import ExternalGrpcProvider
from trellis.providers.external_grpc.rpcs import SERVICE, A, Caller, CallFailed, CallStatus, Q, Rpc
from trellis.providers.kwok import KwokObjects, KwokProvider
from trellis.providers.plugins import RunningProvider
from trellis.providers.protocol import Steps
from trellis.runtime.telemetry.metrics import Metrics

BOOT = 30.0
RPCS: dict[str, Rpc[Any, Any]] = {value.name: value for value in vars(rpcs).values() if isinstance(value, Rpc)}


class Before(NamedTuple):
    """The call fails, and nothing is carried out."""

    status: CallStatus


class After(NamedTuple):
    """The call is carried out, and then fails."""

    status: CallStatus


class Late(NamedTuple):
    """The call fails, and is carried out by `MachineServer.carry_out_late`."""

    status: CallStatus


class Hang:
    """The call is never answered."""


class Sound:
    """The call has no fault, but a later one has."""


Fault = Before | After | Late | Hang | Sound


class GroupOfMachines:
    """Machines by id, each with the time of its order; `wanted` may be more than there are."""

    def __init__(self, name: str = "pool", *, most: int = 5, least: int = 0, listed_early: bool = True) -> None:
        self.name = name
        self.most = most
        self.least = least
        self.listed_early = listed_early
        self.machines: dict[str, float] = {}
        self.wanted = 0
        self.made = 0
        self.failed: dict[str, InstanceErrorMessage] = {}
        self.options: OptionsMessage | None = None
        self.price: float | None = None

    def grow(self, delta: int, now: float) -> None:
        self.wanted += delta
        for _ in range(delta):
            self.made += 1
            self.machines[f"cloud:///{self.name}/{self.made}"] = now


def template_node(name: str = "") -> Node:
    amounts = {"cpu": "2", "memory": "8Gi", "pods": "30"}
    return Node(
        metadata=ObjectMeta(name=name, labels={"pool": "pool"}),
        spec=NodeSpec(taints=(Taint("dedicated", "shop", "NoSchedule"),)),
        status=NodeStatus(amounts, amounts, (Condition(type="Ready", status="True"),)),
    )


class MachineServer(Caller):
    """A server of machines. What it lacks or gets wrong is set by its attributes.

    `lag` is how many times it still answers with the old target size after a change.
    """

    def __init__(self, *groups: GroupOfMachines) -> None:
        self.groups = {each.name: each for each in groups or (GroupOfMachines(),)}
        self.now = NOW
        self.template_field = "node"
        self.unimplemented: set[str] = {"PricingPodPrice"}
        self.extra = b""
        self.lag = 0
        self.enforces_sizes = True
        # Our own server compares the size that an increase is based on.
        self.knows_expected = False
        self.calls: list[str] = []
        self.deleted: list[str] = []
        self._faults: dict[str, list[Fault]] = {}
        self._late: list[Callable[[], Message]] = []
        self._old_targets: dict[str, tuple[int, int]] = {}

    def fail(self, rpc: str, *faults: Fault) -> None:
        """The next calls of this name have these faults, one after the other."""
        self._faults.setdefault(rpc, []).extend(faults)

    def forget_faults(self) -> None:
        """Faults that no call has had do not happen."""
        self._faults.clear()

    def carry_out_late(self) -> None:
        """Carry out what is late; raises `CallFailed` for what is refused."""
        late, self._late = self._late, []
        refused: CallFailed | None = None
        for carry_out in late:
            try:
                carry_out()
            except CallFailed as error:
                refused = error
        if refused is not None:
            raise refused

    def count(self, rpc: str) -> int:
        return self.calls.count(rpc)

    async def call(self, rpc: Rpc[Q, A], request: Q, /) -> A:
        return decode(rpc.answer, await self.answer(rpc.name, request.encode()))

    async def answer(self, name: str, data: bytes) -> bytes:
        """The bytes of an answer to these bytes."""
        self.calls.append(name)
        await asyncio.sleep(0)
        request = decode(RPCS[name].request, data)
        if name in self.unimplemented:
            raise CallFailed(name, CallStatus.UNIMPLEMENTED, "not implemented")
        faults = self._faults.get(name)
        fault = faults.pop(0) if faults else None
        match fault:
            case Hang():
                await asyncio.get_running_loop().create_future()
            case Before(status):
                raise CallFailed(name, status, "as the test says")
            case Late(status):
                self._late.append(lambda: self._carry_out(name, request))
                raise CallFailed(name, status, "as the test says")
        answer = self._carry_out(name, request)
        if isinstance(fault, After):
            raise CallFailed(name, fault.status, "as the test says")
        return answer.encode() + self.extra

    def _carry_out(self, name: str, request: Any) -> Message:
        answer: Message = getattr(self, f"_{name}")(request)
        return answer

    def _find(self, name: str) -> GroupOfMachines:
        if name not in self.groups:
            raise CallFailed("", CallStatus.UNKNOWN, f"NodeGroup {name}, not found")
        return self.groups[name]

    def _change(self, pool: GroupOfMachines) -> None:
        if self.lag:
            self._old_targets[pool.name] = (pool.wanted, self.lag)

    def _Refresh(self, _request: Empty) -> Message:  # noqa: N802 - the names of the protocol
        return Empty()

    def _NodeGroups(self, _request: Empty) -> Message:  # noqa: N802
        return GroupsAnswer(tuple(GroupMessage(each.name, each.least, each.most) for each in self.groups.values()))

    def _NodeGroupTargetSize(self, request: GroupRequest) -> Message:  # noqa: N802
        pool = self._find(request.id)
        old, times = self._old_targets.get(request.id, (0, 0))
        if times:
            self._old_targets[request.id] = (old, times - 1)
            return TargetAnswer(old)
        return TargetAnswer(pool.wanted)

    def _NodeGroupIncreaseSize(self, request: DeltaRequest) -> Message:  # noqa: N802
        pool = self._find(request.id)
        if self.knows_expected and request.expected is not None and request.expected.size != pool.wanted:
            raise CallFailed("", CallStatus.ABORTED, f"the size is {pool.wanted}")
        if self.enforces_sizes and pool.wanted + request.delta > pool.most:
            raise CallFailed("", CallStatus.UNKNOWN, "size increase is too large")
        self._change(pool)
        pool.grow(request.delta, self.now)
        return Empty()

    def _NodeGroupDecreaseTargetSize(self, request: DeltaRequest) -> Message:  # noqa: N802
        pool = self._find(request.id)
        listed = len(self._listed(pool))
        if pool.wanted + request.delta < listed:
            raise CallFailed("", CallStatus.UNKNOWN, "attempt to delete existing nodes")
        self._change(pool)
        pool.wanted += request.delta
        for machine in [each for each in pool.machines if each not in self._listed(pool)][request.delta :]:
            del pool.machines[machine]
        return Empty()

    def _NodeGroupDeleteNodes(self, request: DeleteRequest) -> Message:  # noqa: N802
        pool = self._find(request.id)
        self._change(pool)
        for node in request.nodes:
            # As simple servers do: the size falls even if the machine is gone already.
            pool.wanted -= 1
            pool.machines.pop(node.provider_id, None)
            pool.failed.pop(node.provider_id, None)
            self.deleted.append(node.provider_id)
        return Empty()

    def _listed(self, pool: GroupOfMachines) -> list[str]:
        return [machine for machine, at in pool.machines.items() if pool.listed_early or self.now >= at + BOOT]

    def _NodeGroupNodes(self, request: GroupRequest) -> Message:  # noqa: N802
        pool = self._find(request.id)
        return InstancesAnswer(tuple(self._instance(pool, machine) for machine in self._listed(pool)))

    def _instance(self, pool: GroupOfMachines, machine: str) -> InstanceMessage:
        is_up = self.now >= pool.machines[machine] + BOOT and machine not in pool.failed
        state = InstanceStateNumber.RUNNING if is_up else InstanceStateNumber.CREATING
        return InstanceMessage(machine, InstanceStatusMessage(state, pool.failed.get(machine, InstanceErrorMessage())))

    def _NodeGroupTemplateNodeInfo(self, request: GroupRequest) -> Message:  # noqa: N802
        self._find(request.id)
        data = encode_node(template_node("template"))
        return TemplateAnswer(**{self.template_field: data})

    def _NodeGroupGetOptions(self, request: OptionsRequest) -> Message:  # noqa: N802
        return OptionsAnswer(self._find(request.id).options or request.defaults)

    def _PricingNodePrice(self, _request: Message) -> Message:  # noqa: N802
        price = next(iter(self.groups.values())).price
        if price is None:
            raise CallFailed("", CallStatus.UNIMPLEMENTED, "no prices")
        return PriceAnswer(price)


class MachineWorld:
    """A cluster whose machines are a server's: time, nodes, and the provider."""

    hanging_group = ""

    def __init__(self, *groups: GroupOfMachines, caller: Caller | None = None, broken_group: str = "") -> None:
        self.broken_group = broken_group
        self.server = MachineServer(*groups)
        self._caller = caller or self.server
        self.now = NOW
        self.send_problem: str | None = None
        self.provider: ExternalGrpcProvider = self.restarted_provider()

    def restarted_provider(self) -> ExternalGrpcProvider:
        return ExternalGrpcProvider(self._caller, self.nodes, find_send_problem=lambda: self.send_problem)

    async def execute(self, steps: Steps) -> None:
        assert not steps, "the provider writes nothing to the API server"

    async def wait(self, seconds: float) -> None:
        self.now += seconds
        self.server.now = self.now

    def nodes(self) -> list[Node]:
        return [
            self._node(machine, at + BOOT)
            for pool in self.server.groups.values()
            for machine, at in pool.machines.items()
            if self.now >= at + BOOT and machine not in pool.failed
        ]

    async def list_nodes(self) -> Sequence[Node]:
        return self.nodes()

    def _node(self, machine: str, created: float) -> Node:
        template = template_node()
        name = machine.removeprefix("cloud:///").replace("/", "-")
        created_at = datetime.fromtimestamp(created, UTC)
        return Node(
            metadata=ObjectMeta(
                name=name, labels={"pool": "pool", "kubernetes.io/hostname": name}, creation_timestamp=created_at
            ),
            spec=NodeSpec(provider_id=machine, taints=template.spec.taints),
            status=template.status,
        )

    async def state(self, name: str = "pool") -> GroupState:
        groups = await self.provider.groups(self.now)
        return next(state for state in groups.states if state.group.name == name)

    async def problems(self) -> dict[str, Reason]:
        return {problem.group: problem.reason.reason for problem in (await self.provider.groups(self.now)).problems}

    async def order(self, target: int, name: str = "pool") -> DetailedReason | None:
        return (await self.provider.order(name, target, self.now)).error


class KwokServerWorld(KwokWorld):
    """Kwok's nodes behind our server, and a client of it, without a socket unless `caller` has one."""

    provider: ExternalGrpcProvider  # type: ignore[assignment]

    def __init__(self, *groups: Document, make_caller: Callable[[GroupService], Caller] | None = None) -> None:
        # The nodes that the server's cache shows, if not all.
        self.shown_nodes: tuple[Node, ...] | None = None
        super().__init__(*(groups or (group(),)))
        kwok = KwokProvider(self.read_objects, "kube-system/groups")
        writer = Writer(self.server.client, record=self.outcomes.append)
        metrics = Metrics(NODE_METRICS, about_process=False)
        self.provider_client = ProviderClient([RunningProvider(kwok, writer)], 5.0, metrics)
        self.change_problem: str | None = None
        self.staleness: str | None = None
        self.group_states = GroupStates(
            self.provider_client, self.stored_nodes, lambda: self.now, lambda: self.staleness
        )
        self.service = GroupService(
            self.group_states,
            self.provider_client,
            observe_writes=_observe_at_once,
            now=lambda: self.now,
            find_change_problem=lambda: self.change_problem,
        )
        self.caller = make_caller(self.service) if make_caller is not None else ServiceCaller(self.service)
        self.provider = self.restarted_provider()

    def restarted_provider(self) -> ExternalGrpcProvider:  # type: ignore[override]
        if not hasattr(self, "caller"):
            return None  # type: ignore[return-value]
        return ExternalGrpcProvider(self.caller, self.stored_nodes)

    def read_objects(self) -> KwokObjects:
        return KwokObjects(self.config, self.stored_nodes() if self.shown_nodes is None else self.shown_nodes)

    async def bring_up_by_server(self, count: int, name: str = "small") -> None:
        """Order nodes by a call, and let them boot."""
        await self.caller.call(rpcs.INCREASE_SIZE, DeltaRequest(count, name))
        for _ in range(3):
            await self.wait(60.0)

    async def wait(self, seconds: float) -> None:
        """Time passes, and the server tends its nodes."""
        await super().wait(seconds)
        for _ in range(3):
            await self.provider_client.tend(self.now)
            await super().wait(0.0)
        self.group_states.forget()


async def _observe_at_once(_outcomes: object) -> None:
    """The nodes are read from where they are written."""


class ServiceCaller(Caller):
    """Calls a service through the bytes of its messages."""

    def __init__(self, service: GroupService) -> None:
        self.methods = {method.rpc.name: method for method in service.methods}

    async def call(self, rpc: Rpc[Q, A], request: Q, /) -> A:
        return decode(rpc.answer, await self.answer(rpc.name, request.encode()))

    async def answer(self, name: str, data: bytes) -> bytes:
        if name not in self.methods:
            raise CallFailed(name, CallStatus.UNIMPLEMENTED, "Method not found!")
        method = self.methods[name]
        return (await method.answer(decode(method.rpc.request, data))).encode()


Answer = Callable[[str, bytes], Awaitable[bytes]]


@asynccontextmanager
async def serve(answer: Answer, credentials: grpc.ServerCredentials | None = None, port: int = 0) -> AsyncIterator[int]:
    """A server at a socket of loopback, in plaintext without credentials; the value is its port."""
    server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        name: grpc.unary_unary_rpc_method_handler(_build_handler(name, answer)) for name in RPCS
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    where = f"localhost:{port}"
    bound = server.add_secure_port(where, credentials) if credentials else server.add_insecure_port(where)
    await server.start()
    try:
        yield bound
    finally:
        await server.stop(None)


def _build_handler(name: str, answer: Answer) -> Callable[[bytes, Any], Awaitable[bytes]]:
    async def handle(data: bytes, context: Any) -> bytes:
        try:
            return await answer(name, data)
        except CallFailed as error:
            result: bytes = await context.abort(grpc.StatusCode[error.status.name], error.details)
            return result

    return handle


def unknown_fields() -> bytes:
    """Fields that no message of ours declares, of every wire type."""
    return b"\xf8\x3e\x2a" + b"\xf9\x3e" + struct.pack("<d", 1.5) + b"\xfa\x3e\x03abc" + b"\xfd\x3e" + b"\0\0\0\0"
