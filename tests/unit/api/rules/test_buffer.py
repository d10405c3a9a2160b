"""What a Buffer is refused for, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from support.builders.manifests import TARGET, buffer, class_buffer, errors, replica_buffer, warnings

POD = {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]}


@pytest.mark.req("BF-20")
def test_exactly_one_capacity_is_given() -> None:
    pods = {"replicaNum": 5, "podSpec": POD}
    assert errors(buffer(capacity={"pods": pods})) == []
    assert errors(buffer(capacity={})) == [
        "spec.capacity: Required value: exactly one of replicas, nodeClass, pods must be given"
    ]
    assert errors(
        buffer(capacity={"pods": pods, "nodeClass": {"totalCpu": 1, "totalMem": 1, "nodeSelector": {"a": "b"}}})
    ) == ["spec.capacity.pods: Forbidden: exactly one of replicas, nodeClass, pods may be given, and nodeClass is"]
    totals = {"totalCpu": 1, "totalMem": 1}
    assert errors(
        buffer(targetRef=TARGET, capacity={"replicas": {"exactly": 1}, "nodeClass": totals}),
    ) == ["spec.capacity.nodeClass: Forbidden: exactly one of replicas, nodeClass, pods may be given, and replicas is"]
    assert errors(buffer()) == [
        "spec: Required value: exactly one of capacity, replicaBasedBufferSpec, nodeClassBufferSpec must be given"
    ]


@pytest.mark.req("BF-20")
def test_exactly_one_of_a_number_and_a_share_is_given() -> None:
    assert errors(replica_buffer(exactly=3)) == []
    assert errors(replica_buffer(percent={"percent": 10})) == []
    assert errors(replica_buffer()) == [
        "spec.capacity.replicas: Required value: exactly one of exactly, percent must be given"
    ]
    assert errors(replica_buffer(exactly=3, percent={"percent": 10})) == [
        "spec.capacity.replicas.percent: Forbidden: exactly one of exactly, percent may be given, and exactly is"
    ]


@pytest.mark.req("BF-21")
@pytest.mark.parametrize("field", ["percent", "minCount", "maxCount"])
def test_percent_and_its_bounds_are_not_negative_integers(field: str) -> None:
    for bad in (-1, "10", 1.5):
        (line,) = errors(replica_buffer(percent={"percent": 10, field: bad}))
        assert line.startswith(f"spec.capacity.replicas.percent.{field}: Invalid value")


@pytest.mark.req("BF-21")
def test_percent_needs_its_number_and_ordered_bounds() -> None:
    assert errors(replica_buffer(percent={"minCount": 1})) == [
        "spec.capacity.replicas.percent.percent: Required value: percent must be given"
    ]
    assert errors(replica_buffer(percent={"percent": 10, "minCount": 5, "maxCount": 5})) == []
    assert errors(replica_buffer(percent={"percent": 10, "minCount": 5, "maxCount": 4})) == [
        "spec.capacity.replicas.percent.maxCount: Invalid value: 4: must not be below minCount, which is 5"
    ]


@pytest.mark.req("BF-26")
@pytest.mark.parametrize("total", [40, "40", "40000m"])
def test_totals_are_quantities_in_any_spelling(total: Any) -> None:
    assert errors(class_buffer(totalCpu=total)) == []


@pytest.mark.req("BF-25")
@pytest.mark.parametrize("field", ["totalCpu", "totalMem"])
def test_both_totals_are_required_and_above_zero(field: str) -> None:
    assert errors(class_buffer(**{field: None})) == [
        f"spec.capacity.nodeClass.{field}: Required value: {field} must be given"
    ]
    for zero in ("0", 0, "0m", "0e3"):
        (line,) = errors(class_buffer(**{field: zero}))
        assert line.endswith("must be above zero")
    (line,) = errors(class_buffer(**{field: "-1"}))
    assert line.startswith(f"spec.capacity.nodeClass.{field}: Invalid value")


@pytest.mark.req("BF-28")
def test_a_chunk_that_exceeds_a_total_is_refused() -> None:
    assert errors(class_buffer(perChunkResources={"cpu": "40", "memory": "5Gi"})) == []
    assert errors(class_buffer(perChunkResources={"cpu": "41"})) == [
        'spec.capacity.nodeClass.perChunkResources[cpu]: Invalid value: "41": must not exceed totalCpu, which is 40'
    ]
    assert errors(class_buffer(perChunkResources={"memory": "6Gi"})) == [
        'spec.capacity.nodeClass.perChunkResources[memory]: Invalid value: "6Gi": '
        "must not exceed totalMem, which is 5120Mi"
    ]


def test_a_chunk_without_size_is_refused() -> None:
    for chunk in ({}, {"cpu": "0"}, {"example.com/gpu": "1"}):
        (line,) = errors(class_buffer(perChunkResources=chunk))
        assert line.endswith("must have cpu or memory above zero")


@pytest.mark.req("BF-16")
def test_there_is_no_number_of_nodes_and_no_relative_node_class() -> None:
    for field in ("nodes", "nodeCount", "percent"):
        (line,) = errors(class_buffer(**{field: 3}))
        assert "Unknown field" in line


@pytest.mark.req("BF-17")
def test_a_target_is_optional_and_has_kind_and_name() -> None:
    assert errors(buffer(capacity={"pods": {"replicaNum": 1, "podSpec": POD}})) == []
    document = buffer(targetRef={"apiVersion": "apps/v1"}, capacity={"replicas": {"exactly": 1}})
    assert errors(document) == [
        "spec.targetRef.kind: Required value: kind must be given",
        "spec.targetRef.name: Required value: name must be given",
    ]
    assert (
        "Unknown field"
        in errors(buffer(targetRef={**TARGET, "namespace": "x"}, capacity={"replicas": {"exactly": 1}}))[0]
    )


@pytest.mark.req("BF-18")
def test_replicas_need_a_target_and_pods_have_none() -> None:
    assert errors(buffer(capacity={"replicas": {"exactly": 1}})) == [
        "spec.targetRef: Required value: required with capacity.replicas"
    ]
    assert errors(buffer(replicaBasedBufferSpec={"replicasCountPercentage": 10})) == [
        "spec.targetRef: Required value: required with capacity.replicas"
    ]
    assert errors(buffer(targetRef=TARGET, capacity={"pods": {"replicaNum": 1, "podSpec": POD}})) == [
        "spec.targetRef: Forbidden: must not be given with capacity.pods"
    ]


@pytest.mark.req("BF-18")
def test_a_node_class_is_named_by_target_or_selector() -> None:
    totals = {"totalCpu": "4", "totalMem": "8Gi"}
    assert errors(buffer(capacity={"nodeClass": {**totals, "nodeSelector": {"pool": "spot"}}})) == []
    empty: tuple[dict[str, str] | None, ...] = ({}, None)
    for selector in empty:
        assert errors(buffer(capacity={"nodeClass": {**totals, "nodeSelector": selector}})) == [
            "spec.targetRef: Required value: required with capacity.nodeClass, unless it has a nodeSelector"
        ]


@pytest.mark.req("BF-18")
def test_a_target_that_does_not_match_the_capacity_is_reported() -> None:
    (line,) = warnings(buffer(targetRef=TARGET, capacity={"nodeClass": {"totalCpu": 4, "totalMem": "8Gi"}}))
    assert "Deployment is a workload" in line
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "spot"}
    (line,) = warnings(buffer(targetRef=pool, capacity={"replicas": {"exactly": 1}}))
    assert "NodePool is a node class" in line


@pytest.mark.req("BF-46", "BF-48")
def test_the_stories_shorthands_are_accepted_and_refused_beside_capacity() -> None:
    percent = {"replicasCountPercentage": 10, "minCount": 1}
    assert errors(buffer(targetRef=TARGET, recreationStrategy="keep-empty", replicaBasedBufferSpec=percent)) == []
    pool = {"apiVersion": "apps/v1", "kind": "CustomComputeClass", "name": "my-custom-class"}
    totals = {"totalCpu": 40, "totalMem": "5120Mi"}
    assert errors(buffer(targetRef=pool, nodeClassBufferSpec=totals)) == []
    both = buffer(targetRef=TARGET, replicaBasedBufferSpec=percent, capacity={"replicas": {"exactly": 1}})
    (line,) = errors(both)
    assert line.startswith("spec.replicaBasedBufferSpec: Forbidden")


@pytest.mark.req("BF-27")
def test_the_shorthand_of_a_node_class_takes_a_chunk_too() -> None:
    pool = {"apiVersion": "apps/v1", "kind": "CustomComputeClass", "name": "my-custom-class"}
    totals = {"totalCpu": 40, "totalMem": "5120Mi", "perChunkResources": {"cpu": "3", "memory": "512Mi"}}
    assert errors(buffer(targetRef=pool, nodeClassBufferSpec=totals)) == []
    totals["perChunkResources"] = {"cpu": "41"}
    (line,) = errors(buffer(targetRef=pool, nodeClassBufferSpec=totals))
    assert line.startswith("spec.nodeClassBufferSpec.perChunkResources[cpu]: Invalid value")


@pytest.mark.req("BF-31")
def test_pods_need_a_number_and_a_spec_that_is_kept_as_written() -> None:
    spec = {**POD, "nodeSelector": {"pool": "spot"}, "tolerations": [{"operator": "Exists"}], "affinity": {}}
    assert errors(buffer(capacity={"pods": {"replicaNum": 5, "podSpec": spec}})) == []
    assert errors(buffer(capacity={"pods": {"podSpec": {}}})) == [
        "spec.capacity.pods.podSpec.containers: Required value: containers must be given",
        "spec.capacity.pods.replicaNum: Required value: replicaNum must be given",
    ]
    assert errors(buffer(capacity={"pods": {"replicaNum": -1, "podSpec": POD}})) != []


@pytest.mark.parametrize(
    ("container", "problem"),
    [
        ({"resources": {}}, "name: Required value: name must be given"),
        (
            {"name": "a", "resources": {"requests": {"cpu": "lots"}}},
            'resources.requests[cpu]: Invalid value: "lots": not',
        ),
        (
            {"name": "a", "resources": {"limits": {"memory": "-1Gi"}}},
            'resources.limits[memory]: Invalid value: "-1Gi":',
        ),
        ({"name": "a", "resources": {"requests": {"cpu": True}}}, "resources.requests[cpu]: Invalid value: true:"),
    ],
)
def test_a_pod_that_cannot_be_read_is_refused_with_the_field(container: Any, problem: str) -> None:
    [error] = errors(buffer(capacity={"pods": {"replicaNum": 1, "podSpec": {"containers": [container]}}}))
    assert error.startswith(f"spec.capacity.pods.podSpec.containers[0].{problem}")


def test_a_pod_with_devices_is_a_warning() -> None:
    container = {"name": "a", "resources": {"claims": [{"name": "gpu"}]}}
    [warning] = warnings(buffer(capacity={"pods": {"replicaNum": 1, "podSpec": {"containers": [container]}}}))
    assert warning.startswith("spec.capacity.pods.podSpec.containers[0].resources.claims: capacity for devices")


@pytest.mark.req("BF-33")
@pytest.mark.parametrize("strategy", ["KeepEmpty", "KeepMinimum", "keep-empty", "keep-minimum"])
def test_both_spellings_of_a_strategy_are_accepted(strategy: str) -> None:
    assert errors(buffer(targetRef=TARGET, capacity={"replicas": {"exactly": 1}}, recreationStrategy=strategy)) == []


@pytest.mark.req("BF-33")
def test_another_strategy_is_refused() -> None:
    (line,) = errors(buffer(targetRef=TARGET, capacity={"replicas": {"exactly": 1}}, recreationStrategy="keepEmpty"))
    assert line.endswith('(did you mean "KeepEmpty"?)')


@pytest.mark.req("BF-32", "BF-19")
def test_foreign_types_are_accepted_and_unknown_own_types_are_reported() -> None:
    def typed(name: str) -> dict[str, Any]:
        return buffer(type=name, targetRef=TARGET, capacity={"replicas": {"exactly": 1}})

    for known in ("buffer.x-k8s.io/active-capacity", "buffer.gke.io/standby-capacity"):
        assert errors(typed(known)) == []
        assert warnings(typed(known)) == []
    assert errors(typed("buffer.x-k8s.io/warm")) == []
    assert "is unknown" in warnings(typed("buffer.x-k8s.io/warm"))[0]


@pytest.mark.req("BF-51")
def test_there_is_no_field_for_resource_claims() -> None:
    document = buffer(targetRef=TARGET, capacity={"replicas": {"exactly": 1}}, resourceClaimTemplates=[])
    assert "Unknown field" in errors(document)[0]


@pytest.mark.req("BF-50")
def test_a_schedule_needs_windows_that_can_happen() -> None:
    def scheduled(**schedule: Any) -> list[str]:
        return errors(buffer(targetRef=TARGET, capacity={"replicas": {"exactly": 1}}, schedule=schedule))

    window = {"start": "0 8 * * 1-5", "duration": "10h"}
    assert scheduled(timeZone="Europe/Berlin", windows=[window]) == []
    assert scheduled(windows=[]) == ["spec.schedule.windows: Invalid value: []: must have at least 1 item"]
    assert scheduled(windows=[window] * 17) == ["spec.schedule.windows: Too many: 17: must have at most 16 items"]
    (line,) = scheduled(timeZone="Europe/Bonn", windows=[window])
    assert line.startswith("spec.schedule.timeZone: Invalid value")
    (line,) = scheduled(windows=[{**window, "start": "every day at 8"}])
    assert line.startswith("spec.schedule.windows[0].start: Invalid value")
    (line,) = scheduled(windows=[{**window, "duration": "0s"}])
    assert line == 'spec.schedule.windows[0].duration: Invalid value: "0s": must be longer than 0s'


@pytest.mark.req("BF-54")
def test_a_pod_selector_with_keep_empty_is_reported() -> None:
    base = {"targetRef": TARGET, "capacity": {"replicas": {"exactly": 1}}, "podSelector": {"matchLabels": {"app": "x"}}}
    assert warnings(buffer(**base, recreationStrategy="KeepMinimum")) == []
    (line,) = warnings(buffer(**base))
    assert line.startswith("spec.podSelector: has an effect only with")


@pytest.mark.parametrize(
    "selector",
    [
        {"matchLabels": {"a b": "c"}},
        {"matchExpressions": [{"key": "a", "operator": "In"}]},
        {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]},
        {"matchExpressions": [{"key": "a", "operator": "Matches", "values": ["x"]}]},
    ],
)
def test_a_selector_that_cannot_be_used_is_refused(selector: dict[str, Any]) -> None:
    document = replica_buffer(exactly=1)
    document["spec"] |= {"podSelector": selector, "recreationStrategy": "KeepMinimum"}
    (line,) = errors(document)
    assert line.startswith("spec.podSelector")
