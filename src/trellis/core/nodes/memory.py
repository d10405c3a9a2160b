"""What is remembered from one plan for more nodes to the next?

Nothing that is lost with a process leads to an order that was given already: that stands with the provider.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from trellis.core.nodes.backoff import Backoff, failed
from trellis.core.nodes.up_settings import UpSettings
from trellis.core.nodes.upcoming import Promise


class UpMemory(msgspec.Struct, frozen=True):
    """`promises` are orders that their groups do not show yet, `missing` since when groups have less than they say.

    `seats` has, by the UID of a Buffer, the node or row of each chunk, empty for one that had none, and `places`, by
    the UID of a pod that waits, the one that is meant for it; rows stand for nodes on their way. `full_at` is when all
    chunks of a Buffer last had room. `left` has, by the UID of a Buffer, the nodes on which chunks have made way for
    pods that are not there yet. `missed` are UIDs of pods for which a Buffer had none, so that each counts once.
    """

    backoffs: Mapping[str, Backoff] = MappingProxyType({})
    promises: Mapping[str, Promise] = MappingProxyType({})
    missing: Mapping[str, float] = MappingProxyType({})
    seats: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    places: Mapping[str, str] = MappingProxyType({})
    full_at: Mapping[str, float] = MappingProxyType({})
    left: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    missed: frozenset[str] = frozenset()


def order_failed(memory: UpMemory, group: str, why: str, now: float, settings: UpSettings) -> UpMemory:
    """The same after a provider refused an order or gave no answer: the group is left alone for a while."""
    backoff = failed(memory.backoffs.get(group), now, why, settings)
    memory = order_unfinished(memory, group)
    return msgspec.structs.replace(memory, backoffs={**memory.backoffs, group: backoff})


def order_unfinished(memory: UpMemory, group: str) -> UpMemory:
    """The same after an order was not written in full: what there is of it shows in the group."""
    promises = {name: each for name, each in memory.promises.items() if name != group}
    return msgspec.structs.replace(memory, promises=promises)
