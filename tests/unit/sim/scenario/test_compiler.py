"""What a scenario comes to: clocks, nodes, workloads with their demand, variants with their manifests."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders.scenarios import WEB, compiled, scenario, usage, workload
from trellis.api.registry import SCENARIO
from trellis.api.validation import validate
from trellis.base.errors import InvalidInput, InvalidScenario
from trellis.sim.fleet import Fleet
from trellis.sim.scenario.compiler import compile_scenario, read_scenario
from trellis.sources.series.series import Series

GIB = 2.0**30
BEGIN = 1_780_272_000.0  # 1 June 2026
VPA: dict[str, Any] = {
    "apiVersion": "autoscaling.k8s.io/v1",
    "kind": "VerticalPodAutoscaler",
    "metadata": {"name": "web"},
    "spec": {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "updatePolicy": {"updateMode": "Off"},
    },
}


def policies(*policy_documents: dict[str, Any], **more: Any) -> Fleet:
    return compiled(
        scenario(policies=[{"name": f"p{number}", **policy} for number, policy in enumerate(policy_documents)], **more)
    )


def refused(document: dict[str, Any], **readers: Any) -> list[str]:
    with pytest.raises(InvalidScenario) as error:
        compiled(document, **readers)
    return [str(problem) for problem in error.value.problems]


def test_time_is_counted_in_steps_from_the_start() -> None:
    clock = compiled(scenario(start="2026-06-01T00:00:00Z", warmUp="6h")).clock
    assert (clock.begin, clock.step, clock.steps, clock.scored_from) == (BEGIN, 300.0, 288, BEGIN + 6 * 3_600)
    assert clock.end == BEGIN + 86_400


def test_intervals_are_the_live_ones_by_default() -> None:
    assert compiled(scenario()).intervals.recommender == 60.0
    assert compiled(scenario(intervals={"updater": "10m"})).intervals.updater == 600.0


def test_a_container_has_its_configured_demand_in_each_step() -> None:
    quiet = {"noise": 0}
    (demand,) = compiled(usage(cpu={"steady": "200m", **quiet}, memory={"steady": "1Gi", **quiet})).workloads[0].demand
    assert demand.container == "app"
    assert demand.cpu.tolist() == [0.2] * 288
    assert demand.memory.tolist() == [GIB] * 288


def test_shapes_add_up() -> None:
    both = usage(cpu={"steady": "1", "trend": {"begin": "0", "end": "2"}, "noise": 0})
    cpu = compiled(both).workloads[0].demand[0].cpu
    assert (cpu[0], cpu[-1]) == (1.0, 3.0)


def test_a_shared_load_is_added_to_the_base_usage_of_each_pod() -> None:
    shared = usage(cpu={"steady": "3"}, shared=True, base={"cpu": "50m", "memory": "1Gi"}, spread=0)
    (demand,) = compiled(shared).workloads[0].demand
    assert (demand.shared, demand.base_cpu, demand.base_memory, demand.spread) == (True, 0.05, GIB, 0)


def test_a_leak_is_counted_by_the_second_since_the_start() -> None:
    (demand,) = compiled(usage(memory={"steady": "1Gi", "leak": "36Mi"})).workloads[0].demand
    assert demand.leak * 3_600 == 36 * 2**20


def test_a_job_has_runs_and_wants_by_its_age() -> None:
    job = {
        "kind": "Job",
        "runs": {"every": "8h", "length": "30m", "first": "1h"},
        "containers": [{"name": "run", "usage": {"cpu": {"phases": [
            {"length": "10m", "level": "1"}, {"length": "20m", "level": "2"}], "noise": 0}}}],
    }  # fmt: skip
    (simulated,) = compiled(workload(**job)).workloads
    assert [begin - BEGIN for begin, _ in simulated.runs] == [3_600.0, 32_400.0, 61_200.0]
    assert {length for _, length in simulated.runs} == {1_800.0}
    assert simulated.demand[0].by_age
    assert simulated.demand[0].cpu.tolist() == [1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 1.0]
    assert simulated.template["spec"]["restartPolicy"] == "OnFailure"


def test_runs_differ_as_far_as_configured_and_never_overlap() -> None:
    runs = {"every": "1h", "length": "50m", "jitter": 0.5}
    lengths = [length for _, length in compiled(workload(kind="Job", runs=runs)).workloads[0].runs]
    assert len(lengths) == 24
    assert min(lengths) < 2_000
    assert 3_000 < max(lengths) <= 3_600


def test_rollouts_happen_at_their_times_and_change_usage_from_then_on() -> None:
    web = {**WEB, "rollouts": {"at": ["6h"], "every": "9h", "factors": [2, 3]}}
    web["containers"] = [{"name": "app", "usage": {"cpu": {"steady": "1", "noise": 0}}}]
    (simulated,) = compiled(scenario(workloads=[web])).workloads
    assert [moment - BEGIN for moment in simulated.rollouts] == [6 * 3_600.0, 9 * 3_600.0, 18 * 3_600.0]
    cpu = simulated.demand[0].cpu
    assert [cpu[number * 12] for number in (5, 6, 8, 9, 20)] == [1.0, 2.0, 2.0, 3.0, 3.0]


def test_a_template_is_a_manifest_of_the_configured_workload() -> None:
    container = {
        "name": "app",
        "requests": {"cpu": 1, "memory": "1Gi"},
        "limits": {"memory": "2Gi"},
        "resizePolicy": {"memory": "RestartContainer"},
    }
    (simulated,) = compiled(workload(containers=[container])).workloads
    assert simulated.template["metadata"]["labels"] == {"app.kubernetes.io/name": "web"}
    (written,) = simulated.template["spec"]["containers"]
    assert written["resources"] == {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    assert written["resizePolicy"] == [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    assert "readinessProbe" in written
    assert simulated.start.probe


def test_without_a_probe_there_is_none_in_the_template() -> None:
    (simulated,) = compiled(workload(startup={"probe": False, "work": 30, "cores": "2", "time": "3s"})).workloads
    assert "readinessProbe" not in simulated.template["spec"]["containers"][0]
    assert (simulated.start.probe, simulated.start.work, simulated.start.cores, simulated.start.seconds) == (
        False,
        30.0,
        2.0,
        3.0,
    )


def test_a_written_template_is_kept_and_sized_by_the_scenario() -> None:
    template: dict[str, Any] = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {
            "tolerations": [{"key": "spot", "operator": "Exists"}],
            "containers": [{"name": "app", "image": "a"}, {"name": "proxy", "resources": {"requests": {"cpu": "50m"}}}],
        },
    }
    (simulated,) = compiled(workload(podTemplate=template)).workloads
    assert simulated.template["metadata"]["labels"] == {"app": "x"}
    assert simulated.template["spec"]["tolerations"]
    app, proxy = simulated.template["spec"]["containers"]
    assert app["resources"]["requests"] == WEB["containers"][0]["requests"]
    assert proxy["resources"]["requests"] == {"cpu": "50m"}
    assert not simulated.start.probe
    assert "resources" not in template["spec"]["containers"][0], "the scenario itself was written to"


def test_nodes_are_manifests_with_a_price() -> None:
    nodes = [
        {"name": "spot", "count": 2, "cpu": "4", "memory": "16Gi", "price": 0.05, "labels": {"pool": "spot"},
         "taints": [{"key": "spot", "effect": "NoSchedule"}]},
        {"name": "rest", "cpu": "8", "memory": "32Gi"},
    ]  # fmt: skip
    prices = {"coreHour": 0.1, "gibHour": 0.01, "currency": "EUR"}
    spot, rest = compiled(scenario(nodes=nodes, prices=prices)).nodes
    assert (spot.name, spot.count, spot.price) == ("spot", 2, 0.05)
    assert spot.document["metadata"]["labels"]["pool"] == "spot"
    assert spot.document["spec"]["taints"] == [{"key": "spot", "effect": "NoSchedule"}]
    assert spot.document["status"]["allocatable"] == {"cpu": "4", "memory": "16Gi", "pods": "110"}
    assert rest.price == pytest.approx(8 * 0.1 + 32 * 0.01)


def test_nodes_without_a_count_are_enough_for_all_pods_and_a_third_more() -> None:
    web = {**WEB, "replicas": 24}
    assert compiled(scenario(workloads=[web])).nodes[0].count == 2  # 12 cores and a third more, on nodes of 8
    nodes = [{"name": "a", "count": 1, "cpu": "8", "memory": "32Gi"}, {"name": "b", "cpu": "4", "memory": "32Gi"}]
    assert [node.count for node in compiled(scenario(workloads=[web], nodes=nodes)).nodes] == [1, 2]


def test_without_variants_each_policy_is_compared_with_requests_as_written() -> None:
    fleet = policies({"forEach": [{}]}, {"objects": [VPA]})
    assert [variant.name for variant in fleet.variants] == ["fixed", "p0", "p1"]
    assert fleet.variants[0].objects == ()


def test_a_workload_gets_the_first_template_that_matches_it() -> None:
    workloads = [{**WEB, "name": name, "namespace": "shop"} for name in ("web", "cache", "web-admin")]
    modes = [(["shop/cache"], "Off"), (["web-*"], "Initial"), (None, "InPlace")]
    templates = [
        {"spec": {"updatePolicy": {"updateMode": mode}}} | ({"workloads": names} if names else {})
        for names, mode in modes
    ]
    fleet = policies({"forEach": templates}, workloads=workloads)
    result = {
        document["metadata"]["name"]: document["spec"]["updatePolicy"]["updateMode"]
        for document in fleet.variants[1].objects
    }
    assert result == {"web": "InPlace", "cache": "Off", "web-admin": "Initial"}
    target = fleet.variants[1].objects[0]["spec"]["targetRef"]
    assert target == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def test_a_variant_names_the_recommender_of_vpas_that_name_none() -> None:
    own = {**VPA, "spec": {**VPA["spec"], "recommenders": [{"name": "window"}]}}
    variants = [{"name": "v", "policies": ["p0", "p1"], "recommender": "seasonal", "parameters": {"horizon": "2h"}}]
    (variant,) = policies({"objects": [own]}, {"objects": [VPA]}, variants=variants).variants
    assert [document["spec"]["recommenders"] for document in variant.objects] == [
        [{"name": "window"}],
        [{"name": "seasonal"}],
    ]
    assert variant.parameters == {"seasonal": {"horizon": "2h"}}


def test_files_of_manifests_are_read_with_their_namespace() -> None:
    text = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: l, namespace: shop}\nspec: {limits: []}\n"
    fleet = compiled(scenario(policies=[{"name": "p", "files": ["l.yaml"]}]), files=lambda _name: text.encode())
    assert fleet.variants[1].objects[0]["metadata"] == {"name": "l", "namespace": "shop"}


def test_a_trace_is_laid_over_the_steps_and_scaled() -> None:
    times = BEGIN - 1e6 + 300.0 * np.arange(288, dtype=np.float64)
    series = Series("s", times, np.arange(288.0), np.full(288, GIB))
    document = usage(cpu={"trace": {"file": "a.csv", "series": "s", "scale": 2}}, memory={"trace": {"file": "a.csv"}})
    (demand,) = compiled(document, traces=lambda _file, _name: series).workloads[0].demand
    assert demand.cpu.tolist() == (2 * np.arange(288.0)).tolist()
    assert demand.memory.tolist() == [GIB] * 288


def test_faults_begin_and_end_at_their_times() -> None:
    (fault,) = compiled(scenario(faults=[{"kind": "metrics-gap", "begin": "2h", "length": "30m"}])).faults
    assert (fault.kind, fault.begin - BEGIN, fault.end - BEGIN, fault.about) == ("metrics-gap", 7_200, 9_000, "*")


def test_a_further_workload_does_not_change_the_usage_of_others() -> None:
    one = compiled(scenario()).workloads[0]
    two = compiled(scenario(workloads=[{**WEB, "name": "other"}, WEB])).workloads[1]
    assert one.demand[0].cpu.tolist() == two.demand[0].cpu.tolist()
    assert compiled(scenario(seed=2)).workloads[0].demand[0].cpu.tolist() != one.demand[0].cpu.tolist()


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            scenario(policies=[{"name": "p", "objects": [VPA]}], workloads=[{**WEB, "name": "webb"}]),
            'spec.policies[0].objects[0].spec.targetRef.name: Invalid value: "web": the scenario has no Deployment '
            'default/web (did you mean "webb"?)',
        ),
        (
            scenario(policies=[{"name": "p", "objects": [{"apiVersion": "v1", "kind": "Service"}]}]),
            'spec.policies[0].objects[0].kind: Unsupported value: "Service": cannot be simulated; '
            "supported kinds: VerticalPodAutoscaler, HorizontalPodAutoscaler, Hvpa, Buffer, LimitRange",
        ),
        (
            scenario(policies=[{"name": "p", "files": ["gone.yaml"]}]),
            'spec.policies[0].files[0]: Invalid value: "gone.yaml": cannot be read here',
        ),
        (
            scenario(policies=[{"name": "p"}], variants=[{"name": "v", "policies": ["p"], "recommender": "seasnal"}]),
            'spec.variants[0].recommender: Invalid value: "seasnal": unknown recommender; available: default, '
            'window, seasonal, adaptive, phases (did you mean "seasonal"?)',
        ),
        (
            scenario(
                policies=[{"name": "p"}], variants=[{"name": "v", "policies": ["p"], "parameters": {"horizon": "2h"}}]
            ),
            "spec.variants[0].parameters[horizon]: Unknown field: the recommender has no such parameter",
        ),
        (
            scenario(variants=[{"name": "v", "settings": {"min-replicass": "1"}}]),
            'spec.variants[0].settings: Invalid value: "min-replicass": is not a flag that a simulation supports '
            "(did you mean min-replicas?)",
        ),
        (
            workload(containers=[{"name": "app", "requests": {"cpu": "9"}}]),
            'spec.workloads[0]: Invalid value: "web": a pod requests 9 CPU and 0Gi of memory, more than any node has',
        ),
        (
            scenario(workloads=[{**WEB, "name": "steady-01"}], fleet={"count": 1, "shares": {"steady": 1}}),
            'spec.workloads[0].name: Duplicate value: "steady-01": is also the name of a workload of spec.fleet, '
            "in namespace default",
        ),
    ],
)
def test_contradicting_fields_are_reported_with_their_path(document: dict[str, Any], expected: str) -> None:
    (message,) = refused(document)
    assert message.startswith(expected)


def test_a_trace_that_cannot_be_read_is_reported_with_its_file() -> None:
    def gone(file: str, _series: str | None) -> Series:
        raise InvalidInput(file, "row 7: cpu_cores is negative")

    traced = usage(cpu={"trace": {"file": "a.csv"}})
    assert refused(traced, traces=gone) == [
        'spec.workloads[0].containers[0].usage.cpu.trace.file: Invalid value: "a.csv": row 7: cpu_cores is negative'
    ]


def test_a_trace_without_the_column_is_reported() -> None:
    series = Series("s", np.asarray([0.0, 60.0]), np.asarray([1.0, 2.0]), np.asarray([np.nan, np.nan]))
    traced = usage(memory={"trace": {"file": "a.csv"}})
    assert refused(traced, traces=lambda _file, _name: series) == [
        "spec.workloads[0].containers[0].usage.memory.trace.column: Required value: the series s of a.csv has no "
        "memory; choose another column or series"
    ]


def test_a_file_with_a_broken_manifest_is_reported_with_document_and_line() -> None:
    text = (
        b"kind: [\n---\napiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\nmetadata: {name: w}\nspec: {}\n"
    )
    messages = refused(scenario(policies=[{"name": "p", "files": ["v.yaml"]}]), files=lambda _name: text)
    assert messages[0].startswith('spec.policies[0].files[0]: Invalid value: "v.yaml": v.yaml, document 1: line ')
    assert "v.yaml, document 2: spec.targetRef: Required value: targetRef must be given" in messages[1]


def test_a_template_with_invalid_pod_affinity_is_refused() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    template = {"spec": {"containers": [{"name": "app"}], "affinity": affinity}}
    [message] = refused(scenario(workloads=[{**WEB, "podTemplate": template}]))
    assert message.startswith("spec.workloads[0].podTemplate: Invalid value")
    assert "podAntiAffinity" in message


RICH = scenario(
    duration="2h",
    step="10m",
    nodes=[{"name": "n", "cpu": "8", "memory": "32Gi", "taints": [{"key": "k", "effect": "NoSchedule"}]}],
    workloads=[
        {**WEB, "podTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "app"}]}}},
        {**WEB, "name": "job", "kind": "Job", "runs": {"every": "1h", "length": "20m"}},
        {**WEB, "name": "new", "rollouts": {"at": ["20m"], "every": "1h", "shift": 0.2}, "startup": {"work": 3}},
    ],
    fleet={"count": 4, "shares": {"leak": 1, "batch": 1}, "overRequests": {"cpu": {"median": 2}}},
    policies=[{"name": "p", "objects": [VPA], "forEach": [{"workloads": ["j*"], "spec": {}}]}],
    variants=[{"name": "v", "policies": ["p"], "recommender": "window", "settings": {"min-replicas": "1"}}],
    faults=[{"kind": "node-down", "begin": "10m", "length": "10m"}],
    prices={"coreHour": 1, "gibHour": 1},
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in below:
        yield (*path, key)
        yield from places(item, (*path, key))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | st.just("1h"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


@given(st.sampled_from([path for path in places(RICH) if path[0] == "spec"]), JSON)
def test_whatever_is_written_is_played_or_refused(path: tuple[Any, ...], value: Any) -> None:
    document = copy.deepcopy(RICH)
    within: Any = document
    for step in path[:-1]:
        within = within[step]
    within[path[-1]] = value
    if any(problem.is_error for problem in validate(SCENARIO, document)):
        return
    with contextlib.suppress(InvalidScenario):
        fleet = compile_scenario(read_scenario(document))
        assert fleet.workloads
