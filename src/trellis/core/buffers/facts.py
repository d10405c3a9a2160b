"""What a Buffer is translated from beside its spec: facts about its target and its nodes, and the settings.

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

# The label by which nodes show their class. The kind alone decides: people write any group before it.
NODE_CLASS_LABELS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "NodePool": "karpenter.sh/nodepool",
        "ComputeClass": "cloud.google.com/compute-class",
        "CustomComputeClass": "cloud.google.com/compute-class",
        "MachineDeployment": "cluster.x-k8s.io/deployment-name",
        "KwokNodeGroup": "kwok-nodegroup",
    }
)

# What the smallest machines that people have for nodes leave beside their DaemonSets. For chunks that are larger than
# the nodes of a class no first node would ever come, and as soon as there is one it decides.
_SMALL_NODE: Final[Mapping[str, int]] = MappingProxyType({"cpu": 500, "memory": 2**30})


class BufferSettings(msgspec.Struct, frozen=True):
    """Settings of a translation.

    `node_class_labels` come before those that are known. `set_aside` are kinds of targets that another controller
    translates. `assumed_node` is what a node is taken to have, in millicores and bytes, while a class has none.
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
    where pods start boosted: a pod is placed by what it requests when it is made, so room for less would not take it.
    `last` is the shape that the Buffer had until now, for kinds without a template that have no pods at the moment.
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
    """The nodes of a class: of each resource, what the one with the least and the one with the most leaves for pods.

    `taints` are those that all of them have for good.
    """

    count: int = 0
    least: ResourceAmounts = _NONE
    most: ResourceAmounts = _NONE
    taints: tuple[Taint, ...] = ()


class TranslationFacts(msgspec.Struct, frozen=True):
    """All that a translation depends on. `filled` is what pods request that fill a dedicated Buffer."""

    target: TargetFacts | TargetProblem | None = None
    nodes: NodeClassFacts = NodeClassFacts()
    filled: ResourceAmounts = _NONE
