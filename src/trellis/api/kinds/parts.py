"""Structs that several of our kinds share: the base struct, target references, conditions, taints."""

from __future__ import annotations

from typing import Annotated

import msgspec

from trellis.api.schema.fields import Field, TimeText


class ApiStruct(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The base of every struct of our own kinds: camelCase on the wire, absent fields left out.

    `gc=False` for the reason that slices of other kinds have it: no cycle can pass through one.
    """


class TargetReference(ApiStruct, frozen=True):
    """Names an object of the same namespace."""

    api_version: Annotated[str, Field("API group and version of the target, e.g. `apps/v1`.", max_length=317)] = ""
    kind: Annotated[
        str, Field("Kind of the target, e.g. `Deployment`.", required=True, min_length=1, max_length=63)
    ] = ""
    name: Annotated[str, Field("Name of the target.", required=True, min_length=1, max_length=253)] = ""


class StatusCondition(ApiStruct, frozen=True):
    """A condition of the object, as of one generation."""

    type: Annotated[str, Field("Type of the condition.", required=True, max_length=316)] = ""
    status: Annotated[str, Field("Whether the condition holds.", required=True, enum=("True", "False", "Unknown"))] = ""
    observed_generation: Annotated[
        int | None, Field("The generation of the spec that the condition is about.", minimum=0, format="int64")
    ] = None
    last_transition_time: Annotated[TimeText | None, Field("When `status` last changed.", nullable=True)] = None
    reason: Annotated[str, Field("Reason of the condition, as one CamelCase word.", max_length=1024)] = ""
    message: Annotated[str, Field("Reason of the condition, as a sentence.", max_length=32768)] = ""


CONDITIONS_FIELD = Field("Conditions of the object, one for each type.", list_type="map", list_keys=("type",))


class NodeTaint(ApiStruct, frozen=True):
    """A taint, as in a Node."""

    key: Annotated[str, Field("The key.", required=True, min_length=1, max_length=317)] = ""
    value: Annotated[str | None, Field("The value.", max_length=63)] = None
    effect: Annotated[
        str,
        Field(
            "What happens to pods that do not tolerate it.",
            required=True,
            enum=("NoSchedule", "PreferNoSchedule", "NoExecute"),
        ),
    ] = ""
