"""Nodes: allocatable resources, taints and conditions."""

from __future__ import annotations

import msgspec

from trellis.api.kube.meta import Condition, KubeObject
from trellis.api.kube.slices import NOTHING, Quantities, Slice, Time


class Taint(Slice, frozen=True):
    """What a pod must tolerate to be put here (or, with `NoExecute`, to stay)."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: Time | None = None


class NodeSpec(Slice, frozen=True):
    """A node's spec. `provider_id` ties it to the machine behind it."""

    provider_id: str = msgspec.field(name="providerID", default="")
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeSystemInfo(Slice, frozen=True):
    """What runs on the node. The kubelet's version decides whether its pods can be resized in place."""

    kernel_version: str = ""
    container_runtime_version: str = ""
    kubelet_version: str = ""
    operating_system: str = ""
    architecture: str = ""


class NodeStatus(Slice, frozen=True):
    """`allocatable` is what pods may request: the capacity less what the node keeps for itself."""

    capacity: Quantities = NOTHING
    allocatable: Quantities = NOTHING
    conditions: tuple[Condition, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()
    declared_features: tuple[str, ...] = ()


class Node(KubeObject, frozen=True):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
