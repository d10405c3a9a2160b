"""Node groups of Karpenter's NodeClaims on a real control plane, beside the real Karpenter."""

from __future__ import annotations

from typing import Any, Final

from support.cluster.nodes import ACCOUNT, NodeGroups
from support.worlds.providers.node_claims import claim_group
from testbed.access.rights import wait_until_granted
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.errors import Refused
from testbed.karpenter import running
from trellis.api.kinds.claim_node_group import CLAIM_GROUP_LABEL
from trellis.providers.node_claims.instances import REPORT_FINALIZER

# Node classes by what becomes of their machines: nodes after two seconds or six, nodes that never register, and no such
# class.
QUICK_CLASS: Final = "quick"
SLOW_CLASS: Final = "slow"
DEAD_CLASS: Final = "dead"
MISSING_CLASS: Final = "missing"
_CLASSES: Final = {QUICK_CLASS: "2s", SLOW_CLASS: "6s", DEAD_CLASS: "1000s"}
_CLASS_OF_FAILURE: Final = {"RefuseOrders": MISSING_CLASS, "FailToStart": DEAD_CLASS}

_ROLE: Final[Json] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "trellis-nodes-karpenter"},
    "rules": [
        {
            "apiGroups": ["karpenter.sh"],
            "resources": ["nodeclaims"],
            "verbs": ["list", "watch", "create", "patch", "delete"],
        }
    ],
}
_BINDING: Final[Json] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "trellis-nodes-karpenter"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "trellis-nodes-karpenter"},
    "subjects": [{"kind": "ServiceAccount", "name": "trellis-nodes", "namespace": "kube-system"}],
}


def create_node_classes(cluster: Cluster) -> None:
    """The node classes of all tests."""
    for name, delay in _CLASSES.items():
        cluster.api.apply(running.build_node_class(name, delay))


class ClaimNodeGroups(NodeGroups):
    """Groups of small nodes of one namespace, as `NodeGroups`, in a cluster in which Karpenter runs.

    In place of `bootTime` and `fails` a group has a node class: nodes register after two seconds, never, or the class
    does not exist. Start `trellis nodes` with `flags`.
    """

    def _build_group(self, name: str, **spec: Any) -> Json:
        usual: Json = {
            "node_class": QUICK_CLASS,
            "minSize": 0,
            "maxSize": 5,
            "resources": {"cpu": "2", "memory": "4Gi"},
            "taints": [{"key": self.namespace, "effect": "NoSchedule"}],
            "labels": {"node_groups": self.group},
            "requirements": [require(running.SMALL)],
        }
        return claim_group(name, **{**usual, **spec})

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of `trellis nodes` by which it finds these groups."""
        return ("--cloud-provider=karpenter", f"--karpenter-node-groups={self.namespace}/groups")

    def declare_with_failing(self, how: str) -> None:
        """Two groups, of which the one that is preferred fails: it refuses orders, or its nodes fail to start."""
        self._apply(
            [
                self._build_group(self.failing_group, price=0.1, node_class=_CLASS_OF_FAILURE[how]),
                self._build_group(self.group, price=1.0),
            ]
        )

    def declare_all(self, *groups: Json) -> None:
        """Groups by their names, each with fields of its own."""
        self._apply([self._build_group(**group) for group in groups])

    def get_group(self, node: Json) -> str:
        """The group of a node."""
        return str(node["metadata"]["labels"][CLAIM_GROUP_LABEL])

    def claims(self, group: str = "") -> dict[str, Json]:
        """The NodeClaims of a group, or of all groups of this namespace."""
        claims = self.cluster.api.list_items(running.NODE_CLAIMS, labelSelector=f"node_groups={self.group}")
        return {
            claim["metadata"]["name"]: claim
            for claim in claims
            if group in ("", claim["metadata"]["labels"].get(CLAIM_GROUP_LABEL))
        }

    def close(self) -> None:
        """Delete the claims. Karpenter terminates their nodes when the namespace is gone, if not before."""
        for name, claim in self.claims().items():
            finalizers = [other for other in claim["metadata"].get("finalizers", ()) if other != REPORT_FINALIZER]
            try:
                self.cluster.api.patch(f"{running.NODE_CLAIMS}/{name}", {"metadata": {"finalizers": finalizers}})
                self.cluster.api.delete(f"{running.NODE_CLAIMS}/{name}")
            except Refused as refusal:
                if refusal.status != 404:
                    raise

    def _grant_reads(self) -> None:
        super()._grant_reads()
        self.cluster.api.apply(_ROLE)
        self.cluster.api.apply(_BINDING)
        wait_until_granted(self.cluster.api, ACCOUNT, [_ROLE])


def require(instance_type: str) -> Json:
    """A requirement for this instance type."""
    return {"key": running.INSTANCE_TYPE_LABEL, "operator": "In", "values": [instance_type]}


def find_status(claim: Json, kind: str) -> str | None:
    """The status of a condition of a NodeClaim, if it has it."""
    conditions = claim.get("status", {}).get("conditions", [])
    return next((condition["status"] for condition in conditions if condition["type"] == kind), None)
