"""A CapacityBuffer for each Buffer, where another autoscaler manages nodes."""

from __future__ import annotations

import pytest

from support.api_server.server import Document, pod_path
from support.controllers.buffers import TWO_OF_WEB, path
from support.controllers.capacity_buffers import OF_BUFFER, OF_WEB, CapacityWorld
from support.worlds.buffers import a_spec, app
from trellis.controllers.buffers.process import BufferController
from trellis.controllers.buffers.settings import BufferControllerSettings, CapacityBufferSettings, TranslationSettings
from trellis.kube.transport.requests import Request
from trellis.testing.scripted_transport import ScriptedResponse, error_response

HELD = ("True", "HeldByCapacityBuffer")


def translating(**fields: object) -> CapacityWorld:
    world = CapacityWorld(translate=True, **fields)  # type: ignore[arg-type]
    world.add_workload(replicas=10, pods=1)
    world.add_buffer()
    return world


def read_spec(world: CapacityWorld) -> Document:
    result = world.capacity()
    assert result is not None
    spec: Document = result["spec"]
    return spec


def owner_in(document: Document | None) -> tuple[str, str, bool]:
    assert document is not None
    [owner] = document["metadata"]["ownerReferences"]
    return owner["kind"], owner["name"], owner["controller"]


def test_a_buffer_is_kept_as_a_capacity_buffer_with_its_template() -> None:
    world = translating()

    async def play(_: BufferController) -> None:
        assert read_spec(world) == {
            "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
            "podTemplateRef": {"name": OF_BUFFER},
            "replicas": 2,
        }
        assert world.template_requests(OF_BUFFER) == {"cpu": "500m", "memory": "1Gi"}
        assert owner_in(world.capacity()) == owner_in(world.template(OF_BUFFER)) == ("Buffer", "web", True)
        assert world.capacity_buffer_condition() == HELD
        assert world.events == [], "that all is well is no news"
        assert world.message("KeptAsCapacityBuffer") == "provisioned as CapacityBuffer web"
        assert world.condition() == ("True", "BufferReady")
        assert world.capacity_status() == {}, "its status is for whoever serves it"

    world.run(play)


def test_a_scale_a_recommendation_and_a_schedule_are_followed() -> None:
    world = translating()
    closed = {"windows": [{"start": "0 0 1 1 *", "duration": "1h"}]}

    async def play(_: BufferController) -> None:
        world.edit("buffers", "web", capacity={"replicas": {"percent": {"percent": 10}}})
        world.scale(40)
        await world.wait(1.0)
        assert read_spec(world)["replicas"] == 4
        world.add_vpa("2")
        await world.wait(1.0)
        assert world.template_requests(OF_BUFFER)["cpu"] == "2"
        world.edit("buffers", "web", schedule=closed)
        await world.wait(1.0)
        assert read_spec(world)["replicas"] == 0
        assert world.capacity_buffer_condition() == HELD

    world.run(play)


@pytest.mark.req("BF-35")
def test_the_capacity_buffer_of_a_minimum_keeps_its_unused_chunks() -> None:
    world = CapacityWorld(translate=True)
    world.nodes_run = False
    world.add_buffer(
        capacity={"pods": {"replicaNum": 3, "podSpec": {"containers": [app(cpu="1", memory="1Gi")]}}},
        recreationStrategy="KeepMinimum",
    )

    async def play(_: BufferController) -> None:
        await world.wait(8.0)
        assert read_spec(world)["replicas"] == 3, "no node: nodes are added for all of it"
        assert world.capacity_buffer_condition() == ("True", "MinimumHeldByCapacityBuffer")
        assert world.condition("Provisioned") == ("False", "BufferNotProvisioned")
        world.add_node("a", "4")
        await world.wait(3.0)
        assert world.condition("Provisioned") == ("True", "BufferProvisioned")
        assert read_spec(world)["replicas"] == 3
        ordinary = {"nodeName": "a", "containers": [app(cpu="1", memory="1Gi")]}
        pods = [world.add_pod("other", ordinary) for _ in range(2)]
        await world.wait(3.0)
        assert read_spec(world)["replicas"] == 1, "pods use two of the three"
        pods += [world.add_pod("other", ordinary) for _ in range(2)]
        await world.wait(3.0)
        assert read_spec(world)["replicas"] == 0, "pods may fill all of it, and no node is added"
        assert world.condition("Provisioned") == ("True", "BufferProvisioned")
        for pod in pods[:2]:
            world.server.delete(pod_path(pod))
        await world.wait(12.0)
        assert read_spec(world)["replicas"] == 1
        world.edit("buffers", "web", recreationStrategy="KeepEmpty")
        await world.wait(3.0)
        assert (read_spec(world)["replicas"], world.capacity_buffer_condition()) == (3, HELD)

    world.run(play)


def test_a_minimum_whose_use_cannot_be_observed_is_refused_with_a_condition() -> None:
    world = CapacityWorld(translate=True)
    # The observation begins when this process may act, and lists all pods with their specs.
    world.leads = False
    world.add_buffer(capacity={"pods": {"replicaNum": 3, "podSpec": a_spec()}}, recreationStrategy="KeepMinimum")

    async def play(controller: BufferController) -> None:
        await world.wait(3.0)
        world.fault = lambda request: error_response(403, "Forbidden") if _lists_pods(request) else None
        world.leads = True
        controller.on_started_leading()
        await world.wait(60.0)
        assert world.capacity_buffer_condition() == ("False", "MinimumNotObserved")
        assert world.capacity() is None, "nothing else is kept instead"

    world.run(play)


def _lists_pods(request: Request) -> bool:
    return request.path == "/api/v1/pods" and "watch" not in dict(request.query)


def test_the_condition_has_the_present_generation() -> None:
    world = translating()

    async def play(_: BufferController) -> None:
        world.edit("buffers", "web", recreationStrategy="KeepEmpty")
        await world.wait(1.0)
        generations = {
            condition["type"]: condition.get("observedGeneration") for condition in world.status()["conditions"]
        }
        assert generations["KeptAsCapacityBuffer"] == 2

    world.run(play)


def test_nothing_is_written_when_nothing_has_changed() -> None:
    world = translating()

    async def play(controller: BufferController) -> None:
        world.changes.clear()
        await world.wait(600.0)
        controller.on_started_leading()
        await world.wait(2.0)
        assert world.changes == []

    world.run(play)


def test_a_buffer_without_chunks_has_an_empty_capacity_buffer_or_none() -> None:
    world = translating()
    world.add_buffer("lost", targetRef={"kind": "Deployment", "name": "lost"}, capacity={"replicas": {"exactly": 1}})

    async def play(_: BufferController) -> None:
        assert world.capacity("lost") is None
        assert world.capacity_buffer_condition("lost") == ("False", "CapacityBufferEmpty")
        world.server.delete(path("deployments", "web"))
        await world.wait(1.0)
        assert read_spec(world)["replicas"] == 0
        assert world.capacity_buffer_condition() == ("False", "CapacityBufferEmpty")
        world.add_workload(replicas=10, pods=0)
        await world.wait(1.0)
        assert read_spec(world)["replicas"] == 2
        assert world.capacity_buffer_condition() == HELD

    world.run(play)


def test_a_capacity_buffer_of_another_owner_is_left_unchanged() -> None:
    world = translating()
    world.add_capacity(**OF_WEB, replicas=7)

    async def play(_: BufferController) -> None:
        assert read_spec(world) == {**OF_WEB, "replicas": 7}
        assert world.template(OF_BUFFER) is None
        assert world.capacity_buffer_condition() == ("False", "OwnedNameTaken")
        assert world.count_events("OwnedNameTaken") == 1
        world.server.delete(world.capacity_path())
        await world.wait(1.0)
        assert read_spec(world)["replicas"] == 2
        assert world.capacity_buffer_condition() == HELD

    world.run(play)


def test_an_edit_of_the_mirror_is_reverted() -> None:
    world = translating()

    async def play(_: BufferController) -> None:
        world.edit_capacity(podTemplateRef={"name": OF_BUFFER}, replicas=50)
        await world.wait(1.0)
        assert read_spec(world)["replicas"] == 2
        world.server.delete(world.capacity_path())
        world.server.delete(world.template_path(OF_BUFFER))
        await world.wait(1.0)
        assert read_spec(world)["replicas"] == 2
        assert world.template(OF_BUFFER) is not None

    world.run(play)


def test_a_buffer_of_another_type_has_no_mirror() -> None:
    world = translating()

    async def play(_: BufferController) -> None:
        assert world.capacity() is not None
        world.edit("buffers", "web", type="buffer.example.com/other")
        await world.wait(1.0)
        assert (world.capacity(), world.template(OF_BUFFER), world.capacity_buffer_condition()) == (None, None, None)

    world.run(play)


def test_translated_objects_are_deleted_even_if_the_type_changed_while_the_controller_was_down() -> None:
    world = translating()

    async def first(_: BufferController) -> None:
        assert world.capacity() is not None

    async def play_after(_: BufferController) -> None:
        assert (world.capacity(), world.template(OF_BUFFER), world.capacity_buffer_condition()) == (None, None, None)
        assert world.chunks() == 2, "the rest of its status is for whoever serves the type"
        world.edit("buffers", "web", type="buffer.x-k8s.io/active-capacity")
        await world.wait(1.0)
        assert (read_spec(world)["replicas"], world.capacity_buffer_condition()) == (2, HELD)

    world.run(first)
    world.edit("buffers", "web", type="buffer.example.com/other")
    world.run(play_after)


def test_the_mirror_is_deleted_when_the_kind_of_target_is_set_aside() -> None:
    world = translating()

    async def first(_: BufferController) -> None:
        assert world.capacity() is not None

    async def play_after(_: BufferController) -> None:
        assert (world.capacity(), world.template(OF_BUFFER), world.capacity_buffer_condition()) == (None, None, None)

    world.run(first)
    apart = TranslationSettings(set_aside_target_kinds=("Deployment",))
    world.settings = BufferControllerSettings(translation=apart, elsewhere=world.settings.elsewhere)
    world.run(play_after)


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
def test_the_mirror_is_deleted_when_translation_is_switched_off(version: str) -> None:
    world = translating(version=version)

    async def first(_: BufferController) -> None:
        assert world.capacity() is not None

    async def play_after(_: BufferController) -> None:
        assert (world.capacity(), world.template(OF_BUFFER), world.capacity_buffer_condition()) == (None, None, None)
        assert world.condition() == ("True", "BufferReady")
        world.changes.clear()
        await world.wait(200.0)
        assert world.changes == []

    world.run(first)
    world.settings = BufferControllerSettings()
    world.run(play_after)


def test_an_object_of_another_owner_under_the_name_stays_when_translation_ends() -> None:
    world = translating()

    async def first(_: BufferController) -> None:
        world.server.delete(world.capacity_path())
        await world.wait(1.0)

    async def play_after(_: BufferController) -> None:
        assert read_spec(world) == {**OF_WEB, "replicas": 7}
        assert world.capacity_buffer_condition() is None

    world.run(first)
    world.server.delete(world.capacity_path())
    world.add_capacity(**OF_WEB, replicas=7)
    world.settings = BufferControllerSettings()
    world.run(play_after)


def test_a_missing_capacity_buffer_kind_is_reported_until_it_is_served() -> None:
    world = translating(version="")

    async def play(_: BufferController) -> None:
        assert world.capacity_buffer_condition() == ("False", "CapacityBuffersNotServed")
        assert world.chunks() == 2
        world.version = "v1beta1"
        await world.wait(130.0)
        assert world.capacity_buffer_condition() == HELD

    world.run(play)


def test_a_removed_or_changed_kind_affects_no_buffer() -> None:
    world = translating()

    async def play(_: BufferController) -> None:
        assert world.capacity_buffer_condition() == HELD
        world.remove_kind()
        await world.wait(10.0)
        world.add_buffer("new", **TWO_OF_WEB, capacity={"replicas": {"exactly": 3}})
        await world.wait(10.0)
        assert (world.chunks("new"), world.chunks()) == (3, 2)
        assert world.capacity_buffer_condition("new") == ("False", "CapacityBuffersNotServed")
        await world.wait(70.0)
        assert world.capacity_buffer_condition() == ("False", "CapacityBuffersNotServed")
        world.install_kind("v1alpha1")
        await world.wait(130.0)
        assert (world.capacity_buffer_condition(), world.capacity_buffer_condition("new")) == (HELD, HELD)
        assert world.capacity() is not None

    world.run(play)


def test_a_refused_write_is_reported_and_retried() -> None:
    world = translating()
    refused = [True]

    def fault(request: Request) -> ScriptedResponse | None:
        posted = request.method == "POST" and request.path.endswith("/capacitybuffers")
        return error_response(403, "Forbidden", "not in this namespace") if posted and refused else None

    world.fault = fault

    async def play(_: BufferController) -> None:
        assert world.capacity_buffer_condition() == ("False", "OwnedObjectRefused")
        assert "not in this namespace" in world.message("KeptAsCapacityBuffer")
        assert world.condition() == ("True", "BufferReady")
        refused.clear()
        await world.wait(61.0)
        assert world.capacity_buffer_condition() == HELD

    world.run(play)


def test_a_process_that_does_not_lead_creates_no_capacity_buffers() -> None:
    world = translating()
    world.leads = False

    async def play(_: BufferController) -> None:
        await world.wait(70.0)
        assert (world.capacity(), world.template(OF_BUFFER)) == (None, None)

    world.run(play)


def test_translating_and_serving_capacity_buffers_exclude_each_other() -> None:
    both = CapacityBufferSettings(serve_capacity_buffers=True, translate=True)
    assert [conflict.setting for conflict in both.conflicts()] == ["translate"]
    assert not list(CapacityBufferSettings(serve_capacity_buffers=True).conflicts())
    assert not list(CapacityBufferSettings(translate=True).conflicts())


def test_without_permission_to_read_capacity_buffers_buffers_are_translated() -> None:
    world = translating()

    def fault(request: Request) -> ScriptedResponse | None:
        return error_response(403, "Forbidden", "no") if request.path.endswith("/podtemplates") else None

    world.fault = fault

    async def play(_: BufferController) -> None:
        await world.wait(10.0)
        assert world.chunks() == 2
        assert world.capacity_buffer_condition() == ("False", "CapacityBuffersNotServed")
        assert world.capacity() is None
        world.fault = lambda _request: None
        await world.wait(120.0)
        assert world.capacity_buffer_condition() == HELD

    world.run(play)
