"""The client passes the conformance suite: on servers of different habits, on ours, and through a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any

from support import virtual_time
from support.worlds.providers.external_grpc import (
    GroupOfMachines,
    KwokServerWorld,
    MachineWorld,
    ServiceCaller,
    serve,
    unknown_fields,
)
from support.worlds.providers.kwok_nodes import group
from trellis.controllers.nodes.provider_server.service import GroupService
from trellis.providers.external_grpc.channel import ServerChannel
from trellis.providers.external_grpc.configuration import ServerConfiguration
from trellis.providers.external_grpc.rpcs import A, Caller, Q, Rpc
from trellis.testing.providers import conformance_tests, find_failures


def plain() -> MachineWorld:
    """A group among others, of which one has impossible sizes."""
    broken = GroupOfMachines("broken", least=4, most=3)
    return MachineWorld(broken, GroupOfMachines(least=1), GroupOfMachines("other", most=1), broken_group="broken")


def to_zero() -> MachineWorld:
    return MachineWorld(GroupOfMachines())


def listing_late() -> MachineWorld:
    """The server lists machines once they are up."""
    return MachineWorld(GroupOfMachines(least=1, listed_early=False))


def of_an_old_version() -> MachineWorld:
    """The template in the old field, and unknown fields everywhere."""
    world = MachineWorld(GroupOfMachines())
    world.server.template_field = "old_node"
    world.server.extra = unknown_fields()
    return world


def bare() -> MachineWorld:
    """No optional calls but the template, and no Refresh."""
    world = MachineWorld(GroupOfMachines())
    world.server.unimplemented |= {"Refresh", "NodeGroupGetOptions", "PricingNodePrice", "GPULabel"}
    return world


def without_limits() -> MachineWorld:
    """The client alone keeps the sizes."""
    world = MachineWorld(GroupOfMachines(least=1))
    world.server.enforces_sizes = False
    return world


test_plain = conformance_tests(plain, virtual_time.run)
test_to_zero = conformance_tests(to_zero, virtual_time.run)
test_listing_late = conformance_tests(listing_late, virtual_time.run)
test_of_an_old_version = conformance_tests(of_an_old_version, virtual_time.run)
test_bare = conformance_tests(bare, virtual_time.run)
test_without_limits = conformance_tests(without_limits, virtual_time.run)
test_our_server_with_kwok = conformance_tests(lambda: KwokServerWorld(group(minSize=1)), virtual_time.run)


class _SocketCaller(Caller):
    """Starts the server at the first call."""

    opened: list[_SocketCaller] = []

    def __init__(self, service: GroupService) -> None:
        self.service = service
        self.stack = AsyncExitStack()
        self.channel: ServerChannel | None = None
        self.opened.append(self)

    async def call(self, rpc: Rpc[Q, A], request: Q, /) -> A:
        if self.channel is None:
            port = await self.stack.enter_async_context(serve(ServiceCaller(self.service).answer))
            self.channel = ServerChannel(ServerConfiguration(f"localhost:{port}"))
            self.stack.push_async_callback(self.channel.close)
        return await self.channel.call(rpc, request)


def _run_and_close(check: Coroutine[Any, Any, None]) -> None:
    async def run() -> None:
        try:
            await check
        finally:
            for caller in _SocketCaller.opened:
                await caller.stack.aclose()
            _SocketCaller.opened.clear()

    asyncio.run(run())


test_through_a_socket = conformance_tests(
    lambda: KwokServerWorld(group(minSize=1), make_caller=_SocketCaller), _run_and_close
)


def lagging(reads: int) -> MachineWorld:
    """The server answers with the size before a change for a number of reads."""
    world = plain()
    world.server.lag = reads
    return world


def test_a_confirmed_change_counts_while_the_server_shows_the_older_size() -> None:
    assert find_failures(lambda: lagging(1), virtual_time.run) == []
    # Another process knows nothing of the change yet. No client can pass here: the protocol has no names of requests.
    assert [failure.check for failure in find_failures(lambda: lagging(2), virtual_time.run)] == [
        "ignores-repeated-orders"
    ]
