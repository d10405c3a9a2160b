"""Replays a recording of the node autoscaler: the same changes, and a plan at each time that it planned.

The cluster, groups, budgets, recommended sizes, the clock and the results of plans are those of the recording. Memory
goes on from what is decided now, so that one pass that differs may make those after it differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from trellis.base.errors import InvalidRecording
from trellis.base.json_lines import HEADER, decode_payload, encode_payload
from trellis.core.nodes.autoscaler_pass import AutoscalerSettings, NodePlanner
from trellis.core.nodes.state.snapshot import ClusterSnapshotChanges
from trellis.core.recording.format import DECISION_LINE, INPUT_LINE, START_LINE
from trellis.core.recording.nodes.changes import CHANGES, ChangesLine, ChangesReader
from trellis.core.recording.nodes.passes import (
    BOOSTED,
    SIZES,
    BoostsLine,
    NodesRecordingStart,
    PassInputReader,
    PassLine,
    SizesLine,
)
from trellis.core.recording.nodes.plans import PlansLine, PlansRecorder
from trellis.sim.replay.decisions import ReplayedDecision


def replay_nodes(recording: Iterable[tuple[str, msgspec.Raw]]) -> Iterator[ReplayedDecision]:
    """Every recorded decision beside the one that is made now; raises `InvalidRecording`."""
    replay: _NodesReplay | None = None
    for kind, data in recording:
        if kind == HEADER:
            continue
        if kind == START_LINE:
            replay = _NodesReplay(decode_payload(data, NodesRecordingStart))
        elif replay is None:
            raise InvalidRecording(kind, f"comes before a line of kind {START_LINE}")
        elif kind == DECISION_LINE:
            yield ReplayedDecision(bytes(data), encode_payload(replay.decide()))
        else:
            replay.read_line(kind, data)


class _NodesReplay:
    """Takes in recorded changes, and plans."""

    def __init__(self, began: NodesRecordingStart) -> None:
        self._planner = NodePlanner(AutoscalerSettings(began.up, began.down), began.expendable_below)
        self._changes = ChangesReader()
        self._inputs = PassInputReader()
        self._decisions = PlansRecorder()
        self._pass: PassLine | None = None

    def read_line(self, kind: str, data: msgspec.Raw) -> None:
        """Take in a line."""
        if kind == INPUT_LINE:
            self._pass = decode_payload(data, PassLine)
        elif kind == CHANGES:
            self._planner.update(self._changes.read_changes(decode_payload(data, ChangesLine)))
        elif kind == BOOSTED:
            self._planner.put_sizes(decode_payload(data, BoostsLine).build_sizes())
        elif kind == SIZES:
            self._planner.put_sizes(dict(decode_payload(data, SizesLine).sizes))
        else:
            raise InvalidRecording(kind, "is not valid in a recording of the node autoscaler")

    def decide(self) -> PlansLine:
        """Decide now."""
        time, self._pass = self._pass, None
        if time is None:
            raise InvalidRecording(DECISION_LINE, f"comes before a line of kind {INPUT_LINE}")
        plans = self._planner.plan(ClusterSnapshotChanges(), self._inputs.read_input(time))
        self._inputs.record_plans(plans)
        return self._decisions.build_line(plans, time.now)
