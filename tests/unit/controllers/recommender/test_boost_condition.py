"""The condition of VPAs whose boost could not end, or only by a restart."""

from __future__ import annotations

from typing import Any

import pytest

from support.controllers.recommender import NAMESPACE, World
from trellis.kube.transport.requests import Request
from trellis.testing.scripted_transport import ScriptedResponse, json_response

BOOST = {"cpu": {"type": "Factor", "factor": 2}}
UNAVAILABLE = "StartupBoostUnavailable"


def serving(*subresources: str) -> Any:
    """A server that has pods with these subresources, and says so in the old way."""
    pods = [{"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["get"]}]
    pods += [
        {"name": f"pods/{subresource}", "kind": "Pod", "namespaced": True, "verbs": ["patch"]}
        for subresource in subresources
    ]

    def reply(request: Request) -> ScriptedResponse | None:
        if request.path == "/api":
            return json_response({"versions": ["v1"]})
        if request.path == "/api/v1":
            return json_response({"resources": pods})
        if request.path == "/apis":
            return json_response({"groups": []})
        return None

    return reply


def get_boost_condition(server: Any, *flags: str, **spec: Any) -> dict[str, Any] | None:
    world = World(*flags)
    world.fault = server
    world.add_workload("web", 1)
    world.add_vpa("web", **spec)
    result: list[dict[str, Any] | None] = []

    async def play() -> None:
        await world.passes(2)
        assert world.target("web")
        result.append(world.condition("web", UNAVAILABLE))

    world.run(play)
    return result[0]


@pytest.mark.req("SB-46")
def test_without_in_place_resize_a_condition_reports_that_no_pod_is_boosted() -> None:
    condition = get_boost_condition(serving("status"), startupBoost=BOOST)
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("True", "ResizeNotServed")
    assert "1.33" in condition["message"]


def test_with_in_place_resize_no_condition_is_set() -> None:
    assert get_boost_condition(serving("resize"), startupBoost=BOOST) is None


def test_a_vpa_without_a_boost_has_no_boost_condition() -> None:
    assert get_boost_condition(serving("status")) is None


def test_with_the_feature_gate_off_no_condition_is_set() -> None:
    assert get_boost_condition(serving("status"), "--feature-gates=CPUStartupBoost=false", startupBoost=BOOST) is None


def with_resize_policies(policies: dict[str, str], *flags: str, **spec: Any) -> dict[str, Any] | None:
    """The condition of a VPA whose pod has containers with these policies for CPU."""
    world = World(*flags)
    world.fault = serving("resize")
    world.add_workload("web", 1)
    pod = world.add_pod("web", "web-0", *policies)
    for container, cpu in zip(pod["spec"]["containers"], policies.values(), strict=True):
        container["resizePolicy"] = [
            {"resourceName": "cpu", "restartPolicy": cpu},
            {"resourceName": "memory", "restartPolicy": "RestartContainer"},
        ]
    world.server.put(f"/api/v1/namespaces/{NAMESPACE}/pods/web-0", pod)
    world.add_vpa("web", **spec)
    result: list[dict[str, Any] | None] = []

    async def play() -> None:
        await world.passes(2)
        result.append(world.condition("web", UNAVAILABLE))

    world.run(play)
    return result[0]


def test_containers_that_a_resize_restarts_are_reported_as_not_boosted() -> None:
    policies = {"app": "NotRequired", "proxy": "RestartContainer", "cache": "RestartContainer"}
    condition = with_resize_policies(policies, startupBoost=BOOST)
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("True", "ResizeRestarts")
    assert "not boosted: cache, proxy;" in condition["message"]


def test_a_container_without_a_boost_may_restart_on_a_resize() -> None:
    off = {"containerPolicies": [{"containerName": "proxy", "startupBoost": {"cpu": {"type": "Factor", "factor": 1}}}]}
    policies = {"app": "NotRequired", "proxy": "RestartContainer"}
    assert with_resize_policies(policies, startupBoost=BOOST, resourcePolicy=off) is None
    assert with_resize_policies({"app": "RestartContainer"}) is None
    assert with_resize_policies({"app": "NotRequired"}, startupBoost=BOOST) is None


def test_with_the_feature_gate_off_restarts_are_not_reported() -> None:
    gate = "--feature-gates=CPUStartupBoost=false"
    assert with_resize_policies({"app": "RestartContainer"}, gate, startupBoost=BOOST) is None
