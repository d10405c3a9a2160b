"""The Buffer controller notices what makes a difference, also where nothing else about an object has changed."""

from __future__ import annotations

import pytest

from support.api_server.server import Document, pod_path
from support.controllers.buffers import World, path
from support.worlds.buffers import app
from trellis.base.errors import Unreachable
from trellis.controllers.buffers.process import BufferController
from trellis.kube.transport.requests import Request
from trellis.testing.scripted_transport import ScriptedResponse, error_response

ROLLOUT: Document = {"targetRef": {"apiVersion": "example.com/v1", "kind": "Rollout", "name": "web"}}
TWO: Document = {"capacity": {"replicas": {"exactly": 2}}}


def world_with() -> World:
    world = World()
    world.add_workload()
    world.add_buffer()
    return world


def edit_pod(world: World, name: str, **changes: Document) -> None:
    result = world.server.objects[pod_path(name)]
    metadata = {**result["metadata"], **changes.pop("metadata", {})}
    world.put(pod_path(name), {**result, **changes, "metadata": metadata})


def test_a_finished_newest_pod_is_no_shape_any_more() -> None:
    world = world_with()
    newest = world.add_pod("web", {"containers": [app(cpu="4")]})

    async def play(_: BufferController) -> None:
        assert world.requests()["cpu"] == "4"
        edit_pod(world, newest, status={"phase": "Succeeded"})
        await world.wait(1.0)
        assert world.requests()["cpu"] == "500m"

    world.run(play)


def test_a_new_label_of_the_newest_pod_is_on_the_chunk() -> None:
    world = world_with()
    newest = world.add_pod("web")

    async def play(_: BufferController) -> None:
        edit_pod(world, newest, metadata={"labels": {"app": "web", "track": "canary"}})
        await world.wait(1.0)
        assert world.pod_based_spec()["podLabels"] == {"app": "web", "track": "canary"}

    world.run(play)


def test_the_dry_run_of_a_template_has_its_annotations() -> None:
    world = World()
    tried: list[Document] = []

    def admit(pod: Document) -> Document:
        tried.append(pod["metadata"])
        return pod

    world.admit = admit
    metadata = {"labels": {"app": "web"}, "annotations": {"sidecar.example.com/inject": "true"}}
    world.add_workload(replicas=0, template={"metadata": metadata, "spec": {"containers": [app(cpu="1")]}})
    world.add_buffer()

    async def play(_: BufferController) -> None:
        assert [tried_metadata["annotations"] for tried_metadata in tried] == [{"sidecar.example.com/inject": "true"}]
        assert [tried_metadata["labels"] for tried_metadata in tried] == [{"app": "web"}]

    world.run(play)


def test_the_admitted_template_is_used_until_a_new_dry_run_succeeds() -> None:
    world = World()
    world.admit = lambda pod: {**pod, "spec": {**pod["spec"], "priority": 7}}
    world.add_workload(replicas=0)
    world.add_buffer()

    def fault(request: Request) -> ScriptedResponse | None:
        requests = request.method == "POST" and request.path.endswith("/pods")
        return error_response(500, "InternalError", "webhook.example.com timed out") if fails and requests else None

    fails, world.fault = False, fault

    async def play(_: BufferController) -> None:
        nonlocal fails
        assert world.pod_based_spec()["podSpec"]["priority"] == 7
        fails = True
        await world.wait(1_500.0)
        assert world.pod_based_spec()["podSpec"]["priority"] == 7
        assert "webhook.example.com" not in world.message()

    world.run(play)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [(Unreachable("no answer"), "TargetUnreachable"), (error_response(403, "Forbidden", "no"), "TargetForbidden")],
)
def test_a_buffer_without_chunks_reports_an_unreadable_target_at_once(fault: ScriptedResponse, reason: str) -> None:
    world = World()
    world.fault = lambda request: fault if request.path.endswith("/scale") else None
    world.put(path("rollouts", "web"), {"spec": {}, "status": {"replicas": 3, "selector": "app=web"}})
    world.add_buffer(**ROLLOUT, **TWO)

    async def play(_: BufferController) -> None:
        assert world.condition() == ("False", reason)

    world.run(play)


def test_the_same_decision_about_another_spec_records_no_event() -> None:
    world = World()
    world.add_buffer()

    async def play(_: BufferController) -> None:
        world.edit("buffers", "web", capacity={"replicas": {"exactly": 3}})
        await world.wait(1.0)
        assert world.condition() == ("False", "TargetNotFound")
        assert (world.status()["observedGeneration"], world.count_events("TargetNotFound")) == (2, 1)

    world.run(play)


def test_the_vpa_of_an_owned_workload_is_resolved_again_in_every_pass() -> None:
    world = World()
    owner = {"apiVersion": "example.com/v1", "kind": "Rollout", "name": "rose", "uid": "u", "controller": True}
    world.add_workload(replicas=1)
    result = world.server.objects[path("deployments", "web")]
    world.put(path("deployments", "web"), {**result, "metadata": {**result["metadata"], "ownerReferences": [owner]}})
    world.add_vpa("3")
    world.put(path("rollouts", "rose"), {"spec": {}, "status": {"replicas": 1, "selector": "app=web"}})
    world.add_buffer()

    async def play(_: BufferController) -> None:
        assert world.requests()["cpu"] == "500m"
        # Nobody tells of a kind that is not followed: what was learned of it is forgotten after a while.
        world.server.delete(path("rollouts", "rose"))
        await world.wait(520.0)
        assert world.requests()["cpu"] == "3"

    world.run(play)
