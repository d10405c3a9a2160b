"""The client's verbs against a real API server, and the errors it really gives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from support.api_server.writes import delete, evict, patch
from testbed.cluster import Cluster
from testbed.waiting import until
from testbed.workloads import container, deployment, disruption_budget, pod
from trellis.api.kube.pods import Pod
from trellis.base.errors import AlreadyExists, Conflict, Forbidden, Invalid, KubeError, NotFound, Throttled
from trellis.kube.auth.kubeconfig import load_kubeconfig_connection
from trellis.kube.client import Client
from trellis.kube.resources import DEPLOYMENTS, NODES, PDBS, POD_METRICS, PODS, VPAS
from trellis.kube.transport.aiohttp_transport import AiohttpTransport
from trellis.kube.transport.requests import Preconditions, build_patch
from trellis.kube.watch.watch_events import EventKind
from trellis.kube.write.patches import apply_patch, json_patch, merge_patch, strategic_patch

R = TypeVar("R")


def _as(kubeconfig: Path, work: Callable[[Client], Awaitable[R]]) -> R:
    async def main() -> R:
        client = Client(AiohttpTransport(load_kubeconfig_connection({}, file=kubeconfig)))
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(main())


def _refusal(kubeconfig: Path, work: Callable[[Client], Awaitable[Any]]) -> KubeError:
    with pytest.raises(KubeError) as caught:
        _as(kubeconfig, work)
    return caught.value


def _vpa(name: str = "web") -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {
        "apiVersion": VPAS.api_version,
        "kind": VPAS.kind,
        "metadata": {"name": name},
        "spec": {"targetRef": target},
    }


def test_pods_are_listed_in_pages_and_by_label(cluster: Cluster, namespace: str) -> None:
    for number in range(7):
        cluster.api.create(pod(f"web-{number}"), namespace)

    async def listed(client: Client) -> tuple[list[int], int, list[str], list[str]]:
        sizes = [len(page.items) async for page in client.list_pages(PODS, namespace, limit=3)]
        one = await client.list_all(PODS, namespace, label_selector="app in (web-3)")
        metadata = await client.list_all(PODS.as_metadata(), namespace, limit=3)
        whole = await client.list_all(PODS, namespace, limit=2)
        return (
            sizes,
            len(whole.items),
            [item.metadata.name for item in one.items],
            [item.metadata.labels["app"] for item in metadata.items],
        )

    assert _as(cluster.kubeconfig, listed) == ([3, 3, 1], 7, ["web-3"], [f"web-{number}" for number in range(7)])


def test_a_watch_shows_a_pod_that_is_made_after_the_list(cluster: Cluster, namespace: str) -> None:
    async def watched(client: Client) -> tuple[EventKind, str, str]:
        version = (await client.list_all(PODS, namespace)).resource_version
        async with client.watch(PODS, namespace, resource_version=version) as events:
            await client.create(PODS, pod("web"), namespace)
            async for event in events:
                if event.kind is EventKind.BOOKMARK:
                    continue
                assert event.object is not None
                return event.kind, event.object.metadata.name, event.object.spec.containers[0].name
        raise AssertionError("the watch ended without an event")

    assert _as(cluster.kubeconfig, watched) == (EventKind.ADDED, "web", "app")


def test_a_watch_for_metadata_alone_brings_no_spec(cluster: Cluster, namespace: str) -> None:
    cluster.api.create(pod("web"), namespace)

    async def watched(client: Client) -> str:
        async with client.watch(PODS.as_metadata(), namespace, resource_version="0") as events:
            async for event in events:
                if event.kind is EventKind.BOOKMARK:
                    continue
                assert event.object is not None
                return event.object.metadata.labels["app"]
        raise AssertionError("the watch ended without an event")

    assert _as(cluster.kubeconfig, watched) == "web"


def test_a_watch_ends_in_order_when_its_time_is_up(cluster: Cluster, namespace: str) -> None:
    async def watched(client: Client) -> list[EventKind]:
        version = (await client.list_all(PODS, namespace)).resource_version
        async with client.watch(PODS, namespace, resource_version=version, timeout_seconds=1) as events:
            return [event.kind async for event in events if event.kind is not EventKind.BOOKMARK]

    assert _as(cluster.kubeconfig, watched) == []


def test_every_kind_of_patch_is_accepted(cluster: Cluster, namespace: str) -> None:
    async def patched(client: Client) -> dict[str, str]:
        await client.create(PODS, pod("web"), namespace)
        add = {"op": "add", "path": "/metadata/labels/a", "value": "json"}
        await patch(client, PODS, "web", json_patch([add]), namespace)
        await patch(client, PODS, "web", merge_patch({"metadata": {"labels": {"b": "merge"}}}), namespace)
        await patch(client, PODS, "web", strategic_patch({"metadata": {"labels": {"c": "strategic"}}}), namespace)
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"d": "apply"}}}
        await patch(client, PODS, "web", apply_patch(document, force=True), namespace)
        dry = merge_patch({"metadata": {"labels": {"e": "dry"}}})
        assert (await patch(client, PODS, "web", dry, namespace, dry_run=True)).metadata.labels["e"] == "dry"
        return dict((await client.get(PODS, "web", namespace)).metadata.labels)

    labels = _as(cluster.kubeconfig, patched)
    ours = {"app": "web", "a": "json", "b": "merge", "c": "strategic", "d": "apply"}
    assert {name: labels.get(name) for name in (*ours, "e")} == ours | {"e": None}


def test_an_apply_that_would_take_a_field_from_another_is_a_conflict_unless_forced(
    cluster: Cluster, namespace: str
) -> None:
    document = _vpa() | {"spec": _vpa()["spec"] | {"updatePolicy": {"updateMode": "Off"}}}

    async def fought(client: Client) -> str:
        await patch(client, VPAS, "web", apply_patch(document), namespace)
        rival = Client(client.transport, field_manager="rival")
        document["spec"]["updatePolicy"]["updateMode"] = "Initial"
        with pytest.raises(Conflict, match="trellis"):
            await patch(rival, VPAS, "web", apply_patch(document), namespace)
        forced = await patch(rival, VPAS, "web", apply_patch(document, force=True), namespace)
        assert forced.spec is not None
        assert forced.spec.update_policy is not None
        return str(forced.spec.update_policy.update_mode)

    assert _as(cluster.kubeconfig, fought) == "Initial"


def test_a_status_is_patched_without_touching_the_spec(cluster: Cluster, namespace: str) -> None:
    async def patched(client: Client) -> tuple[int, str]:
        made = await client.create(VPAS, _vpa(), namespace)
        conditions = [
            {"type": "RecommendationProvided", "status": "True", "lastTransitionTime": "2026-05-01T12:00:00Z"}
        ]
        change = merge_patch({"status": {"conditions": conditions}, "spec": {"targetRef": {"name": "other"}}})
        after = await patch(client, VPAS, "web", change, namespace, subresource="status")
        assert after.status is not None
        assert after.spec is not None
        assert after.spec.target_ref is not None
        assert after.metadata.generation == made.metadata.generation
        return len(after.status.conditions or ()), after.spec.target_ref.name

    assert _as(cluster.kubeconfig, patched) == (1, "web")


def test_a_deployment_is_scaled_through_its_scale(cluster: Cluster, namespace: str) -> None:
    async def scaled(client: Client) -> tuple[int, int]:
        await client.create(DEPLOYMENTS, deployment("web", replicas=1), namespace)
        before = await client.get_scale(DEPLOYMENTS, "web", namespace)
        more = merge_patch({"spec": {"replicas": 3}})
        await client.send(build_patch(DEPLOYMENTS, "web", more, namespace, subresource="scale"))
        after = await client.get_scale(DEPLOYMENTS, "web", namespace)
        assert before.status.selector in ("app=web", "")
        return before.spec.replicas, after.spec.replicas

    assert _as(cluster.kubeconfig, scaled) == (1, 3)
    assert len(cluster.wait_for_ready_pods(namespace, "web", 3)) == 3


@pytest.mark.parametrize("how", ["strategic", "json"])
def test_a_running_pod_is_resized(cluster: Cluster, namespace: str, how: str) -> None:
    cluster.api.create(pod("web", container("app", cpu="100m")), namespace)
    cluster.wait_for_ready_pods(namespace, "web")
    patches = {
        "strategic": strategic_patch(
            {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "150m"}}}]}}
        ),
        "json": json_patch([{"op": "replace", "path": "/spec/containers/0/resources/requests/cpu", "value": "150m"}]),
    }

    async def resize(client: Client) -> Pod:
        return await patch(client, PODS, "web", patches[how], namespace, subresource="resize")

    resized = _as(cluster.kubeconfig, resize)
    assert resized.spec.containers[0].resources.requests["cpu"] == "150m"


def test_an_eviction_goes_through_until_a_budget_forbids_it(cluster: Cluster, namespace: str) -> None:
    cluster.api.create(deployment("web", replicas=2), namespace)
    pods = cluster.wait_for_ready_pods(namespace, "web", 2)
    cluster.api.create(disruption_budget("web", minAvailable=2), namespace)
    name, uid = pods[0]["metadata"]["name"], pods[0]["metadata"]["uid"]

    async def observed(client: Client) -> bool:
        return (await client.get(PDBS, "web", namespace)).status.observed_generation > 0

    until("the budget to be observed", lambda: _as(cluster.kubeconfig, observed))
    error = _refusal(cluster.kubeconfig, lambda client: evict(client, name, namespace))
    assert isinstance(error, Throttled)
    assert [cause.reason for cause in error.details.causes] == ["DisruptionBudget"]
    cluster.api.delete(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/web")
    stale = _refusal(cluster.kubeconfig, lambda client: evict(client, name, namespace, Preconditions(uid="other")))
    assert isinstance(stale, Conflict)
    _as(cluster.kubeconfig, lambda client: evict(client, name, namespace, Preconditions(uid=uid)))
    assert uid not in {pod["metadata"]["uid"] for pod in cluster.wait_for_ready_pods(namespace, "web", 2)}


def test_a_stale_version_is_a_conflict_in_patch_and_delete(cluster: Cluster, namespace: str) -> None:
    async def stale(client: Client) -> None:
        made = await client.create(VPAS, _vpa(), namespace)
        old = made.metadata.resource_version
        await patch(client, VPAS, "web", merge_patch({"metadata": {"labels": {"a": "b"}}}), namespace)
        late = merge_patch({"metadata": {"resourceVersion": old, "labels": {"a": "c"}}})
        with pytest.raises(Conflict):
            await patch(client, VPAS, "web", late, namespace)
        with pytest.raises(Conflict):
            await delete(client, VPAS, "web", namespace, Preconditions(resource_version=old))
        with pytest.raises(AlreadyExists):
            await client.create(VPAS, _vpa(), namespace)
        assert (await client.get(VPAS, "web", namespace)).metadata.labels == {"a": "b"}
        await delete(client, VPAS, "web", namespace, Preconditions(uid=made.metadata.uid))
        with pytest.raises(NotFound, match='"web" not found'):
            await client.get(VPAS, "web", namespace)

    _as(cluster.kubeconfig, stale)


def test_problems_of_an_object_are_reported_by_field(cluster: Cluster, namespace: str) -> None:
    bad = pod("web", container("Not A Name", image=""))
    error = _refusal(cluster.kubeconfig, lambda client: client.create(PODS, bad, namespace))
    assert isinstance(error, Invalid)
    fields = {cause.field for cause in error.details.causes}
    assert {"spec.containers[0].name", "spec.containers[0].image"} <= fields
    assert all(field in str(error) for field in fields)


def test_a_service_account_without_rights_is_forbidden_and_its_name_is_reported(
    cluster: Cluster, namespace: str
) -> None:
    nobody = cluster.kubeconfig_for("default", namespace)
    error = _refusal(nobody, lambda client: client.get(PODS, "web", namespace))
    assert isinstance(error, Forbidden)
    assert f"system:serviceaccount:{namespace}:default" in str(error)

    async def watch(client: Client) -> None:
        async with client.watch(PODS, namespace):
            pass

    assert isinstance(_refusal(nobody, watch), Forbidden)


def test_a_user_may_act_as_another_and_has_the_rights_of_the_other(cluster: Cluster, namespace: str) -> None:
    connection = load_kubeconfig_connection({}, file=cluster.kubeconfig)
    impersonation = msgspec.structs.replace(connection.impersonation, user="jane", groups=("dev",))

    async def main() -> None:
        client = Client(AiohttpTransport(msgspec.structs.replace(connection, impersonation=impersonation)))
        try:
            await client.get(PODS, "web", namespace)
        finally:
            await client.close()

    with pytest.raises(Forbidden, match='User "jane" cannot get'):
        asyncio.run(main())


def test_discovery_finds_the_kinds_and_subresources_that_we_use(cluster: Cluster) -> None:
    async def asked(client: Client) -> tuple[bool, tuple[str, ...], tuple[int, int]]:
        served = await client.discover()
        pods = served.find("", "Pod")
        assert pods is not None
        known = all(served.serves(resource) for resource in (PODS, NODES, DEPLOYMENTS, VPAS, PDBS, POD_METRICS))
        return known, pods.subresources, (await client.version()).number

    # A group that another server answers for is not there while that one is too busy.
    until("all kinds", lambda: _as(cluster.kubeconfig, asked)[0])
    _, subresources, version = _as(cluster.kubeconfig, asked)
    assert {"resize", "eviction"} <= set(subresources)
    assert version >= (1, 33)
