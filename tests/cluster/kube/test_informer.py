"""The informer against a real API server: what it sees, and what it does when the server is killed under it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from support.api_server.writes import delete, patch
from testbed.cluster import Cluster
from testbed.control_plane import ControlPlane
from testbed.waiting import TIMEOUT_SECONDS
from testbed.workloads import deployment, pod
from trellis.api.kube.pods import Pod
from trellis.core.cluster.store import BY_NODE, BY_OWNER, index_by_node, index_by_owner
from trellis.kube.auth.kubeconfig import load_kubeconfig_connection
from trellis.kube.client import Client
from trellis.kube.flow_control import RetryBackoff
from trellis.kube.resources import PODS, REPLICA_SETS, VPAS, Resource
from trellis.kube.transport.aiohttp_transport import AiohttpTransport
from trellis.kube.watch.cache import ObjectChange
from trellis.kube.watch.incidents import Incident, IncidentKind
from trellis.kube.watch.informer import Informer, WatchInformer
from trellis.kube.watch.selection import Selection
from trellis.kube.write.patches import merge_patch

R = TypeVar("R")

# A tenth of the usual waits: nobody else has to be spared here.
QUICK = RetryBackoff(initial=0.1, maximum=1.0)


@asynccontextmanager
async def talking(kubeconfig: Path) -> AsyncIterator[Client]:
    client = Client(AiohttpTransport(load_kubeconfig_connection({}, file=kubeconfig)))
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def following(
    client: Client, resource: Resource[Any], namespace: str, **options: Any
) -> AsyncIterator[Informer[Any]]:
    selection = Selection((namespace,))
    informer = WatchInformer(client, resource, draw=lambda: 0.5, selection=selection, backoff=QUICK, **options)
    task = asyncio.create_task(informer.run())
    try:
        await informer.wait_until_synced()
        await until("the watch", lambda: informer.staleness().connected)
        yield informer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(what: str, ask: Callable[[], R | None], seconds: float = TIMEOUT_SECONDS) -> R:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        result = ask()
        if result:
            return result
        await asyncio.sleep(0.05)
    raise AssertionError(f"{what} did not come within {seconds:g} s")


def gaps(informer: Informer[Any]) -> list[float]:
    """How long it was blind, each time."""
    return [incident.seconds for incident in informer.incidents.latest if incident.kind is IncidentKind.RECOVERED]


def run(kubeconfig: Path, work: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        async with talking(kubeconfig) as client:
            await work(client)

    asyncio.run(main())


def test_created_changed_and_deleted_pods_are_observed(cluster: Cluster, namespace: str) -> None:
    cluster.api.create(pod("early"), namespace)
    changes: list[tuple[str, bool, bool]] = []

    def note(change: ObjectChange[Pod]) -> None:
        changes.append((change.key[1], change.old is not None, change.new is not None))

    async def work(client: Client) -> None:
        async with following(client, PODS, namespace, indexes={BY_NODE: index_by_node}) as informer:
            informer.subscribe(note)
            assert changes == [("early", False, True)]
            await client.create(PODS, pod("late"), namespace)
            late = await until("late", lambda: informer.snapshot().get(namespace, "late"))
            assert late.spec.containers[0].resources.requests["cpu"] == "100m"
            await until("a node", lambda: len(informer.snapshot().by_index(BY_NODE, "")) == 0)
            change = merge_patch({"metadata": {"labels": {"seen": "yes"}}})
            changed = await patch(client, PODS, "late", change, namespace)
            await until("the label", lambda: "seen" in informer.snapshot().objects[namespace, "late"].metadata.labels)
            assert int(informer.snapshot().resource_version) >= int(changed.metadata.resource_version)
            await delete(client, PODS, "early", namespace)
            await until("its end", lambda: informer.snapshot().get(namespace, "early") is None)
            assert ("early", True, False) in changes
            assert informer.lists == 1
            assert informer.staleness().connected

    run(cluster.kubeconfig, work)


def test_pods_are_found_by_the_replica_set_that_owns_them(cluster: Cluster, namespace: str) -> None:
    cluster.api.create(deployment("web", replicas=3), namespace)
    cluster.wait_for_ready_pods(namespace, "web", 3)

    async def work(client: Client) -> None:
        async with (
            following(client, PODS, namespace, indexes={BY_OWNER: index_by_owner}) as pods,
            following(client, REPLICA_SETS.as_metadata(), namespace) as owners,
        ):
            [owner] = owners.snapshot()
            assert len(pods.snapshot().by_index(BY_OWNER, owner.metadata.uid)) == 3

    run(cluster.kubeconfig, work)


def test_our_own_kinds_are_followed_like_any_other(cluster: Cluster, namespace: str) -> None:
    vpa = {
        "apiVersion": VPAS.api_version,
        "kind": VPAS.kind,
        "metadata": {"name": "web"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    }

    async def work(client: Client) -> None:
        async with following(client, VPAS, namespace) as informer:
            assert len(informer.snapshot()) == 0
            await client.create(VPAS, vpa, namespace)
            result = await until("the object", lambda: informer.snapshot().get(namespace, "web"))
            assert result.spec.target_ref.name == "web"

    run(cluster.kubeconfig, work)


def test_a_kind_that_may_not_be_listed_is_trouble_and_not_an_empty_cluster(cluster: Cluster, namespace: str) -> None:
    kubeconfig = cluster.kubeconfig_for("default", namespace)

    async def work(client: Client) -> None:
        troubles: asyncio.Queue[Incident] = asyncio.Queue()
        selection = Selection((namespace,))
        informer = WatchInformer(client, PODS, draw=lambda: 0.5, selection=selection, report=troubles.put_nowait)
        task = asyncio.create_task(informer.run())
        trouble = await asyncio.wait_for(troubles.get(), TIMEOUT_SECONDS)
        assert trouble.kind is IncidentKind.TROUBLE
        assert "cannot list" in trouble.message
        assert not informer.synced
        task.cancel()

    run(kubeconfig, work)


def test_an_api_server_that_is_killed_and_started_again_costs_staleness_and_nothing_else(
    own_api_server: ControlPlane,
) -> None:
    config = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}

    async def work(client: Client) -> None:
        namespaces: Resource[Any] = Resource("", "v1", "namespaces", "Namespace", False, PODS.struct)
        async with following(client, namespaces.as_metadata(), "") as informer:
            own_api_server.kill("kube-apiserver")
            await until("the loss", lambda: not informer.staleness().connected)
            assert informer.snapshot().get("", "default") is not None
            await asyncio.to_thread(own_api_server.start, "kube-apiserver")
            await asyncio.to_thread(own_api_server.wait_until_ready)

            await client.create(namespaces, config)
            await until("its sight", lambda: informer.snapshot().get("", "shop"))
            # What a list shows is seen before the watch that follows it.
            await until("the watch", lambda: informer.staleness().connected)
            await until("its recovery", lambda: sum(gaps(informer)) > 0)

    run(own_api_server.cluster.kubeconfig, work)
