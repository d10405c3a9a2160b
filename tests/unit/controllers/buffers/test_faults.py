"""The Buffer controller with objects that are missing, refused, slow or recreated."""

from __future__ import annotations

from typing import Any

import pytest

from support.api_server.server import Document, pod_path
from support.controllers.buffers import TWO_OF_WEB, World, path
from support.worlds.buffers import app
from trellis.base.errors import Unreachable
from trellis.controllers.buffers.process import BufferController
from trellis.kube.transport.requests import Request
from trellis.testing.scripted_transport import ScriptedResponse, error_response

TWO = {"replicas": {"exactly": 2}}


def about(kind: str, name: str = "web", version: str = "apps/v1") -> dict[str, Any]:
    return {"targetRef": {"apiVersion": version, "kind": kind, "name": name}, "capacity": TWO}


def test_a_missing_target_is_reported_and_found_once_it_exists() -> None:
    world = World()
    world.add_buffer()

    async def play(_: BufferController) -> None:
        assert world.condition() == ("False", "TargetNotFound")
        assert world.count_events("TargetNotFound") == 1
        world.add_workload()
        await world.wait(1.0)
        assert (world.chunks(), world.condition()) == (2, ("True", "BufferReady"))
        assert world.count_events("BufferReady") == 1

    world.run(play)


def test_a_recreated_target_is_another_target() -> None:
    world = World()
    world.add_workload()
    world.add_buffer()

    async def play(_: BufferController) -> None:
        world.server.delete(path("deployments", "web"))
        world.remove_pods("web")
        await world.wait(1.0)
        assert (world.chunks(), world.condition()) == (None, ("False", "TargetNotFound"))
        template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [app(cpu="3")]}}
        world.add_workload(replicas=1, template=template)
        await world.wait(1.0)
        assert (world.chunks(), world.requests()) == (2, {"cpu": "3"})

    world.run(play)


@pytest.mark.parametrize(
    ("spec", "reason", "why"),
    [
        (about("Deploymint"), "TargetKindNotServed", "did you mean Deployment?"),
        (about("DaemonSet"), "TargetNotScalable", "Reason: DaemonSet has no scale subresource"),
        (about("Rollout", version="example.com/v1"), "TargetNotFound", "does not exist"),
    ],
)
def test_a_target_of_an_unscalable_kind_is_reported(spec: Document, reason: str, why: str) -> None:
    world = World()
    world.add_buffer(**spec)

    async def play(_: BufferController) -> None:
        assert world.condition() == ("False", reason)
        assert why in world.message()

    world.run(play)


def test_a_scale_without_a_selector_is_reported() -> None:
    world = World()
    world.put(path("rollouts", "web"), {"spec": {}, "status": {"replicas": 3}})
    world.add_buffer(**about("Rollout", version="example.com/v1"))

    async def play(_: BufferController) -> None:
        assert world.condition() == ("False", "TargetSelectsNothing")

    world.run(play)


def test_a_pod_refused_by_another_webhook_is_used_as_written_and_reported() -> None:
    world = World()

    def admit(pod: Document) -> Document:
        if refuses:
            raise PermissionError("admission webhook policy.example.com denied the request: no image from there")
        return {**pod, "spec": {**pod["spec"], "priority": 7}}

    refuses, world.admit = True, admit
    world.add_workload(replicas=0)
    world.add_buffer()

    async def play(_: BufferController) -> None:
        nonlocal refuses
        assert (world.chunks(), world.condition()) == (2, ("True", "BufferReady"))
        assert "policy.example.com" in world.message()
        assert world.count_events("TemplateRefused") == 1
        refuses = False
        await world.wait(130.0)
        assert world.pod_based_spec()["podSpec"]["priority"] == 7
        assert "policy.example.com" not in world.message()
        assert world.dry_runs <= 3

    world.run(play)


def test_chunks_stay_during_an_api_server_outage() -> None:
    world = World()
    world.put(path("rollouts", "web"), {"spec": {}, "status": {"replicas": 3, "selector": "app=web"}})
    world.add_pod("web")
    world.add_buffer(**about("Rollout", version="example.com/v1"))

    def fault(request: Request) -> ScriptedResponse | None:
        return Unreachable("no answer") if silent and request.path.endswith("/scale") else None

    silent, world.fault = False, fault

    async def play(_: BufferController) -> None:
        nonlocal silent
        assert world.chunks() == 2
        silent = True
        world.add_pod("web", {"containers": [app(cpu="2")]})
        await world.wait(120.0)
        assert (world.chunks(), world.requests()["cpu"], world.writes) == (2, "500m", 1)
        silent = False
        await world.wait(10.0)
        assert world.requests()["cpu"] == "2"

    world.run(play)


def test_a_forbidden_target_counts_once_it_has_lasted() -> None:
    world = World()
    world.put(path("rollouts", "web"), {"spec": {}, "status": {"replicas": 3, "selector": "app=web"}})
    world.add_pod("web")
    world.add_buffer(**about("Rollout", version="example.com/v1"))

    def fault(request: Request) -> ScriptedResponse | None:
        return error_response(403, "Forbidden", "no") if forbids and request.path.endswith("/scale") else None

    forbids, world.fault = False, fault

    async def play(_: BufferController) -> None:
        nonlocal forbids
        assert world.chunks() == 2
        forbids = True
        world.add_pod("web")
        await world.wait(20.0)
        assert (world.chunks(), world.condition()[0]) == (2, "True")
        await world.wait(20.0)
        assert (world.chunks(), world.condition()) == (None, ("False", "TargetForbidden"))
        forbids = False
        await world.wait(20.0)
        assert world.chunks() == 2

    world.run(play)


def test_an_unreadable_target_never_gets_the_shape_of_the_previous_one() -> None:
    world = World()
    for name in ("web", "other"):
        world.put(path("rollouts", name), {"spec": {}, "status": {"replicas": 3, "selector": f"app={name}"}})
    world.add_pod("web")
    world.add_buffer(**about("Rollout", version="example.com/v1"))

    def fault(request: Request) -> ScriptedResponse | None:
        return Unreachable("no answer") if silent and request.path.endswith("/scale") else None

    silent, world.fault = False, fault

    async def play(_: BufferController) -> None:
        nonlocal silent
        assert world.chunks() == 2
        silent = True
        for spec in (TWO, {"replicas": {"exactly": 4}}):
            world.edit("buffers", "web", **{**about("Rollout", "other", "example.com/v1"), "capacity": spec})
            await world.wait(1.0)
        silent = False
        await world.wait(20.0)
        assert (world.chunks(), world.condition()) == (None, ("False", "TargetWithoutPods"))

    world.run(play)


def test_a_pod_deleted_during_its_read_causes_no_failure() -> None:
    world = World()
    world.add_workload()

    def fault(request: Request) -> ScriptedResponse | None:
        return (
            error_response(404, "NotFound") if request.path == pod_path("web-3") and request.method == "GET" else None
        )

    world.fault = fault
    world.add_pod("web", {"containers": [app(cpu="2")]})
    world.add_buffer()

    async def play(_: BufferController) -> None:
        world.server.delete(pod_path("web-3"))
        await world.wait(1.0)
        assert (world.chunks(), world.requests()["cpu"]) == (2, "500m")

    world.run(play)


def test_a_failed_status_write_is_retried() -> None:
    world = World()
    world.add_workload()
    world.add_buffer()

    def fault(request: Request) -> ScriptedResponse | None:
        return error_response(500, "InternalError", "etcd is away") if broken and request.method == "PATCH" else None

    broken, world.fault = True, fault

    async def play(_: BufferController) -> None:
        nonlocal broken
        assert world.status() == {}
        broken = False
        await world.wait(10.0)
        assert world.chunks() == 2
        assert world.writes == 1

    world.run(play)


def test_an_externally_changed_status_is_corrected() -> None:
    world = World()
    world.add_workload()
    world.add_buffer()

    async def play(_: BufferController) -> None:
        result = world.server.objects[path("buffers", "web")]
        pods = {**result["status"]["podBasedBufferSpec"], "replicaNum": 4000}
        world.put(path("buffers", "web"), {**result, "status": {**result["status"], "podBasedBufferSpec": pods}})
        await world.wait(1.0)
        assert world.chunks() == 2

    world.run(play)


def test_two_buffers_on_one_target_have_their_own_chunks() -> None:
    world = World()
    world.add_workload()
    world.add_buffer("one", **TWO_OF_WEB, capacity={"replicas": {"exactly": 1}})
    world.add_buffer("two", **TWO_OF_WEB, capacity=TWO)

    async def play(_: BufferController) -> None:
        assert (world.chunks("one"), world.chunks("two")) == (1, 2)
        world.server.delete(path("buffers", "one"))
        world.add_pod("web", {"containers": [app(cpu="2")]})
        await world.wait(1.0)
        assert world.requests("two")["cpu"] == "2"

    world.run(play)


@pytest.mark.parametrize(("more", "chunks"), [({}, 0), ({"minCount": 3}, 3)])
def test_a_percentage_of_zero_replicas_is_the_minimum_or_zero(more: Document, chunks: int) -> None:
    world = World()
    world.add_workload(replicas=0)
    world.add_buffer(**TWO_OF_WEB, capacity={"replicas": {"percent": {"percent": 100, **more}}})

    async def play(_: BufferController) -> None:
        assert (world.chunks(), world.condition()[0]) == (chunks, "True")

    world.run(play)


def test_a_quota_of_zero_leaves_no_chunks_with_a_condition() -> None:
    world = World()
    world.add_workload()
    world.add_quota("none", {"pods": "0"})
    world.add_buffer()

    async def play(_: BufferController) -> None:
        assert world.chunks() == 0
        assert world.condition("LimitedByQuotas") == ("True", "LimitedByQuotas")
        assert world.condition() == ("True", "BufferReady")

    world.run(play)


def test_a_chunk_larger_than_every_node_is_kept_and_reported() -> None:
    world = World()
    world.add_node("n", "4", **{"karpenter.sh__nodepool": "big"})
    capacity = {"nodeClass": {"totalCpu": "64", "totalMem": "64Gi", "perChunkResources": {"cpu": "16"}}}
    world.add_buffer(**{**about("NodePool", "big", "karpenter.sh/v1"), "capacity": capacity})

    async def play(_: BufferController) -> None:
        assert world.chunks() == 4
        assert "16" in world.message()
        assert world.count_events("ChunkLargerThanNodes") == 1

    world.run(play)


def test_a_pod_selector_without_matches_fills_nothing() -> None:
    world = World()
    world.add_workload()
    world.add_buffer(
        **TWO_OF_WEB, capacity=TWO, recreationStrategy="KeepMinimum", podSelector={"matchLabels": {"app": "nobody"}}
    )

    async def play(_: BufferController) -> None:
        assert world.chunks() == 2

    world.run(play)


def test_a_process_that_does_not_lead_writes_nothing_and_starts_fresh_as_leader() -> None:
    world = World()
    world.leads = False
    world.add_workload()
    world.add_buffer()

    async def play(controller: BufferController) -> None:
        await world.wait(120.0)
        assert world.writes == 0
        world.leads = True
        controller.on_started_leading()
        await world.wait(1.0)
        assert (world.chunks(), world.writes) == (2, 1)

    world.run(play)


def test_an_unusable_buffer_does_not_block_shares_of_a_quota() -> None:
    world = World()
    world.add_workload()
    world.add_quota("pods", {"pods": "10"}, {"pods": "2"})
    world.add_buffer("broken", **about("Deployment", "missing"))
    world.add_buffer()

    async def play(_: BufferController) -> None:
        assert world.condition(name="broken") == ("False", "TargetNotFound")
        assert world.chunks() == 2

    world.run(play)
