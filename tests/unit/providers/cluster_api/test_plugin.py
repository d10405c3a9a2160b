"""The plug-in: a management cluster of its own, both versions of Cluster API, and silence that is no emptiness."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from support.api_server.server import ModelServer
from support.virtual_time import run
from support.worlds.providers.cluster_api import GROUP, LIMITS, SIZE
from trellis.api.kube.nodes import Node
from trellis.base.errors import Unreachable
from trellis.base.reasons import DetailedReason
from trellis.controllers.nodes.metrics import NODE_METRICS
from trellis.kube.discovery import Served, ServedKind
from trellis.kube.write.writer import Writer
from trellis.providers.cluster_api.objects import TemplateKey
from trellis.providers.cluster_api.plugin import (
    TEMPLATE_UNREADABLE,
    ClusterApiUnavailable,
    TemplateReader,
    open_cluster_api,
)
from trellis.providers.cluster_api.settings import ClusterApiSettings
from trellis.providers.plugins import ProviderContext, RunningProvider, load_providers
from trellis.runtime.telemetry.metrics import Metrics
from trellis.testing.scripted_transport import json_response

KINDS = {
    "clusters": "Cluster",
    "machinedeployments": "MachineDeployment",
    "machinesets": "MachineSet",
    "machinepools": "MachinePool",
    "machines": "Machine",
}
TEMPLATE = TemplateKey("infrastructure.cluster.x-k8s.io", "VmTemplate", "fleet", "small")


def served(*versions: str, pools: bool = True) -> Served:
    """A management cluster with Cluster API in these versions."""
    kinds = [
        ServedKind(GROUP, version, plural, kind, True)
        for version in versions
        for plural, kind in KINDS.items()
        if pools or kind != "MachinePool"
    ]
    template = ServedKind(TEMPLATE.group, "v1", "vmtemplates", TEMPLATE.kind, True)
    return Served((*kinds, template))


class Management:
    """A management cluster in memory, of which `answers` are the answers of discovery."""

    def __init__(self, *answers: Served) -> None:
        self.server = ModelServer()
        self.answers = list(answers)
        self.changes = 0
        self.nodes: list[Node] = []
        self.server.client.discover = self._discover  # type: ignore[method-assign]

    async def _discover(self) -> Served:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def put(self, plural: str, name: str, version: str, **document: Any) -> None:
        path = f"/apis/{GROUP}/{version}/namespaces/fleet/{plural}/{name}"
        self.server.put(path, {"metadata": {"generation": 1}, **document})

    @asynccontextmanager
    async def open(self, settings: ClusterApiSettings = ClusterApiSettings()) -> AsyncIterator[RunningProvider]:  # noqa: B008
        def count_change() -> None:
            self.changes += 1

        context = ProviderContext(
            client=self.server.client,
            served=Served(),
            informers=cast("Any", None),
            list_nodes=lambda: tuple(self.nodes),
            writer=Writer(self.server.client, record=lambda _outcome: None),
            metrics=Metrics(NODE_METRICS, about_process=False),
            now=lambda: 0.0,
            sections=(settings,),
            on_change=count_change,
        )
        async with open_cluster_api(context) as running:
            yield running


def deployment(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"generation": 1, "annotations": {**LIMITS, **SIZE}},
        "spec": {"clusterName": "bed", "replicas": 2, "template": {"spec": {"version": "v1.36.3"}}, **spec},
    }


def test_it_is_announced_by_the_name_that_cluster_autoscaler_has_for_it() -> None:
    assert load_providers(["clusterapi"])["clusterapi"] is open_cluster_api


@pytest.mark.parametrize("version", ["v1beta2", "v1beta1"])
def test_it_reads_the_best_version_that_is_served(version: str) -> None:
    async def main() -> None:
        management = Management(served(version, *(["v1beta1"] if version == "v1beta2" else [])))
        reference = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1", "kind": "VmTemplate", "name": "small"}
        template = {"spec": {"version": "v1.36.3", "infrastructureRef": reference}}
        management.put("machinedeployments", "pool", version, **deployment(template=template))
        async with management.open() as (provider, _writer):
            [state] = (await provider.groups(0.0)).states
            assert (state.group.name, state.target) == ("MachineDeployment/fleet/pool", 2)
            ordered = await provider.order(state.group.name, 3, 0.0)
            [[action]] = ordered.steps
            assert action.target.resource.version == version

    run(main())


def test_an_installation_without_machine_pools_will_do() -> None:
    async def main() -> None:
        management = Management(served("v1beta1", pools=False))
        async with management.open() as (provider, _writer):
            assert (await provider.groups(0.0)).states == ()

    run(main())


def test_it_waits_for_cluster_api_to_be_installed() -> None:
    async def main() -> None:
        management = Management(Served(), served("v1beta2"))
        management.put("machinedeployments", "pool", "v1beta2", **deployment())
        async with management.open() as (provider, _writer):
            with pytest.raises(ClusterApiUnavailable, match="does not serve Machines"):
                await provider.groups(0.0)
            await asyncio.sleep(31)
            assert len((await provider.groups(0.0)).states) == 1

    run(main())


def test_a_cache_that_is_not_current_is_no_emptiness() -> None:
    async def main() -> None:
        management = Management(served("v1beta2"))
        management.put("machinedeployments", "pool", "v1beta2", **deployment())
        async with management.open() as (provider, _writer):
            assert len((await provider.groups(0.0)).states) == 1
            management.server.before = lambda _request: Unreachable("away")
            management.server.break_watches()
            await asyncio.sleep(60)
            with pytest.raises(ClusterApiUnavailable, match="could not be watched"):
                await provider.groups(0.0)
            management.server.before = lambda _request: None
            await asyncio.sleep(60)
            assert len((await provider.groups(0.0)).states) == 1

    run(main())


def test_only_changes_of_what_is_read_trigger_a_pass() -> None:
    async def main() -> None:
        management = Management(served("v1beta2"))
        management.put("machines", "m", "v1beta2", spec={}, status={"phase": "Pending"})
        async with management.open() as (provider, _writer):
            await provider.groups(0.0)
            await asyncio.sleep(1)
            before = management.changes
            management.put("machines", "m", "v1beta2", spec={}, status={"phase": "Pending", "lastUpdated": "now"})
            await asyncio.sleep(1)
            assert management.changes == before
            management.put("machines", "m", "v1beta2", spec={}, status={"phase": "Running"})
            await asyncio.sleep(1)
            assert management.changes == before + 1

    run(main())


def test_namespaces_and_cluster_restrict_what_is_read() -> None:
    async def main() -> None:
        management = Management(served("v1beta2"))
        management.put("machinedeployments", "pool", "v1beta2", **deployment())
        settings = ClusterApiSettings(cluster_api_namespaces=("elsewhere",))
        async with management.open(settings) as (provider, _writer):
            assert (await provider.groups(0.0)).states == ()
        requests = {request.path for request in management.server.requests if request.path.startswith("/apis/")}
        assert all("/namespaces/elsewhere/" in path for path in requests)

    run(main())


def test_a_selector_that_cannot_be_read_is_a_conflict_of_settings() -> None:
    [conflict] = ClusterApiSettings(cluster_api_selector="pool in").conflicts()
    assert conflict.setting == "cluster-api-selector"


def test_infrastructure_templates_are_kept_for_a_while_and_read_again_without_a_capacity() -> None:
    async def main() -> None:
        management = Management(served("v1beta2"))
        reader = TemplateReader(management.server.client, lambda: management.answers[0])
        missing = await reader.read(TEMPLATE, 0.0)
        assert isinstance(missing, DetailedReason)
        assert missing.reason is TEMPLATE_UNREADABLE
        path = "/apis/infrastructure.cluster.x-k8s.io/v1/namespaces/fleet/vmtemplates/small"
        management.server.put(path, {"status": {"capacity": {"cpu": "4"}}})
        assert await reader.read(TEMPLATE, 29.0) == missing
        found = await reader.read(TEMPLATE, 31.0)
        assert not isinstance(found, DetailedReason)
        assert found.status.capacity == {"cpu": "4"}
        management.server.before = lambda _request: json_response({}, 500)
        assert await reader.read(TEMPLATE, 300.0) is found
        assert isinstance(await reader.read(TEMPLATE, 332.0), DetailedReason)
        unknown = await reader.read(TemplateKey("infra.example.com", "Other", "fleet", "x"), 0.0)
        assert str(unknown) == "Other.infra.example.com is not served"

    run(main())
