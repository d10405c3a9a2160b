"""Scenarios whose nodes come and go: what is refused, and what groups, Buffers and `onlyIn` come to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.builders.scenarios import WEB, compiled, list_problems, scenario
from trellis.base.errors import InvalidScenario
from trellis.sim.scenario.files import load_scenario

EXAMPLE = Path(__file__).parents[4] / "examples/simulate/buffers.yaml"
POOL: dict[str, Any] = {"name": "pool", "cpu": "4", "memory": "16Gi", "maxSize": 5}
BUFFER: dict[str, Any] = {
    "apiVersion": "autoscaling.x-k8s.io/v1alpha1",
    "kind": "Buffer",
    "metadata": {"name": "spare"},
    "spec": {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "capacity": {"replicas": {"exactly": 2}},
    },
}


def grouped(**fields: Any) -> dict[str, Any]:
    return scenario(nodeGroups=[{**POOL, **fields}])


def keeping(buffer: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return scenario(**{"nodeGroups": [POOL], "policies": [{"name": "room", "objects": [buffer]}], **spec})


def with_target(kind: str, name: str) -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": kind, "name": name}
    return {**BUFFER, "spec": {**BUFFER["spec"], "targetRef": target}}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (grouped(maxSize=None), "spec.nodeGroups[0].maxSize: Required value: maxSize must be given"),
        (grouped(minSize=6), "spec.nodeGroups[0].minSize: Invalid value: 6: must not be above maxSize, which is 5"),
        (
            grouped(minSize=2, size=1),
            "spec.nodeGroups[0].size: Invalid value: 1: must be between minSize and maxSize, 2 and 5",
        ),
        (grouped(cpu="0"), 'spec.nodeGroups[0].cpu: Invalid value: "0": must be above zero'),
        (grouped(bootTime="25h"), 'spec.nodeGroups[0].bootTime: Invalid value: "25h": must be at most 1d'),
        (
            grouped(labels={"kwok-nodegroup": "other"}),
            "spec.nodeGroups[0].labels[kwok-nodegroup]: Forbidden: "
            "is set on each node by Trellis and must not be given",
        ),
        (
            scenario(nodes=[{"name": "pool", "count": 1, "cpu": "1", "memory": "1Gi"}], nodeGroups=[POOL]),
            'spec.nodeGroups[0].name: Duplicate value: "pool": is already the name of an entry of spec.nodes',
        ),
        (
            scenario(workloads=[{**WEB, "onlyIn": ["fixd"]}]),
            'spec.workloads[0].onlyIn[0]: Unsupported value: "fixd": supported values: "fixed" (did you mean "fixed"?)',
        ),
        (scenario(intervals={"nodes": "0s"}), 'spec.intervals.nodes: Invalid value: "0s": must be longer than 0s'),
    ],
)
def test_an_invalid_value_is_refused_with_field_value_and_rule(document: dict[str, Any], expected: str) -> None:
    assert expected in list_problems(document)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (keeping(BUFFER, nodeGroups=None), "a Buffer requires spec.nodeGroups"),
        (keeping(with_target("Deployment", "wep")), 'the scenario has no Deployment default/wep (did you mean "web"?)'),
        (
            scenario(nodeGroups=[{**POOL, "cpu": "100m"}]),
            "a pod requests 0.5 CPU and 0.5Gi of memory, more than any node has",
        ),
    ],
)
def test_values_that_contradict_other_fields_are_refused(document: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidScenario) as caught:
        compiled(document)
    assert expected in "\n".join(map(str, caught.value.problems))


def test_a_group_is_laid_out_with_its_price_and_its_first_nodes() -> None:
    fleet = compiled(scenario(nodeGroups=[{**POOL, "minSize": 1, "bootTime": "90s", "labels": {"zone": "a"}}]))
    (pool,) = fleet.pools
    assert (pool.name, pool.count, pool.min_size, pool.max_size, pool.boot_seconds) == ("pool", 1, 1, 5, 90.0)
    assert pool.price == pytest.approx(fleet.prices.cost_per_hour(4.0, 16 * 2.0**30))
    assert pool.document["metadata"]["labels"]["kwok-nodegroup"] == "pool"
    assert fleet.nodes == (), "there are no other nodes, unless they are written"


def test_fixed_nodes_may_stand_beside_groups() -> None:
    fixed = {"name": "fixed", "count": 2, "cpu": "8", "memory": "32Gi"}
    fleet = compiled(scenario(nodes=[fixed], nodeGroups=[{**POOL, "size": 3}]))
    assert ([node.count for node in fleet.nodes], fleet.pools[0].count) == ([2], 3)


@pytest.mark.parametrize("buffer", [BUFFER, with_target("KwokNodeGroup", "pool"), with_target("NodePool", "any")])
def test_a_buffer_is_of_a_workload_or_of_a_class_of_nodes(buffer: dict[str, Any]) -> None:
    if buffer is not BUFFER:
        capacity = {"nodeClass": {"totalCpu": "4", "totalMem": "4Gi"}}
        buffer = {**buffer, "spec": {**buffer["spec"], "capacity": capacity}}
    variant = compiled(keeping(buffer)).variants[1]
    assert [document["kind"] for document in variant.objects] == ["Buffer"]


def test_a_workload_is_in_the_variants_that_it_names() -> None:
    balloon = {**WEB, "name": "balloon", "onlyIn": ["balloons"]}
    fleet = compiled(scenario(workloads=[WEB, balloon], variants=[{"name": "none"}, {"name": "balloons"}]))
    assert [sorted(variant.without) for variant in fleet.variants] == [[1], []]
    without = fleet.restrict_to(fleet.variants[0]).workloads
    assert [workload.replicas for workload in without] == [2, 0]
    assert fleet.restrict_to(fleet.variants[1]) is fleet


def test_the_example_is_a_scenario_in_five_variants() -> None:
    loaded = load_scenario(EXAMPLE)
    assert loaded.findings == ()
    assert loaded.fleet is not None
    assert [variant.name for variant in loaded.fleet.variants] == ["none", "balloons", "empty", "minimum", "scheduled"]
