"""Computes the boosted CPU of containers when their pod is created.

The base is what the container gets otherwise: its recommendation where that is applied, else its own request. The
boost may pass every policy, but not what keeps a pod from being admitted or unboosted: LimitRanges, resources of the
pod as a whole, its QoS class, a restart. Memory is not boosted.

`Factor` multiplies request and limit, `Quantity` adds the same to both. Every cap lowers the request, and the limit is
computed again by the same rule. So a limit that equals its request still does, one above it stays above, and the QoS
class of the pod is the same as without the boost.

Where several containers share a maximum, each boost is cut by the same ratio, and at most to nothing: what the pod
needs without boosts is not lowered. Native sidecars run beside init containers before they run beside the others, so
that each such stage is a sum of its own. Boosts are given by the position of their container.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from trellis.api.resolve import Boost, BoostKind, EffectiveContainerPolicy, EffectiveVpa
from trellis.base.quantities import LARGEST_COUNT
from trellis.base.reasons import Reason, Severity
from trellis.core.boost.annotation import write_annotation
from trellis.core.recommend.capping.limit_ranges import NamespaceLimits
from trellis.core.sizing.shapes import ContainerShape, PodShape, sum_largest_stage, sum_stage
from trellis.core.sizing.sizes import PodSize

BOOST_CAPPED_BY_FLAG = Reason("BoostCappedByFlag", "The boost was capped by --max-allowed-cpu-boost.")
BOOST_CAPPED_BY_LIMIT_RANGE = Reason("BoostCappedByLimitRange", "The boost was capped by the maximum of a LimitRange.")
BOOST_CAPPED_BY_POD = Reason("BoostCappedByPod", "The boost was capped by the pod-level request or limit.")
BOOST_CAPPED_BY_NODE = Reason("BoostCappedByNode", "The boost was capped so that the pod fits on a node.")
BOOST_KEPT_BELOW_LIMIT = Reason(
    "BoostKeptBelowLimit",
    "The boosted request was kept 1m below the limit, which does not change, so that the QoS class does not change.",
)
BOOST_WITHOUT_EFFECT = Reason(
    "BoostWithoutEffect", "The boost adds nothing: caps leave no more than the size without it."
)
BOOST_SKIPPED_NO_BASE = Reason(
    "BoostSkippedNoBase", "The container is not boosted: it has neither a recommendation nor a request."
)
BOOST_SKIPPED_NOT_RESIZABLE = Reason(
    "BoostSkippedNotResizable",
    "The container is not boosted: pods of this operating system cannot be resized in place.",
)
BOOST_SKIPPED_RESTART = Reason(
    "BoostSkippedRestart",
    "The container is not boosted: the end of the boost would restart it just after it became Ready.",
)
BOOST_WOULD_NOT_FIT = Reason(
    "BoostWouldNotFit", "With its boost the pod fits on none of the nodes that would accept it.", Severity.WARNING
)

# The words of the pod's annotation, in the manner of upstream's.
_PHRASES: Final = {
    BOOST_CAPPED_BY_FLAG.code: "boost capped to --max-allowed-cpu-boost",
    BOOST_CAPPED_BY_LIMIT_RANGE.code: "boost capped to fit Max in LimitRange",
    BOOST_CAPPED_BY_POD.code: "boost capped to fit pod resources",
    BOOST_CAPPED_BY_NODE.code: "boost capped to fit a node",
    BOOST_KEPT_BELOW_LIMIT.code: "boost kept below container limit",
    BOOST_WITHOUT_EFFECT.code: "not boosted since caps leave nothing of the boost",
    BOOST_SKIPPED_NO_BASE.code: "not boosted since there is no request to boost",
    BOOST_SKIPPED_NOT_RESIZABLE.code: "not boosted since the pod cannot be resized",
    BOOST_SKIPPED_RESTART.code: "not boosted since a resize restarts the container",
    BOOST_WOULD_NOT_FIT.code: "boost makes the pod too large for every node",
}


class BoostNote(msgspec.Struct, frozen=True):
    """Something that made a boost other than its policy says; its text is the phrase of the pod's annotation."""

    reason: Reason
    resource: str = "cpu"

    def __str__(self) -> str:
        return f"{self.resource} {_PHRASES[self.reason.code]}"


class BoostDraft(msgspec.Struct):
    """A boost that is being worked out: `base` and `limit` are what the container gets otherwise, in millicores."""

    container: ContainerShape
    base: int
    limit: int | None
    multiplies: bool
    limit_follows: bool
    request: int
    notes: list[BoostNote] = []

    @classmethod
    def from_policy(
        cls, container: ContainerShape, boost: Boost, policy: EffectiveContainerPolicy, unboosted: tuple[int, int]
    ) -> BoostDraft:
        """Build the boost that the policy asks for, before any cap."""
        base, limit = unboosted
        multiplies = boost.kind is BoostKind.FACTOR
        request = base * boost.factor if multiplies else base + boost.quantity.milli
        draft = cls(container, base, limit or None, multiplies, policy.scales_limits and limit > 0, request)
        draft.request = min(request, draft.request_at(LARGEST_COUNT))
        return draft

    @property
    def is_above(self) -> bool:
        """Whether anything is left of the boost."""
        return self.request > self.base

    @property
    def boosted_limit(self) -> int | None:
        """The limit beside the request as it is now."""
        if self.limit is None or not self.limit_follows:
            return self.limit
        return self.limit * self.request // self.base if self.multiplies else self.limit + self.request - self.base

    def request_at(self, limit: int) -> int:
        """The highest request which itself, and whose limit, is within a bound."""
        if self.limit is None or not self.limit_follows:
            return limit
        return min(limit, self.base * limit // self.limit if self.multiplies else self.base + limit - self.limit)

    def compute_rise(self, *, for_limits: bool = False) -> int:
        """By how much the request, or the limit, is raised; rounded up, so that a sum of them is never too low."""
        raised = max(self.request - self.base, 0)
        if not for_limits:
            return raised
        if self.limit is None or not self.limit_follows:
            return 0
        return -(-self.limit * raised // self.base) if self.multiplies else raised

    def lower_request(self, request: int, reason: Reason) -> None:
        """Lower the request to this maximum, and note the reason."""
        if self.request > request:
            self.request = request
            self.notes.append(BoostNote(reason))


_CPU = "cpu"


def share_maximum(
    drafts: Mapping[int, BoostDraft],
    shape: PodShape,
    amounts: Sequence[int],
    maximum: int,
    reason: Reason,
    *,
    for_limits: bool = False,
) -> None:
    """Cut the boosts so that requests, or limits, are within a maximum; `amounts` are those without boosts."""
    inits = [
        (container.limits if for_limits else container.requests).get(_CPU, 0) for container in shape.init_containers
    ]
    for stage in shape.stages:
        running = [drafts[position] for position in stage.running if position in drafts]
        _cut_proportionally(running, max(maximum - sum_stage(stage, amounts, inits), 0), reason, for_limits)


def exceeds_with_boosts(
    drafts: Mapping[int, BoostDraft], shape: PodShape, requests: Sequence[int], maximum: int
) -> bool:
    """Whether a pod requests more than a maximum with its boosts, and does not without them."""
    inits = [container.requests.get(_CPU, 0) for container in shape.init_containers]
    boosted = [
        request + drafts[position].compute_rise() if position in drafts else request
        for position, request in enumerate(requests)
    ]
    return sum_largest_stage(shape.stages, requests, inits) <= maximum < sum_largest_stage(shape.stages, boosted, inits)


def _cut_proportionally(drafts: Sequence[BoostDraft], allowance: int, reason: Reason, for_limits: bool) -> None:
    rises = [draft.compute_rise(for_limits=for_limits) for draft in drafts]
    total = sum(rises)
    if total <= allowance:
        return
    for draft, rise in zip(drafts, rises, strict=True):
        if rise:
            draft.lower_request(draft.base + (draft.request - draft.base) * allowance // total, reason)


class BoostSettings(msgspec.Struct, frozen=True):
    """Cluster-wide settings. `enabled`: the gate is on, and the API server can resize a pod in place.

    `max_cpu` is the flag `--max-allowed-cpu-boost` in millicores; None and 0 cap nothing.
    """

    enabled: bool = True
    max_cpu: int | None = None


class CpuCeiling(msgspec.Struct, frozen=True):
    """The most CPU that the whole pod could request on some node that would take it; `binding` says that it must."""

    millicores: int
    binding: bool


class BoostedContainer(msgspec.Struct, frozen=True):
    """A boosted container: request and limit (None: it has none), and the annotation that remembers what it had."""

    container: ContainerShape
    base: int
    request: int
    limit: int | None
    annotation: str
    notes: tuple[BoostNote, ...] = ()


class PodBoost(msgspec.Struct, frozen=True):
    """The boosts of a pod, and by container what there is to say, also about those that were not boosted."""

    containers: tuple[BoostedContainer, ...] = ()
    notes: tuple[tuple[str, BoostNote], ...] = ()

    def find(self, name: str) -> BoostedContainer | None:
        """The boost of one container."""
        return next((container for container in self.containers if container.container.name == name), None)


def boost_pod(
    shape: PodShape,
    size: PodSize,
    vpa: EffectiveVpa,
    *,
    applies: bool,
    limits: NamespaceLimits,
    settings: BoostSettings,
    ceiling: CpuCeiling | None = None,
    resizable: bool = True,
) -> PodBoost:
    """The boosts of a pod that is being created; `applies` says that its size is what it gets otherwise."""
    if not settings.enabled:
        return PodBoost()
    unboosted = [_unboosted_amounts(container, size, applies) for container in shape.containers]
    drafts: dict[int, BoostDraft] = {}
    notes: list[tuple[str, BoostNote]] = []
    for position, container in enumerate(shape.containers):
        policy = vpa.get_container(container.name)
        if policy.boost is None:
            continue
        if not resizable:
            notes.append((container.name, BoostNote(BOOST_SKIPPED_NOT_RESIZABLE)))
        elif _CPU in container.restarts_on:
            notes.append((container.name, BoostNote(BOOST_SKIPPED_RESTART)))
        elif not unboosted[position][0]:
            notes.append((container.name, BoostNote(BOOST_SKIPPED_NO_BASE)))
        else:
            drafts[position] = BoostDraft.from_policy(container, policy.boost, policy, unboosted[position])
            _cap_container(drafts[position], shape, limits, settings)
    _cap_pod(drafts, shape, unboosted, limits, ceiling)
    for draft in drafts.values():
        if not draft.is_above:
            draft.notes.append(BoostNote(BOOST_WITHOUT_EFFECT))
        notes += [(draft.container.name, note) for note in draft.notes]
    return PodBoost(tuple(_to_boosted_container(draft) for draft in drafts.values() if draft.is_above), tuple(notes))


def _unboosted_amounts(container: ContainerShape, size: PodSize, applies: bool) -> tuple[int, int]:
    """Return the request and limit of a container without a boost, in millicores; 0 is none."""
    spec_limit = container.limits.get(_CPU, 0)
    sized = size.find(container.name) if applies else None
    if sized is not None and sized.requests.get(_CPU):
        return sized.requests[_CPU], sized.limits.get(_CPU, spec_limit)
    # A limit without a request counts as both, as the API server fills it in.
    return container.requests.get(_CPU, 0) or spec_limit, spec_limit


def _cap_container(draft: BoostDraft, shape: PodShape, limits: NamespaceLimits, settings: BoostSettings) -> None:
    """Apply the caps of a single container."""
    if settings.max_cpu:
        draft.lower_request(settings.max_cpu, BOOST_CAPPED_BY_FLAG)
    if maximum := limits.container.most.get(_CPU):
        draft.lower_request(draft.request_at(maximum), BOOST_CAPPED_BY_LIMIT_RANGE)
    if maximum := shape.pod_limits.get(_CPU):
        draft.lower_request(draft.request_at(maximum), BOOST_CAPPED_BY_POD)
    if draft.limit is not None and not draft.limit_follows:
        draft.lower_request(draft.limit - 1, BOOST_KEPT_BELOW_LIMIT)


def _cap_pod(
    drafts: Mapping[int, BoostDraft],
    shape: PodShape,
    unboosted: Sequence[tuple[int, int]],
    limits: NamespaceLimits,
    ceiling: CpuCeiling | None,
) -> None:
    """Apply the caps of the pod as a whole."""
    requests, maxima = [request for request, _ in unboosted], [limit for _, limit in unboosted]
    pod_request = shape.pod_requests.get(_CPU)
    if pod_request:
        share_maximum(drafts, shape, requests, pod_request, BOOST_CAPPED_BY_POD)
    # Where a pod has amounts of its own, LimitRanges for pods hold for those.
    maximum = limits.pod.most.get(_CPU)
    if maximum and not shape.pod_limits.get(_CPU):
        share_maximum(drafts, shape, maxima, maximum, BOOST_CAPPED_BY_LIMIT_RANGE, for_limits=True)
    if maximum and not pod_request:
        share_maximum(drafts, shape, requests, maximum, BOOST_CAPPED_BY_LIMIT_RANGE)
    # A pod that requests as a whole is placed by that request, however its containers share it.
    if ceiling is None or pod_request:
        return
    if ceiling.binding:
        share_maximum(drafts, shape, requests, ceiling.millicores, BOOST_CAPPED_BY_NODE)
    elif exceeds_with_boosts(drafts, shape, requests, ceiling.millicores):
        for draft in drafts.values():
            if draft.is_above:
                draft.notes.append(BoostNote(BOOST_WOULD_NOT_FIT))


def _to_boosted_container(draft: BoostDraft) -> BoostedContainer:
    annotation = write_annotation(draft.container)
    return BoostedContainer(
        draft.container, draft.base, draft.request, draft.boosted_limit, annotation, tuple(draft.notes)
    )
