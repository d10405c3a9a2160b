"""Records what plans are made from.

It is recorded in the thread of the plans and before they are made, so that a plan that fails can be examined.
"""

from __future__ import annotations

from msgspec.structs import replace

from trellis.core.nodes.autoscaler_pass import NodePlanner, PassInput, PassPlans
from trellis.core.nodes.settings import ScaleDownSettings, ScaleUpSettings
from trellis.core.nodes.state.snapshot import ClusterSnapshotChanges
from trellis.core.recording.format import DECISION_LINE, INPUT_LINE, START_LINE
from trellis.core.recording.nodes.changes import NEWS, ChangesWriter
from trellis.core.recording.nodes.passes import BOOSTED, NodesRecordingStart, PassInputWriter, RecordedBoosts
from trellis.core.recording.nodes.plans import PlansRecorder
from trellis.runtime.recorder import Recorder


def create_planner(
    up: ScaleUpSettings, down: ScaleDownSettings, expendable_below: int, recorder: Recorder
) -> NodePlanner:
    """Who makes plans by these figures, and writes down from what if that goes anywhere."""
    if not recorder.is_on:
        return NodePlanner(up, down, expendable_below)
    return RecordedNodePlanner(up, down, expendable_below, recorder)


class RecordedNodePlanner(NodePlanner):
    """Plans, and both sides of them written down."""

    def __init__(self, up: ScaleUpSettings, down: ScaleDownSettings, expendable_below: int, recorder: Recorder) -> None:
        super().__init__(up, down, expendable_below)
        self._recorder = recorder
        self._news = ChangesWriter()
        self._questions = PassInputWriter()
        self._boosts = RecordedBoosts()
        self._decisions = PlansRecorder()
        recorder.write(START_LINE, NodesRecordingStart(up, down, expendable_below))

    def take_in(self, news: ClusterSnapshotChanges) -> None:
        """What is new is shown."""
        for line in self._news.lines(news):
            self._recorder.write(NEWS, line)
        for key, pod in news.pods.items():
            if pod is None:
                self._boosts.forget(key)
        super().take_in(news)

    def plan(self, news: ClusterSnapshotChanges, asked: PassInput) -> PassPlans:
        """Both plans are made."""
        asked = replace(asked, budgets=tuple(asked.budgets), starts=self._boosts.asking(asked.starts))
        self._recorder.write(INPUT_LINE, self._questions.line(asked))
        plans = super().plan(news, asked)
        if (boosted := self._boosts.taken()) is not None:
            self._recorder.write(BOOSTED, boosted)
        self._recorder.write(DECISION_LINE, self._decisions.of(plans, asked.now))
        self._recorder.flush()
        self._questions.planned(plans)
        return plans
