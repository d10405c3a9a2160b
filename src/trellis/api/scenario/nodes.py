"""Nodes of a Scenario: nodes that are always there, and node groups that scale."""

from __future__ import annotations

from typing import Annotated

from trellis.api.kinds.parts import ApiStruct, NodeTaint
from trellis.api.schema.fields import INT32_MAX, AmountText, Field, SpanText

DEFAULT_BOOT_TIME = "1m"

_NAME = {"required": True, "min_length": 1, "max_length": 63}
_SIZE = {"minimum": 0, "maximum": 10_000}


class ScenarioNodes(ApiStruct, frozen=True):
    """So many nodes alike."""

    name: Annotated[str, Field("Begins the names of these nodes.", **_NAME)] = ""
    count: Annotated[
        int | None,
        Field(
            "How many. Absent, for the last entry alone: enough for the first requests of all pods, and a third more.",
            minimum=1,
            maximum=100_000,
        ),
    ] = None
    cpu: Annotated[AmountText | None, Field("CPU that pods may request on one.", required=True)] = None
    memory: Annotated[AmountText | None, Field("Memory that pods may request on one.", required=True)] = None
    pods: Annotated[int | None, Field("Pods that one can hold. Absent: 110.", minimum=1, maximum=10_000)] = None
    labels: Annotated[dict[str, Annotated[str, Field(max_length=63)]] | None, Field("Labels.", max_properties=64)] = (
        None
    )
    taints: Annotated[list[NodeTaint] | None, Field("Taints.", max_items=16)] = None
    price: Annotated[
        float | None,
        Field(
            "Money for an hour of one. Absent: its CPU and memory at the prices of the scenario.",
            minimum=0,
            maximum=1_000_000,
        ),
    ] = None


class ScenarioNodeGroup(ApiStruct, frozen=True):
    """Nodes alike of which more can be had."""

    # A node is called after its group, with a dash and a number.
    name: Annotated[
        str,
        Field(
            "Begins the names of its nodes, and is the value of their label `kwok-nodegroup`.",
            required=True,
            min_length=1,
            max_length=55,
        ),
    ] = ""
    cpu: Annotated[AmountText | None, Field("CPU that pods may request on a node.", required=True)] = None
    memory: Annotated[AmountText | None, Field("Memory that pods may request on a node.", required=True)] = None
    pods: Annotated[int | None, Field("Pods that a node can hold. Absent: 110.", minimum=1, maximum=10_000)] = None
    labels: Annotated[dict[str, Annotated[str, Field(max_length=63)]] | None, Field("Labels.", max_properties=64)] = (
        None
    )
    taints: Annotated[list[NodeTaint] | None, Field("Taints.", max_items=16)] = None
    min_size: Annotated[int | None, Field("There are never fewer nodes. Absent: 0.", **_SIZE)] = None
    max_size: Annotated[int | None, Field("There are never more.", required=True, **_SIZE)] = None
    size: Annotated[int | None, Field("How many there are in the beginning. Absent: `minSize`.", **_SIZE)] = None
    boot_time: Annotated[
        SpanText | None, Field(f"From the order until pods can be placed. Absent: `{DEFAULT_BOOT_TIME}`.")
    ] = None
    price: Annotated[
        float | None,
        Field(
            "Money for an hour of a node, paid from the order on. Absent: its CPU and memory at the prices of the "
            "scenario.",
            minimum=0,
            maximum=1_000_000,
        ),
    ] = None
    priority: Annotated[
        int | None,
        Field(
            "Of several groups that would do, the highest is taken; of equals the one that is filled best, then the "
            "cheapest. Absent: 0.",
            minimum=-INT32_MAX,
            maximum=INT32_MAX,
        ),
    ] = None
