"""ClaimNodeGroup, `nodes.trellis.x-k8s.io/v1alpha1`: a node group whose machines Karpenter launches for NodeClaims.

A document in a ConfigMap, or in a file to be put into one; no API server serves the kind.
"""

from __future__ import annotations

from typing import Annotated, Final

from trellis.api.kinds.node_group import NodeGroupSpec
from trellis.api.kinds.parts import ApiStruct, NodeTaint
from trellis.api.kube.meta import ObjectMeta
from trellis.api.schema.fields import Field

# The label by which NodeClaims, and the nodes of their machines, show their group.
CLAIM_GROUP_LABEL: Final = "trellis.x-k8s.io/node-group"
# The domain of Karpenter's own labels and taints, and the label of what one of its NodePools has ordered.
KARPENTER_DOMAIN: Final = "karpenter.sh"
NODE_POOL_LABEL: Final = f"{KARPENTER_DOMAIN}/nodepool"
CAPACITY_TYPE_LABEL: Final = f"{KARPENTER_DOMAIN}/capacity-type"

OPERATORS_WITH_VALUES: Final = ("In", "NotIn")
OPERATORS_WITHOUT_VALUES: Final = ("Exists", "DoesNotExist")
OPERATORS_WITH_NUMBER: Final = ("Gt", "Lt", "Gte", "Lte")


class ClaimRequirement(ApiStruct, frozen=True):
    """A requirement of a label of the machine, as in a NodeClaim."""

    key: Annotated[str, Field("The label.", required=True, min_length=1, max_length=316)] = ""
    operator: Annotated[
        str,
        Field(
            "How the label relates to the values.",
            required=True,
            enum=(*OPERATORS_WITH_VALUES, *OPERATORS_WITHOUT_VALUES, *OPERATORS_WITH_NUMBER),
        ),
    ] = ""
    values: Annotated[
        list[Annotated[str, Field(max_length=63)]] | None,
        Field(
            "The values: at least one with `In` and `NotIn`, none with `Exists` and `DoesNotExist`, one whole number "
            "with `Gt`, `Lt`, `Gte` and `Lte`.",
            max_items=1_000,
        ),
    ] = None
    min_values: Annotated[
        int | None,
        Field("How many of the values Karpenter has to consider at least. Absent: 1.", minimum=1, maximum=50),
    ] = None


class NodeClassReference(ApiStruct, frozen=True):
    """The object with the settings of Karpenter's cloud provider, such as an EC2NodeClass."""

    group: Annotated[
        str, Field("API group, e.g. `karpenter.k8s.aws`.", required=True, min_length=1, max_length=253)
    ] = ""
    kind: Annotated[str, Field("Kind, e.g. `EC2NodeClass`.", required=True, min_length=1, max_length=63)] = ""
    name: Annotated[str, Field("Name.", required=True, min_length=1, max_length=253)] = ""


class ClaimNodeGroupSpec(NodeGroupSpec, frozen=True):
    """The nodes of the group, how many there may be, and what their NodeClaims require."""

    node_class_ref: Annotated[NodeClassReference | None, Field("Node class of the machines.", required=True)] = None
    requirements: Annotated[
        list[ClaimRequirement] | None,
        Field(
            "Requirements of the machine. Each node must offer at least `resources`, so they select instance types of "
            "one size. A label that they leave one value becomes a label of the group.",
            max_items=100,
        ),
    ] = None
    startup_taints: Annotated[
        list[NodeTaint] | None,
        Field("Taints that another component removes from a node while it starts.", max_items=16),
    ] = None


class ClaimNodeGroup(ApiStruct, frozen=True):
    """A node group whose machines Karpenter launches, one for each NodeClaim, with any of its cloud providers."""

    api_version: str = "nodes.trellis.x-k8s.io/v1alpha1"
    kind: str = "ClaimNodeGroup"
    metadata: ObjectMeta = ObjectMeta()
    spec: ClaimNodeGroupSpec = ClaimNodeGroupSpec()
