"""Decisions on running pods and the actions that carry them out, as data.

An action names the pod as it was observed, and what it should become. The executor hands it back with its result
(`state.attempts`), so that an action also holds what has to be remembered of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

import msgspec

from trellis.base.reasons import Reason
from trellis.core.cluster.json_patches import PatchOp
from trellis.core.recommend.amounts import ResourceAmounts
from trellis.core.resize.eligibility import UpdateNeed

_NO_NODE: ResourceAmounts = {}


class DecisionKind(StrEnum):
    """What is done to a pod in this pass."""

    RESIZE = "Resize"
    EVICT = "Evict"
    UNBOOST = "Unboost"
    WAIT = "Wait"
    LEAVE = "Leave"


class PodRef(msgspec.Struct, frozen=True):
    """One pod, and no other of the same name."""

    namespace: str
    name: str
    uid: str


class ControllerKey(msgspec.Struct, frozen=True):
    """The direct controller of pods: pods that one of them keeps in number are disturbed a few at a time."""

    kind: str
    name: str


class ResizePod(msgspec.Struct, frozen=True, tag=True):
    """Patch `pods/resize`. `wanted` are the requests by container, and `node` is what the pod's node offers."""

    pod: PodRef
    patch: tuple[PatchOp, ...]
    wanted: Mapping[str, ResourceAmounts]
    node: ResourceAmounts = _NO_NODE
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
    group: ControllerKey
    had: Mapping[str, ResourceAmounts]
    again: bool = False
    beside: tuple[str, ...] = ()
    created: float | None = None


Action: TypeAlias = ResizePod | UnmarkPod | EvictPod


class ReplicaBudgetStatus(msgspec.Struct, frozen=True):
    """Where a budget stands: how many pods there should be, live, are Ready, may be out of service and must live."""

    configured: int
    living: int
    ready: int
    tolerated: int
    minimum: int


class PodDecision(msgspec.Struct, frozen=True):
    """One per pod and plan. `need` says what the pod lacks, if anything; `warnings` hold whatever is done.

    `look` is when the decision may change without any event before. `apart` is how far requests are off where that is
    no need, and `budget` the budget that refused a disruption; explanations read both.
    """

    pod: PodRef
    way: DecisionKind
    reason: Reason
    need: UpdateNeed | None = None
    details: str = ""
    warnings: tuple[Reason, ...] = ()
    look: float | None = None
    apart: float = 0.0
    budget: ReplicaBudgetStatus | None = None


class PodUpdate(msgspec.Struct, frozen=True):
    """A decision and its actions."""

    verdict: PodDecision
    actions: tuple[Action, ...] = ()
