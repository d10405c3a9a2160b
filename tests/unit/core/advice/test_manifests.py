"""Advice as manifests: patches with changes only, and VPAs in mode Off."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from support.builders.surveys import GIB, MIB, NONE, container, generated_survey, shop, survey, workload
from trellis.base.prices import EXAMPLE_PRICES
from trellis.core.advice.advisor import advise
from trellis.core.advice.manifests import build_patches, build_resources, build_vpas, convert_quantity
from trellis.core.advice.policy import AdvicePolicy, parse_limit_rules
from trellis.core.advice.results import SurveyAdvice
from trellis.core.advice.survey.model import ResourceAmount, SurveyedWorkload, SurveyResult
from trellis.core.lint.check import check
from trellis.core.lint.manifests import ManifestSource
from trellis.reports.advice.manifests import ManifestForm, build_manifest_files


def advised(result: SurveyResult, policy: AdvicePolicy = AdvicePolicy(), **parameters: str) -> SurveyAdvice:  # noqa: B008 -- frozen
    return advise(result, policy, EXAMPLE_PRICES, 0.0, parameters=parameters)


def only(*workloads: SurveyedWorkload, policy: AdvicePolicy = AdvicePolicy()) -> SurveyAdvice:  # noqa: B008 -- frozen
    return advised(survey(*workloads), policy)


def test_a_patch_has_only_changes_and_null_for_a_removed_limit() -> None:
    item = container("app", (1000, GIB), (200, GIB), limit=(2000, 2 * GIB))
    ((_, patch),) = build_patches(only(workload("web", item, container("fine")))).objects
    assert patch == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "template": {
                "spec": {
                    "containers": [{"name": "app", "resources": {"requests": {"cpu": "200m"}, "limits": {"cpu": None}}}]
                }
            }
        },
    }


def test_a_sidecar_is_patched_among_init_containers_and_a_cron_job_in_its_job_template() -> None:
    sidecar = container("proxy", target=(100, 512 * MIB), is_sidecar=True)
    ((_, patch),) = build_patches(only(workload("nightly", sidecar, kind="CronJob"))).objects
    spec = patch["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert [init_container["name"] for init_container in spec["initContainers"]] == ["proxy"]
    assert "containers" not in spec


def test_a_workload_with_fitting_requests_has_no_patch() -> None:
    manifests = build_patches(only(workload("web")))
    assert (manifests.objects, manifests.skipped) == ((), ())


@pytest.mark.parametrize(
    ("kind", "name", "namespace", "reason"),
    [
        ("Pod", "web", "shop", "no controller recreates this pod"),
        ("Job", "web", "shop", "the template of a Job is immutable"),
        ("Rollout", "web", "shop", "would replace all its containers"),
        ("Deployment", "../web", "shop", "its name must consist of"),
        ("Deployment", "web", "..", "its namespace must consist of"),
        ("Deployment", "web", "", "its namespace must not be empty"),
        ("../x", "web", "shop", "its kind is not known"),
    ],
)
def test_a_workload_that_cannot_be_patched_is_skipped_with_the_reason(
    kind: str, name: str, namespace: str, reason: str
) -> None:
    item = workload(name, container(target=(100, GIB)), kind=kind, namespace=namespace)
    manifests = build_patches(only(item))
    assert manifests.objects == ()
    assert reason in manifests.skipped[0].reason


def test_every_workload_without_a_vpa_gets_one_that_changes_nothing() -> None:
    manifests = build_vpas(advised(shop()))
    assert {manifest["spec"]["updatePolicy"]["updateMode"] for _, manifest in manifests.objects} == {"Off"}
    assert [item.reason for item in manifests.skipped] == [
        "it already has a VerticalPodAutoscaler: web",
        "a VerticalPodAutoscaler needs pods with an owner",
    ]


def test_a_vpa_has_the_recommender_its_parameters_and_the_bounds() -> None:
    policy = AdvicePolicy(least=ResourceAmount(50, NONE), most=ResourceAmount(4000, 8 * GIB))
    advice = advised(survey(workload("web"), recommender="seasonal"), policy, horizon="2h")
    ((_, manifest),) = build_vpas(advice, "Initial").objects
    assert manifest["spec"] == {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "updatePolicy": {"updateMode": "Initial"},
        "resourcePolicy": {
            "containerPolicies": [
                {"containerName": "*", "minAllowed": {"cpu": "50m"}, "maxAllowed": {"cpu": "4", "memory": "8Gi"}}
            ]
        },
        "recommenders": [{"name": "seasonal", "parameters": {"horizon": "2h"}}],
    }


def test_two_workloads_of_one_name_get_vpas_of_two_names() -> None:
    manifests = build_vpas(only(workload("web"), workload("web", kind="StatefulSet")))
    assert [manifest["metadata"]["name"] for _, manifest in manifests.objects] == ["web-deployment", "web-statefulset"]


def test_a_group_of_jobs_has_no_owner_to_target() -> None:
    item = msgspec.structs.replace(workload("report", kind="Job"), group="app=report", members=7)
    assert "7 Jobs have no owner that a VerticalPodAutoscaler can target" in build_vpas(only(item)).skipped[0].reason


@pytest.mark.parametrize("form", list(ManifestForm))
@pytest.mark.parametrize("rule", ["none", "request", "keep", "keep-ratio"])
def test_files_are_yaml_without_findings_of_the_check(form: ManifestForm, rule: str) -> None:
    for result in (shop(), generated_survey(40)):
        files = build_manifest_files(advised(result, AdvicePolicy(limits=parse_limit_rules(rule))), form)
        assert files.texts
        checked = check([ManifestSource(path, text.encode()) for path, text in files.texts.items()])
        assert [str(finding.message) for finding in checked.findings if finding.is_error] == []
        assert len(checked.objects) == (len(files.texts) if form is ManifestForm.VPA else 0)


def test_a_component_lists_every_patch_and_nothing_else() -> None:
    texts = dict(build_manifest_files(advised(shop()), ManifestForm.KUSTOMIZE).texts)
    component = yaml.safe_load(texts.pop("kustomization.yaml"))
    assert component["kind"] == "Component"
    assert [patch["path"] for patch in component["patches"]] == list(texts)
    first = component["patches"][0]
    patched = yaml.safe_load(texts[first["path"]])
    assert first["target"] == {"kind": patched["kind"], **patched["metadata"]}
    nothing = build_manifest_files(only(workload("web")), ManifestForm.KUSTOMIZE).texts
    assert "patches" not in yaml.safe_load(nothing["kustomization.yaml"])


def test_a_name_with_dots_is_no_pattern_for_others() -> None:
    # A target's name is a regular expression to kustomize.
    files = build_manifest_files(only(workload("web.v1", container(target=(100, GIB)))), ManifestForm.KUSTOMIZE).texts
    (patch,) = yaml.safe_load(files["kustomization.yaml"])["patches"]
    assert patch["target"]["name"] == r"web\.v1"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl to run kustomize")
def test_a_kustomization_may_lack_some_of_the_workloads(tmp_path: Path) -> None:
    for path, text in build_manifest_files(advised(generated_survey(30)), ManifestForm.KUSTOMIZE).texts.items():
        file = tmp_path / "sizes" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "base").mkdir()
    one = yaml.safe_load((tmp_path / "sizes" / "kustomization.yaml").read_text())["patches"][0]["path"]
    patch = yaml.safe_load((tmp_path / "sizes" / one).read_text())
    expected = patch["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
    own = {**patch, "spec": {"template": {"spec": {"containers": [{"name": "app", "image": "web"}]}}}}
    (tmp_path / "base" / "own.yaml").write_text(yaml.safe_dump(own))
    kustomization = {"resources": ["own.yaml"], "components": ["../sizes"]}
    (tmp_path / "base" / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    command = ["kubectl", "kustomize", str(tmp_path / "base")]
    built = yaml.safe_load(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert built["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] == expected


def test_a_patch_laid_over_its_template_gives_what_was_advised() -> None:
    survey_advice = advised(generated_survey(30))
    for item, patch in build_patches(survey_advice).objects:
        advice = next(one for one in survey_advice.workloads if one.surveyed is item)
        template: dict[str, Any] = patch["spec"]["template"]["spec"]["containers"][0]["resources"]
        for resource, text in template["requests"].items():
            assert text == str(convert_quantity(resource, advice.containers[0].get_resource(resource).request))


def test_the_resources_of_a_container_are_those_advised_changed_or_not() -> None:
    advice = only(workload("web", container(request=(500, 512 * MIB), target=(500, 1024 * MIB))))
    (row,) = advice.rows
    resources = build_resources(row.container)
    assert resources == {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
