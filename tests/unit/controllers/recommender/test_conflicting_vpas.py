"""Of two VPAs on one workload, the acting one has the recommendation, else the older."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from support.controllers.recommender import START, VPAS, World
from trellis.base.times import format_time

TARGET = {"cpu": "587m", "memory": "380258472"}


def add_rivals(world: World, older: str, younger: str) -> None:
    """A workload with two VPAs in these modes, of which one is an hour older."""
    world.add_workload("web")
    del world.server.objects[f"{VPAS}/web"]
    for name, mode, age in (("older", older, 3600.0), ("younger", younger, 0.0)):
        document = world.add_vpa(name, target="web", updatePolicy={"updateMode": mode})
        document["metadata"]["creationTimestamp"] = format_time(datetime.fromtimestamp(START - age, UTC))


def conflict(world: World, name: str) -> str:
    """Why a VPA has no say; empty if it has."""
    result: dict[str, Any] = world.condition(name, "ConflictingVPA") or {}
    return str(result.get("reason", ""))


def test_a_vpa_in_mode_off_takes_no_recommendation_from_a_younger_acting_one() -> None:
    world = World()
    add_rivals(world, "Off", "Recreate")

    async def play() -> None:
        await world.passes(3)
        assert (world.target("older"), world.target("younger")) == ({}, TARGET)
        assert (conflict(world, "older"), conflict(world, "younger")) == ("ActingVPAGoverns", "")
        # Once nobody acts, age decides.
        world.add_vpa("younger", target="web", updatePolicy={"updateMode": "Off"})["metadata"]["generation"] = 2
        await world.passes(3)
        assert world.target("older") == TARGET
        assert (conflict(world, "older"), conflict(world, "younger")) == ("", "OlderVPAGoverns")

    world.run(play)


def test_of_two_acting_vpas_the_older_has_the_recommendation() -> None:
    world = World()
    add_rivals(world, "Initial", "Recreate")

    async def play() -> None:
        await world.passes(3)
        assert (world.target("older"), world.target("younger")) == (TARGET, {})
        assert (conflict(world, "older"), conflict(world, "younger")) == ("", "OlderVPAGoverns")

    world.run(play)
