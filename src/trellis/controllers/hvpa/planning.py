"""How does the controller come to a plan? The core makes it, and both sides are written down if somebody asked."""

from __future__ import annotations

from trellis.core.hvpa import HvpaSettings, Plan, View, plan
from trellis.core.hvpa.recorded import Began, Decided, Looked
from trellis.core.model.keys import Key
from trellis.core.model.recording import BEGAN, DECIDED, LOOKED
from trellis.runtime.recording import Recorder


class Planner:
    """Makes plans. What one is made from is written before it is made, so that one that fails can be looked into."""

    def __init__(self, figures: HvpaSettings, recorder: Recorder) -> None:
        self._figures = figures
        self._recorder = recorder
        recorder.write(BEGAN, Began(figures))

    def plan(self, key: Key, view: View, now: float) -> Plan:
        """The plan for an Hvpa's workload."""
        if not self._recorder.is_on:
            return plan(view, now, self._figures)
        self._recorder.write(LOOKED, Looked(key, now, view))
        made = plan(view, now, self._figures)
        self._recorder.write(DECIDED, Decided.of(made))
        self._recorder.flush()
        return made
