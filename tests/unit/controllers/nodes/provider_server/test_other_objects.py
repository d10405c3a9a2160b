"""The server in front of providers whose orders are other objects than Nodes, with a cache that lags behind."""

from __future__ import annotations

import asyncio

from support import virtual_time
from support.worlds.providers.cluster_api import DEPLOYMENT, ClusterApiWorld
from support.worlds.providers.external_grpc import ServiceCaller
from support.worlds.providers.node_claims import ClaimWorld
from trellis.controllers.nodes.metrics import NODE_METRICS
from trellis.controllers.nodes.provider_client import ProviderClient
from trellis.controllers.nodes.provider_server.group_states import GroupStates
from trellis.controllers.nodes.provider_server.service import GroupService
from trellis.core.nodes.node_groups import InstanceState
from trellis.kube.write.writer import Writer
from trellis.providers.external_grpc import rpcs
from trellis.providers.external_grpc.messages import DeleteRequest, DeltaRequest, GroupRequest, NamedNode
from trellis.providers.plugins import RunningProvider
from trellis.runtime.telemetry.metrics import Metrics

LAG = 0.7


async def lag(world: ClusterApiWorld) -> None:
    """Show the state of a moment ago, as a watch does."""
    while True:
        world.reconcile()
        shown = world.objects()
        await asyncio.sleep(LAG)
        world.snapshot = shown


def serve(world: ClusterApiWorld | ClaimWorld) -> ServiceCaller:
    writer = Writer(world.server.client, record=world.outcomes.append)
    metrics = Metrics(NODE_METRICS, about_process=False)
    provider_client = ProviderClient([RunningProvider(world.provider, writer)], 5.0, metrics)

    async def observe_no_nodes(_outcomes: object) -> None:
        """None of the writes is of a Node."""

    states = GroupStates(provider_client, tuple, lambda: world.now, lambda: None)
    service = GroupService(
        states,
        provider_client,
        observe_writes=observe_no_nodes,
        now=lambda: world.now,
        find_change_problem=lambda: None,
    )
    return ServiceCaller(service)


def test_increases_of_machines_add_up_although_the_cache_shows_each_later() -> None:
    async def story() -> None:
        world = ClusterApiWorld()
        world.snapshot = world.objects()
        caller = serve(world)
        async with virtual_time.in_background(lag(world)):
            await asyncio.gather(*(caller.call(rpcs.INCREASE_SIZE, DeltaRequest(1, DEPLOYMENT)) for _ in range(3)))
            assert (await caller.call(rpcs.TARGET_SIZE, GroupRequest(DEPLOYMENT))).size == 3
        assert world.replicas() == 3

    virtual_time.run(story())


def test_a_deletion_is_answered_when_the_machine_counts_as_leaving() -> None:
    async def story() -> None:
        world = ClusterApiWorld(replicas=2)
        world.snapshot = world.objects()
        caller = serve(world)
        [first, _] = world.machines()
        async with virtual_time.in_background(lag(world)):
            named = NamedNode(f"fleet/{first}")
            await caller.call(rpcs.DELETE_NODES, DeleteRequest((named,), DEPLOYMENT))
            assert (await caller.call(rpcs.TARGET_SIZE, GroupRequest(DEPLOYMENT))).size == 1
            [state] = (await world.provider.groups(world.now)).states
            assert state.count(InstanceState.LEAVING) == 1

    virtual_time.run(story())


def test_claims_are_created_once_for_each_increase() -> None:
    async def story() -> None:
        world = ClaimWorld()
        caller = serve(world)
        await asyncio.gather(*(caller.call(rpcs.INCREASE_SIZE, DeltaRequest(2, "small")) for _ in range(2)))
        assert len(world.claims()) == 4

    virtual_time.run(story())
