"""Scenarios to change a little: a small one that is right, and how its parts are put in."""

from __future__ import annotations

from typing import Any

from trellis.api.registry import SCENARIO
from trellis.api.validation import validate
from trellis.sim.fleet import Fleet
from trellis.sim.scenario.compiler import compile_scenario, read_scenario

WEB: dict[str, Any] = {
    "name": "web",
    "replicas": 2,
    "containers": [
        {
            "name": "app",
            "requests": {"cpu": "500m", "memory": "512Mi"},
            "usage": {"cpu": {"steady": "200m"}, "memory": {"steady": "100Mi"}},
        }
    ],
}


def scenario(**spec: Any) -> dict[str, Any]:
    """A scenario of one workload and a day, with other fields of its spec instead."""
    usual: dict[str, Any] = {"duration": "1d", "step": "5m", "workloads": [WEB]}
    given = {name: value for name, value in {**usual, **spec}.items() if value is not None}
    return {
        "apiVersion": SCENARIO.api_version,
        "kind": "Scenario",
        "metadata": {"name": "example"},
        "spec": given,
    }


def workload(**fields: Any) -> dict[str, Any]:
    """A scenario whose one workload has other fields."""
    return scenario(workloads=[{**WEB, **fields}])


def usage(**resources: Any) -> dict[str, Any]:
    """A scenario whose one container uses this."""
    return workload(containers=[{"name": "app", "usage": resources}])


def list_problems(document: dict[str, Any]) -> list[str]:
    """Everything that the validator says."""
    return [str(problem) for problem in validate(SCENARIO, document)]


def compiled(document: dict[str, Any], **readers: Any) -> Fleet:
    """What a scenario that is right comes to."""
    assert [text for text in list_problems(document) if "no variant names" not in text] == []
    return compile_scenario(read_scenario(document), **readers)
