"""Drafts of a pod's size, one per resource, which the steps of sizing change in turn.

A draft holds what the spec would say: for a container that is not sized, what the spec says now. Zero is "not set".
"""

from __future__ import annotations

import msgspec

from trellis.base.reasons import Reason
from trellis.core.recommend.capping.container import compute_proportional_limit
from trellis.core.sizing.shapes import ContainerShape, PodShape, StartupStage, sum_largest_stage


class ContainerDraft(msgspec.Struct):
    """One container of a draft. `limit_follows`: its limit is set in proportion to the request.

    `base` is the request and limit that define the proportion, `default` the limit of a LimitRange for containers
    without one.
    """

    resource: str
    shape: ContainerShape
    spec: tuple[int, int]
    base: tuple[int, int]
    default: int
    request: int
    limit: int
    sized: bool = False
    limit_follows: bool = False
    reasons: tuple[Reason, ...] = ()

    def set_request(self, request: int, *, limit_follows: bool) -> None:
        """Sets the request, and the limit in proportion if there is one to set."""
        self.sized, self.request = True, request
        limit = compute_proportional_limit(request, *self.base, self.default) if limit_follows else None
        if limit is not None:
            self.limit_follows, self.limit = True, limit

    def lower_request(self, request: int) -> None:
        """Lowers the request, and with it the limit in proportion, never below the request."""
        self.request = request
        if self.limit_follows:
            proportional = compute_proportional_limit(request, *self.base, self.default)
            self.limit = max(request, min(self.limit, proportional or self.limit))

    def reset(self, reason: Reason) -> None:
        """Resets request and limit to the spec."""
        self.sized = self.limit_follows = False
        self.request, self.limit = self.spec
        self.reasons = (*self.reasons, reason)

    def add_reason(self, reason: Reason) -> None:
        """Adds a reason why the size differs from the recommendation, once."""
        if reason not in self.reasons:
            self.reasons = (*self.reasons, reason)


class ResourceDraft(msgspec.Struct):
    """One resource of a pod; of its own resources, `None` is "not set"."""

    resource: str
    containers: list[ContainerDraft]
    shape: PodShape
    pod_request: int | None
    pod_limit: int | None

    @classmethod
    def from_shape(cls, resource: str, shape: PodShape, default: int) -> ResourceDraft:
        """The draft of a pod with nothing sized."""
        return cls(
            resource,
            [_container_draft(resource, container, default) for container in shape.containers],
            shape,
            shape.pod_requests.get(resource),
            shape.pod_limits.get(resource),
        )

    @property
    def stages(self) -> tuple[StartupStage, ...]:
        """Which of the parts run at the same time."""
        return self.shape.stages

    @property
    def init_requests(self) -> list[int]:
        """The requests of init containers that end."""
        return [container.requests.get(self.resource, 0) for container in self.shape.init_containers]

    @property
    def init_limits(self) -> list[int]:
        """Their limits."""
        return [container.limits.get(self.resource, 0) for container in self.shape.init_containers]

    def sum_requests(self) -> int:
        """The largest sum of requests at any startup stage."""
        return sum_largest_stage(self.stages, [container.request for container in self.containers], self.init_requests)

    def sum_limits(self) -> int:
        """The largest sum of limits; a container without one adds nothing, as LimitRanges count."""
        return sum_largest_stage(self.stages, [container.limit for container in self.containers], self.init_limits)

    def without_changes(self) -> ResourceDraft:
        """The same pod with nothing sized."""
        parts = [
            msgspec.structs.replace(container, request=container.spec[0], limit=container.spec[1])
            for container in self.containers
        ]
        return msgspec.structs.replace(self, containers=parts)


def _container_draft(resource: str, container: ContainerShape, default: int) -> ContainerDraft:
    base = container.requests.get(resource, 0), container.limits.get(resource, 0)
    declared = container.declared
    spec = base if declared is None else (declared.requests.get(resource, 0), declared.limits.get(resource, 0))
    return ContainerDraft(resource, container, spec, base, default, *spec)
