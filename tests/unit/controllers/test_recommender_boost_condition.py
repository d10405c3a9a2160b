"""Who asks for a boost that the API server could not take back is told so."""

from __future__ import annotations

from typing import Any

import pytest

from recommender_world import World
from trellis.kube.requests import Request
from trellis.kube.scripted import Answer, answer

BOOST = {"cpu": {"type": "Factor", "factor": 2}}
UNAVAILABLE = "StartupBoostUnavailable"


def serving(*subresources: str) -> Any:
    """A server that has pods with these subresources, and says so in the old way."""
    pods = [{"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["get"]}]
    pods += [{"name": f"pods/{each}", "kind": "Pod", "namespaced": True, "verbs": ["patch"]} for each in subresources]

    def reply(request: Request) -> Answer | None:
        if request.path == "/api":
            return answer({"versions": ["v1"]})
        if request.path == "/api/v1":
            return answer({"resources": pods})
        if request.path == "/apis":
            return answer({"groups": []})
        return None

    return reply


def told(server: Any, *flags: str, **spec: Any) -> dict[str, Any] | None:
    world = World(*flags)
    world.fault = server
    world.add_workload("web", 1)
    world.add_vpa("web", **spec)
    found: list[dict[str, Any] | None] = []

    async def play() -> None:
        await world.passes(2)
        assert world.target("web")
        found.append(world.condition("web", UNAVAILABLE))

    world.run(play)
    return found[0]


@pytest.mark.req("SB-46")
def test_where_pods_cannot_be_resized_a_condition_says_that_nothing_is_boosted() -> None:
    condition = told(serving("status"), startupBoost=BOOST)
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("True", "ResizeNotServed")
    assert "1.33" in condition["message"]


def test_where_they_can_nothing_is_said() -> None:
    assert told(serving("resize"), startupBoost=BOOST) is None


def test_who_asks_for_no_boost_is_told_nothing() -> None:
    assert told(serving("status")) is None


def test_with_the_gate_off_nothing_is_said_either() -> None:
    assert told(serving("status"), "--feature-gates=CPUStartupBoost=false", startupBoost=BOOST) is None
