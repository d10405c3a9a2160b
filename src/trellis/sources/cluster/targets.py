"""Whose scale has to be asked for, and whose count? Targets and controllers of kinds that nobody knows, each once."""

from __future__ import annotations

from typing import Any

from trellis.api.buffer import Buffer
from trellis.api.hvpa import Hvpa
from trellis.api.kube.meta import OwnerReference
from trellis.api.resolve import NodeClassTotals, resolve_buffer
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.core.model.owners import TargetRef, controller_in

_NODE = "Node"


class Targets:
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
        above = controller_in(namespace, controller)
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
