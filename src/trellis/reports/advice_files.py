"""Which files hold the manifests that carry advice out? Names and texts, for somebody to write."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from trellis.core.advice.advised import Advised
from trellis.core.advice.manifests import LeftOut, Manifests, patches, vpas
from trellis.core.advice.surveyed import SurveyedWorkload
from trellis.reports.manifests import as_yaml

_COMPONENT = {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"}


class Emitted(StrEnum):
    """What is written."""

    PATCHES = "patches"
    VPA = "vpa"
    KUSTOMIZE = "kustomize"


class Files(msgspec.Struct, frozen=True):
    """Texts by their paths below a directory, and what has none."""

    texts: dict[str, str]
    left_out: tuple[LeftOut, ...]


def manifest_files(advised: Advised, form: Emitted, update_mode: str = "Off") -> Files:
    """A file for each workload; for kustomize also a component that lists them, to be named by a kustomization."""
    if form is Emitted.VPA:
        made = vpas(advised, update_mode)
        return Files(dict(_texts(made)), made.left_out)
    made = patches(advised)
    texts = dict(_texts(made))
    if form is Emitted.KUSTOMIZE:
        listed = {"patches": [_listed(workload) for workload, _ in made.objects]} if texts else {}
        texts = {"kustomization.yaml": as_yaml([{**_COMPONENT, **listed}]), **texts}
    return Files(texts, made.left_out)


def _texts(made: Manifests) -> Iterator[tuple[str, str]]:
    for workload, manifest in made.objects:
        yield _path(workload), as_yaml([manifest])


def _listed(workload: SurveyedWorkload) -> dict[str, object]:
    """A patch with what it is for: without a target, kustomize fails where a kustomization has no such workload."""
    name = workload.name.replace(".", r"\.")  # it is a regular expression there
    return {
        "path": _path(workload),
        "target": {"kind": workload.kind, "name": name, "namespace": workload.namespace},
    }


def _path(workload: SurveyedWorkload) -> str:
    return f"{workload.namespace}/{workload.kind.lower()}-{workload.name}.yaml"
