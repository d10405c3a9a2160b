"""Finds HPA scale points that a new request moves, and the target that keeps them.

A target in per cent is a share of requests: with half the request, an HPA sees twice the utilization of the same usage
and adds as many pods again, so that the savings of a smaller request are lost. A target that is an amount is not
affected.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import msgspec

from trellis.base.reasons import Reason, Severity
from trellis.core.advice.sizes import ResourceAdvice
from trellis.core.advice.survey.model import HpaTarget, SurveyedWorkload

SCALE_POINT_MOVES = Reason(
    "ScalePointMoves",
    "The new request changes the usage at which an HPA adds pods, unless the HPA's target is changed too.",
    Severity.WARNING,
)
SCALE_POINT_MISSING = Reason(
    "ScalePointMissing",
    "An HPA targets utilization, and a container has no request, so the HPA does nothing.",
    Severity.WARNING,
)
# Kubernetes rounds utilization to whole per cent; less than one per cent of a request is not seen.
_NOTICEABLE_CHANGE = 0.01


class HpaScalePoint(msgspec.Struct, frozen=True):
    """A target of an HPA in per cent, and the usage of one pod at which it adds pods, before and after.

    `keeps` is the target, in whole per cent, that leaves the point where it was; NaN where there was none.
    `container` is empty if the whole pod counts.
    """

    reason: Reason
    hpa: str
    resource: str
    container: str
    utilization: float
    before: float
    after: float
    keeps: float

    @property
    def moves_by(self) -> float:
        """The relative move: -0.5 is at half the usage."""
        return self.after / self.before - 1.0


def find_moved_scale_points(
    workload: SurveyedWorkload, changes: Mapping[tuple[str, str], ResourceAdvice]
) -> Iterator[HpaScalePoint]:
    """The targets that the changes of a workload, by container and resource, move or make work."""
    for hpa in workload.hpas:
        for target in hpa.targets:
            point = _find_scale_point(hpa.name, target, changes)
            if point is not None:
                yield point


def _find_scale_point(
    hpa: str, target: HpaTarget, changes: Mapping[tuple[str, str], ResourceAdvice]
) -> HpaScalePoint | None:
    if math.isnan(target.utilization):
        return None
    container_changes = [
        change
        for (container, resource), change in changes.items()
        if resource == target.resource and target.container in ("", container)
    ]
    if not container_changes:
        return None
    share = target.utilization / 100.0
    # One container without a request is enough to stop an HPA, which makes the sum NaN too.
    before = share * sum(change.request_before for change in container_changes)
    after = share * sum(change.request for change in container_changes)
    common_fields = (hpa, target.resource, target.container, target.utilization, before, after)
    if math.isnan(before):
        return HpaScalePoint(SCALE_POINT_MISSING, *common_fields, math.nan)
    if not before or not after or abs(after / before - 1.0) < _NOTICEABLE_CHANGE:
        return None
    return HpaScalePoint(SCALE_POINT_MOVES, *common_fields, max(round(target.utilization * before / after), 1))
