"""Names, labels and annotations that all objects share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trellis import __version__
from trellis.install.objects.conditions import Process
from trellis.install.tree.nodes import NAMESPACE, Release, Tree, Value, When, extend

_NAME: Final = "app.kubernetes.io/name"


def build_metadata(name: str, *, labels: Mapping[str, str] | None = None, cluster: bool = False, **more: Any) -> Tree:
    """The metadata of an object: in the namespace of the installation, or of the cluster."""
    place = {} if cluster else {"namespace": NAMESPACE}
    return {"name": name, **place, "labels": build_labels(labels or {}), **more}


def build_labels(own: Mapping[str, str]) -> Tree:
    """The labels of an object."""
    fixed = {
        _NAME: "trellis",
        "app.kubernetes.io/instance": Release("Name"),
        "app.kubernetes.io/version": __version__,
        "app.kubernetes.io/managed-by": Release("Service"),
    }
    return extend({**own, **fixed}, Value("labels"))


def build_selector(process: Process) -> dict[str, str]:
    """The labels by which the pods of a Deployment are found. They never change: selectors are immutable."""
    return {"app": process.name}


def build_pod_metadata(process: Process) -> Tree:
    """The metadata of the pods of a Deployment."""
    labels = {
        **build_selector(process),
        "app.kubernetes.io/component": process.label,
        _NAME: "trellis",
        "app.kubernetes.io/version": __version__,
    }
    return {
        "labels": extend(labels, Value("podLabels")),
        "annotations": When(Value("podAnnotations"), Value("podAnnotations")),
    }
