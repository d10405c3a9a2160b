"""The state of the node autoscaler between passes: the planner with its snapshot, in a thread that owns both."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from trellis.controllers.buffer_provisioning.snapshot_changes import ChangeAccumulator
from trellis.core.nodes.autoscaler_pass import NodePlanner
from trellis.core.nodes.state.snapshot import ClusterSnapshotChanges
from trellis.runtime.passes import PassThread

T = TypeVar("T")


class PlannerThread:
    """The planner and the thread that owns it. Each call gets all changes since the last one."""

    def __init__(self, accumulator: ChangeAccumulator, create_planner: Callable[[], NodePlanner]) -> None:
        self._accumulator = accumulator
        self._create_planner = create_planner
        self._planner: NodePlanner | None = None
        self._thread = PassThread("nodes")

    async def run(self, call: Callable[[NodePlanner, ClusterSnapshotChanges], T]) -> T:
        """Call the planner. After a failure the next call starts with all objects."""
        planner, self._planner = self._planner, None
        if planner is None:
            planner, changes = self._create_planner(), self._accumulator.take_everything()
        else:
            changes = self._accumulator.take_changes()
        result = await self._thread.run(call, planner, changes)
        self._planner = planner
        return result

    def discard(self) -> None:
        """Start the next call with all objects: the snapshot shows nodes as a plan would have them."""
        self._planner = None

    def close(self) -> None:
        self._thread.close()
