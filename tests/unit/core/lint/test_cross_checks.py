"""What `trellis check` says of objects that are right one by one and wrong together."""

from __future__ import annotations

import pytest

from trellis.api.resolve import BUILT_IN_RECOMMENDERS
from trellis.core.lint.check import check
from trellis.core.lint.manifests import ManifestSource
from trellis.core.recommend.registry import create_built_in_recommenders

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      containers:
      - {name: app, readinessProbe: {httpGet: {port: 80}}}
      - {name: proxy}
"""
VPA = """\
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: web}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
"""
HPA = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 8
  metrics:
  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}
"""
HVPA = """\
apiVersion: autoscaling.x-k8s.io/v1alpha1
kind: Hvpa
metadata: {name: web}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  buckets:
  - {replicas: {min: 1, max: 8}, cpu: {min: 0, max: 24}, memory: {min: 0, max: 25G}}
"""
BOOST = "  startupBoost: {cpu: {type: Factor, factor: 3}}\n"


def list_findings(*documents: str) -> list[str]:
    report = check([ManifestSource("set.yaml", "---\n".join(documents).encode())])
    return [f"{finding.reason}: {finding.message}" for finding in report.findings]


def test_two_documents_of_one_name_are_an_error_that_names_the_first() -> None:
    report = check([ManifestSource("set.yaml", f"{VPA}---\n{VPA}".encode())])
    errors = [finding for finding in report.findings if finding.is_error]
    assert [finding.message for finding in errors] == ["VerticalPodAutoscaler web already exists, at set.yaml:1"]
    assert errors[0].line == 9


def test_the_same_name_in_another_namespace_or_directory_is_another_object() -> None:
    other = VPA.replace("{name: web}\nspec", "{name: web, namespace: other}\nspec")
    assert list_findings(VPA, other) == []
    report = check([ManifestSource("prod/vpa.yaml", VPA.encode()), ManifestSource("staging/vpa.yaml", VPA.encode())])
    assert report.findings == ()


def test_an_hpa_and_a_vpa_on_one_resource_are_reported() -> None:
    (line,) = list_findings(DEPLOYMENT, HPA, VPA)
    assert line == (
        "TwoAutoscalers: HorizontalPodAutoscaler web scales the same target by cpu, which this VPA changes: "
        "each undoes the other"
    )


@pytest.mark.parametrize(
    "harmless",
    [
        VPA + '  updatePolicy: {updateMode: "Off"}\n',
        VPA + "  resourcePolicy: {containerPolicies: [{containerName: '*', controlledResources: [memory]}]}\n",
        VPA.replace("name: web}\nspec", "name: web, namespace: other}\nspec"),
        VPA.replace("kind: Deployment, name: web", "kind: Deployment, name: other"),
    ],
)
def test_a_vpa_that_does_not_size_the_hpas_resource_is_accepted(harmless: str) -> None:
    assert not [line for line in list_findings(HPA, harmless) if line.startswith("TwoAutoscalers")]


def test_an_hpa_without_metrics_or_of_the_first_version_scales_by_cpu() -> None:
    plain = HPA.partition("  metrics:")[0]
    assert list_findings(plain, VPA)[0].startswith("TwoAutoscalers")
    first = plain.replace("autoscaling/v2", "autoscaling/v1") + "  targetCPUUtilizationPercentage: 80\n"
    assert list_findings(first, VPA)[0].startswith("TwoAutoscalers")


def test_two_vpas_on_one_target_are_reported() -> None:
    second = VPA.replace("{name: web}\nspec", "{name: second}\nspec")
    (line,) = list_findings(VPA, second)
    assert "the older VPA governs" in line
    (line,) = list_findings(VPA, second + '  updatePolicy: {updateMode: "Off"}\n')
    assert "the VPA in another mode than Off governs" in line


def test_an_hvpa_beside_a_vpa_is_reported_unless_the_vpa_only_recommends() -> None:
    (line,) = list_findings(VPA, HVPA)
    assert "an Hvpa does not act" in line
    assert list_findings(VPA + '  updatePolicy: {updateMode: "Off"}\n', HVPA) == []


def test_an_hpa_on_an_hvpas_target_is_reported() -> None:
    (line,) = list_findings(HPA, HVPA)
    assert "let it target the Hvpa instead" in line


def test_boost_without_a_probe_names_the_containers() -> None:
    (line,) = list_findings(DEPLOYMENT, VPA + BOOST)
    assert line.startswith("NoProbe: the boosted container proxy of Deployment web has neither")
    probed = DEPLOYMENT.replace("{name: proxy}", "{name: proxy, startupProbe: {tcpSocket: {port: 1}}}")
    assert list_findings(probed, VPA + BOOST) == []


def test_a_container_that_is_not_boosted_needs_no_probe() -> None:
    own = "  resourcePolicy: {containerPolicies: [{containerName: proxy, startupBoost: {}}]}\n"
    assert list_findings(DEPLOYMENT, VPA + BOOST + own) == []


def test_nothing_is_reported_about_probes_when_the_workload_is_not_in_the_set() -> None:
    assert list_findings(VPA + BOOST) == []


def test_a_policy_for_a_container_that_is_not_there_is_reported() -> None:
    policy = "  resourcePolicy: {containerPolicies: [{containerName: prxy}, {containerName: '*'}]}\n"
    (line,) = list_findings(DEPLOYMENT, VPA + policy)
    assert line == 'NoSuchContainer: Deployment web has no container "prxy" (did you mean "proxy"?)'


def test_sidecars_are_containers_and_init_containers_are_not() -> None:
    with_init = DEPLOYMENT + "      initContainers: [{name: mesh, restartPolicy: Always}, {name: setup}]\n"
    policy = "  resourcePolicy: {containerPolicies: [{containerName: mesh}, {containerName: setup}]}\n"
    (line,) = list_findings(with_init, VPA + policy)
    assert 'has no container "setup"' in line


def test_a_target_with_a_typo_is_reported_when_a_similar_one_is_there() -> None:
    (line,) = list_findings(DEPLOYMENT, VPA.replace("kind: Deployment, name: web", "kind: Deployment, name: wbe"))
    assert line == 'NoSuchTarget: there is no Deployment "wbe" among the objects checked (did you mean "web"?)'


def test_an_unreadable_workload_does_not_stop_the_check() -> None:
    assert list_findings(DEPLOYMENT.replace("containers:", "containers: 3\n      x:"), VPA + BOOST) == []


def test_a_replica_count_in_an_hvpas_manifest_is_reported() -> None:
    (line,) = list_findings(HVPA + "  replicas: 3\n")
    assert line.startswith("Suspicious: is written by an HPA")


OFF = '  updatePolicy: {updateMode: "Off"}\n'
OTHERS = "  recommenders: [{name: night-shift}]\n"


def totals_needed(*documents: str) -> list[str]:
    return [line.partition(": ")[2] for line in list_findings(*documents) if line.startswith("TotalsNeeded")]


def test_an_hvpa_on_a_third_party_recommender_is_warned_about_totals() -> None:
    (line,) = totals_needed(DEPLOYMENT, HVPA, VPA + OFF + OTHERS)
    assert line == (
        'the recommender "night-shift" is not part of Trellis and publishes no totals: '
        "Hvpa web follows it only if trellis recommender runs too, and otherwise keeps its first total (NoTotals)"
    )
    own = HVPA + "  vpa: {template: {spec: {recommenders: [{name: night-shift}]}}}\n"
    assert totals_needed(DEPLOYMENT, own) == [line]


@pytest.mark.parametrize(
    "documents",
    [
        (HVPA, VPA + OFF),
        (HVPA, VPA + OFF + OTHERS.replace("night-shift", "seasonal")),
        (VPA + OFF + OTHERS,),
        (HVPA + "  vpa: {deploy: true}\n", VPA + OFF + OTHERS),
        (HVPA.replace("name: web}\n  buckets", "name: other}\n  buckets"), VPA + OFF + OTHERS),
    ],
)
def test_built_in_recommenders_and_vpas_without_hvpa_need_no_totals(
    documents: tuple[str, ...],
) -> None:
    assert totals_needed(*documents) == []


def test_the_names_of_recommenders_that_come_with_trellis_are_known() -> None:
    assert create_built_in_recommenders().keys() == BUILT_IN_RECOMMENDERS
