"""What goes wrong around an Hvpa: sources that say nothing, edits in the middle, deaths between two writes."""

from __future__ import annotations

from typing import Any

import pytest

from support.controllers.hvpa import STORY_1, World, path
from trellis.base.errors import Unreachable
from trellis.controllers.hvpa.process import HvpaController
from trellis.kube.transport.requests import Request
from trellis.testing.scripted_transport import ScriptedResponse, error_response

METRIC = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
STEADY = {"scaleDown": {"stabilizationWindowSeconds": 0}}
AT_ONCE: dict[str, Any] = {"scaleDown": {"stabilizationWindow": "0s"}}
WINDOW_SECONDS = 300.0


def world_with_vpa(**spec: Any) -> World:
    """Two replicas of 6 cores and 2 GB, and an Hvpa with a VPA of its own."""
    world = World()
    world.add_workload()
    world.add_hvpa(vpa={"deploy": True}, **spec)
    return world


def test_an_hpa_without_metrics_neither_moves_anything_nor_stands_in_the_way_up() -> None:
    world = world_with_vpa(**AT_ONCE)
    world.add_hpa("mine", metrics=[METRIC], behavior=STEADY)

    async def play(_: HvpaController) -> None:
        await world.wait(600.0)
        assert (world.replicas(), world.size()) == (2, {"cpu": "6"})
        world.advise("12", "2G", "24", "4G")
        await world.wait(60.0)
        assert (world.replicas(), world.size()["cpu"]) == (3, "8")
        # Nobody has measured that less would do: the HPA may only be blind, and is taken at its last word.
        world.advise("1", "2G", "3", "6G")
        await world.wait(600.0)
        assert (world.replicas(), world.size()["cpu"]) == (3, "4")

    world.run(play)


def test_a_vpa_that_falls_silent_counts_for_a_window_and_nothing_shrinks_for_its_silence() -> None:
    world = world_with_vpa()

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(60.0)
        where = path("verticalpodautoscalers", "web")
        world.server.put(where, {**world.server.objects[where], "status": {}})
        await world.wait(2 * WINDOW_SECONDS)
        assert (world.replicas(), world.size()["cpu"]) == (3, "8")
        assert world.conditions()["Active"] == "NoRecommendation"
        world.advise("12", "2G", "24", "4G")
        await world.wait(10.0)
        assert world.conditions() == {"Active": "AsDecided"}
        assert [count for _, count in world.scalings] == [3]

    world.run(play)


def test_a_target_made_anew_gets_what_is_needed_and_its_first_count_is_no_drift() -> None:
    world = world_with_vpa()

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(60.0)
        for where in [key for key in world.server.objects if "/pods/" in key or "/deployments/" in key]:
            world.server.delete(where)
        await world.wait(60.0)
        assert world.conditions()["Active"] == "TargetNotFound"
        assert world.size()["cpu"] == "8"
        world.add_workload(replicas=1, cpu="500m")
        await world.wait(60.0)
        assert (world.replicas(), world.size()["cpu"]) == (3, "8")
        assert world.count_events("ReplicasDrifted") == 0

    world.run(play)


@pytest.mark.parametrize("seconds", [0.1, 3.0, 8.0])
def test_buckets_edited_while_replicas_come_up_count_at_once(seconds: float) -> None:
    world = world_with_vpa()
    world.start_seconds = 10.0
    few = {"replicas": {"min": 1, "max": 2}, "cpu": {"min": "0", "max": "24"}, "memory": {"min": "500M", "max": "25G"}}

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(seconds)
        world.edit("hvpas", "web", buckets=[few])
        await world.wait(120.0)
        assert (world.replicas(), world.size()["cpu"]) == (2, "12")
        world.edit("hvpas", "web", buckets=[STORY_1])
        await world.wait(seconds)
        world.edit("hvpas", "web", buckets=[few])
        await world.wait(120.0)
        assert (world.replicas(), world.size()["cpu"]) == (2, "12")
        assert world.conditions() == {"Active": "AsDecided"}
        await world.wait(3600.0)
        assert [count for _, count in world.scalings] == [3, 2, 3, 2]

    world.run(play)


def test_units_may_be_mixed() -> None:
    bucket = {
        "replicas": {"min": 1, "max": 8},
        "cpu": {"min": 0, "max": "24000m"},
        "memory": {"min": "500000k", "max": "25e9"},
    }
    world = World()
    world.add_workload(cpu="6000m", memory="2000000Ki")
    world.add_hvpa(vpa={"deploy": True}, buckets=[bucket])

    async def play(_: HvpaController) -> None:
        world.advise("12000m", "2048000000", "2.4e1", "4096M")
        await world.wait(60.0)
        assert (world.replicas(), world.size()) == (3, {"cpu": "8", "memory": "2048M"})
        await world.wait(600.0)
        assert [count for _, count in world.scalings] == [3]

    world.run(play)


@pytest.mark.parametrize("lost", [Unreachable("the connection was reset"), error_response(504, "Timeout", "timed out")])
def test_an_unanswered_write_of_our_count_is_not_an_external_edit(lost: ScriptedResponse) -> None:
    world = world_with_vpa()

    def is_not_answered(request: Request) -> ScriptedResponse | None:
        if request.method != "PATCH" or not request.path.endswith("/scale"):
            return None
        world.fault = lambda _: None
        world.edit("deployments", "web", replicas=3)
        return lost

    async def play(_: HvpaController) -> None:
        world.fault = is_not_answered
        world.advise("12", "2G", "24", "4G")
        await world.wait(60.0)
        assert (world.replicas(), world.size()["cpu"]) == (3, "8")
        assert world.count_events("ReplicasDrifted") == 0
        world.edit("deployments", "web", replicas=5)
        await world.wait(60.0)
        assert world.replicas() == 3
        assert world.count_events("ReplicasDrifted") == 1

    world.run(play)


@pytest.mark.parametrize("is_done", [True, False])
def test_old_replicas_keep_their_size_also_if_new_ones_are_uncertain(is_done: bool) -> None:
    world = world_with_vpa(**AT_ONCE)
    world.start_seconds = 20.0

    def is_not_answered(request: Request) -> ScriptedResponse | None:
        if request.method != "PATCH" or not request.path.endswith("/scale"):
            return None
        world.fault = lambda _: None
        if is_done:
            world.edit("deployments", "web", replicas=3)
        return error_response(504, "Timeout", "request did not complete within requested timeout")

    async def play(_: HvpaController) -> None:
        await world.wait(10.0)
        world.fault = is_not_answered
        world.advise("6001m", "2G", "12001m", "4G")
        await world.wait(15.0)
        assert world.replicas() == 3
        assert world.size().get("cpu", "6") == "6"
        await world.wait(60.0)
        assert (world.replicas(), world.size()["cpu"]) == (3, "4001m")
        assert world.count_events("ReplicasDrifted") == 0

    world.run(play)


def test_changes_of_pods_do_not_pile_up_while_no_plan_can_be_made() -> None:
    world = world_with_vpa()

    async def play(controller: HvpaController) -> None:
        await world.wait(10.0)
        world.fault = lambda request: error_response(403, "Forbidden") if request.path.endswith("/scale") else None
        for cores in range(1_500):
            world.set_pod_requests({"cpu": str(cores)})
        await world.wait(60.0)
        assert world.conditions()["Active"] == "TargetForbidden"
        assert [len(state.edits) for state in controller.states.all()] == [1_000]

    world.run(play)


@pytest.mark.parametrize("lost", ["scale", "write-back", "status"])
@pytest.mark.parametrize("way", ["up", "down"])
def test_a_process_killed_after_a_write_leaves_work_that_the_next_one_finishes(lost: str, way: str) -> None:
    world = world_with_vpa(**AT_ONCE)
    count, size, total = (4, "9", "36") if way == "up" else (2, "4500m", "9")

    def dies(request: Request) -> ScriptedResponse | None:
        is_status = request.path.endswith("/status")
        is_back = "/hvpas/" in request.path and not is_status
        after = {"scale": is_back or is_status, "write-back": is_status, "status": False}[lost]
        return Unreachable("killed") if request.method == "PATCH" and after else None

    async def settles(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(60.0)
        assert (world.replicas(), world.size()["cpu"]) == (3, "8")

    async def is_killed(_: HvpaController) -> None:
        await world.wait(5.0)
        world.scalings.clear()
        world.fault = dies
        world.advise("8", "2G", total, "6G")
        await world.wait(0.2)

    async def finishes(_: HvpaController) -> None:
        await world.wait(WINDOW_SECONDS + 60.0)
        assert [replicas for _, replicas in world.scalings] == [count]
        assert (world.replicas(), world.spec("hvpas")["replicas"]) == (count, count)
        assert world.size()["cpu"] == size

    world.run(settles)
    world.server.end_watches()
    world.run(is_killed)
    world.fault = lambda _request: None
    world.server.end_watches()
    world.run(finishes)


def test_the_successor_of_a_killed_process_waits_for_its_pods_before_others_shrink() -> None:
    world = world_with_vpa(**AT_ONCE)
    world.start_seconds = 20.0

    async def is_killed(_: HvpaController) -> None:
        world.fault = lambda request: (
            Unreachable("killed") if request.method == "PATCH" and "/hvpas/" in request.path else None
        )
        world.advise("6001m", "2G", "12001m", "4G")
        await world.wait(0.2)
        assert world.replicas() == 3

    async def follows(_: HvpaController) -> None:
        await world.wait(15.0)
        assert world.size()["cpu"] == "6"
        for where in [key for key in world.server.objects if "/pods/" in key]:
            world.set_ready(where)
        await world.wait(5.0)
        assert (world.replicas(), world.size()["cpu"]) == (3, "4001m")

    world.run(is_killed)
    world.fault = lambda _: None
    world.server.end_watches()
    world.run(follows)


def test_a_repeated_external_count_is_reset_and_reported_once_in_a_window() -> None:
    world = world_with_vpa()
    windows = 6

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(120.0)
        world.scalings.clear()
        for _pause in range(int(windows * WINDOW_SECONDS / 10)):
            if world.replicas() != 6:
                world.edit("deployments", "web", replicas=6)
            await world.wait(10.0)
        assert windows - 1 <= len(world.scalings) <= windows
        assert world.count_events("ReplicasDrifted") == len(world.scalings)
        assert world.count_events("DriftTolerated") <= windows
        await world.wait(2 * WINDOW_SECONDS)
        assert (world.replicas(), world.conditions()) == (3, {"Active": "AsDecided"})

    world.run(play)


@pytest.mark.parametrize("rival", ["horizontalpodautoscalers", "verticalpodautoscalers"])
def test_a_count_written_by_the_autoscaler_it_yielded_to_is_no_drift_after_that_is_deleted(rival: str) -> None:
    world = world_with_vpa()

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(120.0)
        assert (world.replicas(), world.size()["cpu"]) == (3, "8")
        if rival == "horizontalpodautoscalers":
            world.add_hpa("rival", "Deployment")
        else:
            world.add_vpa("rival", "Recreate")
        await world.wait(10.0)
        world.edit("deployments", "web", replicas=6)
        await world.wait(60.0)
        assert world.replicas() == 6
        world.server.delete(path(rival, "rival"))
        await world.wait(10.0)
        # What six of eight have is where it begins from, and the way down has its window.
        assert (world.replicas(), world.size()["cpu"]) == (4, "12")
        await world.wait(WINDOW_SECONDS + 60.0)
        assert (world.replicas(), world.size()["cpu"]) == (3, "8")
        assert world.count_events("ReplicasDrifted") + world.count_events("DriftTolerated") == 0
        world.edit("deployments", "web", replicas=5)
        await world.wait(60.0)
        assert (world.replicas(), world.count_events("ReplicasDrifted")) == (3, 1)

    world.run(play)


def test_what_was_needed_before_it_yielded_is_not_asked_for_when_it_yields_no_more() -> None:
    world = world_with_vpa()

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(120.0)
        world.add_hpa("rival", "Deployment")
        await world.wait(10.0)
        world.edit("deployments", "web", replicas=1)
        world.advise("3", "2G", "3", "2G")
        await world.wait(3600.0)
        world.server.delete(path("horizontalpodautoscalers", "rival"))
        await world.wait(2 * WINDOW_SECONDS)
        assert [count for _, count in world.scalings] == [3]
        assert (world.replicas(), world.size()["cpu"]) == (1, "3")

    world.run(play)


def test_a_count_that_the_status_of_the_target_learns_late_is_mirrored_all_the_same() -> None:
    world = world_with_vpa()

    async def play(_: HvpaController) -> None:
        world.late_counts["web"] = 2
        world.advise("12", "2G", "24", "4G")
        await world.wait(14.0)
        assert (world.replicas(), world.status()["replicas"]) == (3, 2)
        del world.late_counts["web"]
        await world.wait(16.0)
        assert world.status()["replicas"] == 3

    world.run(play)


def test_a_count_that_is_learned_late_is_mirrored_soon_however_long_another_one_was_not() -> None:
    world = world_with_vpa()

    async def play(_: HvpaController) -> None:
        world.late_counts["web"] = 1
        await world.wait(120.0)
        world.advise("12", "2G", "24", "4G")
        await world.wait(10.0)
        assert (world.replicas(), world.status()["replicas"]) == (3, 1)
        del world.late_counts["web"]
        await world.wait(12.0)
        assert world.status()["replicas"] == 3

    world.run(play)


def test_a_target_whose_status_counts_in_another_way_is_not_asked_all_the_time() -> None:
    world = world_with_vpa()
    world.late_counts["web"] = 0

    def asked() -> int:
        return sum(request.path.endswith("/scale") for request in world.server.requests)

    async def play(_: HvpaController) -> None:
        await world.wait(120.0)
        before = asked()
        await world.wait(3600.0)
        assert asked() - before <= 3600.0 / 60.0 + 3600.0 / 30.0 + 1

    world.run(play)


@pytest.mark.parametrize("what", ["web", "status"])
def test_a_write_that_failed_is_tried_again_soon(what: str) -> None:
    world = world_with_vpa()
    lost: list[Request] = []

    def is_busy(request: Request) -> ScriptedResponse | None:
        if request.method != "PATCH" or "/hvpas/" not in request.path or not request.path.endswith(f"/{what}"):
            return None
        lost.append(request)
        return error_response(500, "InternalError", "not now")

    async def play(_: HvpaController) -> None:
        await world.wait(20.0)
        world.updates = False
        world.fault = is_busy
        world.advise("12", "2G", "24", "4G")
        await world.wait(15.0)
        assert world.replicas() == 3
        assert lost
        world.fault = lambda _: None
        await world.wait(6.0)
        assert (world.spec("hvpas")["replicas"], world.size()["cpu"]) == (3, "8")

    world.run(play)


def test_a_count_on_the_scale_is_demand_for_the_scale_down_window_without_an_hpa() -> None:
    world = world_with_vpa()

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(60.0)
        assert world.replicas() == 3
        world.request_replicas(5, by="kubectl")
        await world.wait(20.0)
        assert (world.replicas(), world.size()["cpu"]) == (4, "10")
        assert world.spec("hvpas")["replicas"] == 4, "the target's count is written back"
        assert world.conditions()["ScaleRequested"] == "ScaleRequested"
        assert "kubectl asks for 5 replicas" in world.messages()["ScaleRequested"]
        assert world.count_events("ScaleRequested") == 1
        assert world.status()["hpa"]["total"]["cpu"] == "40"
        await world.wait(300.0)
        assert (world.replicas(), world.size()["cpu"]) == (3, "8"), "the VPA decides again"
        assert "ScaleRequested" not in world.conditions()
        assert "hpa" not in world.status()

    world.run(play)


def test_a_wish_for_less_lowers_nothing_that_the_vpa_asks_for() -> None:
    world = world_with_vpa()

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(60.0)
        world.request_replicas(1, by="kubectl")
        await world.wait(20.0)
        assert (world.replicas(), world.size()["cpu"], world.spec("hvpas")["replicas"]) == (3, "8", 3)
        assert "kubectl asks for 1 replica " in world.messages()["ScaleRequested"]

    world.run(play)


def test_a_wish_from_before_the_first_pass_and_before_the_vpa_has_spoken_is_followed() -> None:
    world = World()
    world.add_workload(cpu="6")
    world.add_hvpa()
    world.add_vpa("mine")
    world.request_replicas(4, by="kubectl")

    async def play(_: HvpaController) -> None:
        await world.wait(20.0)
        assert (world.replicas(), world.size()["cpu"], world.spec("hvpas")["replicas"]) == (3, "8", 3)
        world.advise("6", "2G", "12", "4G", name="mine")
        await world.wait(30.0)
        assert (world.replicas(), world.size()["cpu"]) == (3, "8"), "the wish counts beside it"
        await world.wait(300.0)
        assert (world.replicas(), world.size()["cpu"]) == (3, "4"), "12 CPUs, and the overlap keeps the count"

    world.run(play)


def test_a_count_that_the_controller_itself_wrote_is_no_wish_after_a_restart() -> None:
    world = World()
    world.add_workload(cpu="6")
    world.add_hvpa()
    world.add_vpa("mine")
    world.request_replicas(4, by="trellis-hvpa")

    async def play(_: HvpaController) -> None:
        await world.wait(20.0)
        assert (world.replicas(), world.spec("hvpas")["replicas"]) == (2, 2)
        assert not world.count_events("ScaleRequested")

    world.run(play)


def test_an_hvpa_says_that_it_holds_a_total_while_no_history_is_published() -> None:
    world = World()
    world.add_workload(cpu="6")
    world.add_hvpa()
    world.add_vpa("mine")

    async def play(_: HvpaController) -> None:
        world.recommend("6", "2G", name="mine")
        await world.wait(60.0)
        assert (world.replicas(), world.conditions()["NoTotals"]) == (2, "NoTotals")
        assert world.conditions()["Active"] == "NoTotals"
        world.recommend("40", "2G", name="mine")
        await world.wait(600.0)
        assert world.replicas() == 2, "never today's target times today's count"
        message = world.messages()["NoTotals"]
        assert "CPU is held at 12 in total, and the VPA recommends 40 for each pod" in message
        assert "run the Trellis recommender" in message
        assert world.count_events("NoTotals") == 1
        world.totals("80", "4G")
        await world.wait(60.0)
        assert (world.replicas(), world.size()["cpu"]) == (6, "13334m")
        assert "NoTotals" not in world.conditions()

    world.run(play)


def test_a_read_only_process_decides_and_writes_nothing() -> None:
    world = World()
    world.read_only = True
    world.add_workload()
    world.add_hvpa(replicas=2)
    world.add_vpa("mine")
    world.add_hpa("mine", metrics=[METRIC], behavior=STEADY)

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G", name="mine")
        await world.wait(60.0)
        world.request_replicas(6)
        await world.wait(60.0)
        names = [message.partition(":")[0] for code, message in world.events if code == "ScalesUp"]
        steps = ("3 x (CPU 8, memory 2G)", "4 x (CPU 9, memory 2G)")
        assert names == [f"2 x (CPU 6, memory 2G) to {step}" for step in steps]
        assert world.count_events("ScaleRefused") == 0
        assert (world.replicas(), world.status(), world.spec("hvpas")["replicas"]) == (2, {}, 6)

    world.run(play)


def test_a_step_that_stays_held_back_is_reported_once_however_it_differs() -> None:
    world = world_with_vpa()

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(60.0)
        for minute in range(60):
            total = 23_000 + 10 * minute
            world.advise("12", "2G", f"{total}m", "4G")
            await world.wait(60.0)
        assert world.conditions()["Active"] == "StepBlocked"
        assert world.count_events("StepBlocked") == 1
        assert world.size()["cpu"] == "8"

    world.run(play)
