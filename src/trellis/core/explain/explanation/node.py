"""Parts about a node, and about the placement of pods and chunks without one, with the figures behind decisions.

Amounts are quantities, and times are RFC 3339.
"""

from __future__ import annotations

from collections.abc import Mapping

from trellis.base.reasons import Reason
from trellis.core.explain.explanation.values import ExplanationPart, ObstaclePart, QuantityTexts, ReasonPart


class NodeGroupPart(ExplanationPart, frozen=True):
    """The group of a node: how many instances it has been asked for, and how many it may have.

    `state` is how far the node's own instance is, and `since` when it got there.
    """

    name: str
    state: str
    since: str = ""
    size: int = 0
    least: int = 0
    most: int = 0
    hourly: float = 0.0


class ResourceSharePart(ExplanationPart, frozen=True):
    """How much of a resource the pods on a node ask for, and how much it offers."""

    resource: str
    requested: str
    offered: str


class NodePodPart(ExplanationPart, frozen=True):
    """A pod on a node. Its `fate`, should the node go, is to be `moved` or to `stay`; or it is `fixed` or `going`.

    `fixed` are pods that belong to their node, `going` those that are deleted already. `held` says what forbids that it
    is moved now.
    """

    namespace: str
    name: str
    fate: str
    requests: QuantityTexts = {}
    held: ReasonPart | None = None


class NodePart(ExplanationPart, frozen=True):
    """A node. `outcome` is `Kept`, `Unneeded` or `Leaving`, and empty if not enough is known for a decision.

    `used` is the largest share of a resource that pods request; up to `threshold` a node is underused. `since` is when
    the node became unneeded or began to leave, `next_check` when the decision may become another, and `later_decision`
    the decision at that time if nothing else changes. `chunks` counts the chunks on the node by Buffer. `avoided` says
    that the scheduler prefers other nodes, by the soft taint of unneeded nodes.
    """

    name: str
    ready: bool = False
    outcome: str = ""
    decision: ReasonPart | None = None
    used: float = 0.0
    threshold: float = 0.0
    since: str = ""
    next_check: str = ""
    later_decision: ReasonPart | None = None
    group: NodeGroupPart | None = None
    shares: tuple[ResourceSharePart, ...] = ()
    pods: tuple[NodePodPart, ...] = ()
    chunks: Mapping[str, int] = {}
    avoided: bool = False


class GroupRefusalPart(ExplanationPart, frozen=True):
    """Why node groups are excluded; `resource` is the resource that their nodes lack, or the label."""

    reason: Reason
    groups: tuple[str, ...]
    resource: str = ""


class PlacementPart(ExplanationPart, frozen=True):
    """The placement of a Buffer's chunks, or of equivalent pods, by the node autoscaler.

    Of `count`, `ready` fit on ready nodes (`nodes` has them by name where known) and `upcoming` on nodes that are
    ordered; for others, nodes of groups are `ordered`; `unplaced` fit nowhere. `orders` are all nodes of this pass.
    `obstacles` say why existing nodes take no more.
    """

    decision: ReasonPart
    count: int
    ready: int = 0
    upcoming: int = 0
    ordered: Mapping[str, int] = {}
    unplaced: int = 0
    nodes: Mapping[str, int] = {}
    orders: Mapping[str, int] = {}
    refused: tuple[GroupRefusalPart, ...] = ()
    obstacles: tuple[ObstaclePart, ...] = ()
