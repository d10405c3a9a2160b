"""Files with the manifests that apply advised requests: patches, VerticalPodAutoscalers, a kustomize component."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec
import yaml

from trellis.core.advice.manifests import AdviceManifests, SkippedWorkload, build_patches, build_resources, build_vpas
from trellis.core.advice.results import ContainerAdvice, SurveyAdvice
from trellis.core.advice.survey.model import SurveyedWorkload
from trellis.reports.formats import encode_yaml

_COMPONENT = {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"}


class ManifestForm(StrEnum):
    """The kind of manifests to write."""

    PATCHES = "patches"
    VPA = "vpa"
    KUSTOMIZE = "kustomize"


class ManifestFiles(msgspec.Struct, frozen=True):
    """Texts by their paths below a directory, and the workloads without a file."""

    texts: dict[str, str]
    skipped: tuple[SkippedWorkload, ...]


def encode_resources(advice: ContainerAdvice) -> str:
    """The resources of a container as advised, to be pasted into a manifest; empty where nothing is known."""
    resources = build_resources(advice)
    return yaml.safe_dump({"resources": resources}, sort_keys=False) if resources else ""


def build_manifest_files(advised: SurveyAdvice, form: ManifestForm, update_mode: str = "Off") -> ManifestFiles:
    """A file for each workload; for kustomize also a component that lists them, to be named by a kustomization."""
    if form is ManifestForm.VPA:
        manifests = build_vpas(advised, update_mode)
        return ManifestFiles(dict(_format_manifests(manifests)), manifests.skipped)
    manifests = build_patches(advised)
    texts = dict(_format_manifests(manifests))
    if form is ManifestForm.KUSTOMIZE:
        listed = {"patches": [_list_patch(workload) for workload, _ in manifests.objects]} if texts else {}
        texts = {"kustomization.yaml": encode_yaml([{**_COMPONENT, **listed}]), **texts}
    return ManifestFiles(texts, manifests.skipped)


def _format_manifests(manifests: AdviceManifests) -> Iterator[tuple[str, str]]:
    for workload, manifest in manifests.objects:
        yield _build_path(workload), encode_yaml([manifest])


def _list_patch(workload: SurveyedWorkload) -> dict[str, object]:
    """A patch with its target: without one, kustomize fails where a kustomization has no such workload."""
    name = workload.name.replace(".", r"\.")  # it is a regular expression there
    return {
        "path": _build_path(workload),
        "target": {"kind": workload.kind, "name": name, "namespace": workload.namespace},
    }


def _build_path(workload: SurveyedWorkload) -> str:
    return f"{workload.namespace}/{workload.kind.lower()}-{workload.name}.yaml"
