"""Records the input of observations of headroom, in their thread and before each of them."""

from __future__ import annotations

from trellis.core.nodes.buffers.headroom import HeadroomObserver, ObservedHeadroom
from trellis.core.nodes.settings import ScaleUpSettings
from trellis.core.nodes.state.snapshot import ClusterSnapshotChanges
from trellis.core.recording.nodes.changes import CHANGES, ChangesWriter
from trellis.core.recording.nodes.headroom import (
    OBSERVED,
    OBSERVER,
    OBSERVING,
    HeadroomInputLine,
    HeadroomRecorder,
    HeadroomRecordingStart,
)
from trellis.runtime.recorder import Recorder


def create_observer(settings: ScaleUpSettings, recorder: Recorder) -> HeadroomObserver:
    """An observer, which records if the recorder is on."""
    return RecordedHeadroomObserver(settings, recorder) if recorder.is_on else HeadroomObserver(settings)


class RecordedHeadroomObserver(HeadroomObserver):
    """Observes, and records inputs and results."""

    def __init__(self, settings: ScaleUpSettings, recorder: Recorder) -> None:
        super().__init__(settings)
        self._recorder = recorder
        self._changes = ChangesWriter()
        self._observations = HeadroomRecorder()
        recorder.write(OBSERVER, HeadroomRecordingStart(settings))

    def update(self, changes: ClusterSnapshotChanges) -> None:
        """Record the changes, and update the snapshot."""
        for line in self._changes.build_lines(changes):
            self._recorder.write(CHANGES, line)
        super().update(changes)

    def observe(self, changes: ClusterSnapshotChanges, now: float) -> ObservedHeadroom:
        """Observe, and record the result."""
        self._recorder.write(OBSERVING, HeadroomInputLine(now))
        observed = super().observe(changes, now)
        self._recorder.write(OBSERVED, self._observations.build_line(observed, now))
        self._recorder.flush()
        return observed
