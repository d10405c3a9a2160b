"""Builds the description of a declared group from the fields that all declarations have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trellis.api.kinds.node_group import DEFAULT_PODS, NodeGroupSpec
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.nodes import Node
from trellis.core.cluster.node_manifest import build_node_manifest
from trellis.core.nodes.node_groups import GroupDevices, NodeGroup, estimate_price

# The kubelet version of nodes: the first one whose API server reads the features that nodes declare.
_KUBELET: Final = "v1.36.0"
_FEATURES: Final = ("InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers")


def build_node_document(
    spec: NodeGroupSpec, labels: Mapping[str, str], resources: Mapping[str, str | int] | None
) -> dict[str, Any]:
    """A ready Node without a name, with these labels in addition to those of its group."""
    offered = {"pods": DEFAULT_PODS} | {name: str(amount) for name, amount in (resources or {}).items()}
    document = build_node_manifest(offered, {**(spec.labels or {}), **labels}, spec.taints, _KUBELET)
    document["status"]["declaredFeatures"] = list(_FEATURES)
    return document


def build_node_group(name: str, spec: NodeGroupSpec, document: Mapping[str, Any], boot_seconds: float) -> NodeGroup:
    """The group whose nodes are like the Node in `document`."""
    template = convert_object(dict(document), Node)
    return NodeGroup(
        name=name,
        template=template,
        max_size=spec.max_size or 0,
        min_size=spec.min_size or 0,
        price=spec.price if spec.price is not None else estimate_price(template),
        boot_seconds=boot_seconds,
        priority=spec.priority or 0,
        devices=tuple(
            GroupDevices(devices.device_class, devices.driver or devices.device_class, devices.count or 0)
            for devices in spec.devices or ()
        ),
    )
