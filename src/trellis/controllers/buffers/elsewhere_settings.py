"""What of the Buffer controller can be set about upstream's CapacityBuffers?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from trellis.runtime.settings import Conflict, Setting, Settings


class ElsewhereSettings(Settings, frozen=True):
    """Whether CapacityBuffers are served, or made of Buffers. Not both: the room of a Buffer would be kept twice."""

    serve_capacity_buffers: Annotated[
        bool,
        Setting(
            "Translate upstream's CapacityBuffers too: their status says which pods they stand for.",
            why="Off: a node autoscaler may have a controller of its own for them, and two must not serve one object.",
        ),
    ] = False
    translate: Annotated[
        bool,
        Setting(
            "Keep one CapacityBuffer for each Buffer, for nodes that Cluster Autoscaler or Karpenter manages.",
            why="Off: whoever reads Buffers would keep the same room again.",
        ),
    ] = False

    def conflicts(self) -> Iterator[Conflict]:
        """Who makes CapacityBuffers leaves it to others to serve them."""
        if self.serve_capacity_buffers and self.translate:
            yield Conflict("translate", "must not go with --serve-capacity-buffers: who makes them does not serve them")
