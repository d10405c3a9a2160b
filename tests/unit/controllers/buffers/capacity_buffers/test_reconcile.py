"""Upstream's CapacityBuffers, served as upstream's own controller does."""

from __future__ import annotations

import pytest

from support.api_server.server import Document
from support.controllers.buffers import NAMESPACE, TWO_OF_WEB, path
from support.controllers.capacity_buffers import MANAGED, OF_WEB, CapacityWorld
from support.worlds.buffers import app
from trellis.controllers.buffers.process import BufferController
from trellis.testing.scripted_transport import error_response

READY = ("True", "AttributesSetSuccessfully", "ready")


def serving(**fields: object) -> CapacityWorld:
    world = CapacityWorld(serve=True, **fields)  # type: ignore[arg-type]
    world.add_workload(replicas=10, pods=1)
    return world


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
def test_the_status_refers_to_a_template_of_the_newest_pod(version: str) -> None:
    world = serving(version=version)
    world.add_capacity(**OF_WEB, percentage=15)

    async def play(_: BufferController) -> None:
        status = world.capacity_status()
        assert status["replicas"] == 2
        assert status["podTemplateRef"] == {"name": MANAGED}
        assert status["podTemplateGeneration"] == 1
        assert status["provisioningStrategy"] == "buffer.x-k8s.io/active-capacity"
        assert world.ready() == READY
        assert world.template_requests() == {"cpu": "500m", "memory": "1Gi"}
        template = world.template()
        assert template is not None
        [owner] = template["metadata"]["ownerReferences"]
        assert (owner["apiVersion"], owner["kind"], owner["name"], owner["controller"]) == (
            *(f"autoscaling.x-k8s.io/{version}", "CapacityBuffer", "web", True),
        )
        assert "env" not in template["template"]["spec"]["containers"][0]

    world.run(play)


def test_capacity_buffers_are_served_only_if_enabled() -> None:
    world = CapacityWorld()
    world.add_workload()
    world.add_capacity()

    async def play(_: BufferController) -> None:
        await world.wait(200.0)
        assert world.capacity_status() == {}
        assert world.changes == []
        assert not any(
            "capacitybuffers" in request.path for request in world.server.requests if "watch" in dict(request.query)
        )

    world.run(play)


def test_a_scale_a_recommendation_and_an_edit_are_followed() -> None:
    world = serving()
    world.add_capacity(**OF_WEB, percentage=10)

    async def play(_: BufferController) -> None:
        assert world.replicas() == 1
        world.scale(40)
        await world.wait(1.0)
        assert world.replicas() == 4
        world.add_vpa("2")
        await world.wait(1.0)
        assert world.template_requests() == {"cpu": "2", "memory": "1Gi"}
        assert world.capacity_status()["podTemplateGeneration"] == 2
        world.edit_capacity(**OF_WEB, replicas=7)
        await world.wait(1.0)
        assert world.replicas() == 7

    world.run(play)


def test_nothing_is_written_when_nothing_has_changed() -> None:
    world = serving()
    world.add_capacity()

    async def play(controller: BufferController) -> None:
        world.changes.clear()
        await world.wait(600.0)
        controller.on_started_leading()
        await world.wait(2.0)
        assert world.changes == []

    world.run(play)


def test_a_referenced_template_is_dry_run_and_followed() -> None:
    world = CapacityWorld(serve=True)
    world.add_capacity(podTemplateRef={"name": "chunk"}, limits={"cpu": "9"})

    async def play(_: BufferController) -> None:
        status, reason, message = world.ready()
        assert (status, reason) == ("False", "error")
        assert message == "Buffer not ready for provisioning: PodTemplate shop/chunk does not exist"
        assert "replicas" not in world.capacity_status()
        world.add_template(cpu="2")
        await world.wait(1.0)
        assert (world.replicas(), world.dry_runs) == (4, 1)
        assert world.template_requests()["cpu"] == "2"
        world.add_template(cpu="3")
        await world.wait(1.0)
        assert (world.replicas(), world.template_requests()["cpu"]) == (3, "3")

    world.run(play)


def test_a_later_limit_range_applies_to_a_template() -> None:
    world = CapacityWorld(serve=True)
    world.add_capacity(podTemplateRef={"name": "chunk"}, replicas=1)
    world.add_template(cpu="2")

    async def play(_: BufferController) -> None:
        assert (world.dry_runs, world.template_requests()["cpu"]) == (1, "2")
        world.admit = lambda pod: {**pod, "spec": {"containers": [app(cpu="5", memory="4Gi")]}}
        world.put(path("limitranges", "new"), {"spec": {"limits": []}})
        await world.wait(1.0)
        assert (world.dry_runs, world.template_requests()["cpu"]) == (2, "5")

    world.run(play)


def test_a_buffer_being_deleted_is_not_served_and_blocks_no_other_on_quotas() -> None:
    world = serving()
    world.add_quota("compute", {"pods": "5"})
    going = {"deletionTimestamp": "2026-11-18T12:00:00Z", "finalizers": ["example.com/wait"]}
    world.put(world.capacity_path("old"), {"metadata": going, "spec": {**OF_WEB, "replicas": 4}})
    world.add_capacity()

    async def play(_: BufferController) -> None:
        assert (world.replicas(), world.capacity_status("old")) == (2, {})

    world.run(play)


def test_other_strategies_and_capacity_buffers_owned_by_buffers_are_not_served() -> None:
    world = serving()
    world.add_capacity("standby", **OF_WEB, replicas=1, provisioningStrategy="buffer.gke.io/standby-capacity")
    owner = {
        "apiVersion": "autoscaling.x-k8s.io/v1alpha1",
        "kind": "Buffer",
        "name": "web",
        "uid": "u",
        "controller": True,
    }
    world.add_capacity("web", owner=owner, **OF_WEB, replicas=1)

    async def play(_: BufferController) -> None:
        await world.wait(70.0)
        assert (world.capacity_status("standby"), world.capacity_status("web")) == ({}, {})
        assert world.changes == []

    world.run(play)


def test_quotas_are_shared_with_buffers_the_oldest_first() -> None:
    world = serving()
    world.add_buffer("web", targetRef={"kind": "Deployment", "name": "web"}, capacity={"replicas": {"exactly": 3}})
    world.add_capacity(**OF_WEB, replicas=3)
    world.add_quota("compute", {"pods": "5"})

    async def play(_: BufferController) -> None:
        await world.wait(8.0)
        assert (world.chunks(), world.replicas()) == (3, 2)
        limited = next(
            condition for condition in world.capacity_status()["conditions"] if condition["type"] == "LimitedByQuotas"
        )
        assert limited["message"] == "Buffer replicas limited from 3 to 2 due to quotas: compute"
        assert ("CapacityBuffer", "LimitedByQuotas") in world.event_kinds
        world.server.delete(path("buffers", "web"))
        await world.wait(1.0)
        assert world.replicas() == 3

    world.run(play)


def test_conditions_of_the_node_autoscaler_stay() -> None:
    world = serving()
    world.add_capacity()
    own = {
        "type": "Provisioning",
        "status": "True",
        "reason": "FakePodsInjected",
        "message": "",
        "lastTransitionTime": "2026-11-18T12:00:00Z",
    }

    async def play(_: BufferController) -> None:
        result = world.capacity()
        assert result is not None
        world.put(world.capacity_path(), {**result, "status": {**result["status"], "conditions": [own]}})
        await world.wait(1.0)
        world.edit_capacity(**OF_WEB, replicas=5)
        await world.wait(1.0)
        assert own in world.capacity_status()["conditions"]
        assert len(world.capacity_status()["conditions"]) == 3

    world.run(play)


def test_the_status_of_an_earlier_controller_is_replaced() -> None:
    world = serving()
    world.add_capacity()
    result = world.capacity()
    assert result is not None
    remaining: Document = {
        "replicas": 99,
        "podTemplateRef": {"name": "theirs"},
        "podTemplateGeneration": 7,
        "conditions": [],
    }
    world.put(world.capacity_path(), {**result, "status": remaining})
    world.server.delete(path("deployments", "web"))

    async def play(_: BufferController) -> None:
        assert world.ready()[0] == "False"
        assert not {"replicas", "podTemplateRef", "podTemplateGeneration"} & world.capacity_status().keys()

    world.run(play)


def test_a_deleted_or_edited_template_is_written_again() -> None:
    world = serving()
    world.add_capacity()

    async def play(_: BufferController) -> None:
        world.server.delete(world.template_path())
        await world.wait(1.0)
        assert world.template_requests()["cpu"] == "500m"
        result = world.template()
        assert result is not None
        world.put(world.template_path(), {**result, "template": {"spec": {"containers": [{"name": "other"}]}}})
        await world.wait(1.0)
        assert world.template_requests()["cpu"] == "500m"
        assert world.capacity_status()["podTemplateGeneration"] == 3

    world.run(play)


def test_a_template_of_another_owner_is_left_unchanged() -> None:
    world = serving()
    world.add_template(MANAGED)
    world.add_capacity()

    async def play(_: BufferController) -> None:
        status, _reason, message = world.ready()
        assert status == "False"
        assert message.endswith(f"PodTemplate {MANAGED} has another owner")
        assert world.template_requests()["cpu"] == "2"
        world.server.delete(world.template_path())
        await world.wait(61.0)
        assert (world.ready(), world.replicas()) == (READY, 2)

    world.run(play)


def test_a_refused_template_is_reported_and_retried() -> None:
    world = serving()
    world.add_capacity()
    refused = [True]

    def fault(request: object) -> object:
        posted = request.method == "POST" and request.path.endswith("/podtemplates")  # type: ignore[attr-defined]
        return error_response(403, "Forbidden", "no templates on Sundays") if posted and refused else None

    world.fault = fault  # type: ignore[assignment]

    async def play(_: BufferController) -> None:
        assert world.ready()[0] == "False"
        assert "no templates on Sundays" in world.ready()[2]
        assert ("CapacityBuffer", "OwnedObjectRefused") in world.event_kinds
        refused.clear()
        await world.wait(61.0)
        assert world.ready() == READY

    world.run(play)


def test_a_kind_without_a_template_keeps_its_shape_while_it_has_no_pods() -> None:
    world = CapacityWorld(serve=True)
    world.put(path("rollouts", "web"), {"spec": {}, "status": {"replicas": 10, "selector": "app=web"}})
    world.add_pod("web")
    world.add_capacity(scalableRef={"apiGroup": "example.com", "kind": "Rollout", "name": "web"}, replicas=3)

    async def play(controller: BufferController) -> None:
        assert world.replicas() == 3
        world.remove_pods("web")
        await world.wait(1.0)
        controller.on_started_leading()
        await world.wait(2.0)
        assert (world.replicas(), world.ready()) == (3, READY)
        assert world.template_requests() == {"cpu": "500m", "memory": "1Gi"}
        world.edit_capacity(**{**world.server.objects[world.capacity_path()]["spec"], "replicas": 4})
        await world.wait(1.0)
        assert (world.replicas(), world.ready()) == (4, READY)

    world.run(play)


def test_a_new_workload_does_not_get_the_shape_of_the_previous_one() -> None:
    world = CapacityWorld(serve=True)
    for name in ("web", "other"):
        world.put(path("rollouts", name), {"spec": {}, "status": {"replicas": 10, "selector": f"app={name}"}})
    world.add_pod("web")
    about = {"apiGroup": "example.com", "kind": "Rollout"}
    world.add_capacity(scalableRef={**about, "name": "web"}, replicas=3)

    async def play(_: BufferController) -> None:
        assert world.ready() == READY
        world.edit_capacity(scalableRef={**about, "name": "other"}, replicas=3)
        await world.wait(1.0)
        assert (world.ready()[0], world.replicas()) == ("False", None)
        await world.wait(200.0)
        assert (world.ready()[0], world.replicas()) == ("False", None)

    world.run(play)


def test_a_slow_api_server_does_not_reduce_chunks() -> None:
    world = serving()
    world.put(path("rollouts", "web"), {"spec": {}, "status": {"replicas": 10, "selector": "app=web"}})
    world.add_capacity(scalableRef={"apiGroup": "example.com", "kind": "Rollout", "name": "web"}, replicas=3)

    async def play(_: BufferController) -> None:
        assert world.replicas() == 3
        world.fault = lambda request: (
            error_response(503, "ServiceUnavailable") if request.path.endswith("/scale") else None
        )
        await world.wait(130.0)
        assert (world.replicas(), world.ready()) == (3, READY)

    world.run(play)


def test_a_lasting_refusal_removes_the_chunks() -> None:
    world = CapacityWorld(serve=True)
    world.put(path("rollouts", "web"), {"spec": {}, "status": {"replicas": 10, "selector": "app=web"}})
    world.add_pod("web")
    world.add_capacity(scalableRef={"apiGroup": "example.com", "kind": "Rollout", "name": "web"}, replicas=3)

    async def play(_: BufferController) -> None:
        await world.wait(5.0)
        world.fault = lambda request: (
            error_response(403, "Forbidden", "no") if request.path.endswith("/scale") else None
        )
        world.add_pod("web")
        await world.wait(20.0)
        assert (world.replicas(), world.ready()) == (3, READY)
        await world.wait(20.0)
        assert (world.replicas(), world.ready()[0]) == (None, "False")
        world.fault = lambda _request: None
        await world.wait(20.0)
        assert (world.replicas(), world.ready()) == (3, READY)

    world.run(play)


def test_the_scale_of_another_group_is_read_again_after_pods_are_created() -> None:
    world = CapacityWorld(serve=True)
    other = f"/apis/apps.kruise.io/v1beta1/namespaces/{NAMESPACE}/statefulsets/web"
    world.put(other, {"spec": {}, "status": {"replicas": 10, "selector": "app=web"}})
    world.add_pod("web")
    about = {"apiGroup": "apps.kruise.io", "kind": "StatefulSet", "name": "web"}
    world.add_capacity(scalableRef=about, percentage=30)

    async def play(_: BufferController) -> None:
        assert (world.replicas(), world.ready()) == (3, READY)
        await world.wait(5.0)
        world.add_pod("web")
        await world.wait(1.0)
        world.put(other, {"spec": {}, "status": {"replicas": 20, "selector": "app=web"}})
        await world.wait(4.0)
        assert world.replicas() == 6

    world.run(play)


def test_a_missing_crd_is_looked_for_again() -> None:
    world = CapacityWorld(serve=True, version="")

    async def play(_: BufferController) -> None:
        assert not any("capacitybuffers" in request.path for request in world.server.requests)
        world.version = "v1beta1"
        world.add_workload()
        world.add_capacity()
        await world.wait(62.0)
        assert world.replicas() == 2

    world.run(play)


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
def test_a_crd_may_be_installed_later_in_either_version(version: str) -> None:
    world = CapacityWorld(serve=True, version="")

    async def play(_: BufferController) -> None:
        world.version = version
        world.add_workload()
        world.add_capacity()
        await world.wait(62.0)
        assert world.replicas() == 2

    world.run(play)


def test_a_removed_crd_affects_no_buffer_and_frees_its_quota() -> None:
    world = serving()
    world.add_quota("compute", {"pods": "5"})
    world.add_capacity(**OF_WEB, replicas=4)

    async def play(_: BufferController) -> None:
        assert world.replicas() == 4
        world.add_buffer(**TWO_OF_WEB, capacity={"replicas": {"exactly": 4}})
        await world.wait(2.0)
        assert world.chunks() == 1
        world.remove_kind()
        await world.wait(10.0)
        assert world.chunks() == 4
        world.install_kind("v1alpha1")
        world.add_capacity("other", **OF_WEB, replicas=3)
        await world.wait(130.0)
        assert (world.replicas("other"), world.chunks()) == (3, 2)

    world.run(play)


def test_capacity_buffers_are_counted_by_reason() -> None:
    world = serving()
    world.add_capacity()
    world.add_capacity("lost", scalableRef={"apiGroup": "apps", "kind": "Deployment", "name": "lost"}, replicas=1)

    async def play(_: BufferController) -> None:
        await world.wait(61.0)
        assert world.metric_value('trellis_buffers_capacity_buffers{reason="BufferReady"}') == 1
        assert world.metric_value('trellis_buffers_capacity_buffers{reason="TargetNotFound"}') == 1

    world.run(play)
