"""What a recording of the Buffer controller has of observations: what is new in the cluster, when, and what was found.

The lines of `news` are those of the node autoscaler's recordings. A line of kind `observer` begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from trellis.core.nodes.observing import Observed
from trellis.core.nodes.recorded_plans import changed, told_undated
from trellis.core.nodes.up_settings import UpSettings

OBSERVER: Final = "observer"
OBSERVING: Final = "observing"
OBSERVED: Final = "observed"


class ObserverBegan(msgspec.Struct, frozen=True):
    """By which figures headroom is observed from here on."""

    settings: UpSettings


class Observing(msgspec.Struct, frozen=True):
    """Headroom is observed, at that time."""

    now: float


class Found(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was found that is not what was found before; None for Buffers of which nothing is said any more."""

    buffers: Mapping[str, Any] = {}
    on_top: Mapping[str, int | None] = {}


class Observations:
    """Makes of observations what is to be written; remembers what was."""

    def __init__(self) -> None:
        self._buffers: Mapping[str, Any] = {}
        self._on_top: Mapping[str, int] = {}

    def of(self, observed: Observed, now: float) -> Found:
        """What is to be compared of one."""
        buffers = {"/".join(each.key): told_undated(each, now) for each in observed.buffers}
        found = Found(changed(self._buffers, buffers), changed(self._on_top, observed.on_top))
        self._buffers, self._on_top = buffers, observed.on_top
        return found
