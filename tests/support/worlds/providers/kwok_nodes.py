"""A cluster in memory whose nodes kwok plays: groups in a ConfigMap, a writer, and time that passes when told to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from support.api_server.server import ModelServer
from trellis.api.kube.coordination import ConfigMap
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.nodes import Node
from trellis.api.registry import KWOK_NODE_GROUP
from trellis.core.nodes import GroupState
from trellis.kube.write.outcomes import WriteOutcome
from trellis.kube.write.writer import Writer
from trellis.providers.kwok import KwokObjects, KwokProvider
from trellis.providers.protocol import Steps

NODES = "/api/v1/nodes"
NOW = 1_790_000_000.0
BOOT = 30.0

Document = dict[str, Any]


def group(name: str = "small", **spec: Any) -> Document:
    """A group of up to ten nodes with 4 CPU that boot in half a minute, with other fields of its spec instead."""
    usual: Document = {"resources": {"cpu": "4", "memory": "16Gi"}, "maxSize": 10, "bootTime": "30s"}
    fields = {name: value for name, value in {**usual, **spec}.items() if value is not None}
    return {
        "apiVersion": KWOK_NODE_GROUP.api_version,
        "kind": KWOK_NODE_GROUP.name,
        "metadata": {"name": name},
        "spec": fields,
    }


def failing(mode: str, **fields: Any) -> Document:
    """The same, with a failure."""
    return group(fails={"how": mode, **fields})


def config_map(*groups: Document, **files: str) -> ConfigMap:
    """A ConfigMap with these groups in one file, and other files beside it."""
    text = {"groups.yaml": yaml.safe_dump_all(groups, sort_keys=False)} if groups else {}
    return ConfigMap(metadata=ObjectMeta(name="groups", namespace="kube-system"), data={**text, **files})


class KwokWorld:
    """A `ProviderEnvironment` for the provider of kwok nodes; what a writer did is in `outcomes`.

    `by` is how kwok knows its nodes: by `labels` or `annotations`.
    """

    def __init__(
        self,
        *groups: Document,
        config: ConfigMap | None = None,
        hanging_group: str = "",
        broken_group: str = "",
        by: str = "labels",
    ) -> None:
        self.server = ModelServer()
        self.by = by
        self.config = config or config_map(*(groups or (group(),)))
        self.now = NOW
        self.hanging_group = hanging_group
        self.broken_group = broken_group
        self.outcomes: list[WriteOutcome] = []
        self.provider: KwokProvider = self.restarted_provider()

    def restarted_provider(self) -> KwokProvider:
        return KwokProvider(self.read_objects, "kube-system/groups")

    def read_objects(self) -> KwokObjects:
        return KwokObjects(self.config, self.stored_nodes())

    def stored_nodes(self) -> tuple[Node, ...]:
        return tuple(convert_object(document, Node) for document in self.documents().values())

    def documents(self) -> dict[str, Document]:
        result = self.server.objects.items()
        return {path.removeprefix(f"{NODES}/"): document for path, document in result if path.startswith(f"{NODES}/")}

    def add_node(self, name: str, **document: Any) -> None:
        self.server.put(f"{NODES}/{name}", {"apiVersion": "v1", "kind": "Node", "metadata": {}, **document})

    def change(self, name: str, **metadata: Any) -> None:
        """Change metadata of a node, as another client."""
        old = self.documents()[name]
        self.server.put(f"{NODES}/{name}", {**old, "metadata": {**old["metadata"], **metadata}})

    def declare(self, *groups: Document) -> None:
        self.config = config_map(*groups)

    async def execute(self, steps: Steps) -> None:
        writer = Writer(self.server.client, record=self.outcomes.append)
        for step in steps:
            await writer.write_all(step)

    async def wait(self, seconds: float) -> None:
        """Time passes, and kwok makes its nodes ready."""
        self.now += seconds
        for name, node in self.documents().items():
            is_kwok_node = node["metadata"].get(self.by, {}).get("kwok.x-k8s.io/node") == "fake"
            if is_kwok_node and not node["status"].get("conditions"):
                ready = {"type": "Ready", "status": "True"}
                self.server.put(f"{NODES}/{name}", {**node, "status": {**node["status"], "conditions": [ready]}})

    async def list_nodes(self) -> Sequence[Node]:
        return self.stored_nodes()

    async def order(self, target: int, name: str = "small") -> tuple[str, ...]:
        """Order and carry out; the ids of what is new. What is refused fails the test."""
        ordered = await self.provider.order(name, target, self.now)
        assert ordered.error is None
        await self.execute(ordered.steps)
        return ordered.instances

    async def tend(self) -> float | None:
        """One round of tending; when the next is due."""
        tended = await self.provider.tend(self.now)
        await self.execute(tended.steps)
        return tended.next

    async def bring_up(self, target: int, name: str = "small") -> tuple[str, ...]:
        """Order nodes and let them boot."""
        new = await self.order(target, name)
        for seconds in (3600.0, 1.0):
            await self.wait(seconds)
            await self.tend()
        await self.wait(1.0)
        await self.tend()
        return new

    async def state(self, name: str = "small") -> GroupState:
        return next(state for state in (await self.provider.groups(self.now)).states if state.group.name == name)

    async def states(self, name: str = "small") -> dict[str, str]:
        """How far each instance of a group is."""
        return {instance.id: str(instance.state) for instance in (await self.state(name)).instances}


def taint_keys(node: Document) -> list[str]:
    return [taint["key"] for taint in node["spec"].get("taints", ())]
