"""The input of a translation beside the Buffer: facts about its target and its nodes, and the settings.

Facts are frozen and can be compared: as long as they are equal, and no window of a schedule opens or closes, the
translation is the same, and need not be made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from trellis.api.kube.nodes import Taint
from trellis.api.kube.pods import Pod, PodTemplateSpec
from trellis.core.cluster.target_problems import TargetProblem
from trellis.core.recommend.amounts import ResourceAmounts
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.sizing.governors import Governor

# The label by which nodes show their class. The kind alone decides, in any API group.
NODE_CLASS_LABELS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "NodePool": "karpenter.sh/nodepool",
        "ComputeClass": "cloud.google.com/compute-class",
        "CustomComputeClass": "cloud.google.com/compute-class",
        "MachineDeployment": "cluster.x-k8s.io/deployment-name",
        "KwokNodeGroup": "kwok-nodegroup",
        "ClaimNodeGroup": "trellis.x-k8s.io/node-group",
    }
)

# The allocatable of the smallest usual machines without their DaemonSets. For chunks larger than the nodes of a class
# no first node would ever be added; the first node of the class replaces this size.
_SMALL_NODE: Final[Mapping[str, int]] = MappingProxyType({"cpu": 500, "memory": 2**30})


class BufferSettings(msgspec.Struct, frozen=True):
    """Settings of a translation.

    `node_class_labels` take precedence over the built-in ones. `set_aside` are kinds of targets that another controller
    translates. `assumed_node` is the size of a node, in millicores and bytes, while a class has no node.
    """

    most_chunks: int = 5_000
    node_class_labels: Mapping[str, str] = NODE_CLASS_LABELS
    set_aside: frozenset[str] = frozenset()
    assumed_node: Mapping[str, int] = _SMALL_NODE

    def get_label(self, kind: str) -> str | None:
        """The label of a kind of node class; None if it is unknown."""
        return self.node_class_labels.get(kind) or NODE_CLASS_LABELS.get(kind)


_NONE: Mapping[str, int] = {}


class TargetFacts(msgspec.Struct, frozen=True):
    """A target as it is now.

    `replicas` are those of the status of its scale, or a Job's parallelism. `pod` is its newest live pod; `template`
    is as the API server would store a pod of it, or as it is written if the server refused that, which `refusal` says.
    `governor` is what sizes its new pods within `limits`. `boosts` are the millicores with which containers start,
    where pods start boosted: a pod is scheduled by the requests it is created with, and a smaller chunk would not hold
    it. `last` is the previous shape of the Buffer, for kinds without a template that have no pods at the moment.
    """

    replicas: int | None = None
    pod: Pod | None = None
    template: PodTemplateSpec | None = None
    refusal: str = ""
    governor: Governor | None = None
    limits: NamespaceLimits = NamespaceLimits()
    boosts: ResourceAmounts = _NONE
    last: PodTemplateSpec | None = None


class NodeClassFacts(msgspec.Struct, frozen=True):
    """The nodes of a class: the least and the most free capacity of any node, by resource.

    `taints` are the permanent taints that all of them have.
    """

    count: int = 0
    least: ResourceAmounts = _NONE
    most: ResourceAmounts = _NONE
    taints: tuple[Taint, ...] = ()


class TranslationFacts(msgspec.Struct, frozen=True):
    """All facts that a translation depends on. `filled` is the requests of pods that fill a dedicated Buffer."""

    target: TargetFacts | TargetProblem | None = None
    nodes: NodeClassFacts = NodeClassFacts()
    filled: ResourceAmounts = _NONE
