"""Karpenter's NodeClaim (karpenter.sh): the order of one machine, and how far it is."""

from __future__ import annotations

import msgspec

from trellis.api.kube.meta import Condition, KubeObject
from trellis.api.kube.slices import Slice


class NodeClaimStatus(Slice, frozen=True):
    """`node_name` is known once the node has registered, `provider_id` once the machine has been launched."""

    node_name: str = ""
    provider_id: str = msgspec.field(name="providerID", default="")
    conditions: tuple[Condition, ...] = ()


class NodeClaim(KubeObject, frozen=True):
    """A claim. Its spec never changes, so nothing of it is read."""

    status: NodeClaimStatus = NodeClaimStatus()

    def find_condition(self, kind: str) -> Condition | None:
        """The condition of a type, if the claim has it."""
        return next((condition for condition in self.status.conditions if condition.type == kind), None)

    def is_true(self, kind: str) -> bool:
        """Whether a condition holds."""
        condition = self.find_condition(kind)
        return condition is not None and condition.status == "True"
