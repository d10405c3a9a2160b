"""The fields that all declared node groups have, whatever makes their nodes."""

from __future__ import annotations

from typing import Annotated, Final

from trellis.api.kinds.parts import ApiStruct, NodeTaint
from trellis.api.schema.fields import INT32_MAX, AmountText, Field

DEFAULT_PODS: Final = "110"
LARGEST_GROUP: Final = 100_000
# A pool of devices has at most 128 in each of its slices.
MOST_DEVICES: Final = 10_000

SIZE_BOUNDS: Final = {"minimum": 0, "maximum": LARGEST_GROUP}
SHAPE_BOUNDS: Final = {"max_properties": 32}


class DeclaredDevices(ApiStruct, frozen=True):
    """Devices of a node that a driver of Dynamic Resource Allocation publishes."""

    device_class: Annotated[
        str,
        Field("DeviceClass by which pods' claims request them.", required=True, min_length=1, max_length=253),
    ] = ""
    driver: Annotated[
        str | None,
        Field("Driver that publishes them. Absent: the name of the class.", min_length=1, max_length=63),
    ] = None
    count: Annotated[int | None, Field("Number of them on a node.", required=True, minimum=1, maximum=MOST_DEVICES)] = (
        None
    )


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
    devices: Annotated[
        list[DeclaredDevices] | None,
        Field(
            "Devices of a node for resource claims (Dynamic Resource Allocation), by device class and count. Absent: "
            "none. Devices that pods request as extended resources are in `resources`.",
            max_items=16,
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
