"""What `trellis check` says of scenarios and of the manifests inside them."""

from __future__ import annotations

from trellis.core.lint.check import check
from trellis.core.lint.manifests import ManifestSource
from trellis.reports.describe import describe_objects

GOOD = """\
apiVersion: sim.trellis.x-k8s.io/v1alpha1
kind: Scenario
metadata:
  name: small
spec:
  duration: 1d
  workloads:
    - name: web
      containers: [{name: app, usage: {cpu: {steady: 1}}}]
  policies:
    - name: sized
      objects:
        - apiVersion: autoscaling.k8s.io/v1
          kind: VerticalPodAutoscaler
          metadata: {name: web}
          spec:
            targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
            updatePolicy: {updateMode: InPlace}
"""


def lines(text: str) -> list[str]:
    """Place, path and message of every finding."""
    findings = check([ManifestSource("small.yaml", text.encode())]).findings
    return [f"{finding.line}:{finding.column} {finding.path}: {finding.message}" for finding in findings]


def test_a_good_scenario_is_one_object_without_findings() -> None:
    result = check([ManifestSource("small.yaml", GOOD.encode())])
    assert result.findings == ()
    assert [ours.kind.name for ours in result.objects] == ["Scenario"]


def test_a_typo_is_reported_with_line_column_and_a_suggestion() -> None:
    assert lines(GOOD.replace("steady", "stedy")) == [
        "9:40 spec.workloads[0].containers[0].usage.cpu: Required value: at least one of steady, daily, weekly, spiky, "
        "trend, phases, leak, trace must be given",
        '9:46 spec.workloads[0].containers[0].usage.cpu.stedy: Unknown field: there is no field "stedy" here '
        '(did you mean "steady"?)',
    ]


def test_a_manifest_inside_is_checked_at_its_own_lines() -> None:
    assert lines(GOOD.replace("updateMode: InPlace", "updateMode: Inplace")) == [
        '18:28 spec.updatePolicy.updateMode: Unsupported value: "Inplace": supported values: "Off", "Initial", '
        '"Recreate", "InPlaceOrRecreate", "InPlace", "InPlaceOnly", "Auto" (did you mean "InPlace"?)'
    ]


def test_a_manifest_inside_without_a_kind_is_reported() -> None:
    assert lines(GOOD.replace("          kind: VerticalPodAutoscaler\n", "")) == [
        "13:11 : not a Kubernetes object: apiVersion and kind must be given"
    ]


def test_another_version_or_group_is_reported() -> None:
    assert lines(GOOD.replace("v1alpha1", "v1", 1)) == [
        "1:1 apiVersion: there is no version v1 of Scenario: write sim.trellis.x-k8s.io/v1alpha1"
    ]
    assert lines(GOOD.replace("kind: Scenario", "kind: Scenaro")) == [
        '2:1 kind: there is no kind "Scenaro" in sim.trellis.x-k8s.io (did you mean "Scenario"?)'
    ]


def test_the_same_object_in_two_policies_is_no_duplicate() -> None:
    again = GOOD.partition("  policies:\n")[2].replace("name: sized", "name: again")
    assert lines(GOOD + again) == []


def test_a_scenario_is_explained() -> None:
    result = check([ManifestSource("small.yaml", (GOOD + "  warmUp: 1h\n").encode())])
    assert describe_objects(result)[0]["sentences"] == [
        "Simulates 1d of 1 workload, with a usage sample every 1m.",
        "Compares fixed and sized.",
        "The first 1h are warm-up and not scored.",
    ]
