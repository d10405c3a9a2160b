"""KwokNodeGroup, `nodes.trellis.x-k8s.io/v1alpha1`: a node group whose nodes kwok simulates.

A document in a ConfigMap, or in a file to be put into one; no API server serves the kind. It is declared like the
kinds that are served, so that the same code reads, validates and documents it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from trellis.api.kinds.parts import ApiStruct, NodeTaint
from trellis.api.kube.meta import ObjectMeta
from trellis.api.schema.fields import INT32_MAX, AmountText, Field, SpanText

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
DEFAULT_PODS: Final = "110"
LARGEST_GROUP: Final = 100_000

_SIZE = {"minimum": 0, "maximum": LARGEST_GROUP}
_SHAPE = {"max_properties": 32}


class GroupFailureMode(StrEnum):
    """How a group fails its users."""

    REFUSE_ORDERS = "RefuseOrders"
    LOSE_ORDERS = "LoseOrders"
    HANG = "Hang"
    NEVER_COME_UP = "NeverComeUp"
    FAIL_TO_START = "FailToStart"
    OTHER_SHAPE = "OtherShape"


class GroupFailure(ApiStruct, frozen=True):
    """What goes wrong, for tests of whoever orders nodes."""

    how: Annotated[
        str,
        Field(
            "`RefuseOrders`: orders are answered with an error. `LoseOrders`: they are confirmed, and no node is ever "
            "made. `Hang`: orders are never answered. `NeverComeUp`: nodes are made and stay as they are. "
            "`FailToStart`: they fail at the end of their boot time. `OtherShape`: they come up with what `resources` "
            "says.",
            required=True,
            enum=tuple(GroupFailureMode),
        ),
    ] = ""
    after: Annotated[
        int | None,
        Field("So many nodes of the group are well; it happens to those beyond them. Absent: 0.", **_SIZE),
    ] = None
    resources: Annotated[
        dict[str, AmountText] | None, Field("What nodes have instead, with `OtherShape`.", **_SHAPE)
    ] = None


class KwokNodeGroupSpec(ApiStruct, frozen=True):
    """What each node is like, and how many there may be."""

    resources: Annotated[
        dict[str, AmountText] | None,
        Field(
            "What pods may request on a node: `cpu`, `memory`, and perhaps `pods` (absent: 110), `ephemeral-storage`, "
            "`hugepages-*` and extended resources.",
            required=True,
            **_SHAPE,
        ),
    ] = None
    labels: Annotated[
        dict[str, Annotated[str, Field(max_length=63)]] | None,
        Field("Labels, beside those that every node has.", max_properties=64),
    ] = None
    taints: Annotated[list[NodeTaint] | None, Field("Taints.", max_items=16)] = None
    min_size: Annotated[int | None, Field("No node is given back below this. Absent: 0.", **_SIZE)] = None
    max_size: Annotated[int | None, Field("No node is ordered above this.", required=True, **_SIZE)] = None
    price: Annotated[
        float | None,
        Field(
            "Money for an hour of one. Absent: its CPU and memory at the example prices.", minimum=0, maximum=1_000_000
        ),
    ] = None
    boot_time: Annotated[
        SpanText | None, Field(f"From the order until kwok takes the node over. Absent: `{DEFAULT_BOOT_TIME}`.")
    ] = None
    priority: Annotated[
        int | None,
        Field(
            "Which groups come first where orders go by priority; higher is earlier. Absent: 0.",
            minimum=-INT32_MAX,
            maximum=INT32_MAX,
        ),
    ] = None
    fails: Annotated[GroupFailure | None, Field("What goes wrong. Absent: nothing.")] = None


class KwokNodeGroup(ApiStruct, frozen=True):
    """A group of nodes without machines: kwok plays their kubelets."""

    api_version: str = "nodes.trellis.x-k8s.io/v1alpha1"
    kind: str = "KwokNodeGroup"
    metadata: ObjectMeta = ObjectMeta()
    spec: KwokNodeGroupSpec = KwokNodeGroupSpec()
