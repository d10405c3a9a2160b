"""What goes wrong around an Hvpa: sources that say nothing, edits in the middle, deaths between two writes."""

from __future__ import annotations

from typing import Any

import pytest

from hvpa_controller_world import STORY_1, World, path
from trellis.base.errors import Unreachable
from trellis.controllers.hvpa.controller import HvpaController
from trellis.kube.requests import Request
from trellis.kube.scripted import Answer, refusal

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
        for where in [each for each in world.server.objects if "/pods/" in each or "/deployments/" in each]:
            world.server.delete(where)
        await world.wait(60.0)
        assert world.conditions()["Active"] == "TargetNotFound"
        assert world.size()["cpu"] == "8"
        world.add_workload(replicas=1, cpu="500m")
        await world.wait(60.0)
        assert (world.replicas(), world.size()["cpu"]) == (3, "8")
        assert world.said("ReplicasDrifted") == 0

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


def test_a_count_of_ours_whose_write_got_no_answer_is_nobody_elses() -> None:
    world = world_with_vpa()

    def is_not_answered(request: Request) -> Answer | None:
        if request.method != "PATCH" or not request.path.endswith("/scale"):
            return None
        world.fault = lambda _: None
        world.edit("deployments", "web", replicas=3)
        return Unreachable("the connection was reset")

    async def play(_: HvpaController) -> None:
        world.fault = is_not_answered
        world.advise("12", "2G", "24", "4G")
        await world.wait(60.0)
        assert (world.replicas(), world.size()["cpu"]) == (3, "8")
        assert world.said("ReplicasDrifted") == 0
        world.edit("deployments", "web", replicas=5)
        await world.wait(60.0)
        assert world.replicas() == 3
        assert world.said("ReplicasDrifted") == 1

    world.run(play)


def test_changes_of_pods_do_not_pile_up_while_no_plan_can_be_made() -> None:
    world = world_with_vpa()

    async def play(controller: HvpaController) -> None:
        await world.wait(10.0)
        world.fault = lambda request: refusal(403, "Forbidden") if request.path.endswith("/scale") else None
        for cores in range(1_500):
            world.give_a_pod({"cpu": str(cores)})
        await world.wait(60.0)
        assert world.conditions()["Active"] == "TargetForbidden"
        assert [len(each.edits) for each in controller.keeping.all()] == [1_000]

    world.run(play)


@pytest.mark.parametrize("lost", ["scale", "write-back", "status"])
@pytest.mark.parametrize("way", ["up", "down"])
def test_who_is_killed_after_a_write_leaves_something_that_the_next_one_finishes(lost: str, way: str) -> None:
    world = world_with_vpa(**AT_ONCE)
    count, size, total = (4, "9", "36") if way == "up" else (2, "4500m", "9")

    def dies(request: Request) -> Answer | None:
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
        assert [each for _, each in world.scalings] == [count]
        assert (world.replicas(), world.spec("hvpas")["replicas"]) == (count, count)
        assert world.size()["cpu"] == size

    world.run(settles)
    world.server.end_watches()
    world.run(is_killed)
    world.fault = lambda _request: None
    world.server.end_watches()
    world.run(finishes)


def test_who_writes_the_count_again_and_again_is_set_back_and_told_of_once_in_a_window() -> None:
    world = world_with_vpa()
    windows = 6

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(120.0)
        world.scalings.clear()
        for _each in range(int(windows * WINDOW_SECONDS / 10)):
            if world.replicas() != 6:
                world.edit("deployments", "web", replicas=6)
            await world.wait(10.0)
        assert windows - 1 <= len(world.scalings) <= windows
        assert world.said("ReplicasDrifted") == len(world.scalings)
        assert world.said("DriftLeft") <= windows
        await world.wait(2 * WINDOW_SECONDS)
        assert (world.replicas(), world.conditions()) == (3, {"Active": "AsDecided"})

    world.run(play)


def test_an_edited_wish_is_nobodys_demand_without_an_hpa() -> None:
    world = world_with_vpa()

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(60.0)
        for wish in (8, 1, 100):
            world.wish(wish)
            await world.wait(5.0)
            assert (world.replicas(), world.spec("hvpas")["replicas"]) == (3, 3)

    world.run(play)


def test_who_only_reads_decides_all_the_same_and_writes_nothing() -> None:
    world = World()
    world.read_only = True
    world.add_workload()
    world.add_hvpa(replicas=2)
    world.add_vpa("mine")
    world.add_hpa("mine", metrics=[METRIC], behavior=STEADY)

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G", name="mine")
        await world.wait(60.0)
        world.wish(6)
        await world.wait(60.0)
        told = [message.partition(":")[0] for code, message in world.events if code == "ScalesUp"]
        steps = ("3 x (CPU 8, memory 2G)", "4 x (CPU 9, memory 2G)")
        assert told == [f"2 x (CPU 6, memory 2G) to {each}" for each in steps]
        assert world.said("ScaleRefused") == 0
        assert (world.replicas(), world.status(), world.spec("hvpas")["replicas"]) == (2, {}, 6)

    world.run(play)


def test_a_step_that_stays_held_back_is_told_of_once_however_it_differs() -> None:
    world = world_with_vpa()

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(60.0)
        for minute in range(60):
            total = 23_000 + 10 * minute
            world.advise("12", "2G", f"{total}m", "4G")
            await world.wait(60.0)
        assert world.conditions()["Active"] == "StepBlocked"
        assert world.said("StepBlocked") == 1
        assert world.size()["cpu"] == "8"

    world.run(play)
