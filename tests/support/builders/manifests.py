"""Objects for tests: valid unless a test makes them otherwise, and short ways to ask what is wrong with one."""

from __future__ import annotations

from typing import Any

from trellis.api.feature_gates import FeatureGates
from trellis.api.registry import BUFFER, HVPA, VPA, Kind
from trellis.api.validation import validate

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def vpa(**spec: Any) -> dict[str, Any]:
    return _object(VPA, {"targetRef": TARGET, **spec})


def boosted(**cpu: Any) -> dict[str, Any]:
    return vpa(startupBoost={"cpu": cpu})


def requirements(*entries: Any, **policy: Any) -> dict[str, Any]:
    return vpa(updatePolicy={"updateMode": "Recreate", "actuationRequirements": list(entries), **policy})


def policy(**fields: Any) -> dict[str, Any]:
    return vpa(resourcePolicy={"containerPolicies": [{"containerName": "app", **fields}]})


def bucket(replicas: tuple[int, int], cpu: tuple[Any, Any], memory: tuple[Any, Any]) -> dict[str, Any]:
    pairs = {"replicas": replicas, "cpu": cpu, "memory": memory}
    return {name: {"min": low, "max": high} for name, (low, high) in pairs.items()}


STORY_1 = bucket((1, 8), ("0m", "24000m"), ("500M", "25G"))
STORY_2 = (bucket((1, 1), ("0", "1000m"), ("0", "2G")), bucket((2, 8), ("1", "9000m"), ("2G", "20G")))
ONLY_HORIZONTAL = (bucket((1, 3), ("0", "8"), ("0", "20G")), bucket((4, 6), ("8", "8"), ("20G", "20G")))


def hvpa(*buckets: Any, **spec: Any) -> dict[str, Any]:
    return _object(HVPA, {"targetRef": TARGET, "buckets": list(buckets or (STORY_1,)), **spec})


def buffer(**spec: Any) -> dict[str, Any]:
    return _object(BUFFER, spec)


def replica_buffer(**replicas: Any) -> dict[str, Any]:
    return buffer(targetRef=TARGET, capacity={"replicas": replicas})


def class_buffer(**capacity: Any) -> dict[str, Any]:
    target = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "spot"}
    return buffer(targetRef=target, capacity={"nodeClass": {"totalCpu": "40", "totalMem": "5120Mi", **capacity}})


def _object(kind: Kind, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": "web"}, "spec": spec}


KIND_OF = {kind.name: kind for kind in (VPA, HVPA, BUFFER)}


def errors(document: dict[str, Any], old: dict[str, Any] | None = None, gates: FeatureGates | None = None) -> list[str]:
    """What the object is refused for, each as one line."""
    problems = validate(KIND_OF[document["kind"]], document, old, gates)
    return [str(problem) for problem in problems if problem.is_error]


def warnings(document: dict[str, Any]) -> list[str]:
    """What is told without refusing."""
    return [str(problem) for problem in validate(KIND_OF[document["kind"]], document) if not problem.is_error]
