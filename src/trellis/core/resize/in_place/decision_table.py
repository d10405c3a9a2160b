"""The table that decides to resize, evict, wait or leave: by update mode, stage of the resize, and possible change.

A pod reaches the table when it needs a change. `Recreate` evicts. `InPlaceOrRecreate` resizes, and evicts when that
has failed. `InPlace` resizes, never evicts, and tries again when there is another change to try. Whether the pod may
be disrupted now, or evicted at all, is checked after the table.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import product
from typing import Final

import msgspec

from trellis.api.resolve import UpdateMode
from trellis.base.reasons import Reason, Severity
from trellis.core.resize.actuation_requirements import REQUIREMENTS_FORBID_RESIZE
from trellis.core.resize.in_place.status import ResizeState, ResizeStatus
from trellis.core.resize.settings import UpdateSettings

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


class DecisionKind(StrEnum):
    """What becomes of a pod in this pass."""

    RESIZE = "Resize"
    EVICT = "Evict"
    UNBOOST = "Unboost"
    WAIT = "Wait"
    LEAVE = "Leave"


class ResizeStage(StrEnum):
    """How far a resize is, and whether patience has run out."""

    IDLE = "not under way"
    ASKED = "proposed or in progress"
    STUCK = "in progress for too long"
    DEFERRED = "deferred"
    OVERDUE = "deferred for too long"
    FAILING = "failing"
    INFEASIBLE = "infeasible"


class ResizeProspect(StrEnum):
    """What could be written to the pod now."""

    OPEN = "a change that was not tried"
    DOWN = "a change, once all containers run"
    DOWN_TOO_LONG = "a change, and a container is down for too long"
    TRIED = "nothing beyond what was asked"
    REFUSED = "a change that the API server refused"
    BARRED = "nothing that requirements permit"
    IMPOSSIBLE = "nothing that a resize can do"
    NEGLIGIBLE = "nothing, and little is missing"


class DecisionTableRow(msgspec.Struct, frozen=True):
    """One line of the table."""

    mode: UpdateMode
    stages: tuple[ResizeStage, ...]
    prospects: tuple[ResizeProspect, ...]
    way: DecisionKind
    reason: Reason


_ANY: Final = tuple(ResizeProspect)
_SETTLED: Final = (ResizeStage.IDLE,)
CONTAINER_DOWN_PROSPECTS: Final = (ResizeProspect.DOWN, ResizeProspect.DOWN_TOO_LONG)
_NOT_OPEN: Final = tuple(
    each for each in ResizeProspect if each is not ResizeProspect.OPEN and each not in CONTAINER_DOWN_PROSPECTS
)
_BOTH: Final = UpdateMode.IN_PLACE_OR_RECREATE
_ONLY: Final = UpdateMode.IN_PLACE

DECISION_TABLE: Final = (
    DecisionTableRow(UpdateMode.RECREATE, (ResizeStage.ASKED,), _ANY, DecisionKind.WAIT, RESIZE_UNDER_WAY),
    DecisionTableRow(
        UpdateMode.RECREATE,
        tuple(stage for stage in ResizeStage if stage is not ResizeStage.ASKED),
        _ANY,
        DecisionKind.EVICT,
        EVICT_TO_RECREATE,
    ),
    DecisionTableRow(_BOTH, _SETTLED, (ResizeProspect.OPEN,), DecisionKind.RESIZE, RESIZE_IN_PLACE),
    DecisionTableRow(
        _BOTH,
        (ResizeStage.IDLE, ResizeStage.DEFERRED, ResizeStage.INFEASIBLE),
        (ResizeProspect.DOWN,),
        DecisionKind.WAIT,
        CONTAINER_DOWN,
    ),
    DecisionTableRow(
        _BOTH,
        (ResizeStage.IDLE, ResizeStage.DEFERRED, ResizeStage.INFEASIBLE),
        (ResizeProspect.DOWN_TOO_LONG,),
        DecisionKind.EVICT,
        CONTAINER_DOWN_TOO_LONG,
    ),
    DecisionTableRow(_BOTH, _SETTLED, (ResizeProspect.REFUSED,), DecisionKind.EVICT, EVICT_REFUSED),
    DecisionTableRow(_BOTH, _SETTLED, (ResizeProspect.IMPOSSIBLE,), DecisionKind.EVICT, EVICT_NOT_POSSIBLE),
    DecisionTableRow(_BOTH, _SETTLED, (ResizeProspect.BARRED,), DecisionKind.LEAVE, REQUIREMENTS_FORBID_RESIZE),
    DecisionTableRow(
        _BOTH, _SETTLED, (ResizeProspect.TRIED, ResizeProspect.NEGLIGIBLE), DecisionKind.LEAVE, AS_NEAR_AS_POSSIBLE
    ),
    DecisionTableRow(_BOTH, (ResizeStage.ASKED,), _ANY, DecisionKind.WAIT, RESIZE_UNDER_WAY),
    DecisionTableRow(_BOTH, (ResizeStage.STUCK,), _ANY, DecisionKind.EVICT, RESIZE_STUCK),
    DecisionTableRow(_BOTH, (ResizeStage.DEFERRED,), (ResizeProspect.OPEN,), DecisionKind.RESIZE, RESIZE_IN_PLACE),
    DecisionTableRow(_BOTH, (ResizeStage.DEFERRED,), _NOT_OPEN, DecisionKind.WAIT, RESIZE_DEFERRED),
    DecisionTableRow(_BOTH, (ResizeStage.OVERDUE,), _ANY, DecisionKind.EVICT, RESIZE_DEFERRED_TOO_LONG),
    DecisionTableRow(_BOTH, (ResizeStage.FAILING,), _ANY, DecisionKind.EVICT, RESIZE_FAILED),
    DecisionTableRow(_BOTH, (ResizeStage.INFEASIBLE,), (ResizeProspect.OPEN,), DecisionKind.RESIZE, RESIZE_IN_PLACE),
    DecisionTableRow(_BOTH, (ResizeStage.INFEASIBLE,), _NOT_OPEN, DecisionKind.EVICT, EVICT_INFEASIBLE),
    DecisionTableRow(_ONLY, (ResizeStage.ASKED,), _ANY, DecisionKind.WAIT, RESIZE_UNDER_WAY),
    DecisionTableRow(
        _ONLY,
        (
            ResizeStage.IDLE,
            ResizeStage.STUCK,
            ResizeStage.DEFERRED,
            ResizeStage.OVERDUE,
            ResizeStage.FAILING,
            ResizeStage.INFEASIBLE,
        ),
        (ResizeProspect.OPEN,),
        DecisionKind.RESIZE,
        RESIZE_IN_PLACE,
    ),
    DecisionTableRow(
        _ONLY,
        tuple(stage for stage in ResizeStage if stage is not ResizeStage.ASKED),
        CONTAINER_DOWN_PROSPECTS,
        DecisionKind.WAIT,
        CONTAINER_DOWN,
    ),
    DecisionTableRow(_ONLY, _SETTLED, (ResizeProspect.REFUSED,), DecisionKind.LEAVE, RESIZE_REFUSED),
    DecisionTableRow(_ONLY, _SETTLED, (ResizeProspect.IMPOSSIBLE,), DecisionKind.LEAVE, NOT_POSSIBLE_IN_PLACE),
    DecisionTableRow(_ONLY, _SETTLED, (ResizeProspect.BARRED,), DecisionKind.LEAVE, REQUIREMENTS_FORBID_RESIZE),
    DecisionTableRow(
        _ONLY, _SETTLED, (ResizeProspect.TRIED, ResizeProspect.NEGLIGIBLE), DecisionKind.LEAVE, AS_NEAR_AS_POSSIBLE
    ),
    DecisionTableRow(_ONLY, (ResizeStage.STUCK,), _NOT_OPEN, DecisionKind.WAIT, RESIZE_UNDER_WAY),
    DecisionTableRow(_ONLY, (ResizeStage.DEFERRED, ResizeStage.OVERDUE), _NOT_OPEN, DecisionKind.WAIT, RESIZE_DEFERRED),
    DecisionTableRow(_ONLY, (ResizeStage.FAILING,), _NOT_OPEN, DecisionKind.WAIT, RESIZE_FAILING),
    DecisionTableRow(_ONLY, (ResizeStage.INFEASIBLE,), _NOT_OPEN, DecisionKind.LEAVE, RESIZE_INFEASIBLE),
)

_ROWS: Final = {
    (row.mode, stage, prospect): row for row in DECISION_TABLE for stage, prospect in product(row.stages, row.prospects)
}


def look_up_decision(mode: UpdateMode, stage: ResizeStage, prospect: ResizeProspect) -> DecisionTableRow:
    """The line of the table for a pod that needs a change."""
    return _ROWS[mode, stage, prospect]


def determine_resize_stage(
    resize: ResizeStatus, asked_at: float | None, now: float, settings: UpdateSettings
) -> tuple[ResizeStage, float | None]:
    """The stage, and when it will be another without anything happening before.

    `asked_at` is when we asked for a resize, if we remember: the kubelet does not say before it has looked.
    """
    since = resize.since if resize.since is not None else asked_at
    match resize.state:
        case ResizeState.NONE:
            return ResizeStage.IDLE, None
        case ResizeState.INFEASIBLE:
            return ResizeStage.INFEASIBLE, None
        case ResizeState.FAILING:
            return ResizeStage.FAILING, None
        case ResizeState.DEFERRED:
            return _in_time(ResizeStage.DEFERRED, ResizeStage.OVERDUE, since, settings.deferred_patience, now)
        case ResizeState.PROPOSED | ResizeState.IN_PROGRESS:
            return _in_time(ResizeStage.ASKED, ResizeStage.STUCK, since, settings.progress_patience, now)


def _in_time(
    early: ResizeStage, late: ResizeStage, since: float | None, patience: float, now: float
) -> tuple[ResizeStage, float | None]:
    if since is None:
        return early, None
    return (late, None) if now >= since + patience else (early, since + patience)
