"""Resize, evict, wait or leave? A table: the mode, how far a resize is, and what could be written to the pod now.

A pod reaches the table when it needs a change. `Recreate` evicts. `InPlaceOrRecreate` resizes, and evicts when that
has failed. `InPlace` resizes, never evicts, and tries again when there is something else to try. Whether the pod may be
disturbed now, or evicted at all, is asked after the table has said what would be done.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import product
from typing import Final

import msgspec

from trellis.api.resolve import UpdateMode
from trellis.base.reason import Reason, Severity
from trellis.core.resize.requirements import REQUIREMENTS_FORBID_RESIZE
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.states import Resize, ResizeState

EVICT_TO_RECREATE = Reason("EvictToRecreate", "The pod is evicted, so that its successor gets what is recommended.")
RESIZE_IN_PLACE = Reason("ResizeInPlace", "The pod is resized where it runs.")
RESIZE_UNDER_WAY = Reason("ResizeUnderWay", "A resize has been asked for, and the node has not done it yet.")
RESIZE_DEFERRED = Reason("ResizeDeferred", "The node has no room for the resize now, and will try again.")
RESIZE_DEFERRED_TOO_LONG = Reason(
    "ResizeDeferredTooLong", "The node has had no room for the resize for so long that the pod is evicted."
)
RESIZE_STUCK = Reason("ResizeStuck", "The resize has been under way for so long that the pod is evicted.")
RESIZE_FAILING = Reason("ResizeFailing", "The node fails to resize the pod, and tries again.", Severity.WARNING)
RESIZE_FAILED = Reason("ResizeFailed", "The node fails to resize the pod, so that it is evicted.", Severity.WARNING)
RESIZE_INFEASIBLE = Reason(
    "ResizeInfeasible", "The node can never give the pod this size, so that it stays until another is recommended."
)
EVICT_INFEASIBLE = Reason("EvictInfeasible", "The node can never give the pod this size, so that the pod is evicted.")
RESIZE_REFUSED = Reason(
    "ResizeRefused", "The API server refused this resize; another recommendation or another node will be tried."
)
EVICT_REFUSED = Reason("EvictRefused", "The API server refused the resize, so that the pod is evicted.")
NOT_POSSIBLE_IN_PLACE = Reason(
    "NotPossibleInPlace", "What is recommended cannot be had without a new pod, which this mode never makes."
)
EVICT_NOT_POSSIBLE = Reason("EvictNotPossibleInPlace", "What is recommended cannot be had without a new pod.")
CONTAINER_DOWN = Reason(
    "ContainerDown",
    "A container is down, and kubelets do not apply a resize to the pod's cgroup before it runs again.",
)
CONTAINER_DOWN_TOO_LONG = Reason(
    "ContainerDownTooLong", "A container has been down for so long that the pod is evicted instead of resized."
)
AS_NEAR_AS_POSSIBLE = Reason(
    "AsNearAsPossible", "The pod is as near to the recommendation as it can be, and the rest is not worth an eviction."
)


class Way(StrEnum):
    """What becomes of a pod in this pass."""

    RESIZE = "Resize"
    EVICT = "Evict"
    UNBOOST = "Unboost"
    WAIT = "Wait"
    LEAVE = "Leave"


class Stage(StrEnum):
    """How far a resize is, and whether patience has run out."""

    IDLE = "not under way"
    ASKED = "proposed or in progress"
    STUCK = "in progress for too long"
    DEFERRED = "deferred"
    OVERDUE = "deferred for too long"
    FAILING = "failing"
    INFEASIBLE = "infeasible"


class Prospect(StrEnum):
    """What could be written to the pod now."""

    OPEN = "a change that was not tried"
    DOWN = "a change, once all containers run"
    DOWN_TOO_LONG = "a change, and a container is down for too long"
    TRIED = "nothing beyond what was asked"
    REFUSED = "a change that the API server refused"
    BARRED = "nothing that requirements permit"
    IMPOSSIBLE = "nothing that a resize can do"
    NEGLIGIBLE = "nothing, and little is missing"


class Row(msgspec.Struct, frozen=True):
    """One line of the table."""

    mode: UpdateMode
    stages: tuple[Stage, ...]
    prospects: tuple[Prospect, ...]
    way: Way
    reason: Reason


_ANY: Final = tuple(Prospect)
_SETTLED: Final = (Stage.IDLE,)
DOWN: Final = (Prospect.DOWN, Prospect.DOWN_TOO_LONG)
_NOT_OPEN: Final = tuple(each for each in Prospect if each is not Prospect.OPEN and each not in DOWN)
_BOTH: Final = UpdateMode.IN_PLACE_OR_RECREATE
_ONLY: Final = UpdateMode.IN_PLACE

TABLE: Final = (
    Row(UpdateMode.RECREATE, (Stage.ASKED,), _ANY, Way.WAIT, RESIZE_UNDER_WAY),
    Row(
        UpdateMode.RECREATE,
        tuple(stage for stage in Stage if stage is not Stage.ASKED),
        _ANY,
        Way.EVICT,
        EVICT_TO_RECREATE,
    ),
    Row(_BOTH, _SETTLED, (Prospect.OPEN,), Way.RESIZE, RESIZE_IN_PLACE),
    Row(_BOTH, (Stage.IDLE, Stage.DEFERRED, Stage.INFEASIBLE), (Prospect.DOWN,), Way.WAIT, CONTAINER_DOWN),
    Row(
        _BOTH,
        (Stage.IDLE, Stage.DEFERRED, Stage.INFEASIBLE),
        (Prospect.DOWN_TOO_LONG,),
        Way.EVICT,
        CONTAINER_DOWN_TOO_LONG,
    ),
    Row(_BOTH, _SETTLED, (Prospect.REFUSED,), Way.EVICT, EVICT_REFUSED),
    Row(_BOTH, _SETTLED, (Prospect.IMPOSSIBLE,), Way.EVICT, EVICT_NOT_POSSIBLE),
    Row(_BOTH, _SETTLED, (Prospect.BARRED,), Way.LEAVE, REQUIREMENTS_FORBID_RESIZE),
    Row(_BOTH, _SETTLED, (Prospect.TRIED, Prospect.NEGLIGIBLE), Way.LEAVE, AS_NEAR_AS_POSSIBLE),
    Row(_BOTH, (Stage.ASKED,), _ANY, Way.WAIT, RESIZE_UNDER_WAY),
    Row(_BOTH, (Stage.STUCK,), _ANY, Way.EVICT, RESIZE_STUCK),
    Row(_BOTH, (Stage.DEFERRED,), (Prospect.OPEN,), Way.RESIZE, RESIZE_IN_PLACE),
    Row(_BOTH, (Stage.DEFERRED,), _NOT_OPEN, Way.WAIT, RESIZE_DEFERRED),
    Row(_BOTH, (Stage.OVERDUE,), _ANY, Way.EVICT, RESIZE_DEFERRED_TOO_LONG),
    Row(_BOTH, (Stage.FAILING,), _ANY, Way.EVICT, RESIZE_FAILED),
    Row(_BOTH, (Stage.INFEASIBLE,), (Prospect.OPEN,), Way.RESIZE, RESIZE_IN_PLACE),
    Row(_BOTH, (Stage.INFEASIBLE,), _NOT_OPEN, Way.EVICT, EVICT_INFEASIBLE),
    Row(_ONLY, (Stage.ASKED,), _ANY, Way.WAIT, RESIZE_UNDER_WAY),
    Row(
        _ONLY,
        (Stage.IDLE, Stage.STUCK, Stage.DEFERRED, Stage.OVERDUE, Stage.FAILING, Stage.INFEASIBLE),
        (Prospect.OPEN,),
        Way.RESIZE,
        RESIZE_IN_PLACE,
    ),
    Row(_ONLY, tuple(stage for stage in Stage if stage is not Stage.ASKED), DOWN, Way.WAIT, CONTAINER_DOWN),
    Row(_ONLY, _SETTLED, (Prospect.REFUSED,), Way.LEAVE, RESIZE_REFUSED),
    Row(_ONLY, _SETTLED, (Prospect.IMPOSSIBLE,), Way.LEAVE, NOT_POSSIBLE_IN_PLACE),
    Row(_ONLY, _SETTLED, (Prospect.BARRED,), Way.LEAVE, REQUIREMENTS_FORBID_RESIZE),
    Row(_ONLY, _SETTLED, (Prospect.TRIED, Prospect.NEGLIGIBLE), Way.LEAVE, AS_NEAR_AS_POSSIBLE),
    Row(_ONLY, (Stage.STUCK,), _NOT_OPEN, Way.WAIT, RESIZE_UNDER_WAY),
    Row(_ONLY, (Stage.DEFERRED, Stage.OVERDUE), _NOT_OPEN, Way.WAIT, RESIZE_DEFERRED),
    Row(_ONLY, (Stage.FAILING,), _NOT_OPEN, Way.WAIT, RESIZE_FAILING),
    Row(_ONLY, (Stage.INFEASIBLE,), _NOT_OPEN, Way.LEAVE, RESIZE_INFEASIBLE),
)

_FOUND: Final = {
    (row.mode, stage, prospect): row for row in TABLE for stage, prospect in product(row.stages, row.prospects)
}


def decide(mode: UpdateMode, stage: Stage, prospect: Prospect) -> Row:
    """The line of the table for a pod that needs a change."""
    return _FOUND[mode, stage, prospect]


def stage_of(
    resize: Resize, asked_at: float | None, now: float, settings: UpdateSettings
) -> tuple[Stage, float | None]:
    """The stage, and when it will be another without anything happening before.

    `asked_at` is when we asked for a resize, if we remember: the kubelet does not say before it has looked.
    """
    since = resize.since if resize.since is not None else asked_at
    match resize.state:
        case ResizeState.NONE:
            return Stage.IDLE, None
        case ResizeState.INFEASIBLE:
            return Stage.INFEASIBLE, None
        case ResizeState.FAILING:
            return Stage.FAILING, None
        case ResizeState.DEFERRED:
            return _in_time(Stage.DEFERRED, Stage.OVERDUE, since, settings.deferred_patience, now)
        case ResizeState.PROPOSED | ResizeState.IN_PROGRESS:
            return _in_time(Stage.ASKED, Stage.STUCK, since, settings.progress_patience, now)


def _in_time(early: Stage, late: Stage, since: float | None, patience: float, now: float) -> tuple[Stage, float | None]:
    if since is None:
        return early, None
    return (late, None) if now >= since + patience else (early, since + patience)
