"""What has to be done to end a boost?

Two writes, because `pods/resize` changes no annotations: first the resize, and when that is in force the annotation is
removed. Each look at the pod says which of the two is missing, so that whoever stopped in between goes on, and repeats
nothing. No budget, no minimum and no requirement has a say, and a boost that cannot be taken back is tried again, but
never by an eviction: the next pod would be boosted as well.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from trellis.base.reason import Reason, Severity
from trellis.core.boost.lowering import Lowered, lowered
from trellis.core.boost.memory import memory_key, read_memory
from trellis.core.boost.phases import PodPhases
from trellis.core.model.marks import IN_PLACE_UPDATED
from trellis.core.model.patches import PatchOp, ResourceChange, annotation_ops, guarded_ops
from trellis.core.resize.actions import Action, ResizePod, UnmarkPod
from trellis.core.resize.attempts import Attempt
from trellis.core.resize.inplace import CONTAINER_DOWN
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.states import ResizeState
from trellis.core.resize.views import PodView, WorkloadView

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


class Unboost(msgspec.Struct, frozen=True):
    """What is done to end the boosts of a pod that are over, and why that is all for now."""

    actions: tuple[Action, ...]
    reason: Reason
    look: float | None = None


def end_boosts(view: WorkloadView, pod: PodView, phases: PodPhases, now: float, settings: UpdateSettings) -> Unboost:
    """The end of what is due; there must be something due."""
    attempt = view.attempts.pods.get(pod.ref.uid, Attempt())
    if not settings.resizes:
        return Unboost((), UNBOOST_NOT_SERVED)
    if now < attempt.not_before:
        return Unboost((), UNBOOST_RETRIED, attempt.not_before)
    governor, annotations = view.governor, pod.pod.metadata.annotations
    ends = lowered(
        pod.in_force,
        governor.advice,
        governor.vpa,
        applies=governor.applies,
        limits=view.limits,
        phases=phases,
        memory=read_memory(annotations),
    )
    resized = _resize(pod, [each for each in ends if each.changes])
    is_down = resized is not None and pod.downtime.since is not None
    marks = [memory_key(each.container) for each in ends if each.settled and not each.changes]
    # Upstream's mark of a pod that was resized goes on with the patch that is needed anyway.
    unmarked = tuple(annotation_ops(annotations, {IN_PLACE_UPDATED: "true"}, marks)) if marks else ()
    possible: list[ResizePod | UnmarkPod] = [resized] if resized is not None and not is_down else []
    if unmarked:
        possible.append(UnmarkPod(pod.ref, (PatchOp("test", "/metadata/uid", pod.ref.uid), *unmarked)))
    if is_down and not possible:
        return Unboost((), CONTAINER_DOWN)
    if not possible:
        return Unboost((), UNBOOST_FAILING if pod.resize.state in _REFUSING else UNBOOST_AWAITED)
    actions = tuple(each for each in possible if not attempt.repeats(each.patch, now, settings))
    look = None if actions else attempt.written_at + settings.catch_up
    return Unboost(actions, UNBOOST_RESIZED if resized is not None else UNBOOST_FINISHED, look)


def _resize(pod: PodView, ends: Iterable[Lowered]) -> ResizePod | None:
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
    patch = tuple(guarded_ops(pod.ref.uid, changes))
    if not patch:
        return None
    restarts = any("cpu" in own[each.container].restarts_on for each in ends)
    return ResizePod(pod.ref, patch, {each.container: each.requests for each in ends}, restarts=restarts, unboosts=True)
