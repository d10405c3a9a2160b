"""HPAs and Hvpas in scenarios: what is made of them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from support.builders.manifests import STORY_1, TARGET, hvpa
from support.builders.scenarios import WEB, compiled, list_problems, scenario
from trellis.base.errors import InvalidScenario
from trellis.core.lint.check import check
from trellis.core.lint.manifests import ManifestSource
from trellis.sim.components.objects import read_objects
from trellis.sim.fleet import Intervals

CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}},
}
HPA_SPEC: dict[str, Any] = {"minReplicas": 2, "maxReplicas": 8, "metrics": [CPU]}
HVPA_SPEC: dict[str, Any] = {"buckets": [STORY_1], "hpa": {"template": {"spec": {"metrics": [CPU]}}}}
PODS = {"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "10"}}}


def hpa(target: dict[str, Any] = TARGET, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": target, **HPA_SPEC, **spec},
    }


def policy(*policies: dict[str, Any], **more: Any) -> dict[str, Any]:
    named = [{"name": f"p{number}", **policy} for number, policy in enumerate(policies)]
    return scenario(policies=named, **more)


def refused(document: dict[str, Any]) -> list[str]:
    with pytest.raises(InvalidScenario) as error:
        compiled(document)
    return [str(problem) for problem in error.value.problems]


def test_an_entry_makes_an_object_of_its_kind_for_each_workload() -> None:
    job = {**WEB, "name": "batch", "kind": "Job", "runs": {"every": "1h", "length": "5m"}}
    entries = [{"hpa": HPA_SPEC}, {"hvpa": HVPA_SPEC}, {"workloads": ["batch"]}]
    fleet = compiled(policy({"forEach": entries}, workloads=[WEB, {**WEB, "name": "db", "kind": "StatefulSet"}, job]))
    result = [(document["kind"], document["metadata"]["name"]) for document in fleet.variants[1].objects]
    assert result == [
        ("VerticalPodAutoscaler", "batch"),
        ("HorizontalPodAutoscaler", "web"),
        ("HorizontalPodAutoscaler", "db"),
        ("Hvpa", "web"),
        ("Hvpa", "db"),
    ]
    read = read_objects(fleet.variants[1].objects, 0.0)
    assert [hpa.spec.scale_target_ref.kind for hpa in read.hpas] == ["Deployment", "StatefulSet"]
    assert [hvpa.spec.target_ref.name for hvpa in read.hvpas] == ["web", "db"]
    assert read.hpas[0].spec.metrics[0].resource is not None


def test_a_workload_gets_the_first_template_of_each_kind() -> None:
    first, second = {"hpa": {**HPA_SPEC, "maxReplicas": 3}, "workloads": ["web"]}, {"hpa": HPA_SPEC}
    fleet = compiled(policy({"forEach": [first, second]}, workloads=[WEB, {**WEB, "name": "api"}]))
    result = {document["metadata"]["name"]: document["spec"]["maxReplicas"] for document in fleet.variants[1].objects}
    assert result == {"web": 3, "api": 8}


def test_written_manifests_keep_their_namespace() -> None:
    objects = compiled(policy({"objects": [hpa(), hvpa(**HVPA_SPEC)]})).variants[1].objects
    assert [document["kind"] for document in objects] == ["HorizontalPodAutoscaler", "Hvpa"]
    assert {document["metadata"]["namespace"] for document in objects} == {"default"}


def test_counts_change_where_any_variant_scales() -> None:
    assert compiled(policy({"forEach": [{"hpa": HPA_SPEC}]})).scales
    assert not compiled(policy({"forEach": [{}]})).scales


def test_intervals_of_autoscalers_are_the_live_ones_by_default() -> None:
    assert compiled(scenario(intervals={"hpa": "30s"})).intervals == Intervals(hpa=30.0)
    assert compiled(scenario(intervals={"hvpa": "5m"})).intervals == Intervals(hvpa=300.0)


def test_an_hpa_may_drive_an_hvpa_of_another_policy_in_the_same_variant() -> None:
    own = hpa({"apiVersion": "autoscaling.x-k8s.io/v1alpha1", "kind": "Hvpa", "name": "web"})
    both = [{"name": "v", "policies": ["p0", "p1"]}]
    fleet = compiled(policy({"objects": [own]}, {"objects": [hvpa()]}, variants=both))
    assert len(fleet.variants[0].objects) == 2
    alone = [{"name": "v", "policies": ["p0"]}, {"name": "w", "policies": ["p1"]}]
    assert refused(policy({"objects": [own]}, {"objects": [hvpa()]}, variants=alone)) == [
        'spec.variants[0].policies: Invalid value: "web": the HPA web targets the Hvpa default/web, which this variant '
        "does not have"
    ]


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (
            hpa({**TARGET, "name": "wbe"}),
            'spec.policies[0].objects[0].spec.scaleTargetRef.name: Invalid value: "wbe": the scenario has no '
            'Deployment default/wbe (did you mean "web"?)',
        ),
        (
            hvpa(targetRef={**TARGET, "name": "nobody"}),
            'spec.policies[0].objects[0].spec.targetRef.name: Invalid value: "nobody": the scenario has no Deployment',
        ),
        (
            hpa({"apiVersion": "batch/v1", "kind": "Job", "name": "batch"}),
            'spec.policies[0].objects[0].spec.scaleTargetRef.name: Invalid value: "batch": '
            "a Job has no scale subresource",
        ),
        (
            hpa(metrics=[PODS]),
            'spec.policies[0].objects[0]: Invalid value: "HorizontalPodAutoscaler": spec.metrics[0].type: Unsupported '
            'value: "Pods": supported values: "Resource", "ContainerResource"',
        ),
        (
            hvpa(hpa={"template": {"spec": {"metrics": [PODS]}}}),
            'spec.policies[0].objects[0]: Invalid value: "Hvpa": spec.hpa.template.spec.metrics[0]: Unsupported '
            'value: "Pods": metrics of type Pods cannot be simulated',
        ),
        (
            hvpa({**STORY_1, "cpu": {"min": "2", "max": "1"}}),
            'spec.policies[0].objects[0]: Invalid value: "Hvpa": spec.buckets[0].cpu.max: Invalid value: "1": must not '
            "be below min",
        ),
        (
            {**hpa(), "apiVersion": "autoscaling/v1"},
            'spec.policies[0].objects[0]: Invalid value: "HorizontalPodAutoscaler": apiVersion: Invalid value: '
            '"autoscaling/v1": must be autoscaling/v2',
        ),
    ],
)
def test_what_cannot_be_simulated_is_refused_with_its_field(manifest: dict[str, Any], expected: str) -> None:
    job = {**WEB, "name": "batch", "kind": "Job", "runs": {"every": "1h", "length": "5m"}}
    messages = refused(policy({"objects": [manifest]}, workloads=[WEB, job]))
    assert messages[0].startswith(expected)


def test_a_metric_that_the_template_of_an_hvpa_cannot_have_is_refused() -> None:
    spec = {**HVPA_SPEC, "hpa": {"template": {"spec": {"metrics": [PODS]}}}}
    (message,) = refused(policy({"forEach": [{"hvpa": spec}]}))
    assert message.startswith(
        'spec.policies[0].forEach[0].hvpa.hpa.template.spec.metrics[0]: Unsupported value: "Pods"'
    )


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (
            {"spec": {}, "hpa": HPA_SPEC},
            "hpa: Forbidden: at most one of spec, hpa, hvpa may be given, and spec is",
        ),
        (
            {"hpa": HPA_SPEC, "hvpa": HVPA_SPEC},
            "hvpa: Forbidden: at most one of spec, hpa, hvpa may be given, and hpa is",
        ),
        ({"hpa": {"minReplicas": 2}}, "hpa.maxReplicas: Required value: maxReplicas must be given"),
        ({"hpa": {"maxReplicas": 2, "metric": []}}, 'hpa.metric: Unknown field: there is no field "metric" here'),
        (
            {"hpa": {"minReplicas": 3, "maxReplicas": 2}},
            "hpa.maxReplicas: Invalid value: 2: must not be below minReplicas, which is 3",
        ),
        (
            {"hpa": {**HPA_SPEC, "scaleTargetRef": TARGET}},
            "hpa.scaleTargetRef: Forbidden: is set for each workload and must not be given",
        ),
        (
            {"hpa": {**HPA_SPEC, "metrics": [{"type": "ContainerResource", "resource": CPU["resource"]}]}},
            "hpa.metrics[0].containerResource: Required value: must be given for a metric of type ContainerResource",
        ),
        (
            {
                "hpa": {
                    **HPA_SPEC,
                    "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue"}}}],
                }
            },
            "hpa.metrics[0].resource.target.averageValue: Required value: must be given for a target of type",
        ),
        ({"hvpa": {}}, "hvpa.buckets: Required value: buckets must be given"),
        (
            {"hvpa": {**HVPA_SPEC, "bucket": []}},
            'hvpa.bucket: Unknown field: there is no field "bucket" here',
        ),
        (
            {"hvpa": {**HVPA_SPEC, "targetRef": TARGET}},
            "hvpa.targetRef: Forbidden: is set for each workload and must not be given",
        ),
        (
            {"hvpa": {"buckets": [STORY_1, STORY_1]}},
            "hvpa.buckets[1].replicas.min: Invalid value: 1: must be above replicas.max of the bucket before",
        ),
        (
            {"hvpa": {**HVPA_SPEC, "hpa": {"template": {"spec": {"maxReplicas": 4}}}}},
            "hvpa.hpa.template.spec.maxReplicas: Invalid value: 4: must not be below the last bucket's replicas.max",
        ),
    ],
)
def test_a_fault_in_an_entry_is_reported_with_field_value_and_rule(entry: dict[str, Any], expected: str) -> None:
    result = list_problems(policy({"forEach": [entry]}))
    assert result[0].startswith(f"spec.policies[0].forEach[0].{expected}")
    assert len(result) == 1


@pytest.mark.parametrize("name", ["hpa", "hvpa"])
def test_an_interval_of_zero_is_refused(name: str) -> None:
    (problem,) = list_problems(scenario(intervals={name: "0s"}))
    assert problem.startswith(f"spec.intervals.{name}: Invalid value")


def test_check_reports_what_is_wrong_with_an_hpa_inside_a_scenario() -> None:
    text = """\
apiVersion: sim.trellis.x-k8s.io/v1alpha1
kind: Scenario
metadata: {name: small}
spec:
  duration: 1d
  workloads:
    - name: web
      containers: [{name: app, usage: {cpu: {steady: 1}}}]
  policies:
    - name: scaled
      objects:
        - apiVersion: autoscaling/v2
          kind: HorizontalPodAutoscaler
          metadata: {name: web}
          spec:
            scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
            maxReplica: 4
"""
    findings = check([ManifestSource("small.yaml", text.encode())]).findings
    assert {(finding.line, finding.path) for finding in findings} == {(15, "spec.maxReplicas"), (17, "spec.maxReplica")}
