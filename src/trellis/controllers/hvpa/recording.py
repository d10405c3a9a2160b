"""Makes plans with `core.hvpa`, and records the view and the plan where a recording is asked for."""

from __future__ import annotations

from trellis.core.cluster.store import ObjectKey
from trellis.core.hvpa import HvpaPlan, HvpaSettings, HvpaView, plan_hvpa
from trellis.core.recording.format import DECISION_LINE, INPUT_LINE, START_LINE
from trellis.core.recording.hvpa import HvpaPlanInput, HvpaRecordingStart, RecordedHvpaPlan
from trellis.runtime.recorder import Recorder


class HvpaPlanner:
    """Makes plans. What one is made from is written before it is made, so that one that fails can be looked into."""

    def __init__(self, settings: HvpaSettings, recorder: Recorder) -> None:
        self._settings = settings
        self._recorder = recorder
        recorder.write(START_LINE, HvpaRecordingStart(settings))

    def plan(self, key: ObjectKey, view: HvpaView, now: float) -> HvpaPlan:
        """The plan for an Hvpa's workload."""
        if not self._recorder.is_on:
            return plan_hvpa(view, now, self._settings)
        self._recorder.write(INPUT_LINE, HvpaPlanInput(key, now, view))
        plan = plan_hvpa(view, now, self._settings)
        self._recorder.write(DECISION_LINE, RecordedHvpaPlan.of(plan))
        self._recorder.flush()
        return plan
