"""The writer, Events and leader election against a real API server: its preconditions hold, its refusals are data."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from testbed.cluster import Cluster
from testbed.waiting import TIMEOUT_SECONDS, until
from testbed.workloads import deployment, disruption_budget, pod
from trellis.base.errors import Unreachable
from trellis.base.reasons import Reason
from trellis.kube.auth.kubeconfig import load_kubeconfig_connection
from trellis.kube.client import Client
from trellis.kube.events import EventRecorder, EventReporter, build_reference
from trellis.kube.leader_election import Election, LeaseTimes
from trellis.kube.resources import DEPLOYMENTS, PODS, VPAS
from trellis.kube.transport.aiohttp_transport import AiohttpTransport
from trellis.kube.transport.protocol import Stream
from trellis.kube.transport.requests import Request
from trellis.kube.transport.responses import Response
from trellis.kube.write.actions import (
    Action,
    CreateEviction,
    CreateObject,
    DeleteObject,
    PatchObject,
    PatchResize,
    PatchScale,
    PatchStatus,
    Target,
    build_target,
)
from trellis.kube.write.outcomes import DRY_RUN, NOT_LEADING, REPLACED, Result, WriteOutcome
from trellis.kube.write.patches import Patch, json_patch, merge_patch, strategic_patch
from trellis.kube.write.writer import Writer, WriterSettings

NEW = {"cpu": "250m", "memory": "256Mi"}
AS_JSON = json_patch([{"op": "replace", "path": "/spec/containers/0/resources/requests", "value": NEW}])
AS_STRATEGIC = strategic_patch({"spec": {"containers": [{"name": "app", "resources": {"requests": NEW}}]}})


@asynccontextmanager
async def talking(kubeconfig: Path) -> AsyncIterator[Client]:
    client = Client(AiohttpTransport(load_kubeconfig_connection({}, file=kubeconfig)))
    try:
        yield client
    finally:
        await client.close()


def run(kubeconfig: Path, work: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        async with talking(kubeconfig) as client:
            await work(client)

    asyncio.run(main())


def write(kubeconfig: Path, *actions: Action, **settings: Any) -> list[WriteOutcome]:
    result: list[WriteOutcome] = []

    async def work(client: Client) -> None:
        writer = Writer(client, record=lambda _: None, settings=WriterSettings(timeout=30.0, **settings))
        result.extend(await writer.write_all(actions))

    run(kubeconfig, work)
    return result


def read_target(cluster: Cluster, namespace: str, name: str) -> Target:
    metadata = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")["metadata"]
    return Target(PODS, name, namespace, metadata["uid"], metadata["resourceVersion"])


def of_another(target: Target) -> Target:
    """What somebody means who saw the pod before it was deleted and made again."""
    return msgspec.structs.replace(target, uid="11111111-2222-3333-4444-555555555555", resource_version="")


def labelled(target: Target, patch: Callable[[dict[str, Any]], Patch] = merge_patch) -> PatchObject:
    return PatchObject(target, patch({"metadata": {"labels": {"tried": "yes"}}}))


def test_a_patch_on_what_was_read_is_applied_and_one_on_an_older_version_is_a_conflict(
    cluster: Cluster, namespace: str
) -> None:
    cluster.api.create(pod("web"), namespace)
    cluster.wait_for_ready_pods(namespace, "web")

    def settled() -> Target | None:
        """As it was and still is: the node may write the status at the same moment."""
        first = read_target(cluster, namespace, "web")
        return first if first == read_target(cluster, namespace, "web") else None

    target = until("the pod to rest", settled)
    add = json_patch([{"op": "add", "path": "/metadata/labels/more", "value": "yes"}])
    [applied] = write(cluster.kubeconfig, labelled(target))
    assert applied.applied
    assert (applied.name, applied.uid) == ("web", target.uid)
    assert int(applied.resource_version) > int(target.resource_version)
    late: list[Action] = [
        labelled(target),
        labelled(target, strategic_patch),
        PatchObject(target, add),
        PatchResize(target, AS_JSON),
        PatchResize(target, AS_STRATEGIC),
        CreateEviction(target),
        DeleteObject(target),
        PatchStatus(target, {"message": "x"}),
    ]
    assert [written.result for written in write(cluster.kubeconfig, *late)] == [Result.CONFLICT] * len(late)
    now = msgspec.structs.replace(target, resource_version=applied.resource_version)
    assert [written.result for written in write(cluster.kubeconfig, PatchObject(now, add))] == [Result.APPLIED]


def test_a_pod_that_replaced_another_of_its_name_is_not_changed(cluster: Cluster, namespace: str) -> None:
    cluster.api.create(pod("web"), namespace)
    cluster.wait_for_ready_pods(namespace, "web")
    target = of_another(read_target(cluster, namespace, "web"))
    actions: list[Action] = [
        labelled(target),
        labelled(target, strategic_patch),
        PatchResize(target, AS_JSON),
        PatchResize(target, AS_STRATEGIC),
        CreateEviction(target),
        DeleteObject(target),
        PatchStatus(target, {"message": "x"}),
    ]
    result = write(cluster.kubeconfig, *actions)
    assert [(written.result, written.reason) for written in result] == [(Result.GONE, REPLACED)] * len(actions)
    after = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods/web")
    assert after["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "100m"
    assert "tried" not in after["metadata"]["labels"]


def test_a_write_to_a_missing_object_is_gone(cluster: Cluster, namespace: str) -> None:
    target = Target(PODS, "nobody", namespace)
    actions: list[Action] = [
        labelled(target),
        PatchResize(target, AS_STRATEGIC),
        CreateEviction(target),
        DeleteObject(target),
    ]
    assert [written.result for written in write(cluster.kubeconfig, *actions)] == [Result.GONE] * 4


@pytest.mark.parametrize("patch", [AS_JSON, AS_STRATEGIC], ids=["json", "strategic"])
def test_a_resize_is_applied_and_actuated(cluster: Cluster, namespace: str, patch: Patch) -> None:
    cluster.api.create(pod("web"), namespace)
    cluster.wait_for_ready_pods(namespace, "web")

    def resize() -> bool:
        [written] = write(cluster.kubeconfig, PatchResize(read_target(cluster, namespace, "web"), patch))
        # The node may write the status at the same moment.
        assert written.result in (Result.APPLIED, Result.CONFLICT), written
        return written.applied

    until("the resize", resize)

    def actuated() -> bool:
        status = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods/web")["status"]["containerStatuses"][0]
        return bool(status["resources"]["requests"] == NEW and status["allocatedResources"] == NEW)

    until("its actuation", actuated)


def test_a_resize_beyond_a_quota_is_infeasible(cluster: Cluster, namespace: str) -> None:
    cluster.api.create(pod("web"), namespace)
    cluster.wait_for_ready_pods(namespace, "web")
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}}
    cluster.api.create(quota | {"spec": {"hard": {"requests.cpu": "200m"}}}, namespace)
    path = f"/api/v1/namespaces/{namespace}/resourcequotas/small"
    until("the quota to be counted", lambda: cluster.api.get(path).get("status", {}).get("used"))
    resize = PatchResize(Target(PODS, "web", namespace), AS_STRATEGIC)
    # What is counted the API server has yet to hear of itself.
    until("the quota to hold", lambda: write(cluster.kubeconfig, resize, dry_run=True)[0].result is not Result.SKIPPED)
    [written] = write(cluster.kubeconfig, resize)
    assert written.result is Result.INFEASIBLE
    assert "exceeded quota" in written.message


def test_an_impossible_resize_is_invalid(cluster: Cluster, namespace: str) -> None:
    cluster.api.create(pod("web"), namespace)
    target = read_target(cluster, namespace, "web")
    patch = strategic_patch({"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "-1"}}}]}})
    [written] = write(cluster.kubeconfig, PatchResize(msgspec.structs.replace(target, resource_version=""), patch))
    assert written.result is Result.INVALID
    assert "cpu" in written.message


def test_an_eviction_that_a_disruption_budget_forbids_is_refused_and_one_that_it_allows_is_applied(
    cluster: Cluster, namespace: str
) -> None:
    cluster.api.create(deployment("web", replicas=2), namespace)
    first, second = cluster.wait_for_ready_pods(namespace, "web", 2)
    cluster.api.create(disruption_budget("web", minAvailable=2), namespace)
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/web"
    until("the budget", lambda: cluster.api.get(path).get("status", {}).get("currentHealthy") == 2)
    targets = [Target(PODS, pod["metadata"]["name"], namespace, pod["metadata"]["uid"]) for pod in (first, second)]
    [refused] = write(cluster.kubeconfig, CreateEviction(targets[0]))
    assert (refused.result, refused.reason) == (Result.REFUSED, "DisruptionBudget")
    assert "disruption budget" in refused.message
    cluster.api.patch(path, {"spec": {"minAvailable": 1}})
    until("the new budget", lambda: cluster.api.get(path)["status"].get("disruptionsAllowed") == 1)
    assert [written.result for written in write(cluster.kubeconfig, CreateEviction(targets[1]))] == [Result.APPLIED]


def test_objects_are_made_scaled_and_deleted(cluster: Cluster, namespace: str) -> None:
    target = Target(DEPLOYMENTS, "web", namespace)
    make = CreateObject(target, deployment("web"))
    made, again = write(cluster.kubeconfig, make, make)
    assert (made.result, again.result, again.reason) == (Result.APPLIED, Result.CONFLICT, "AlreadyExists")
    assert made.uid
    scaled, deleted = write(cluster.kubeconfig, PatchScale(target, 3), DeleteObject(target, propagation="Background"))
    assert (scaled.result, deleted.result) == (Result.APPLIED, Result.APPLIED)


def test_a_scale_on_an_older_version_is_a_conflict(cluster: Cluster, namespace: str) -> None:
    target = Target(DEPLOYMENTS, "web", namespace)
    made, _ = write(cluster.kubeconfig, CreateObject(target, deployment("web")), PatchScale(target, 2))
    old = msgspec.structs.replace(target, uid=made.uid, resource_version=made.resource_version)
    assert [written.result for written in write(cluster.kubeconfig, PatchScale(old, 5))] == [Result.CONFLICT]
    assert [written.reason for written in write(cluster.kubeconfig, PatchScale(of_another(old), 5))] == [REPLACED]
    result = cluster.api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/web")
    assert result["spec"]["replicas"] == 2


def test_the_status_of_our_own_kinds_is_patched_on_condition(cluster: Cluster, namespace: str) -> None:
    target = Target(VPAS, "web", namespace)
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    vpa = {"apiVersion": VPAS.api_version, "kind": VPAS.kind, "metadata": {"name": "web"}}
    [made] = write(cluster.kubeconfig, CreateObject(target, vpa | {"spec": {"targetRef": reference}}))
    known = msgspec.structs.replace(target, uid=made.uid, resource_version=made.resource_version)
    status = {"recommendation": {"containerRecommendations": [{"containerName": "app", "target": {"cpu": "1"}}]}}
    first, second = write(cluster.kubeconfig, PatchStatus(known, status), PatchStatus(known, status | {"x": 1}))
    assert (first.result, second.result) == (Result.APPLIED, Result.CONFLICT)
    [other] = write(cluster.kubeconfig, PatchStatus(of_another(known), status))
    assert (other.result, other.reason) == (Result.GONE, REPLACED)
    [same] = write(cluster.kubeconfig, PatchStatus(msgspec.structs.replace(known, resource_version=""), status))
    assert same.applied


def test_a_dry_run_changes_nothing_and_still_finds_what_is_wrong(cluster: Cluster, namespace: str) -> None:
    target = Target(DEPLOYMENTS, "web", namespace)
    good = CreateObject(target, deployment("web"))
    bad = CreateObject(Target(DEPLOYMENTS, "Web", namespace), deployment("Web"))
    fine, wrong = write(cluster.kubeconfig, good, bad, dry_run=True)
    assert (fine.result, fine.reason) == (Result.SKIPPED, DRY_RUN)
    assert wrong.result is Result.INVALID
    assert cluster.api.find(f"/apis/apps/v1/namespaces/{namespace}/deployments/web") is None


def test_without_the_right_a_write_is_forbidden(cluster: Cluster, namespace: str) -> None:
    cluster.api.create(pod("web"), namespace)
    target = Target(PODS, "web", namespace)
    kubeconfig = cluster.kubeconfig_for("default", namespace)
    result = write(kubeconfig, PatchResize(target, AS_STRATEGIC), CreateEviction(target), labelled(target))
    assert [written.result for written in result] == [Result.FORBIDDEN] * 3


def test_events_are_stored_with_their_count(cluster: Cluster, namespace: str) -> None:
    cluster.api.create(pod("web"), namespace)
    reason = Reason("TestHappened", "Something happened.")

    async def work(client: Client) -> None:
        web = await client.get(PODS, "web", namespace)
        about = build_reference(PODS, web)
        writer = Writer(client, record=lambda _: None)
        recorder = EventRecorder(writer, EventReporter("trellis-test", "one"), now=lambda: datetime.now(UTC))
        recorder.record(about, reason, "it happened")
        assert await recorder.flush()
        for _ in range(2):
            recorder.record(about, reason, "it happened")
        assert await recorder.flush()
        assert recorder.lost == 0

    run(cluster.kubeconfig, work)
    stored = cluster.api.list_items(f"/api/v1/namespaces/{namespace}/events", fieldSelector="reason=TestHappened")
    assert [(event["count"], event["message"], event["type"]) for event in stored] == [(3, "it happened", "Normal")]
    assert stored[0]["involvedObject"]["name"] == "web"


# So long that a busy machine does not cost a leader its lease.
LEASE_SECONDS = 6.0


def candidate(client: Client, namespace: str, identity: str) -> Election:
    return Election(
        client,
        Writer(client, record=lambda _: None),
        name="trellis-test",
        namespace=namespace,
        identity=identity,
        now=lambda: datetime.now(UTC),
        draw=random.random,
        times=LeaseTimes(duration=LEASE_SECONDS, renew_deadline=0.8 * LEASE_SECONDS, retry_period=0.4),
    )


def test_of_two_candidates_one_leads_and_when_it_dies_the_other_does(cluster: Cluster, namespace: str) -> None:
    cluster.api.create(pod("web"), namespace)
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/trellis-test"

    async def work(client: Client) -> None:
        async with talking(cluster.kubeconfig) as line_of_the_first:
            first, second = candidate(line_of_the_first, namespace, "a"), candidate(client, namespace, "b")
            task = asyncio.create_task(first.run())
            await asyncio.wait_for(first.wait_until_leading(), TIMEOUT_SECONDS)
            other = asyncio.create_task(second.run())
            await asyncio.sleep(LEASE_SECONDS + 1)
            assert (first.may_write(), second.may_write()) == (True, False)
            # Its connections are gone and it cannot give anything back, as after kill -9.
            await line_of_the_first.transport.close()
            line_of_the_first.transport = _Dead()
            await asyncio.wait_for(second.wait_until_leading(), TIMEOUT_SECONDS)
            assert (first.may_write(), second.may_write()) == (False, True)
            fenced = Writer(client, record=lambda _: None, may_write=first.may_write)
            web = await client.get(PODS, "web", namespace)
            target = build_target(PODS, web, with_version=False)
            assert (await fenced.write(labelled(target))).reason == NOT_LEADING
            task.cancel()
            other.cancel()
            await asyncio.gather(task, other, return_exceptions=True)

    run(cluster.kubeconfig, work)
    spec = cluster.api.get(path)["spec"]
    # Given back by the second, when it was cancelled.
    assert "holderIdentity" not in spec
    assert spec["leaseTransitions"] == 1


LEADER = """
import asyncio, random, sys
from datetime import UTC, datetime
from pathlib import Path
from trellis.kube.transport.aiohttp_transport import AiohttpTransport
from trellis.kube.client import Client
from trellis.kube.auth.kubeconfig import load_kubeconfig_connection
from trellis.kube.leader_election import Election, LeaseTimes
from trellis.kube.write.writer import Writer

async def main():
    client = Client(AiohttpTransport(load_kubeconfig_connection({}, file=Path(sys.argv[1])), environment={}))
    times = LeaseTimes(duration=3.0, renew_deadline=2.0, retry_period=0.4)
    election = Election(client, Writer(client, record=lambda _: None), name="trellis-test", namespace=sys.argv[2],
                        identity="killed", now=lambda: datetime.now(UTC), draw=random.random, times=times)
    running = asyncio.create_task(election.run())
    await election.wait_until_leading()
    print("leading", flush=True)
    await running

asyncio.run(main())
"""


def test_another_candidate_leads_once_the_lease_of_a_killed_leader_expires(cluster: Cluster, namespace: str) -> None:
    command = [sys.executable, "-c", LEADER, str(cluster.kubeconfig), namespace]
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/trellis-test"

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as leader:
        assert leader.stdout is not None
        assert leader.stdout.readline() == "leading\n"
        leader.kill()

    async def work(client: Client) -> None:
        second = candidate(client, namespace, "second")
        task = asyncio.create_task(second.run())
        await asyncio.wait_for(second.wait_until_leading(), TIMEOUT_SECONDS)
        assert second.may_write()
        spec = cluster.api.get(path)["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("second", 1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(cluster.kubeconfig, work)


class _Dead:
    """A transport behind which nobody is."""

    async def send(self, request: Request) -> Response:
        await asyncio.sleep(60)
        raise Unreachable(f"{request.path}: nobody there")

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        raise NotImplementedError

    async def close(self) -> None:
        pass
