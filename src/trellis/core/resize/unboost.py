"""Ends the boosts of a running pod that are over.

This takes two writes, because `pods/resize` changes no annotations: first the resize, and when that is in force the
annotation is removed. Each plan finds which of the two is missing, so that an updater that stopped in between
continues and repeats nothing. Budgets, the minimum of replicas and requirements do not apply. A boost that cannot be
taken back is tried again, but never by an eviction: the next pod would be boosted as well.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from trellis.base.reasons import Reason, Severity
from trellis.core.boost.annotation import annotation_key, read_pre_boost_resources
from trellis.core.boost.phases import PodBoostPhases
from trellis.core.boost.unboosted_size import UnboostedContainer, unboost_containers
from trellis.core.cluster.json_patches import PatchOp, ResourceChange, build_annotation_ops, build_guarded_ops
from trellis.core.cluster.pod_annotations import IN_PLACE_UPDATED_ANNOTATION
from trellis.core.resize.in_place.decision_table import CONTAINER_DOWN
from trellis.core.resize.in_place.status import ResizeState
from trellis.core.resize.pod_decisions import Action, ResizePod, UnmarkPod
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.state.attempts import PodAttempts
from trellis.core.resize.view import PodView, WorkloadView

UNBOOST_RESIZED = Reason("UnboostResized", "The boost is over, and the pod is resized to what it gets without it.")
UNBOOST_FINISHED = Reason("UnboostFinished", "The boost is taken back, and the pod is no longer marked as boosted.")
UNBOOST_AWAITED = Reason(
    "UnboostAwaited", "The pod was asked to give its boost back, and its node has not done it yet."
)
UNBOOST_FAILING = Reason(
    "UnboostFailing", "The node does not take the boost back, so that the pod keeps it for now.", Severity.WARNING
)
UNBOOST_RETRIED = Reason(
    "UnboostRetried", "An attempt to take the boost back failed, and will be repeated.", Severity.WARNING
)
UNBOOST_NOT_SERVED = Reason(
    "UnboostNotServed", "The boost is over, but the API server cannot resize pods in place.", Severity.WARNING
)

_REFUSING = (ResizeState.DEFERRED, ResizeState.INFEASIBLE, ResizeState.FAILING)


class UnboostStep(msgspec.Struct, frozen=True):
    """What is done to end the boosts of a pod that are over, and why that is all for now."""

    actions: tuple[Action, ...]
    reason: Reason
    look: float | None = None


def end_boosts(
    view: WorkloadView, pod: PodView, phases: PodBoostPhases, now: float, settings: UpdateSettings
) -> UnboostStep:
    """The end of what is due; there must be something due."""
    attempt = view.attempts.pods.get(pod.ref.uid, PodAttempts())
    if not settings.resizes:
        return UnboostStep((), UNBOOST_NOT_SERVED)
    if now < attempt.not_before:
        return UnboostStep((), UNBOOST_RETRIED, attempt.not_before)
    governor, annotations = view.governor, pod.pod.metadata.annotations
    ends = unboost_containers(
        pod.in_force,
        governor.advice,
        governor.vpa,
        applies=governor.applies,
        limits=view.limits,
        phases=phases,
        memory=read_pre_boost_resources(annotations),
    )
    resized = _resize(pod, [each for each in ends if each.changes])
    is_down = resized is not None and pod.downtime.since is not None
    marks = [annotation_key(each.container) for each in ends if each.settled and not each.changes]
    # Upstream's mark of a pod that was resized goes on with the patch that is needed anyway.
    unmarked = tuple(build_annotation_ops(annotations, {IN_PLACE_UPDATED_ANNOTATION: "true"}, marks)) if marks else ()
    possible: list[ResizePod | UnmarkPod] = [resized] if resized is not None and not is_down else []
    if unmarked:
        possible.append(UnmarkPod(pod.ref, (PatchOp("test", "/metadata/uid", pod.ref.uid), *unmarked)))
    if is_down and not possible:
        return UnboostStep((), CONTAINER_DOWN)
    if not possible:
        return UnboostStep((), UNBOOST_FAILING if pod.resize.state in _REFUSING else UNBOOST_AWAITED)
    actions = tuple(each for each in possible if not attempt.repeats(each.patch, now, settings))
    look = None if actions else attempt.written_at + settings.catch_up
    return UnboostStep(actions, UNBOOST_RESIZED if resized is not None else UNBOOST_FINISHED, look)


def _resize(pod: PodView, ends: Iterable[UnboostedContainer]) -> ResizePod | None:
    own = {each.name: each for each in pod.in_spec.containers}
    ends = list(ends)
    changes = []
    for each in ends:
        container = own[each.container]
        changes.append(
            ResourceChange(
                container.place, container.index, container.name, container.written, each.requests, each.limits
            )
        )
    patch = tuple(build_guarded_ops(pod.ref.uid, changes))
    if not patch:
        return None
    restarts = any("cpu" in own[each.container].restarts_on for each in ends)
    return ResizePod(pod.ref, patch, {each.container: each.requests for each in ends}, restarts=restarts, unboosts=True)
