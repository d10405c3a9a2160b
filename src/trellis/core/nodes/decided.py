"""What was found about pods and Buffers, before it is put into words?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from trellis.core.buffers.said import Said
from trellis.core.nodes.chunks import Chunks
from trellis.core.nodes.equivalence import PodGroup
from trellis.core.nodes.limits import Limits
from trellis.core.nodes.needs import Need
from trellis.core.nodes.virtual import Seats


class Waiting(msgspec.Struct, frozen=True):
    """Pods that wait: where they have room, and what was ordered for the others."""

    group: PodGroup
    seats: Seats
    need: Need


class Kept(msgspec.Struct, frozen=True):
    """The chunks of a Buffer: the same."""

    chunks: Chunks
    seats: Seats
    need: Need


class Decided(msgspec.Struct, frozen=True):
    """All that was found; `notes` are about groups that have fewer nodes than they are to have."""

    waiting: Sequence[Waiting]
    kept: Sequence[Kept]
    limits: Limits
    notes: Mapping[str, Said] = {}
