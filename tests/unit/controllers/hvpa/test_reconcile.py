"""The Hvpa controller: what it owns, what it writes, what it leaves alone and what it survives."""

from __future__ import annotations

from typing import Any

import pytest

from support.api_server.server import pod_path
from support.controllers.hvpa import STORY_1, World, path
from trellis.base.errors import Unreachable
from trellis.controllers.hvpa.process import HvpaController
from trellis.kube.resources import HPAS
from trellis.kube.transport.requests import Request
from trellis.testing.scripted_transport import ScriptedResponse, error_response

METRIC = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 120}},
}
OWN_VPA: dict[str, Any] = {"vpa": {"deploy": True}}
WAIT = 1.0


def world_with_vpa(**spec: Any) -> World:
    """Two replicas of 6 cores and 2 GB, and an Hvpa with a VPA of its own."""
    world = World()
    world.add_workload()
    world.add_hvpa(**OWN_VPA, **spec)
    return world


@pytest.mark.req("HV-13")
def test_a_recommendation_moves_count_and_size_and_the_status_tells() -> None:
    world = world_with_vpa()

    async def play(_: HvpaController) -> None:
        assert world.spec("hvpas")["replicas"] == 2
        assert world.conditions() == {"Active": "NoRecommendation", "NoRecommendation": "NoRecommendation"}
        world.advise("12", "2G", "24", "4G")
        await world.wait(WAIT)
        assert world.replicas() == 3
        assert world.spec("hvpas")["replicas"] == 3
        await world.wait(30.0)
        assert world.size() == {"cpu": "8", "memory": "2G"}
        assert (world.status()["replicas"], world.status()["selector"]) == (3, "app=web")
        assert world.conditions() == {"Active": "AsDecided"}
        status = world.status()
        assert (status["bucket"], status["lastScaleTime"]) == (0, world.time_text(world.scalings[0][0]))
        await world.wait(3600.0)
        assert [count for _, count in world.scalings] == [3]
        assert world.count_events("ScalesUp") == 1

    world.run(play)


def test_people_read_sizes_as_buckets_are_written_and_the_status_has_them_exactly() -> None:
    bucket = {**STORY_1, "memory": {"min": "1Gi", "max": "9Gi"}}
    world = World()
    world.add_workload(memory="2Gi")
    world.add_hvpa(**OWN_VPA, buckets=[bucket])

    async def play(_: HvpaController) -> None:
        world.advise("12", "2684354561", "24", "5368709122")
        await world.wait(60.0)
        assert world.size() == {"cpu": "8", "memory": "2684354561"}
        (active,) = [condition for condition in world.status()["conditions"] if condition["type"] == "Active"]
        assert active["message"].startswith("3 x (CPU 8, memory 2.5Gi): ")
        (scaled_up,) = [message for code, message in world.events if code == "ScalesUp"]
        assert scaled_up.startswith("2 x (CPU 6, memory 2Gi) to 3 x (CPU 8, memory 2.5Gi): ")

    world.run(play)


def test_the_size_is_published_with_bounds_that_leave_an_updater_no_choice() -> None:
    world = world_with_vpa()

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(30.0)
        [part] = world.status()["recommendation"]["containerRecommendations"]
        assert part["lowerBound"] == part["target"] == part["upperBound"] == world.size()

    world.run(play)


def test_an_hpa_and_a_vpa_are_made_from_the_templates_and_owned() -> None:
    world = World()
    world.add_workload()
    world.add_hvpa(
        hpa={"template": {"spec": {"minReplicas": 1, "maxReplicas": 16, "metrics": [METRIC]}}},
        vpa={"template": {"spec": {"updatePolicy": {"minReplicas": 1}}}},
    )

    async def play(_: HvpaController) -> None:
        hpa, vpa = world.spec("horizontalpodautoscalers"), world.spec("verticalpodautoscalers")
        assert hpa["metrics"] == [METRIC]
        assert hpa["behavior"] == {"scaleDown": {"stabilizationWindowSeconds": 0}}
        assert (hpa["scaleTargetRef"]["kind"], hpa["scaleTargetRef"]["name"]) == ("Hvpa", "web")
        assert vpa["updatePolicy"] == {"minReplicas": 1, "updateMode": "Off"}
        assert vpa["targetRef"]["name"] == "web"
        hvpa = world.find("hvpas")
        for plural in ("horizontalpodautoscalers", "verticalpodautoscalers"):
            document = world.find(plural)
            assert document is not None
            assert hvpa is not None
            [owner] = document["metadata"]["ownerReferences"]
            assert (owner["uid"], owner["controller"]) == (hvpa["metadata"]["uid"], True)

    world.run(play)


def test_what_is_owned_is_set_right_made_again_and_removed_with_deploy_false() -> None:
    world = world_with_vpa()

    async def play(_: HvpaController) -> None:
        world.edit("verticalpodautoscalers", "web", updatePolicy={"updateMode": "Recreate"})
        await world.wait(WAIT)
        assert world.spec("verticalpodautoscalers")["updatePolicy"] == {"updateMode": "Off"}
        assert world.conditions()["Active"] == "NoRecommendation"
        world.server.delete(path("verticalpodautoscalers", "web"))
        await world.wait(60.0)
        assert world.find("verticalpodautoscalers") is not None
        world.edit("hvpas", "web", vpa={"deploy": False})
        await world.wait(WAIT)
        assert world.find("verticalpodautoscalers") is None

    world.run(play)


def test_objects_of_other_owners_are_never_touched() -> None:
    world = world_with_vpa(hpa={"template": {"spec": {"maxReplicas": 8}}})
    world.add_vpa("web")
    world.add_hpa("web")
    before = world.spec("verticalpodautoscalers"), world.spec("horizontalpodautoscalers")

    async def play(_: HvpaController) -> None:
        await world.wait(300.0)
        assert world.conditions()["NameTaken"] == "NameTaken"
        world.edit("hvpas", "web", vpa={"deploy": False}, hpa={"deploy": False})
        await world.wait(300.0)
        assert before == (world.spec("verticalpodautoscalers"), world.spec("horizontalpodautoscalers"))
        assert "NameTaken" not in world.conditions()

    world.run(play)


def test_what_an_hvpa_has_left_behind_is_adopted_and_follows_the_template_again() -> None:
    world = world_with_vpa(hpa={"template": {"spec": {"maxReplicas": 8}}})
    plurals = ("verticalpodautoscalers", "horizontalpodautoscalers")

    async def play(_: HvpaController) -> None:
        await world.wait(WAIT)
        world.server.delete(path("hvpas", "web"))
        for plural in plurals:
            orphan = world.server.objects[path(plural, "web")]
            metadata = {name: value for name, value in orphan["metadata"].items() if name != "ownerReferences"}
            world.server.put(path(plural, "web"), {**orphan, "metadata": metadata})
        await world.wait(WAIT)
        world.add_hvpa("web", vpa={"deploy": True}, hpa={"template": {"spec": {"maxReplicas": 12}}})
        await world.wait(WAIT)
        uid = world.server.objects[path("hvpas", "web")]["metadata"]["uid"]
        for plural in plurals:
            [owner] = world.server.objects[path(plural, "web")]["metadata"]["ownerReferences"]
            assert (owner["uid"], owner["controller"]) == (uid, True)
        assert world.spec("horizontalpodautoscalers")["maxReplicas"] == 12
        assert "NameTaken" not in world.conditions()

    world.run(play)


def test_a_name_that_is_taken_by_something_about_another_workload_is_reported_and_not_tried() -> None:
    world = world_with_vpa(hpa={"template": {"spec": {"maxReplicas": 8}}})
    world.server.put(
        path("horizontalpodautoscalers", "web"),
        {"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}}},
    )

    async def play(_: HvpaController) -> None:
        await world.wait(300.0)
        assert world.conditions()["NameTaken"] == "NameTaken"
        assert not [outcome for outcome in world.outcomes if outcome.action.target.resource is HPAS]

    world.run(play)


def test_a_users_vpa_in_mode_off_is_the_source_and_the_hvpas_own_totals_count() -> None:
    world = World()
    world.add_workload()
    world.add_hvpa()
    world.add_vpa("mine")

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G", name="mine")
        await world.wait(WAIT)
        assert world.replicas() == 3
        assert world.find("verticalpodautoscalers") is None

    world.run(play)


def test_the_recommenders_totals_in_the_status_are_left_to_it() -> None:
    world = World()
    world.add_workload()
    world.add_hvpa()
    where = path("hvpas", "web")
    world.server.put(where, {**world.server.objects[where], "status": {"totals": {"cpu": "24", "memory": "4G"}}})
    world.add_vpa("mine")

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G", name="mine")
        await world.wait(60.0)
        assert world.status()["totals"] == {"cpu": "24", "memory": "4G"}
        assert world.replicas() == 3

    world.run(play)


@pytest.mark.parametrize("code", ["ConflictingVPA", "ConflictingHPA", "OlderHvpa"])
def test_an_hvpa_yields_and_names_the_other_autoscaler(code: str) -> None:
    world = world_with_vpa(created="2026-06-01T00:00:00Z")
    rivals = {
        "ConflictingVPA": "VerticalPodAutoscaler acts",
        "ConflictingHPA": "HorizontalPodAutoscaler other",
        "OlderHvpa": "Hvpa elder",
    }
    match code:
        case "ConflictingVPA":
            world.add_vpa("acts", "Recreate")
        case "ConflictingHPA":
            world.add_hpa("other", "Deployment")
        case _:
            world.add_hvpa("elder", target="web")

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(60.0)
        if code != "OlderHvpa":
            assert world.replicas() == 2
        assert world.conditions()["Active"] == code
        assert world.conditions()[code] == code
        assert world.count_events(code) == 1
        messages = {condition["type"]: condition["message"] for condition in world.status()["conditions"]}
        assert messages["Active"].startswith(f"{rivals[code]}: ")
        assert messages[code].startswith(f"{rivals[code]}: ")

    world.run(play)


def test_a_wish_of_the_hpa_is_read_once_and_written_back() -> None:
    world = World()
    world.add_workload()
    world.add_hvpa()
    world.add_hpa("mine", metrics=[METRIC])

    async def play(_: HvpaController) -> None:
        assert world.spec("hvpas")["replicas"] == 2
        world.request_replicas(4)
        await world.wait(WAIT)
        # 4 x 6 = 24 cores, which three replicas hold.
        assert world.replicas() == 3
        assert world.spec("hvpas")["replicas"] == 3
        assert world.conditions()["HPAStabilizationWindow"] == "HPAStabilizationWindow"
        await world.wait(60.0)
        assert world.size()["cpu"] == "8"
        assert world.status()["hpa"]["total"]["cpu"] == "24"
        await world.wait(600.0)
        assert [count for _, count in world.scalings] == [3]

    world.run(play)


@pytest.mark.req("HV-41")
def test_the_bounds_of_an_hpa_are_left_standing_without_a_loop() -> None:
    world = World()
    world.add_workload(cpu="3125m")
    world.add_hvpa()
    world.add_hpa("mine", minReplicas=10, metrics=[METRIC])

    async def play(_: HvpaController) -> None:
        world.request_replicas(10)
        await world.wait(600.0)
        assert world.spec("hvpas")["replicas"] == 10
        assert world.replicas() == 2
        assert world.conditions()["HPABounds"] == "HPABounds"
        # The first count, as a seed, and nothing after it.
        assert world.written_back == [2]

    world.run(play)


def test_a_target_scaled_to_zero_stays_there_until_it_is_scaled_up() -> None:
    world = world_with_vpa()

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(60.0)
        scaled = world.status()["lastScaleTime"]
        world.edit("deployments", "web", replicas=0)
        await world.wait(600.0)
        assert world.replicas() == 0
        assert world.conditions()["Active"] == "ScaledToZero"
        assert world.status()["lastScaleTime"] == scaled
        world.edit("deployments", "web", replicas=1)
        await world.wait(10.0)
        assert world.replicas() == 3

    world.run(play)


def test_an_externally_changed_count_is_reset_once_in_a_window() -> None:
    world = world_with_vpa()

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(120.0)
        world.edit("deployments", "web", replicas=6)
        await world.wait(10.0)
        assert world.replicas() == 3
        assert world.count_events("ReplicasDrifted") == 1
        world.edit("deployments", "web", replicas=6)
        await world.wait(60.0)
        assert world.replicas() == 6
        assert world.conditions()["DriftTolerated"] == "DriftTolerated"
        await world.wait(300.0)
        assert world.replicas() == 3

    world.run(play)


def test_externally_set_pod_requests_are_reported_once_in_a_window_even_if_corrected_at_once() -> None:
    world = world_with_vpa()

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(120.0)
        assert world.count_events("RequestsDrifted") == 0, "pods that the updater resizes have not drifted"
        for _edit in range(3):
            world.set_pod_requests({"cpu": "1", "memory": "2G"})
            world.resize()
            await world.wait(60.0)
        assert world.count_events("RequestsDrifted") == 1
        assert world.conditions()["RequestsDrifted"] == "RequestsDrifted"
        await world.wait(300.0)
        assert "RequestsDrifted" not in world.conditions()

    world.run(play)


@pytest.mark.req("HV-45")
def test_old_replicas_keep_their_size_until_the_new_ones_are_ready() -> None:
    world = world_with_vpa()
    world.start_seconds = 20.0

    async def play(_: HvpaController) -> None:
        world.advise("6001m", "2G", "12001m", "4G")
        await world.wait(10.0)
        assert world.replicas() == 3
        assert world.size()["cpu"] == "6"
        await world.wait(20.0)
        assert world.size()["cpu"] == "4001m"

    world.run(play)


def test_survivors_grow_before_there_are_fewer_of_them() -> None:
    world = World()
    world.add_workload(replicas=3, cpu="4")
    world.add_hvpa(scaleDown={"stabilizationWindow": "0s"}, **OWN_VPA)
    world.updates = False

    async def play(_: HvpaController) -> None:
        world.advise("4", "2G", "10", "6G")
        await world.wait(120.0)
        assert world.replicas() == 3
        assert world.size()["cpu"] == "5"
        world.updates = True
        world.resize()
        await world.wait(WAIT)
        assert world.replicas() == 2

    world.run(play)


def test_a_target_of_any_kind_with_a_scale_will_do() -> None:
    world = World()
    world.add_workload(plural="rollouts")
    world.add_hvpa(kind="Rollout", **OWN_VPA)

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(WAIT)
        assert world.replicas(plural="rollouts") == 3

    world.run(play)


def test_a_target_that_is_not_there_is_reported_and_taken_up_when_it_comes() -> None:
    world = World()
    world.add_hvpa(**OWN_VPA)

    async def play(_: HvpaController) -> None:
        assert world.conditions() == {"Active": "TargetNotFound", "TargetNotFound": "TargetNotFound"}
        world.advise("12", "2G", "24", "4G")
        world.add_workload()
        await world.wait(30.0)
        assert world.replicas() == 3
        assert world.conditions() == {"Active": "AsDecided"}

    world.run(play)


def test_another_target_is_not_given_what_the_one_before_it_needed() -> None:
    world = world_with_vpa()
    world.add_workload("other", replicas=1, cpu="1")

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(30.0)
        assert (world.replicas(), world.size()["cpu"]) == (3, "8")
        other = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}
        world.edit("hvpas", "web", targetRef=other, vpa={"deploy": False})
        await world.wait(30.0)
        assert (world.replicas("other"), world.size()) == (1, {})
        assert world.conditions()["Active"] == "NoRecommendation"
        assert world.spec("hvpas")["replicas"] == 1

    world.run(play)


@pytest.mark.parametrize("lost", ["scale", "write-back", "status"])
def test_a_controller_killed_between_its_writes_converges_and_scales_once(lost: str) -> None:
    world = world_with_vpa()
    world.add_hpa("mine", metrics=[METRIC], behavior={"scaleDown": {"stabilizationWindowSeconds": 0}})

    def dies(request: Request) -> ScriptedResponse | None:
        is_status = request.path.endswith("/status")
        is_back = "/hvpas/" in request.path and not is_status
        after = {"scale": is_back or is_status, "write-back": is_status, "status": False}[lost]
        return Unreachable("killed") if request.method == "PATCH" and after else None

    async def first(_: HvpaController) -> None:
        world.fault = dies
        world.request_replicas(4)
        await world.wait(0.1)

    async def second(_: HvpaController) -> None:
        await world.wait(120.0)
        assert world.replicas() == 3
        assert world.spec("hvpas")["replicas"] == 3
        assert [count for _, count in world.scalings] == [3]

    world.run(first)
    world.fault = lambda _request: None
    world.server.end_watches()
    world.run(second)


def test_a_scale_that_cannot_be_written_is_tried_again_and_nothing_is_forgotten() -> None:
    world = world_with_vpa()

    async def play(_: HvpaController) -> None:
        world.fault = lambda request: (
            error_response(403, "Forbidden", "quota")
            if request.path.endswith("/scale") and request.method == "PATCH"
            else None
        )
        world.advise("12", "2G", "24", "4G")
        await world.wait(30.0)
        assert world.replicas() == 2
        assert world.conditions()["Active"] == "ScaleRefused"
        world.fault = lambda _request: None
        await world.wait(10.0)
        assert world.replicas() == 3

    world.run(play)


def test_a_template_that_the_api_server_refuses_is_a_condition_with_its_words() -> None:
    world = World()
    world.add_workload()
    world.fault = lambda request: (
        error_response(422, "Invalid", "metrics are wrong")
        if request.method == "POST" and "horizontal" in request.path
        else None
    )
    world.add_hvpa(hpa={"template": {"spec": {"maxReplicas": 8}}}, **OWN_VPA)

    async def play(_: HvpaController) -> None:
        await world.wait(10.0)
        [refusal] = [
            condition for condition in world.status()["conditions"] if condition["type"] == "OwnedAutoscalerRefused"
        ]
        assert "metrics are wrong" in refusal["message"]
        assert world.find("verticalpodautoscalers") is not None

    world.run(play)


def test_a_stored_hvpa_that_breaks_a_rule_is_left_alone_and_others_are_not() -> None:
    world = world_with_vpa()
    world.add_hvpa("bad", buckets=[])

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(WAIT)
        assert world.conditions("bad")["Active"] == "HvpaRefused"
        assert world.replicas() == 3

    world.run(play)


def test_a_process_that_does_not_lead_writes_nothing_and_starts_when_it_leads() -> None:
    world = world_with_vpa()
    world.leads = False

    async def play(controller: HvpaController) -> None:
        await world.wait(300.0)
        assert not world.status()
        assert world.find("verticalpodautoscalers") is None
        world.leads = True
        controller.on_started_leading()
        await world.wait(WAIT)
        assert world.find("verticalpodautoscalers") is not None

    world.run(play)


def test_nothing_is_written_while_nothing_changes() -> None:
    world = world_with_vpa()

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(600.0)
        before = len(world.outcomes)
        await world.wait(3600.0)
        assert len(world.outcomes) == before
        assert 'trellis_hvpa_objects{reason="AsDecided"} 1' in world.metrics.format_text().decode()

    world.run(play)


def test_a_boosted_container_counts_with_what_was_published_for_it() -> None:
    world = world_with_vpa()

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(60.0)
        for where, document in list(world.server.objects.items()):
            if where.startswith(pod_path("")):
                metadata = {
                    **document["metadata"],
                    "annotations": {"vpaCpuStartupBoost/app": '{"requests": {"cpu": "6"}}'},
                }
                boosted = [{"name": "app", "resources": {"requests": {"cpu": "80", "memory": "2G"}}}]
                world.server.put(where, {**document, "metadata": metadata, "spec": {"containers": boosted}})
        await world.wait(900.0)
        assert [count for _, count in world.scalings] == [3]
        assert world.size()["cpu"] == "8"

    world.run(play)


def test_containers_that_a_policy_leaves_alone_have_no_say_and_no_size() -> None:
    world = World()
    world.add_workload()
    policy = {"containerPolicies": [{"containerName": "proxy", "mode": "Off"}]}
    world.add_hvpa(vpa={"template": {"spec": {"resourcePolicy": policy}}})
    for where, document in list(world.server.objects.items()):
        if where.startswith(pod_path("")):
            proxy = {"name": "proxy", "resources": {"requests": {"cpu": "20", "memory": "20G"}}}
            world.server.put(where, {**document, "spec": {"containers": [*document["spec"]["containers"], proxy]}})

    async def play(_: HvpaController) -> None:
        assert world.spec("verticalpodautoscalers")["resourcePolicy"] == policy
        world.advise("5", "2G", "10", "4G")
        await world.wait(400.0)
        assert world.replicas() == 2
        [part] = world.status()["recommendation"]["containerRecommendations"]
        assert (part["containerName"], part["target"]["cpu"]) == ("app", "5")

    world.run(play)


def test_a_container_killed_for_its_memory_lets_the_way_up_wait_no_longer() -> None:
    world = world_with_vpa(scaleUp={"stabilizationWindow": "10m"}, replicaSize={"memory": "Share"})

    async def play(_: HvpaController) -> None:
        world.advise("6", "6G", "12", "12G")
        await world.wait(60.0)
        assert world.status()["blocked"][0]["reason"] == "StabilizationWindow"
        where = next(path for path in world.server.objects if path.startswith(pod_path("")))
        document = world.server.objects[where]
        killed = {"terminated": {"reason": "OOMKilled", "finishedAt": world.time_text()}}
        statuses = [{"name": "app", "lastState": killed}]
        world.server.put(where, {**document, "status": {**document["status"], "containerStatuses": statuses}})
        await world.wait(10.0)
        assert world.size()["memory"] == "6G"

    world.run(play)
