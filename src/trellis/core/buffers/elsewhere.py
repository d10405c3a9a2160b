"""How is a Buffer said as one of upstream's CapacityBuffers?

For clusters whose nodes Cluster Autoscaler or Karpenter manages: one CapacityBuffer and one PodTemplate per Buffer,
made from its translation. The number is final, so that a schedule, bounds and what fills a dedicated Buffer are in it.
Upstream always keeps capacity on top of what runs. Of a Buffer that counts whether used or not, only what pods leave of
it is translated, and its number changes as they come and go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from trellis.api.buffer import ACTIVE_CAPACITY
from trellis.core.buffers.capacity_buffers import managed_template_name
from trellis.core.buffers.translation import Translation

# A template must name an image, and nothing ever runs this one.
_NO_IMAGE: Final = "none"
# What the strictest of the pod security standards asks for: whoever tries a pod of the template must not be refused.
_HARMLESS_POD: Final = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
_HARMLESS: Final = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


class Elsewhere(msgspec.Struct, frozen=True):
    """The spec of the CapacityBuffer and the PodTemplate it refers to.

    Names are those of the Buffer; namespace and owner are for the writer to add.
    """

    spec: Mapping[str, Any]
    template: Mapping[str, Any]


def said_elsewhere(name: str, translation: Translation) -> Elsewhere | None:
    """The same room in upstream's words; None if the Buffer is not known to stand for any pod."""
    if translation.pod_spec is None:
        return None
    return Elsewhere(
        spec={**empty_elsewhere(name), "replicas": translation.chunks},
        template=pod_template(template_name(name), translation),
    )


def empty_elsewhere(name: str) -> dict[str, Any]:
    """The spec of a CapacityBuffer that keeps nothing at the moment."""
    return {"provisioningStrategy": ACTIVE_CAPACITY, "podTemplateRef": {"name": template_name(name)}, "replicas": 0}


def template_name(buffer: str) -> str:
    """The template of a Buffer; never that of the CapacityBuffer of the same name, which upstream manages."""
    return managed_template_name(f"of-{buffer}")


def pod_template(name: str, translation: Translation) -> dict[str, Any]:
    """A PodTemplate as the API server takes it, and pods of it."""
    spec = {**(translation.pod_spec or {}), "securityContext": _HARMLESS_POD}
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = [_container(each) for each in spec[field]]
    if "resources" in spec:
        spec["resources"] = _limited(spec["resources"])
    # Its admission gives a pod the priority of its class, and refuses one that says so itself.
    spec.pop("priority", None)
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": name},
        "template": {"metadata": {"labels": dict(translation.labels)}, "spec": spec},
    }


def _container(container: Mapping[str, Any]) -> dict[str, Any]:
    resources = _limited(container.get("resources", {}))
    return {**container, "image": _NO_IMAGE, "resources": resources, "securityContext": _HARMLESS}


def _limited(resources: Mapping[str, Any]) -> dict[str, Any]:
    """With requests as limits: devices and quotas of limits do not go without, and no scheduler reads them."""
    requests = resources.get("requests", {})
    return {"requests": requests, "limits": requests} if requests else {}
