"""Files with the manifests that apply advised requests: patches, VerticalPodAutoscalers, a kustomize component."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from trellis.core.advice.manifests import AdviceManifests, SkippedWorkload, build_patches, build_vpas
from trellis.core.advice.results import SurveyAdvice
from trellis.core.advice.survey.model import SurveyedWorkload
from trellis.reports.formats import encode_yaml

_COMPONENT = {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"}


class Emitted(StrEnum):
    """The kind of manifests to write."""

    PATCHES = "patches"
    VPA = "vpa"
    KUSTOMIZE = "kustomize"


class Files(msgspec.Struct, frozen=True):
    """Texts by their paths below a directory, and what has none."""

    texts: dict[str, str]
    left_out: tuple[SkippedWorkload, ...]


def manifest_files(advised: SurveyAdvice, form: Emitted, update_mode: str = "Off") -> Files:
    """A file for each workload; for kustomize also a component that lists them, to be named by a kustomization."""
    if form is Emitted.VPA:
        manifests = build_vpas(advised, update_mode)
        return Files(dict(_texts(manifests)), manifests.skipped)
    manifests = build_patches(advised)
    texts = dict(_texts(manifests))
    if form is Emitted.KUSTOMIZE:
        listed = {"patches": [_listed(workload) for workload, _ in manifests.objects]} if texts else {}
        texts = {"kustomization.yaml": encode_yaml([{**_COMPONENT, **listed}]), **texts}
    return Files(texts, manifests.skipped)


def _texts(manifests: AdviceManifests) -> Iterator[tuple[str, str]]:
    for workload, manifest in manifests.objects:
        yield _path(workload), encode_yaml([manifest])


def _listed(workload: SurveyedWorkload) -> dict[str, object]:
    """A patch with what it is for: without a target, kustomize fails where a kustomization has no such workload."""
    name = workload.name.replace(".", r"\.")  # it is a regular expression there
    return {
        "path": _path(workload),
        "target": {"kind": workload.kind, "name": name, "namespace": workload.namespace},
    }


def _path(workload: SurveyedWorkload) -> str:
    return f"{workload.namespace}/{workload.kind.lower()}-{workload.name}.yaml"
