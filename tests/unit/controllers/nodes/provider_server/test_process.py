"""The server as a component: caches, the loop that tends nodes, and a client at its socket."""

from __future__ import annotations

import asyncio
from typing import Any

import yaml

from support.controllers.nodes import CONFIG, NODES
from support.controllers.world import ControlledWorld, discovery
from support.worlds.providers.kwok_nodes import group
from trellis.api.kube.meta import ObjectReference
from trellis.base.reasons import Reason
from trellis.controllers.nodes.provider_server.metrics import PROVIDER_SERVER_METRICS
from trellis.controllers.nodes.provider_server.process import open_provider_server
from trellis.controllers.nodes.provider_server.settings import GrpcServerSettings, NodeProviderServerSettings
from trellis.core.nodes.node_groups import InstanceState
from trellis.providers.external_grpc.channel import ServerChannel
from trellis.providers.external_grpc.configuration import ServerConfiguration
from trellis.providers.external_grpc.provider import ExternalGrpcProvider

SETTINGS = NodeProviderServerSettings(server=GrpcServerSettings(grpc_address="127.0.0.1:0"))


class ServerWorld(ControlledWorld):
    """An API server in memory, and kwok, which makes its nodes ready."""

    def __init__(self) -> None:
        super().__init__(PROVIDER_SERVER_METRICS, discovery({"v1": [("nodes", "Node")]}))
        text = yaml.safe_dump_all([group(bootTime="0s", minSize=0)])
        self.server.put(CONFIG, {"data": {"groups.yaml": text}})

    def _record(self, about: ObjectReference, reason: Reason, message: str) -> None:
        pass

    def nodes(self) -> dict[str, Any]:
        return {path: node for path, node in self.server.objects.items() if path.startswith(f"{NODES}/")}

    def make_ready(self) -> None:
        for path, node in self.nodes().items():
            if node["metadata"]["labels"].get("kwok.x-k8s.io/node") and not node["status"].get("conditions"):
                ready = {"conditions": [{"type": "Ready", "status": "True"}]}
                self.server.put(path, {**node, "status": {**node["status"], **ready}})


async def until_groups_are_counted(world: ServerWorld) -> None:
    """The server reads its groups without a call, for its health."""
    async with asyncio.timeout(10):
        while world.metric_value("trellis_node_provider_groups") != 1:  # noqa: ASYNC110 - a metric has no event
            await asyncio.sleep(0.01)


def test_a_client_orders_a_node_that_boots_and_deletes_it() -> None:
    async def story() -> None:
        world, addresses = ServerWorld(), asyncio.Queue[str]()
        context = await world.context()
        async with open_provider_server(context, SETTINGS, on_listening=addresses.put_nowait) as server:
            working = asyncio.create_task(world.running(context, server))
            channel = ServerChannel(ServerConfiguration(await addresses.get()))
            provider = ExternalGrpcProvider(channel, list)
            assert (await provider.order("small", 2, world.now())).error is None
            await until_groups_are_counted(world)
            [state] = (await provider.groups(world.now())).states
            # The server has waited until its cache shows what it wrote.
            assert (state.target, len(state.instances)) == (2, 2)
            while state.count(InstanceState.RUNNING) < 2:
                world.make_ready()
                await asyncio.sleep(0.05)
                [state] = (await provider.groups(world.now())).states
            first = state.instances[0].id
            assert first == "kwok://small-1"
            assert (await provider.release("small", [first], world.now())).instances == (first,)
            assert [*world.nodes()] == [f"{NODES}/small-2"]
            await channel.close()
            working.cancel()
            await asyncio.wait({working})
        assert world.metric_value('trellis_node_provider_calls_total{rpc="NodeGroupIncreaseSize",status="OK"}') == 1

    asyncio.run(story())
