"""Hvpas that were stored before the rules were there: each is told of and left alone, and the others are served."""

from __future__ import annotations

import pytest

from support.builders.refused_hvpas import REFUSALS
from support.controllers.hvpa import World
from trellis.controllers.hvpa.process import HvpaController


@pytest.mark.req("HV-35")
def test_every_refused_hvpa_is_reported_by_its_field_and_none_is_acted_on() -> None:
    world = World()
    world.add_workload()
    world.add_hvpa(vpa={"deploy": True})
    names = {f"bad-{index}": refusal for index, refusal in enumerate(REFUSALS.values())}
    for name, refusal in names.items():
        world.add_workload(name)
        world.add_hvpa(name, **refusal.spec)

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(60.0)
        for name, refusal in names.items():
            [message] = {condition["message"] for condition in world.status(name)["conditions"]}
            assert refusal.field in message
            assert world.conditions(name) == {"Active": "HvpaRefused", "HvpaRefused": "HvpaRefused"}
            assert world.replicas(name) == 2
            assert world.find("verticalpodautoscalers", name) is None
            assert world.find("horizontalpodautoscalers", name) is None
        assert world.replicas() == 3

    world.run(play)
