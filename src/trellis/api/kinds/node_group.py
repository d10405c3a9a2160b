"""The fields that all declared node groups have, whatever makes their nodes."""

from __future__ import annotations

from typing import Annotated, Final

from trellis.api.kinds.parts import ApiStruct, NodeTaint
from trellis.api.schema.fields import INT32_MAX, AmountText, Field

DEFAULT_PODS: Final = "110"
LARGEST_GROUP: Final = 100_000

SIZE_BOUNDS: Final = {"minimum": 0, "maximum": LARGEST_GROUP}
SHAPE_BOUNDS: Final = {"max_properties": 32}


class NodeGroupSpec(ApiStruct, frozen=True):
    """The nodes of a group, and how many there may be."""

    resources: Annotated[
        dict[str, AmountText] | None,
        Field(
            "Allocatable resources of a node: `cpu`, `memory`, and optionally `pods` (absent: 110), "
            "`ephemeral-storage`, `hugepages-*` and extended resources.",
            required=True,
            **SHAPE_BOUNDS,
        ),
    ] = None
    labels: Annotated[
        dict[str, Annotated[str, Field(max_length=63)]] | None,
        Field("Labels, in addition to those of every node.", max_properties=64),
    ] = None
    taints: Annotated[list[NodeTaint] | None, Field("Taints.", max_items=16)] = None
    min_size: Annotated[int | None, Field("Minimum number of nodes. Absent: 0.", **SIZE_BOUNDS)] = None
    max_size: Annotated[int | None, Field("Maximum number of nodes.", required=True, **SIZE_BOUNDS)] = None
    price: Annotated[
        float | None,
        Field(
            "Price of a node for an hour. Absent: its CPU and memory at the example prices.",
            minimum=0,
            maximum=1_000_000,
        ),
    ] = None
    priority: Annotated[
        int | None,
        Field(
            "Priority of the group for the expander `priority`; higher is preferred. Absent: 0.",
            minimum=-INT32_MAX,
            maximum=INT32_MAX,
        ),
    ] = None
