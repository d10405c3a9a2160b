"""What a scenario may say: every fault has one line with its field, its value and the rule."""

from __future__ import annotations

from typing import Any

import pytest

from support.builders.scenarios import WEB, list_problems, scenario, usage, workload
from trellis.api.registry import FILE_KINDS, KINDS, SCENARIO, find_kind
from trellis.api.schema.crds import build_crds

SHAPES = "steady, daily, weekly, spiky, trend, phases, leak, trace"
USAGE = "spec.workloads[0].containers[0].usage"
VPA_SPEC = {"updatePolicy": {"updateMode": "InPlace"}}


def test_a_scenario_that_is_right_has_no_problem() -> None:
    assert list_problems(scenario()) == []


def test_a_scenario_is_one_of_our_kinds_and_no_crd() -> None:
    assert find_kind("sim.trellis.x-k8s.io/v1alpha1", "Scenario") is SCENARIO
    assert SCENARIO in FILE_KINDS
    assert len(build_crds()) == len(KINDS)
    assert not any(crd["spec"]["names"]["kind"] == "Scenario" for crd in build_crds())


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            scenario(durration="1d"),
            'spec.durration: Unknown field: there is no field "durration" here (did you mean "duration"?)',
        ),
        (scenario(duration=None), "spec.duration: Required value: duration must be given"),
        (
            scenario(duration="14 days"),
            'spec.duration: Invalid value: "14 days": must be a span such as 90s, 10m, 36h or 14d',
        ),
        (
            scenario(duration="7m"),
            'spec.duration: Invalid value: "7m": must be a whole number of steps of 5m, at least one',
        ),
        (scenario(step="0s"), 'spec.step: Invalid value: "0s": must be at least 1s'),
        (scenario(duration="30w", step="1s"), 'spec.duration: Invalid value: "30w": must be at most 2000000 steps'),
        (scenario(warmUp="1d"), 'spec.warmUp: Invalid value: "1d": must be shorter than duration, which is 1d'),
        (scenario(seed=-1), "spec.seed: Invalid value: -1: must be greater than or equal to 0"),
        (
            scenario(start="Monday"),
            'spec.start: Invalid value: "Monday": not an RFC 3339 time such as 2026-11-15T18:00:00Z',
        ),
        (scenario(workloads=[]), "spec: Required value: workloads or fleet must be given"),
        (
            scenario(workloads=[WEB, WEB]),
            'spec.workloads[1].name: Duplicate value: "web": there is already a workload default/web',
        ),
        (scenario(intervals={"updater": "0s"}), 'spec.intervals.updater: Invalid value: "0s": must be longer than 0s'),
        (
            scenario(nodes=[{"name": "a", "count": 1, "cpu": "8", "memory": "1Gi"}] * 2),
            'spec.nodes[1]: Duplicate value: "a": name must be unique',
        ),
        (
            scenario(nodes=[{"name": n, "cpu": "8", "memory": "1Gi"} for n in "ab"]),
            "spec.nodes[0].count: Required value: must be given in every entry but the last",
        ),
        (
            scenario(nodes=[{"name": "a", "cpu": "8", "memory": "1Gi", "price": -0.5}]),
            "spec.nodes[0].price: Invalid value: -0.5: must be greater than or equal to 0",
        ),
        (
            scenario(faults=[{"kind": "node-dwn", "begin": "1h", "length": "1h"}]),
            'spec.faults[0].kind: Unsupported value: "node-dwn"',
        ),
        (
            scenario(faults=[{"kind": "node-down", "begin": "2d", "length": "1h"}]),
            "spec.faults[0].begin: is after the end of the scenario, which lasts 1d: the fault has no effect",
        ),
        (
            scenario(variants=[{"name": "v", "policies": ["p"]}]),
            'spec.variants[0].policies[0]: Unsupported value: "p": the scenario has no policies',
        ),
        (
            scenario(variants=[{"name": "v", "recommender": "seasonal"}]),
            "spec.variants[0]: recommender and parameters have no effect without policies: no workload has a VPA",
        ),
        (
            scenario(policies=[{"name": "p"}], variants=[{"name": "v"}]),
            'spec.policies[0]: has no effect: no variant names the policy "p"',
        ),
        (
            scenario(policies=[{"name": "p", "forEach": [{"spec": {"targetRef": {}}}]}]),
            "spec.policies[0].forEach[0].spec.targetRef: Forbidden: is set for each workload and must not be given",
        ),
        (
            scenario(
                policies=[
                    {"name": "p", "forEach": [{"spec": {"updatePolicy": {"updateMode": "Off", "minReplicas": 0}}}]}
                ]
            ),
            "spec.policies[0].forEach[0].spec.updatePolicy.minReplicas: Invalid value: 0: minReplicas has to be",
        ),
        (
            scenario(fleet={"count": 3, "shares": {"daily": 0}}),
            "spec.fleet.shares: Required value: at least one share must be above 0",
        ),
        (scenario(fleet={"count": 3, "namespaces": ["A_b"]}), 'spec.fleet.namespaces[0]: Invalid value: "A_b"'),
        (
            scenario(fleet={"count": 20_000}, duration="90d"),
            'spec.duration: Invalid value: "90d": must give at most 2e8 values of usage; '
            "20001 containers would have 5.18e+08",
        ),
        (
            scenario(prices={"coreHour": "x", "gibHour": 1}),
            'spec.prices.coreHour: Invalid value: "x": must be of type number, not string',
        ),
        (workload(kind="Job"), "spec.workloads[0].runs: Required value: must be given for a Job"),
        (
            workload(runs={"every": "1h", "length": "5m"}),
            "spec.workloads[0].runs: Forbidden: is allowed only with kind: Job or CronJob",
        ),
        (
            workload(kind="Job", runs={"every": "1h", "length": "2h"}),
            'spec.workloads[0].runs.length: Invalid value: "2h": must not be longer than every, which is 1h',
        ),
        (workload(name="Web"), 'spec.workloads[0].name: Invalid value: "Web"'),
        (workload(rollouts={}), "spec.workloads[0].rollouts: Required value: at or every must be given"),
        (
            workload(containers=[{"name": "a", "requests": {"cpu": "2"}, "limits": {"cpu": "1"}}]),
            'spec.workloads[0].containers[0].requests[cpu]: Invalid value: "2": must not be above its limit, 1',
        ),
        (
            workload(podTemplate={"spec": {"containers": [{"name": "application"}]}}),
            'spec.workloads[0].containers[0].name: Invalid value: "app": is not a container of podTemplate; '
            "its containers:",
        ),
        (usage(cpu={"noise": 0.1}), f"{USAGE}.cpu: Required value: at least one of {SHAPES} must be given"),
        (usage(cpu={"noise": 3, "steady": 1}), f"{USAGE}.cpu.noise: Invalid value: 3: must be less than or equal to 2"),
        (
            usage(cpu={"leak": "1"}),
            f"{USAGE}.cpu.leak: Forbidden: is allowed only for memory; for CPU that grows, use trend",
        ),
        (
            usage(cpu={"daily": {"low": "2", "high": "1"}}),
            f'{USAGE}.cpu.daily.high: Invalid value: "1": must not be below low, which is 2',
        ),
        (
            usage(cpu={"weekly": {"low": 1, "high": 2, "beginHour": 19}}),
            f"{USAGE}.cpu.weekly.endHour: Invalid value: 18.0: must be after beginHour, which is 19",
        ),
        (
            usage(cpu={"phases": [{"length": "0s", "level": 1}]}),
            f'{USAGE}.cpu.phases[0].length: Invalid value: "0s": must be longer than 0s',
        ),
        (usage(cpu={"steady": 1}, base={"cpu": 1}), f"{USAGE}.base: Forbidden: is allowed only with shared: true"),
    ],
)
def test_a_fault_is_reported_with_field_value_and_rule(document: dict[str, Any], expected: str) -> None:
    problems = list_problems(document)
    assert len(problems) == 1, problems
    assert problems[0].startswith(expected)


def test_a_status_is_no_field_of_a_file() -> None:
    assert list_problems({**scenario(), "status": {}}) == ['status: Unknown field: there is no field "status" here']


def test_two_problems_are_reported_together() -> None:
    broken = scenario(seed="one", workloads=[{**WEB, "kind": "Deploymnt", "replicas": 0.5}])
    assert {line.partition(":")[0] for line in list_problems(broken)} == {
        "spec.seed",
        "spec.workloads[0].replicas",
        "spec.workloads[0].kind",
    }


def test_vpa_templates_are_held_to_the_rules_of_vpas() -> None:
    spec = {**VPA_SPEC, "startupBoost": {"cpu": {"type": "Factor"}}}
    (problem,) = list_problems(scenario(policies=[{"name": "p", "forEach": [{"spec": spec}]}]))
    assert problem.startswith("spec.policies[0].forEach[0].spec.startupBoost.cpu")
