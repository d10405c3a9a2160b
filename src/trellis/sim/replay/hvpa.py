"""Replays a recording of the Hvpa controller: each plan is made once more from its view."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from trellis.core.hvpa import ResolvedHvpa, plan_hvpa
from trellis.core.recording.hvpa import HvpaPlanInput, HvpaRecordingStart, RecordedHvpaPlan
from trellis.sim.replay.decisions import IndependentReplay


def _decide(recorded: HvpaPlanInput, began: HvpaRecordingStart) -> RecordedHvpaPlan:
    # What follows from the buckets is computed anew, too.
    view = replace(recorded.view, meaning=ResolvedHvpa.from_effective(recorded.view.meaning.hvpa))
    return RecordedHvpaPlan.of(plan_hvpa(view, recorded.now, began.settings))


replay_hvpa: Final = IndependentReplay("Hvpa", HvpaRecordingStart, HvpaPlanInput, lambda view: view.hvpa, _decide)
