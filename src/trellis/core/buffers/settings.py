"""By which figures are Buffers translated, beside what each of them says?"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

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
    """Settings of whoever translates.

    `node_class_labels` come before those that are known. `set_aside` are kinds of targets that another controller
    translates. `assumed_node` is what a node is taken to have, in millicores and bytes, while a class has none.
    """

    most_chunks: int = 5_000
    node_class_labels: Mapping[str, str] = NODE_CLASS_LABELS
    set_aside: frozenset[str] = frozenset()
    assumed_node: Mapping[str, int] = _SMALL_NODE

    def label_of(self, kind: str) -> str | None:
        """The label of a kind of node class; None if nobody knows it."""
        return self.node_class_labels.get(kind) or NODE_CLASS_LABELS.get(kind)
