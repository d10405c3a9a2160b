"""Records the input and the plans of each pass.

The input is recorded in the planning thread before the plans are made, so that a pass that fails can be examined.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from trellis.core.cluster.store import ObjectKey
from trellis.core.nodes.autoscaler_pass import AutoscalerSettings, NodePlanner, PassInput, PassPlans
from trellis.core.nodes.state.recommended_sizes import RecommendedSize
from trellis.core.nodes.state.snapshot import ClusterSnapshotChanges
from trellis.core.recording.format import DECISION_LINE, INPUT_LINE, START_LINE
from trellis.core.recording.nodes.changes import CHANGES, ChangesWriter
from trellis.core.recording.nodes.passes import SIZES, NodesRecordingStart, PassInputWriter, SizesLine
from trellis.core.recording.nodes.plans import PlansRecorder
from trellis.runtime.recorder import Recorder


def create_planner(settings: AutoscalerSettings, expendable_below: int, recorder: Recorder) -> NodePlanner:
    """Create a planner, one that records if the recorder is on."""
    if not recorder.is_on:
        return NodePlanner(settings, expendable_below)
    return RecordedNodePlanner(settings, expendable_below, recorder)


class RecordedNodePlanner(NodePlanner):
    """A planner that records the input and the plans of each pass."""

    def __init__(self, settings: AutoscalerSettings, expendable_below: int, recorder: Recorder) -> None:
        super().__init__(settings, expendable_below)
        self._recorder = recorder
        self._changes = ChangesWriter()
        self._inputs = PassInputWriter()
        self._plans = PlansRecorder()
        recorder.write(START_LINE, NodesRecordingStart(settings.up, settings.down, expendable_below))

    def update(self, changes: ClusterSnapshotChanges) -> None:
        """Record changes and apply them to the snapshot."""
        for line in self._changes.build_lines(changes):
            self._recorder.write(CHANGES, line)
        super().update(changes)

    def put_sizes(self, sizes: Mapping[ObjectKey, RecommendedSize | None]) -> None:
        """Record recommended sizes that have changed, and put them into the snapshot."""
        if sizes:
            self._recorder.write(SIZES, SizesLine(tuple(sizes.items())))
        super().put_sizes(sizes)

    def plan(self, changes: ClusterSnapshotChanges, pass_input: PassInput) -> PassPlans:
        """Record the input, plan, and record the plans."""
        pass_input = replace(pass_input, budgets=tuple(pass_input.budgets))
        self._recorder.write(INPUT_LINE, self._inputs.build_line(pass_input))
        plans = super().plan(changes, pass_input)
        self._recorder.write(DECISION_LINE, self._plans.build_line(plans, pass_input.now))
        self._recorder.flush()
        self._inputs.record_plans(plans)
        return plans
