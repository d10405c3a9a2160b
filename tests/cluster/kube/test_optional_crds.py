"""Informers against a real API server whose kinds are removed, and installed again in another version."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgspec
import pytest

from testbed.client import Json
from testbed.cluster import Cluster
from testbed.waiting import TIMEOUT_SECONDS
from trellis.api.kube.meta import KubeObject
from trellis.kube.auth.kubeconfig import load_kubeconfig_connection
from trellis.kube.client import Client
from trellis.kube.resources import PODS, Resource
from trellis.kube.transport.aiohttp_transport import AiohttpTransport
from trellis.runtime import shared_informers
from trellis.runtime.informers import Informers
from trellis.runtime.optional_kinds import UnreadableKinds
from trellis.runtime.telemetry.cluster_metrics import CLUSTER_METRICS
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics


def definition(group: str, *versions: str) -> Json:
    """A kind of its own for each test, so that nobody else misses it."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    served = [
        {"name": version, "served": True, "storage": version == versions[0], "schema": schema} for version in versions
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"weathers.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Weather", "plural": "weathers", "singular": "weather"},
            "versions": served,
        },
    }


async def until(what: str, ask: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not ask():
        assert time.monotonic() < deadline, f"{what} did not come within {TIMEOUT_SECONDS:g} s"
        await asyncio.sleep(0.05)


def test_a_removed_kind_stops_no_informer_and_returns_in_another_version(
    cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_informers, "_ABSENT_SECONDS", 1.0)
    monkeypatch.setattr(shared_informers, "_MISSING_SECONDS", 0.5)
    group = f"{namespace}.example.com"
    newer = Resource(group, "v1", "weathers", "Weather", True, KubeObject)
    older = msgspec.structs.replace(newer, version="v1alpha1")
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/weathers.{group}"

    def put(version: str) -> bool:
        """False while the kind is not served yet."""
        if cluster.api.find(f"/apis/{group}/{version}") is None:
            return False
        rain = {"apiVersion": f"{group}/{version}", "kind": "Weather", "metadata": {"name": "rain"}}
        return bool(cluster.api.apply(rain, namespace))

    async def work(client: Client) -> None:
        metrics = Metrics(CLUSTER_METRICS, about_process=False)
        informers = Informers(
            client, UnreadableKinds(metrics, Logger("trellis.test")), draw=lambda: 0.5, namespaces=(namespace,)
        )
        informers.follow(PODS)
        weathers = informers.follow(newer, served=False, versions=(newer, older))
        async with asyncio.TaskGroup() as running:
            task = running.create_task(informers.run())
            await informers.wait_until_synced()
            for version in ("v1", "v1alpha1"):
                await asyncio.to_thread(cluster.api.apply, definition(group, version))
                await until("an object", lambda version=version: put(version))  # type: ignore[misc]
                await until("it to be seen", lambda: weathers.get(namespace, "rain"))
                assert weathers.resource.version == version
                await asyncio.to_thread(cluster.api.delete, path)
                await until(
                    "it to be gone", lambda: not informers.is_available(weathers) and len(weathers.snapshot()) == 0
                )
                await until("all else to go on", lambda: informers.find_staleness_problem() is None)
                await until("the definition to be gone", lambda: cluster.api.find(path) is None)
            task.cancel()

    async def main() -> None:
        client = Client(AiohttpTransport(load_kubeconfig_connection({}, file=cluster.kubeconfig)))
        try:
            await work(client)
        finally:
            await client.close()

    asyncio.run(main())
