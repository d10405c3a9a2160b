"""What is to be done to a running pod, as data: which pod, as it was seen, and what should become of it.

Whoever carries an action out hands it back with what became of it (`attempts.fold`), so that an action also holds what
has to be remembered of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from trellis.core.model.patches import PatchOp
from trellis.core.recommend.capping.limit_ranges import Counts

_NO_NODE: Counts = {}


class PodRef(msgspec.Struct, frozen=True):
    """One pod, and no other of the same name."""

    namespace: str
    name: str
    uid: str


class GroupKey(msgspec.Struct, frozen=True):
    """The direct controller of pods: pods that one of them keeps in number are disturbed a few at a time."""

    kind: str
    name: str


class ResizePod(msgspec.Struct, frozen=True, tag=True):
    """Patch `pods/resize`. `wanted` are the requests by container, and `node` is what the pod's node offers."""

    pod: PodRef
    patch: tuple[PatchOp, ...]
    wanted: Mapping[str, Counts]
    node: Counts = _NO_NODE
    restarts: bool = False
    unboosts: bool = False


class UnmarkPod(msgspec.Struct, frozen=True, tag=True):
    """Remove the annotations of boosts that are over and taken back."""

    pod: PodRef
    patch: tuple[PatchOp, ...]


class EvictPod(msgspec.Struct, frozen=True, tag=True):
    """Ask for the pod to go, disruption budgets permitting.

    `had` are its requests by container; `again` says that it came after an eviction which changed nothing. `beside` are
    the uids of pods that are as new as this decision; `created` is when the pod itself was made.
    """

    pod: PodRef
    group: GroupKey
    had: Mapping[str, Counts]
    again: bool = False
    beside: tuple[str, ...] = ()
    created: float | None = None


Action: TypeAlias = ResizePod | UnmarkPod | EvictPod
