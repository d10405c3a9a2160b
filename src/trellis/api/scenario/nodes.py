"""Nodes of a Scenario: nodes that are always there, and node groups that scale."""

from __future__ import annotations

from typing import Annotated

from trellis.api.kinds.parts import ApiStruct, NodeTaint
from trellis.api.schema.fields import INT32_MAX, AmountText, Field, SpanText

DEFAULT_BOOT_TIME = "1m"

_NAME = {"required": True, "min_length": 1, "max_length": 63}
_SIZE = {"minimum": 0, "maximum": 10_000}


class ScenarioNodes(ApiStruct, frozen=True):
    """A number of identical nodes."""

    name: Annotated[str, Field("Prefix of the nodes' names.", **_NAME)] = ""
    count: Annotated[
        int | None,
        Field(
            "Number of nodes. May be absent in the last entry: then enough for the initial requests of "
            "all pods, plus a third.",
            minimum=1,
            maximum=100_000,
        ),
    ] = None
    cpu: Annotated[AmountText | None, Field("Allocatable CPU of a node.", required=True)] = None
    memory: Annotated[AmountText | None, Field("Allocatable memory of a node.", required=True)] = None
    pods: Annotated[int | None, Field("Maximum number of pods on a node. Absent: 110.", minimum=1, maximum=10_000)] = (
        None
    )
    labels: Annotated[
        dict[str, Annotated[str, Field(max_length=63)]] | None, Field("Labels of the nodes.", max_properties=64)
    ] = None
    taints: Annotated[list[NodeTaint] | None, Field("Taints of the nodes.", max_items=16)] = None
    price: Annotated[
        float | None,
        Field(
            "Price of a node per hour. Absent: its CPU and memory at the scenario's prices.",
            minimum=0,
            maximum=1_000_000,
        ),
    ] = None


class ScenarioNodeGroup(ApiStruct, frozen=True):
    """A group of identical nodes that the node autoscaler scales."""

    # A node is called after its group, with a dash and a number.
    name: Annotated[
        str,
        Field(
            "Name of the group: the prefix of its nodes' names, and the value of their label `kwok-nodegroup`.",
            required=True,
            min_length=1,
            max_length=55,
        ),
    ] = ""
    cpu: Annotated[AmountText | None, Field("Allocatable CPU of a node.", required=True)] = None
    memory: Annotated[AmountText | None, Field("Allocatable memory of a node.", required=True)] = None
    pods: Annotated[int | None, Field("Maximum number of pods on a node. Absent: 110.", minimum=1, maximum=10_000)] = (
        None
    )
    labels: Annotated[
        dict[str, Annotated[str, Field(max_length=63)]] | None, Field("Labels of the nodes.", max_properties=64)
    ] = None
    taints: Annotated[list[NodeTaint] | None, Field("Taints of the nodes.", max_items=16)] = None
    min_size: Annotated[int | None, Field("Minimum number of nodes. Absent: 0.", **_SIZE)] = None
    max_size: Annotated[int | None, Field("Maximum number of nodes.", required=True, **_SIZE)] = None
    size: Annotated[int | None, Field("Number of nodes at the start of the scenario. Absent: `minSize`.", **_SIZE)] = (
        None
    )
    boot_time: Annotated[
        SpanText | None,
        Field(f"Time from the order of a node until pods can be scheduled on it. Absent: `{DEFAULT_BOOT_TIME}`."),
    ] = None
    price: Annotated[
        float | None,
        Field(
            "Price of a node per hour, charged from the order. Absent: its CPU and memory at the scenario's prices.",
            minimum=0,
            maximum=1_000_000,
        ),
    ] = None
    priority: Annotated[
        int | None,
        Field(
            "Priority of the group; of several suitable groups the one with the highest priority is "
            "scaled up, on a tie the one with the least waste, then the cheapest. Absent: 0.",
            minimum=-INT32_MAX,
            maximum=INT32_MAX,
        ),
    ] = None
