"""What does an HPA say of itself after a look? Counts, metrics and conditions, as its controller writes them."""

from __future__ import annotations

from typing import Final

from trellis.api.kube.meta import Condition
from trellis.api.kube.scaling import HorizontalPodAutoscalerStatus
from trellis.sim.cluster.pods import moment

ABLE: Final = "AbleToScale"
ACTIVE: Final = "ScalingActive"
LIMITED: Final = "ScalingLimited"


class Look:
    """What comes of one look at an HPA, put together step by step."""

    def __init__(self, before: HorizontalPodAutoscalerStatus, now: float) -> None:
        self._now = now
        self._before = {each.type: each for each in before.conditions}
        self._conditions = dict(self._before)
        self.current = before.current_replicas
        self.desired = before.desired_replicas
        self.metrics = before.current_metrics
        self.scaled_at = before.last_scale_time

    def say(self, type_: str, holds: bool, reason: str, message: str) -> None:
        """A condition, whose time changes with its value alone."""
        status, old = "True" if holds else "False", self._before.get(type_)
        since = old.last_transition_time if old is not None and old.status == status else moment(self._now)
        self._conditions[type_] = Condition(type_, 0, status, since, reason, message)

    def status(self, generation: int) -> HorizontalPodAutoscalerStatus:
        """All of it."""
        return HorizontalPodAutoscalerStatus(
            generation, self.scaled_at, self.current, self.desired, self.metrics, tuple(self._conditions.values())
        )
