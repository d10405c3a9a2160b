"""KwokNodeGroup, `nodes.trellis.x-k8s.io/v1alpha1`: a node group whose nodes kwok simulates.

A document in a ConfigMap, or in a file to be put into one; no API server serves the kind. It is declared like the
kinds that are served, so that the same code reads, validates and documents it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from trellis.api.kinds.node_group import SHAPE_BOUNDS, SIZE_BOUNDS, NodeGroupSpec
from trellis.api.kinds.parts import ApiStruct
from trellis.api.kube.meta import ObjectMeta
from trellis.api.schema.fields import AmountText, Field, SpanText

# The label by which nodes show their group. Buffers find the nodes of a class by it too.
GROUP_LABEL: Final = "kwok-nodegroup"
# The label and the annotation by which kwok knows its nodes; the value is `fake`.
KWOK_KEY: Final = "kwok.x-k8s.io/node"
# Keeps pods away from a node that has been ordered and is not up yet.
STARTING_TAINT: Final = "trellis.x-k8s.io/starting"
# Annotations of a node about its order: when, how long it boots, and what will keep it from coming up, if anything.
# The last is settled with the order, whatever the group says later.
ORDERED_AT_ANNOTATION: Final = "trellis.x-k8s.io/ordered-at"
BOOT_SECONDS_ANNOTATION: Final = "trellis.x-k8s.io/boot-seconds"
FAILURE_MODE_ANNOTATION: Final = "trellis.x-k8s.io/kwok-mishap"

DEFAULT_BOOT_TIME: Final = "1m"


class GroupFailureMode(StrEnum):
    """How a node group fails, for tests."""

    REFUSE_ORDERS = "RefuseOrders"
    LOSE_ORDERS = "LoseOrders"
    HANG = "Hang"
    NEVER_COME_UP = "NeverComeUp"
    FAIL_TO_START = "FailToStart"
    OTHER_SHAPE = "OtherShape"


class GroupFailure(ApiStruct, frozen=True):
    """A failure to simulate, for tests of node autoscalers."""

    how: Annotated[
        str,
        Field(
            "`RefuseOrders`: orders fail with an error. `LoseOrders`: orders are confirmed, and no node "
            "is created. `Hang`: orders are never answered. `NeverComeUp`: nodes are created and never "
            "become ready. `FailToStart`: nodes fail at the end of their boot time. `OtherShape`: nodes "
            "have the resources in `resources`.",
            required=True,
            enum=tuple(GroupFailureMode),
        ),
    ] = ""
    after: Annotated[
        int | None,
        Field("Number of nodes of the group without the failure; further nodes have it. Absent: 0.", **SIZE_BOUNDS),
    ] = None
    resources: Annotated[
        dict[str, AmountText] | None, Field("Resources of the nodes with `OtherShape`.", **SHAPE_BOUNDS)
    ] = None


class KwokNodeGroupSpec(NodeGroupSpec, frozen=True):
    """The nodes of the group, how many there may be, and how they fail."""

    boot_time: Annotated[
        SpanText | None, Field(f"Time from the order until the node starts. Absent: `{DEFAULT_BOOT_TIME}`.")
    ] = None
    fails: Annotated[GroupFailure | None, Field("Failure to simulate. Absent: none.")] = None


class KwokNodeGroup(ApiStruct, frozen=True):
    """A node group without machines, whose kubelets kwok simulates."""

    api_version: str = "nodes.trellis.x-k8s.io/v1alpha1"
    kind: str = "KwokNodeGroup"
    metadata: ObjectMeta = ObjectMeta()
    spec: KwokNodeGroupSpec = KwokNodeGroupSpec()
