"""Executes plans: the actions of a pod in their order, all pods concurrently, each result kept for the next plan.

Right before a write, the state is compared with the one the plan was made from. An action is dropped, and a new plan
made, if the workload was frozen in the meantime, if its governor changed, or if a pod that the disruption budget
counted on is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final

import msgspec

from trellis.api.kube.pods import READY, Pod
from trellis.controllers.updater.events import UpdaterEvents
from trellis.controllers.updater.metrics import UpdaterMetrics
from trellis.controllers.updater.state import StateFeed
from trellis.controllers.updater.write_queue import WritePriority, WriteQueue, WriteRateLimiter
from trellis.core.cluster.json_patches import PatchOp
from trellis.core.cluster.pod_annotations import IN_PLACE_UPDATED_ANNOTATION
from trellis.core.resize import pod_decisions as core
from trellis.core.resize.freeze import Freeze
from trellis.core.resize.planner import PlanResult
from trellis.core.resize.pod_decisions import PodDecision
from trellis.core.resize.settings import requeue_delay
from trellis.core.resize.state.attempts import ActionResult
from trellis.core.resize.state.memory import UpdateMemory
from trellis.core.resize.state.ownership import WorkloadKey
from trellis.core.resize.state.workload_cache import WorkloadCache, WorkloadSnapshot
from trellis.core.sizing.governors import Governor
from trellis.kube.flow_control import Rate
from trellis.kube.resources import PODS
from trellis.kube.write import outcomes as kube
from trellis.kube.write.actions import Action, CreateEviction, PatchObject, PatchResize, Target
from trellis.kube.write.patches import json_patch, merge_patch
from trellis.kube.write.writer import Writer
from trellis.runtime.telemetry.logs import Logger


def why_stale(
    knowledge: StateFeed, gathered: WorkloadSnapshot, uid: str, now: float, *, unasked: Collection[str]
) -> str | None:
    """Why an action on a pod must not be carried out any more, if so; pods that are `unasked` have no say."""
    known = knowledge.gathering
    governor, frozen = _current_governor(known, gathered, now)
    if governor is not gathered.governor:
        return "what governs the pod has changed"
    if frozen is not None:
        return str(frozen)
    for pod in gathered.pods:
        is_it = pod.metadata.uid == uid
        if is_it or pod.metadata.uid not in unasked:
            found = knowledge.pod(pod.metadata.namespace, pod.metadata.name)
            found = known.echoes.as_it_will_be(found, now) if found is not None else None
            if _readiness(found) != _readiness(pod):
                return "the pod has changed" if is_it else f"the pod {pod.metadata.name} beside it has changed"
    return None


def _current_governor(
    known: WorkloadCache, gathered: WorkloadSnapshot, now: float
) -> tuple[Governor | None, Freeze | None]:
    """What governs the workload now, and what freezes it."""
    if not gathered.governor.is_object:
        current = known.gather(gathered.workload, now)
        return (current.governor, current.frozen) if current is not None else (None, None)
    governing = known.governed.find(gathered.workload)
    if governing is None:
        return None, None
    return governing.governor, known.frozen(gathered.workload[0], governing)


def _readiness(pod: Pod | None) -> tuple[str, str, str]:
    """What budgets ask of a pod; one that is going may as well be gone."""
    if pod is None or pod.metadata.deletion_timestamp is not None:
        return "", "", ""
    ready = pod.status.condition(READY)
    return pod.metadata.uid, pod.status.phase, ready.status if ready else ""


# An eviction without an answer has been seen by then, if it was carried out.
_UNCERTAIN_SECONDS: Final = 30.0
_FAILED_SECONDS: Final = 30.0

_log: Final = Logger("trellis.updater")


class UpdatePlanResult(msgspec.Struct, frozen=True):
    """What became of a plan; `again` is in how many seconds another one is to be made, None if a change will say."""

    workload: WorkloadKey
    outcomes: tuple[ActionResult, ...]
    again: float | None


class _PlanExecution:
    """One plan on its way."""

    def __init__(self, planned: PlanResult, pods: int) -> None:
        self.gathered: WorkloadSnapshot = planned.gathered
        self.acted_on = frozenset(action.pod.uid for action in planned.plan.actions)
        self.verdicts = {verdict.pod.uid: verdict for verdict in planned.plan.verdicts}
        self.outcomes: list[ActionResult] = []
        self.again: list[float] = []
        self.open = pods


class UpdateExecutor:
    """Carries plans out. `on_carried` is told of each when it is over, and `call` whose turn it is at a rate."""

    def __init__(
        self,
        writer: Writer,
        knowledge: StateFeed,
        line: WriteQueue,
        *,
        memory: UpdateMemory,
        telling: UpdaterEvents,
        counting: UpdaterMetrics,
        rate: Rate | None,
        now: Callable[[], float],
        on_carried: Callable[[UpdatePlanResult], None],
        call: Callable[[WorkloadKey], None],
    ) -> None:
        self._writer = writer
        self._knowledge = knowledge
        self._line = line
        self._memory = memory
        self._telling = telling
        self._counting = counting
        self._now = now
        self._on_carried = on_carried
        self._call = call
        # As upstream: evictions and resizes have the same rate, each for itself.
        self._paces = (
            {turn: WriteRateLimiter(rate, call) for turn in (WritePriority.EVICT, WritePriority.RESIZE)} if rate else {}
        )

    def carry(self, planned: PlanResult) -> None:
        """Begin with a plan that has actions."""
        by_pod: dict[str, list[core.Action]] = {}
        for action in planned.plan.actions:
            by_pod.setdefault(action.pod.uid, []).append(action)
        trip = _PlanExecution(planned, len(by_pod))
        for actions in by_pod.values():
            turn = min(map(_priority, actions))
            pace = self._paces.get(turn)
            if pace is None or pace.may_go(planned.gathered.workload):
                self._line.add(turn, partial(self._run, trip, actions))
            else:
                self._turn_away(trip, actions)

    def _turn_away(self, trip: _PlanExecution, actions: Sequence[core.Action]) -> None:
        """The rate is used up: another plan will be made by what is known then."""
        for action in actions:
            self._memory.ended(action, self._now(), done=False)
        # Not before the caller is done with this plan.
        asyncio.get_running_loop().call_soon(self._close, trip)

    async def _run(self, trip: _PlanExecution, actions: Sequence[core.Action]) -> None:
        try:
            for action in actions:
                await self._carry_out(trip, action)
        except Exception as error:  # noqa: BLE001 - an error of ours must not end the writes of others
            _log.error("an action failed", pod=actions[0].pod.name, error=error)
            trip.again.append(_FAILED_SECONDS)
        finally:
            self._close(trip)

    def _close(self, trip: _PlanExecution) -> None:
        trip.open -= 1
        if not trip.open:
            self._telling.refused(trip.gathered.governor, trip.outcomes)
            again = min(trip.again) if trip.again else None
            self._on_carried(UpdatePlanResult(trip.gathered.workload, tuple(trip.outcomes), again))

    async def _carry_out(self, trip: _PlanExecution, action: core.Action) -> None:
        governor = trip.gathered.governor
        # What ends a boost is right whatever has become of the pods beside it.
        spared = {each.metadata.uid for each in trip.gathered.pods} if _ends_boost(action) else trip.acted_on
        why = why_stale(self._knowledge, trip.gathered, action.pod.uid, self._now(), unasked=spared)
        if why is not None:
            self._telling.outdated(governor, action, why)
            self._counting.outdated()
            self._memory.ended(action, self._now(), done=False)
            trip.again.append(0.0)
            return
        began = asyncio.get_running_loop().time()
        outcome = await self._writer.write(_to_kube_action(action))
        now = self._now()
        self._memory.ended(action, now, done=outcome.applied)
        self._remember(trip.gathered.workload, action, outcome, now)
        verdict: PodDecision | None = trip.verdicts.get(action.pod.uid)
        self._telling.carried_out(governor, action, verdict, outcome)
        self._counting.carried_out(trip.gathered, action, outcome, asyncio.get_running_loop().time() - began)
        trip.outcomes.append(ActionResult(action, outcome.result, outcome.retry_after, outcome.message))
        self._plan_again(trip, outcome)
        if outcome.applied and isinstance(action, core.ResizePod) and not action.unboosts:
            await self._mark(action)

    def _remember(self, workload: WorkloadKey, action: core.Action, outcome: kube.WriteOutcome, now: float) -> None:
        echoes = self._knowledge.gathering.echoes
        if isinstance(action, core.EvictPod):
            if outcome.applied:
                echoes.evicted(action.pod.uid)
            elif outcome.uncertain:
                echoes.evicted(action.pod.uid, now + _UNCERTAIN_SECONDS)
                # Nothing will have changed if it was not carried out, and so nobody else would say so.
                asyncio.get_running_loop().call_later(_UNCERTAIN_SECONDS, self._call, workload)
        elif outcome.applied:
            echoes.written(action.pod.uid, outcome.resource_version)

    def _plan_again(self, trip: _PlanExecution, outcome: kube.WriteOutcome) -> None:
        again = requeue_delay(outcome.result)
        if again is not None:
            trip.again.append(again)

    async def _mark(self, action: core.ResizePod) -> None:
        """Upstream's mark on a pod that was resized; whoever cannot write it has resized the pod all the same."""
        pod = self._knowledge.pod(action.pod.namespace, action.pod.name)
        if pod is not None and IN_PLACE_UPDATED_ANNOTATION in pod.metadata.annotations:
            return
        patch = merge_patch({"metadata": {"annotations": {IN_PLACE_UPDATED_ANNOTATION: "true"}}})
        outcome = await self._writer.write(PatchObject(_target(action), patch))
        if outcome.applied:
            self._knowledge.gathering.echoes.written(action.pod.uid, outcome.resource_version)


def _priority(action: core.Action) -> WritePriority:
    if _ends_boost(action):
        return WritePriority.UNBOOST
    return WritePriority.EVICT if isinstance(action, core.EvictPod) else WritePriority.RESIZE


def _ends_boost(action: core.Action) -> bool:
    return isinstance(action, core.UnmarkPod) or (isinstance(action, core.ResizePod) and action.unboosts)


def _target(action: core.Action) -> Target:
    return Target(PODS, action.pod.name, action.pod.namespace, action.pod.uid)


def _to_kube_action(action: core.Action) -> Action:
    """The same for the writer. Patches carry their own tests of the uid."""
    match action:
        case core.EvictPod():
            return CreateEviction(_target(action))
        case core.ResizePod(patch=patch):
            return PatchResize(Target(PODS, action.pod.name, action.pod.namespace), json_patch(map(_operation, patch)))
        case core.UnmarkPod(patch=patch):
            return PatchObject(Target(PODS, action.pod.name, action.pod.namespace), json_patch(map(_operation, patch)))


def _operation(op: PatchOp) -> dict[str, object]:
    found: dict[str, object] = msgspec.to_builtins(op)
    return found
