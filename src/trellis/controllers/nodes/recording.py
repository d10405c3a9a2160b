"""Records the input and the plans of each pass.

The input is recorded in the planning thread before the plans are made, so that a pass that fails can be examined.
"""

from __future__ import annotations

from msgspec.structs import replace

from trellis.core.nodes.autoscaler_pass import AutoscalerSettings, NodePlanner, PassInput, PassPlans
from trellis.core.nodes.state.snapshot import ClusterSnapshotChanges
from trellis.core.recording.format import DECISION_LINE, INPUT_LINE, START_LINE
from trellis.core.recording.nodes.changes import CHANGES, ChangesWriter
from trellis.core.recording.nodes.passes import BOOSTED, NodesRecordingStart, PassInputWriter, RecordedBoosts
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
        self._boosts = RecordedBoosts()
        self._plans = PlansRecorder()
        recorder.write(START_LINE, NodesRecordingStart(settings.up, settings.down, expendable_below))

    def update(self, changes: ClusterSnapshotChanges) -> None:
        """Record changes and apply them to the snapshot."""
        for line in self._changes.build_lines(changes):
            self._recorder.write(CHANGES, line)
        for key, pod in changes.pods.items():
            if pod is None:
                self._boosts.forget(key)
        super().update(changes)

    def plan(self, changes: ClusterSnapshotChanges, pass_input: PassInput) -> PassPlans:
        """Record the input, plan, and record the plans."""
        pass_input = replace(
            pass_input,
            budgets=tuple(pass_input.budgets),
            startup_boosts=self._boosts.record_boosts(pass_input.startup_boosts),
        )
        self._recorder.write(INPUT_LINE, self._inputs.build_line(pass_input))
        plans = super().plan(changes, pass_input)
        if (boosts := self._boosts.drain_changes()) is not None:
            self._recorder.write(BOOSTED, boosts)
        self._recorder.write(DECISION_LINE, self._plans.build_line(plans, pass_input.now))
        self._recorder.flush()
        self._inputs.record_plans(plans)
        return plans
