"""Kinds may come after the controller: a target of any kind with a scale is found, and so are VPAs."""

from __future__ import annotations

from support.controllers.hvpa import World
from trellis.controllers.hvpa.process import HvpaController
from trellis.kube.transport.requests import Request
from trellis.testing.scripted_transport import ScriptedResponse, json_response

ROLLOUTS = "/apis/example.com/v1"
VPAS = "/apis/autoscaling.k8s.io/v1"


def without(world: World, group: str) -> None:
    """The definition of what a group has is not there yet."""

    def absent(request: Request) -> ScriptedResponse | None:
        return json_response({"resources": []}) if request.path == group else None

    world.fault = absent


def install(world: World) -> None:
    world.fault = lambda _request: None


def test_a_target_whose_kind_is_installed_later_is_scaled_seconds_after_it_is_there() -> None:
    world = World()
    without(world, ROLLOUTS)
    world.add_hvpa("canary", kind="Rollout")

    async def play(_: HvpaController) -> None:
        assert world.conditions("canary")["Active"] == "TargetKindNotServed"
        await world.wait(300.0)
        install(world)
        world.add_workload("canary", plural="rollouts")
        await world.wait(20.0)
        assert world.conditions("canary")["Active"] == "NoRecommendation"
        assert world.spec("hvpas", "canary")["replicas"] == 2

    world.run(play)


def test_vpas_whose_definition_comes_later_are_observed_and_acted_on() -> None:
    world = World()
    without(world, VPAS)
    world.add_workload()
    world.add_hvpa()

    async def play(_: HvpaController) -> None:
        await world.wait(10.0)
        install(world)
        world.add_vpa("mine")
        world.advise("12", "2G", "24", "4G", name="mine")
        await world.wait(61.0)
        assert world.replicas() == 3

    world.run(play)
