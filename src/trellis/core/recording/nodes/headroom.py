"""Lines of the Buffer controller's recording with its observations of headroom.

The lines of kind `news` are those of the node autoscaler's recordings. A line of kind `observer` starts anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from trellis.core.nodes.buffers.headroom import ObservedHeadroom
from trellis.core.nodes.settings import ScaleUpSettings
from trellis.core.recording.nodes.plans import changed_entries, without_current_time

OBSERVER: Final = "observer"
OBSERVING: Final = "observing"
OBSERVED: Final = "observed"


class HeadroomRecordingStart(msgspec.Struct, frozen=True):
    """The settings of the observations that follow."""

    settings: ScaleUpSettings


class HeadroomInputLine(msgspec.Struct, frozen=True):
    """Headroom is observed, at that time."""

    now: float


class HeadroomLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """The observations that changed since the line before; None for Buffers without an observation any more."""

    buffers: Mapping[str, Any] = {}
    on_top: Mapping[str, int | None] = {}


class HeadroomRecorder:
    """Builds the lines of observations, against those last written."""

    def __init__(self) -> None:
        self._buffers: Mapping[str, Any] = {}
        self._on_top: Mapping[str, int] = {}

    def build_line(self, observed: ObservedHeadroom, now: float) -> HeadroomLine:
        """The line of observed headroom."""
        buffers = {"/".join(decision.key): without_current_time(decision, now) for decision in observed.buffers}
        line = HeadroomLine(changed_entries(self._buffers, buffers), changed_entries(self._on_top, observed.on_top))
        self._buffers, self._on_top = buffers, observed.on_top
        return line
