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
    """Those that were seen, and which of them have been asked for."""

    def __init__(self) -> None:
        self._unasked: dict[TargetRef, None] = {}
        self._asked: set[TargetRef] = set()
        # Those of which a Buffer is a share or a copy.
        self.counted: set[TargetRef] = set()

    def see(self, found: Any) -> None:
        """An object, which may have a target or a controller."""
        metadata = found.metadata
        if isinstance(found, VerticalPodAutoscaler | Hvpa):
            target = found.spec.target_ref
            if target is not None:
                self._add(TargetRef(metadata.namespace, target.api_version or "", target.kind or "", target.name or ""))
        elif isinstance(found, Buffer):
            self._see_buffer(found)
        self.see_controller(metadata.namespace, metadata.controller)

    def see_controller(self, namespace: str, controller: OwnerReference | None) -> None:
        """Who controls something."""
        above = build_controller_ref(namespace, controller)
        if above is not None and above.namespace:
            self._add(above)

    def take_unasked(self) -> list[TargetRef]:
        """Those that nobody has asked for yet."""
        taken, self._unasked = list(self._unasked), {}
        self._asked.update(taken)
        return taken

    def _see_buffer(self, buffer: Buffer) -> None:
        reference = buffer.spec.target_ref
        # A class of nodes is a label, and has no scale.
        if reference is None or isinstance(resolve_buffer(buffer).capacity, NodeClassTotals):
            return
        namespace = buffer.metadata.namespace
        target = TargetRef(namespace, reference.api_version or "", reference.kind or "", reference.name or "")
        self.counted.add(target)
        self._add(target)

    def _add(self, target: TargetRef) -> None:
        if target.kind and not target.is_well_known and target.kind != _NODE and target not in self._asked:
            self._unasked[target] = None


class ScaleReplicas:
    """Counts by target; what is wrong with a target is told by whoever asks for its selector."""

    def __init__(self, client: Client) -> None:
        self._kinds = ScalableKinds(client, LookupTimes())

    async def find(self, target: TargetRef) -> int | None:
        """How many there are; None if its scale does not say."""
        try:
            found = await self._kinds.read(target)
        except (KubeError, UnreadableObject):
            return None
        return None if isinstance(found, TargetProblem) else found.scale.status.replicas
