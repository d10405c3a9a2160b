"""The chart, rendered by the real Helm, has the objects that `trellis install` prints for the same values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from support.install.helm import Helm, by_key, read_manifests
from support.install.values import install_values
from testbed.programs.building import ensure_programs
from testbed.programs.versions import HELM_3, HELM_4
from trellis.install.installation import build_manifests
from trellis.install.tree.evaluation import Context
from trellis.install.values.declarations import PRESETS
from trellis.install.values.loading import InvalidValues, load_values

NAMESPACE = "ops"
HELMS = pytest.mark.parametrize("program", [HELM_4, HELM_3], ids=lambda program: program.name)

VARIANTS: list[Sequence[str]] = [
    *([f"preset={preset}"] for preset in PRESETS),
    ["nodes.cloudProviders=[clusterapi, kwok]"],
    ["preset=read-only", "nodes.cloudProviders=[karpenter]", "processes=separate"],
    *([f"preset={preset}", "watchedNamespaces=[shop]", "components=[recommender, updater]"] for preset in ("full",)),
    *([f"processes={processes}"] for processes in ("separate", "shared", "single")),
    ["preset=read-only", "processes=separate", "networkPolicies.enabled=true"],
    ["preset=drop-in", "watchedNamespaces=[shop]", "configuration={updater: {minReplicas: 1, interval: 2m}}"],
    [
        "prometheusRule.enabled=true",
        "grafanaDashboards.enabled=true",
        "grafanaDashboards.annotations={folder: Trellis}",
    ],
    ["networkPolicies.enabled=true", "podMonitor.enabled=true", "podMonitor.labels={release: prometheus}"],
    ["processes=separate", "serviceMonitor.enabled=true", "serviceMonitor.labels={release: prometheus}"],
    ["crds.install=false", "rbac.create=false", "serviceAccounts.create=false", "priorityClass.name="],
    ["preset=advisor", "advisor.findPrometheus=true", "advisor.args=['--fail-over=20%', '-n=team-*']"],
    ["buffers.admissionDryRun=true", "buffers.capacityBuffers=translate", "nodes.args=['--a=b: c']"],
    ["admission.certificates=files", "admission.certificateSecret=own", "admission.registerWebhook=false"],
    [
        "nodeProviderServer.enabled=true",
        "nodeProviderServer.cloudProviders=[kwok, clusterapi, karpenter]",
        "nodeProviderServer.certificateSecret=machines",
        "nodeProviderServer.clientNames=[cluster-autoscaler]",
        "networkPolicies.enabled=true",
        "serviceMonitor.enabled=true",
    ],
]


def helm(program: Any, home: Path) -> Helm:
    return Helm(ensure_programs([program])[program.name], home)


def assert_same(helm: Helm, values: dict[str, Any], directory: Path) -> None:
    """Object by object, so that a difference names its object."""
    rendered = by_key(read_manifests(helm.render(values, NAMESPACE, directory).check()))
    built = by_key(build_manifests(Context(values, name="trellis", namespace=NAMESPACE, service="Helm")))
    assert rendered.keys() == built.keys()
    for key, manifest in built.items():
        assert rendered[key] == json.loads(json.dumps(manifest)), key


@HELMS
@pytest.mark.parametrize("assignments", VARIANTS, ids=" ".join)
def test_chart_and_command_make_the_same_objects(program: Any, assignments: list[str], tmp_path: Path) -> None:
    assert_same(helm(program, tmp_path), load_values([], assignments), tmp_path)


@HELMS
def test_they_make_the_same_objects_of_any_values(program: Any, tmp_path: Path) -> None:
    chosen = helm(program, tmp_path)

    @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
    @given(install_values())
    def check(values: dict[str, Any]) -> None:
        assert_same(chosen, values, tmp_path)

    check()


REFUSED = [
    {"presett": "full"},
    {"preset": "ful"},
    {"replicas": "two"},
    {"replicas": None},
    {"image": {"tagg": "1"}},
    {"image": {"digest": "sha256:1"}},
    {"labels": {"app": "x"}},
    {"configuration": {"components": ["all"]}},
    {"watchedNamespaces": ["shop"]},
    {"watchedNamespaces": ["A"]},
    {"preset": "advisor", "components": ["updater"]},
    {"processes": "single", "admission": {"failurePolicyFail": True}},
    {"admission": {"certificates": "files"}},
    {"priorityClass": {"create": True}},
    {"nodes": {"cloudProviders": []}, "components": ["nodes"]},
    {"nodeProviderServer": {"enabled": True, "cloudProviders": ["kwok"]}},
    {"nodeProviderServer": {"enabled": True, "certificateSecret": "machines"}},
    {"nodeProviderServer": {"cloudProviders": ["externalgrpc"]}},
]


@HELMS
@pytest.mark.parametrize("values", REFUSED, ids=json.dumps)
def test_both_refuse_the_same_values(program: Any, values: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InvalidValues):
        load_values([values])
    refused = helm(program, tmp_path).render(values, NAMESPACE, tmp_path)
    assert refused.status != 0
    assert next(iter(values)) in refused.errors


@HELMS
def test_helm_finds_nothing_to_warn_of(program: Any, tmp_path: Path) -> None:
    from support.install.helm import CHART

    output = helm(program, tmp_path).run("lint", CHART, "--strict").check()
    assert "0 chart(s) failed" in output
    assert "[WARNING]" not in output
