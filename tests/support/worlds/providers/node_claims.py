"""A cluster in memory whose machines Karpenter launches, with groups in a ConfigMap and a clock that tests advance.

What becomes of a claim depends on its node class: see `NodeClass`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from support.api_server.server import ModelServer
from support.worlds.providers.kwok_nodes import NOW, Document, config_map
from trellis.api.kinds.claim_node_group import CLAIM_GROUP_LABEL
from trellis.api.kube.coordination import ConfigMap
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.machines.node_claims import NodeClaim
from trellis.api.kube.nodes import Node
from trellis.api.registry import CLAIM_NODE_GROUP
from trellis.base.times import format_time, parse_time
from trellis.core.nodes import GroupState
from trellis.kube.resources import NODE_CLAIMS
from trellis.kube.write.outcomes import WriteOutcome
from trellis.kube.write.writer import Writer
from trellis.providers.node_claims.provider import ClaimObjects, NodeClaimProvider
from trellis.providers.protocol import Steps

CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
NODES = "/api/v1/nodes"
BOOT = 20.0
LAUNCH_TIMEOUT = 60.0
TERMINATION = "karpenter.sh/termination"


class NodeClass(StrEnum):
    """What becomes of a claim with this node class, as real Karpenter does it."""

    # A machine at once, and its node after `BOOT`.
    GOOD = "good"
    # No capacity, or no such class: Karpenter deletes the claim at once.
    MISSING = "missing"
    # The launch fails, again and again: after 5 minutes Karpenter deletes the claim.
    BROKEN = "broken"
    # A machine whose node never registers: after 15 minutes Karpenter deletes the claim.
    DEAD = "dead"
    # Karpenter does not know the kind of the class.
    FOREIGN = "foreign"


def claim_group(name: str = "small", node_class: str = NodeClass.GOOD, **spec: Any) -> Document:
    """A group of up to ten nodes with 4 CPU, with other fields of its spec instead."""
    usual: Document = {
        "resources": {"cpu": "4", "memory": "16Gi"},
        "maxSize": 10,
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": str(node_class)},
        "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["s-4x"]}],
    }
    fields = {name: value for name, value in {**usual, **spec}.items() if value is not None}
    return {
        "apiVersion": CLAIM_NODE_GROUP.api_version,
        "kind": CLAIM_NODE_GROUP.name,
        "metadata": {"name": name},
        "spec": fields,
    }


class FinalizingServer(ModelServer):
    """An API server that keeps a deleted object until its last finalizer is removed."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW

    def put(self, path: str, document: Document) -> Document:
        metadata = {"creationTimestamp": self.format_now(), **document["metadata"]}
        if path in self.objects:
            metadata["creationTimestamp"] = self.objects[path]["metadata"]["creationTimestamp"]
        new = super().put(path, {**document, "metadata": metadata})
        if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            super().delete(path)
        return new

    def delete(self, path: str) -> None:
        document = self.objects[path]
        if not document["metadata"].get("finalizers"):
            super().delete(path)
        elif "deletionTimestamp" not in document["metadata"]:
            metadata = {**document["metadata"], "deletionTimestamp": self.format_now()}
            self.put(path, {**document, "metadata": metadata})

    def format_now(self) -> str:
        return format_time(datetime.fromtimestamp(self.now, UTC))


class ClaimWorld:
    """A `ProviderEnvironment` for the provider of NodeClaims; what a writer did is in `outcomes`."""

    hanging_group = ""

    def __init__(self, *groups: Document, broken_group: str = "") -> None:
        self.server = FinalizingServer()
        self.config: ConfigMap | None = config_map(*(groups or (claim_group(),)))
        self.broken_group = broken_group
        self.outcomes: list[WriteOutcome] = []
        self.readable = True
        self.provider: NodeClaimProvider = self.restarted_provider()

    @property
    def now(self) -> float:
        return self.server.now

    def restarted_provider(self) -> NodeClaimProvider:
        return NodeClaimProvider(self.read_objects, "kube-system/groups", LAUNCH_TIMEOUT)

    def read_objects(self) -> ClaimObjects:
        claims = tuple(convert_object(document, NodeClaim) for document in self.claims().values())
        return ClaimObjects(self.config, self.stored_nodes(), claims if self.readable else None)

    def stored_nodes(self) -> tuple[Node, ...]:
        return tuple(convert_object(document, Node) for document in self._documents(NODES).values())

    def claims(self) -> dict[str, Document]:
        return self._documents(CLAIMS)

    def _documents(self, collection: str) -> dict[str, Document]:
        result = self.server.objects.items()
        return {path.rpartition("/")[2]: document for path, document in result if path.startswith(f"{collection}/")}

    def declare(self, *groups: Document) -> None:
        self.config = config_map(*groups)

    def add_claim(self, name: str, **metadata: Any) -> None:
        """A claim of another client."""
        document = {"apiVersion": NODE_CLAIMS.api_version, "kind": NODE_CLAIMS.kind, "metadata": metadata, "status": {}}
        self.server.put(f"{CLAIMS}/{name}", document)

    def delete(self, name: str) -> None:
        """Delete a claim, as Karpenter or another client."""
        self.server.delete(f"{CLAIMS}/{name}")

    async def execute(self, steps: Steps) -> None:
        writer = Writer(self.server.client, record=self.outcomes.append)
        for step in steps:
            await writer.write_all(step)

    async def wait(self, seconds: float) -> None:
        """Time passes, and Karpenter works."""
        self.server.now += seconds
        for name, claim in self.claims().items():
            self._reconcile(name, claim)

    async def list_nodes(self) -> Sequence[Node]:
        return self.stored_nodes()

    async def order(self, target: int, name: str = "small") -> tuple[str, ...]:
        """Order and carry out; the ids of what is new. What is refused fails the test."""
        ordered = await self.provider.order(name, target, self.now)
        assert ordered.error is None
        await self.execute(ordered.steps)
        return ordered.instances

    async def release(self, *instances: str, group: str = "small") -> None:
        released = await self.provider.release(group, instances, self.now)
        assert not released.refused
        await self.execute(released.steps)

    async def tend(self) -> float | None:
        """One round of tending; when the next is due."""
        tended = await self.provider.tend(self.now)
        await self.execute(tended.steps)
        return tended.next

    async def bring_up(self, target: int, name: str = "small") -> tuple[str, ...]:
        """Order nodes and let them boot."""
        new = await self.order(target, name)
        await self.wait(1.0)
        await self.wait(BOOT)
        await self.tend()
        return new

    async def state(self, name: str = "small") -> GroupState:
        return next(state for state in (await self.provider.groups(self.now)).states if state.group.name == name)

    async def states(self, name: str = "small") -> dict[str, str]:
        """How far each instance of a group is."""
        return {instance.id: str(instance.state) for instance in (await self.state(name)).instances}

    def _reconcile(self, name: str, claim: Document) -> None:
        metadata = claim["metadata"]
        node_class = claim.get("spec", {}).get("nodeClassRef", {}).get("name", "")
        if CLAIM_GROUP_LABEL not in metadata.get("labels", {}) or node_class in ("", NodeClass.FOREIGN):
            return
        finalizers = metadata.get("finalizers", [])
        if "deletionTimestamp" in metadata:
            if TERMINATION in finalizers:
                self.server.objects.pop(f"{NODES}/node-{name}", None)
                self._put(name, claim, finalizers=[other for other in finalizers if other != TERMINATION])
            return
        age = self.now - parse_time(metadata["creationTimestamp"]).timestamp()
        conditions = self._play(name, claim, node_class, age)
        node = f"node-{name}"
        status: Document = {"conditions": conditions}
        if node_class in (NodeClass.GOOD, NodeClass.DEAD):
            status["providerID"] = f"cloud:///{name}"
        if f"{NODES}/{node}" in self.server.objects:
            status["nodeName"] = node
        if {"conditions": [], **claim.get("status", {})} != status or TERMINATION not in finalizers:
            kept = finalizers if TERMINATION in finalizers else [*finalizers, TERMINATION]
            self._put(name, {**claim, "status": status}, finalizers=kept)
        given_up = {NodeClass.MISSING: 0.0, NodeClass.BROKEN: 300.0, NodeClass.DEAD: 900.0}.get(NodeClass(node_class))
        if given_up is not None and age >= given_up:
            self.delete(name)
            self._reconcile(name, self.claims().get(name, {"metadata": {}}))

    def _play(self, name: str, claim: Document, node_class: str, age: float) -> list[Document]:
        match node_class:
            case NodeClass.MISSING:
                return self._conditions(claim, Launched="AwaitingReconciliation", Registered="NodeNotFound")
            case NodeClass.BROKEN:
                return self._conditions(claim, Launched="LaunchFailed", Registered="NodeNotFound")
            case NodeClass.GOOD if age >= BOOT:
                if f"{NODES}/node-{name}" not in self.server.objects:
                    self._add_node(name, claim)
                return self._conditions(claim, Launched="", Registered="", Initialized="")
        return self._conditions(claim, Launched="", Registered="NodeNotFound")

    def _conditions(self, claim: Document, **reasons: str) -> list[Document]:
        """Conditions by type: Unknown for this reason, or true without one."""
        before = {condition["type"]: condition for condition in claim.get("status", {}).get("conditions", ())}
        made = []
        for kind, reason in reasons.items():
            condition = {
                "type": kind,
                "status": "Unknown" if reason else "True",
                "reason": reason or kind,
                "message": f"it is {reason}" if reason else "",
            }
            known = before.get(kind, {})
            moment = known["lastTransitionTime"] if known.get("status") == condition["status"] else None
            made.append({**condition, "lastTransitionTime": moment or self.server.format_now()})
        return made

    def _add_node(self, name: str, claim: Document) -> None:
        spec = claim["spec"]
        offered = {"pods": "110", **spec["resources"]["requests"]}
        required = {item["key"]: item["values"][0] for item in spec.get("requirements", ()) if item["operator"] == "In"}
        labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", **required, **claim["metadata"]["labels"]}
        self.server.put(
            f"{NODES}/node-{name}",
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"labels": labels},
                "spec": {"providerID": f"cloud:///{name}", "taints": spec.get("taints", [])},
                "status": {"allocatable": offered, "conditions": [{"type": "Ready", "status": "True"}]},
            },
        )

    def _put(self, name: str, claim: Document, **metadata: Any) -> None:
        self.server.put(f"{CLAIMS}/{name}", {**claim, "metadata": {**claim["metadata"], **metadata}})
