"""Targets and controllers of kinds that are not well known, whose scale is looked up, each once."""

from __future__ import annotations

from typing import Any

from trellis.api.kinds.buffer import Buffer
from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.meta import OwnerReference
from trellis.api.resolve import NodeClassTotals, resolve_buffer
from trellis.base.errors import KubeError, UnreadableObject
from trellis.core.cluster.owners import TargetRef, build_controller_ref
from trellis.core.cluster.target_problems import TargetProblem
from trellis.kube.client import Client
from trellis.kube.scales import LookupTimes, ScalableKinds

_NODE = "Node"


class ScaleTargets:
    """Collects the targets and controllers of objects, and which of them have been looked up."""

    def __init__(self) -> None:
        self._unread: dict[TargetRef, None] = {}
        self._read: set[TargetRef] = set()
        # Targets of Buffers, whose replicas count.
        self.with_replicas: set[TargetRef] = set()

    def add_object(self, item: Any) -> None:
        """Add the target and the controller of an object, if it has them."""
        metadata = item.metadata
        if isinstance(item, VerticalPodAutoscaler | Hvpa):
            target = item.spec.target_ref
            if target is not None:
                self._add(TargetRef(metadata.namespace, target.api_version or "", target.kind or "", target.name or ""))
        elif isinstance(item, Buffer):
            self._add_buffer(item)
        self.add_controller(metadata.namespace, metadata.controller)

    def add_controller(self, namespace: str, controller: OwnerReference | None) -> None:
        """Add a controller."""
        owner = build_controller_ref(namespace, controller)
        if owner is not None and owner.namespace:
            self._add(owner)

    def pop_unread(self) -> list[TargetRef]:
        """The targets that have not been looked up yet; marks them as looked up."""
        targets, self._unread = list(self._unread), {}
        self._read.update(targets)
        return targets

    def _add_buffer(self, buffer: Buffer) -> None:
        reference = buffer.spec.target_ref
        # A class of nodes is a label, and has no scale.
        if reference is None or isinstance(resolve_buffer(buffer).capacity, NodeClassTotals):
            return
        namespace = buffer.metadata.namespace
        target = TargetRef(namespace, reference.api_version or "", reference.kind or "", reference.name or "")
        self.with_replicas.add(target)
        self._add(target)

    def _add(self, target: TargetRef) -> None:
        if target.kind and not target.is_well_known and target.kind != _NODE and target not in self._read:
            self._unread[target] = None


class ScaleReplicas:
    """Reads replicas by target. Problems of a target are reported by the lookup of its selector."""

    def __init__(self, client: Client) -> None:
        self._kinds = ScalableKinds(client, LookupTimes())

    async def read(self, target: TargetRef) -> int | None:
        """The replicas of a target; None if its scale cannot be read."""
        try:
            scale = await self._kinds.read(target)
        except (KubeError, UnreadableObject):
            return None
        return None if isinstance(scale, TargetProblem) else scale.scale.status.replicas
