"""Pods, policies and LimitRanges for tests of sizing, as plain JSON and as the core reads them."""

from __future__ import annotations

from typing import Any

import msgspec

from support.builders.manifests import vpa
from support.json_patch import apply_patch
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.pods import PodSpec
from trellis.api.kube.policies import LimitRange
from trellis.api.resolve import EffectiveVpa, resolve_vpa
from trellis.core.cluster.json_patches import ResourceChange, build_resource_ops
from trellis.core.recommend.capping import NamespaceLimits, read_limit_ranges
from trellis.core.sizing import PodShape, PodSize

Document = dict[str, Any]


def container(
    name: str = "app", requests: Document | None = None, limits: Document | None = None, **fields: Any
) -> Document:
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value is not None}
    return {"name": name, "resources": resources, **fields}


def pod(*containers: Document, **spec: Any) -> Document:
    return {"metadata": {"uid": "u-1"}, "spec": {"containers": list(containers or (container(),)), **spec}}


def read_shape(document: Document) -> PodShape:
    return PodShape.from_spec(msgspec.convert(document["spec"], PodSpec))


def policies(*documents: Document) -> EffectiveVpa:
    document = vpa(resourcePolicy={"containerPolicies": list(documents)})
    return resolve_vpa(msgspec.convert(document, VerticalPodAutoscaler))


def limit_ranges(*items: Document) -> NamespaceLimits:
    return read_limit_ranges([msgspec.convert({"spec": {"limits": list(items)}}, LimitRange)])


def list_resource_changes(size: PodSize) -> list[ResourceChange]:
    return [
        ResourceChange(
            container.container.place,
            container.container.index,
            container.container.name,
            container.container.written,
            container.requests,
            container.limits,
        )
        for container in size.containers
    ]


def resized(document: Document, size: PodSize) -> Document:
    """The pod after the patch that a size comes to."""
    changed: Document = apply_patch(document, build_resource_ops(list_resource_changes(size)))
    return changed
