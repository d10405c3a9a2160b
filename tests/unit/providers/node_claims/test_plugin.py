"""What the plug-in of the provider karpenter follows, and what it does where there are no NodeClaims to read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from support import virtual_time
from support.api_server.server import Document, ModelServer
from support.worlds.providers.kwok_nodes import config_map
from support.worlds.providers.node_claims import CLAIMS, claim_group
from trellis.base.durations import Duration
from trellis.controllers.nodes.metrics import NODE_METRICS
from trellis.controllers.nodes.settings import NodeControllerSettings
from trellis.kube.resources import NODE_CLAIMS, NODES
from trellis.kube.transport.requests import Request
from trellis.kube.write.writer import Writer
from trellis.providers.node_claims.plugin import open_karpenter
from trellis.providers.node_claims.provider import NodeClaimProvider, UnreadableNodeClaims
from trellis.providers.node_claims.settings import CLAIM_CONFIG_MAP, NodeClaimSettings
from trellis.providers.plugins import ProviderContext
from trellis.runtime.informers import Informers
from trellis.runtime.optional_kinds import UnreadableKinds
from trellis.runtime.settings.declarations import SettingConflict
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics
from trellis.testing.scripted_transport import ScriptedResponse, error_response, json_response

CONFIG = "/api/v1/namespaces/kube-system/configmaps/trellis-karpenter-node-groups"


class PluginWorld:
    """The plug-in with real informers. `installed` and `allowed` are whether NodeClaims are served, and may be read."""

    def __init__(self) -> None:
        self.server = ModelServer()
        self.server.before = self._before
        self.installed = self.allowed = True
        self.changes = 0
        config = config_map(claim_group())
        self.server.put(CONFIG, {"metadata": {}, "data": dict(config.data)})

    def add_claim(self, name: str = "small-1") -> None:
        labels = {"trellis.x-k8s.io/node-group": "small"}
        self.server.put(f"{CLAIMS}/{name}", {"metadata": {"labels": labels}, "status": {}})

    def note_change(self) -> None:
        self.changes += 1

    def run(self, play: Callable[[NodeClaimProvider], Awaitable[None]]) -> None:
        async def main() -> None:
            metrics = Metrics(NODE_METRICS, about_process=False)
            unreadable = UnreadableKinds(metrics, Logger("trellis.test"))
            informers = Informers(self.server.client, unreadable, draw=lambda: 0.5)
            # The first kind is the one that a component is there for: no refusal is believed before it is watched.
            informers.follow(NODES)
            context = ProviderContext(
                client=self.server.client,
                served=await self.server.client.discover(),
                informers=informers,
                list_nodes=list,
                writer=Writer(self.server.client, record=lambda _outcome: None),
                metrics=metrics,
                now=lambda: 0.0,
                on_change=self.note_change,
            )
            async with open_karpenter(context) as running, virtual_time.in_background(informers.run()):
                await informers.wait_until_synced()
                assert isinstance(running.provider, NodeClaimProvider)
                await play(running.provider)

        virtual_time.run(main())

    def _before(self, request: Request) -> ScriptedResponse | None:
        if request.path == "/apis":
            version = {"groupVersion": NODE_CLAIMS.api_version, "version": NODE_CLAIMS.version}
            groups = [{"versions": [version], "preferredVersion": version}] if self.installed else []
            return json_response({"groups": groups})
        if request.path == f"/apis/{NODE_CLAIMS.api_version}":
            kind: Document = {"name": NODE_CLAIMS.plural, "kind": NODE_CLAIMS.kind, "namespaced": False}
            return json_response({"resources": [kind]})
        if request.path == "/api":
            return json_response({"versions": []})
        if request.path == CLAIMS and not self.installed:
            return error_response(404, "NotFound")
        if request.path == CLAIMS and not self.allowed:
            return error_response(403, "Forbidden")
        return None


async def count_instances(provider: NodeClaimProvider) -> int:
    [state] = (await provider.groups(0.0)).states
    return len(state.instances)


def test_claims_and_declarations_are_followed_and_trigger_passes() -> None:
    world = PluginWorld()
    world.add_claim()

    async def play(provider: NodeClaimProvider) -> None:
        assert await count_instances(provider) == 1
        before = world.changes
        world.add_claim("small-2")
        await asyncio.sleep(1.0)
        assert await count_instances(provider) == 2
        assert world.changes > before
        before = world.changes
        world.server.put(CONFIG, {"metadata": {}, "data": dict(config_map(claim_group("other")).data)})
        await asyncio.sleep(1.0)
        assert [state.group.name for state in (await provider.groups(0.0)).states] == ["other"]
        assert world.changes > before

    world.run(play)


def test_without_the_kind_there_is_no_answer_until_it_is_installed() -> None:
    world = PluginWorld()
    world.installed = False
    world.add_claim()

    async def play(provider: NodeClaimProvider) -> None:
        with pytest.raises(UnreadableNodeClaims):
            await provider.groups(0.0)
        world.installed = True
        await asyncio.sleep(120.0)
        assert await count_instances(provider) == 1

    world.run(play)


def test_claims_that_may_not_be_read_stop_nothing_else_and_are_not_taken_for_none() -> None:
    world = PluginWorld()
    world.allowed = False
    world.add_claim()

    async def play(provider: NodeClaimProvider) -> None:
        with pytest.raises(UnreadableNodeClaims):
            await provider.groups(0.0)
        world.allowed = True
        await asyncio.sleep(120.0)
        assert await count_instances(provider) == 1

    world.run(play)


def test_a_kind_that_is_removed_is_not_taken_for_no_claims() -> None:
    world = PluginWorld()
    world.add_claim()

    async def play(provider: NodeClaimProvider) -> None:
        assert await count_instances(provider) == 1
        world.installed = False
        world.server.break_watches()
        # The cache still has the claim for a while: an API server that starts does not serve its kind either.
        await asyncio.sleep(300.0)
        with pytest.raises(UnreadableNodeClaims):
            await provider.groups(0.0)

    world.run(play)


def test_the_settings_are_those_of_the_node_autoscaler() -> None:
    settings = NodeControllerSettings()
    assert isinstance(settings.karpenter, NodeClaimSettings)
    assert settings.karpenter in settings.provider_sections
    assert settings.karpenter.karpenter_node_groups == CLAIM_CONFIG_MAP
    assert settings.karpenter.karpenter_launch_timeout == Duration.from_seconds(60)


@pytest.mark.parametrize("where", ["groups", "/groups", "kube-system/", "a/b/c"])
def test_a_config_map_has_a_namespace_and_a_name(where: str) -> None:
    conflict = SettingConflict("karpenter-node-groups", f'"{where}" must be written as namespace/name')
    assert list(NodeClaimSettings(karpenter_node_groups=where).conflicts()) == [conflict]
