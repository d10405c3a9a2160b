"""The parts that several of our kinds are made of: references, conditions, selectors, metadata."""

from __future__ import annotations

from typing import Annotated

import msgspec

from trellis.api.fields import Field, TimeText
from trellis.base.selectors import MatchExpression, Selector, selector_from_object


class Part(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The base of every struct of our own kinds: camelCase on the wire, absent fields left out.

    `gc=False` for the reason that slices of other kinds have it: no cycle can pass through one.
    """


class TargetReference(Part, frozen=True):
    """Names an object of the same namespace."""

    api_version: Annotated[str, Field("API group and version of the target, e.g. `apps/v1`.", max_length=317)] = ""
    kind: Annotated[
        str, Field("Kind of the target, e.g. `Deployment`.", required=True, min_length=1, max_length=63)
    ] = ""
    name: Annotated[str, Field("Name of the target.", required=True, min_length=1, max_length=253)] = ""


class Condition(Part, frozen=True):
    """One aspect of an object's state, as of one generation."""

    type: Annotated[str, Field("What the condition is about.", required=True, max_length=316)] = ""
    status: Annotated[str, Field("Whether the condition holds.", required=True, enum=("True", "False", "Unknown"))] = ""
    observed_generation: Annotated[
        int | None, Field("The generation of the object that the condition was made from.", minimum=0, format="int64")
    ] = None
    last_transition_time: Annotated[TimeText | None, Field("When `status` last changed.", nullable=True)] = None
    reason: Annotated[str, Field("Why, in one CamelCase word.", max_length=1024)] = ""
    message: Annotated[str, Field("Why, in a sentence.", max_length=32768)] = ""


CONDITIONS = Field("The state of the object, one entry per type.", list_type="map", list_keys=("type",))


class SelectorRequirement(Part, frozen=True):
    """One expression over labels."""

    key: Annotated[str, Field("The label.", required=True, min_length=1, max_length=317)] = ""
    operator: Annotated[
        str,
        Field("How the label is compared.", required=True, enum=("In", "NotIn", "Exists", "DoesNotExist")),
    ] = ""
    values: Annotated[
        list[Annotated[str, Field(max_length=63)]] | None,
        Field("The values of `In` and `NotIn`.", max_items=64, list_type="atomic"),
    ] = None


class LabelSelector(Part, frozen=True):
    """Chooses objects by their labels; all parts must hold, and no part at all chooses everything."""

    match_labels: Annotated[
        dict[str, Annotated[str, Field(max_length=63)]] | None,
        Field("Labels with exactly these values.", max_properties=64),
    ] = None
    match_expressions: Annotated[
        list[SelectorRequirement] | None,
        Field("Further expressions.", max_items=64, list_type="atomic"),
    ] = None

    def selector(self) -> Selector:
        """The selector it stands for; raises `InvalidSelector` with the part that cannot be used."""
        expressions = [
            MatchExpression(item.key, item.operator, tuple(item.values or ())) for item in self.match_expressions or ()
        ]
        return selector_from_object(self.match_labels, expressions)
