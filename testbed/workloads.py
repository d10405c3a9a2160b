"""The workloads that tests run.

Manifests with little to say. `annotations` are the pods', so they may ask the kubelet for something; see
`testbed.annotations`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from testbed.client import Json

# Nothing pulls it: no container ever starts for real.
IMAGE = "example/app:1.0"


def container(name: str = "app", cpu: str = "100m", memory: str = "128Mi", **more: Any) -> Json:
    """A container with requests; `more` are further fields, `resources` replaces the requests."""
    return {"name": name, "image": IMAGE, "resources": {"requests": {"cpu": cpu, "memory": memory}}} | more


def pod(name: str, *containers: Json, annotations: Mapping[str, str] | None = None, **spec: Any) -> Json:
    """A pod without a controller, labelled app=<name>."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}} | _template(
        name, containers, annotations, spec, name=name
    )


def deployment(
    name: str,
    *containers: Json,
    replicas: int = 1,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """A Deployment whose pods are labelled app=<name>; `spec` are fields of the pods."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": _template(name, containers, annotations, spec),
        },
    }


def job(name: str, *containers: Json, annotations: Mapping[str, str] | None = None) -> Json:
    """A Job of one pod, which runs for ever unless its annotations say otherwise."""
    template = _template(name, containers, annotations, {"restartPolicy": "Never"})
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template, "backoffLimit": 0},
    }


def disruption_budget(name: str, **spec: int | str) -> Json:
    """A PodDisruptionBudget for the pods app=<name>."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, **spec},
    }


def _template(
    app: str, containers: Sequence[Json], annotations: Mapping[str, str] | None, spec: Mapping[str, Any], **meta: str
) -> Json:
    metadata = {"labels": {"app": app}, "annotations": dict(annotations or {}), **meta}
    # No grace period: nothing here needs time to say goodbye.
    base = {"containers": list(containers) or [container()], "terminationGracePeriodSeconds": 0}
    return {"metadata": metadata, "spec": base | dict(spec)}
