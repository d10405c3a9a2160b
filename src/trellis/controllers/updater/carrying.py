"""How is a plan carried out? Each pod's actions in their order, all pods side by side, and every outcome remembered.

Right before something is written, what is known now is compared with what the plan was made from: an action that has
waited in line until its workload became another is dropped, and a new plan is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from trellis.controllers.updater.counting import Counting
from trellis.controllers.updater.knowledge import Knowledge
from trellis.controllers.updater.line import Line, Turn
from trellis.controllers.updater.outdated import why_outdated
from trellis.controllers.updater.pace import Pace
from trellis.controllers.updater.telling import Telling
from trellis.core.model.marks import IN_PLACE_UPDATED
from trellis.core.model.patches import PatchOp
from trellis.core.resize import actions as core
from trellis.core.resize.attempts import Outcome
from trellis.core.resize.gathering import Gathered
from trellis.core.resize.governed import Workload
from trellis.core.resize.looks import again_after
from trellis.core.resize.memory import Memory
from trellis.core.resize.planning import Planned
from trellis.core.resize.verdicts import Verdict
from trellis.kube import outcomes as kube
from trellis.kube.actions import Action, EvictPod, PatchObject, ResizePod, Target
from trellis.kube.patches import json_patch, merge_patch
from trellis.kube.resources import PODS
from trellis.kube.token_bucket import Rate
from trellis.kube.writer import Writer
from trellis.runtime.logs import Logger

# An eviction without an answer has been seen by then, if it was carried out.
_UNCERTAIN_SECONDS: Final = 30.0
_FAILED_SECONDS: Final = 30.0

_log: Final = Logger("trellis.updater")


class Carried(msgspec.Struct, frozen=True):
    """What became of a plan; `again` is in how many seconds another one is to be made, None if a change will say."""

    workload: Workload
    outcomes: tuple[Outcome, ...]
    again: float | None


class _Trip:
    """One plan on its way."""

    def __init__(self, planned: Planned, pods: int) -> None:
        self.gathered: Gathered = planned.gathered
        self.acted_on = frozenset(action.pod.uid for action in planned.plan.actions)
        self.verdicts = {verdict.pod.uid: verdict for verdict in planned.plan.verdicts}
        self.outcomes: list[Outcome] = []
        self.again: list[float] = []
        self.open = pods


class Carrying:
    """Carries plans out. `on_carried` is told of each when it is over, and `call` whose turn it is at a rate."""

    def __init__(
        self,
        writer: Writer,
        knowledge: Knowledge,
        line: Line,
        *,
        memory: Memory,
        telling: Telling,
        counting: Counting,
        rate: Rate | None,
        now: Callable[[], float],
        on_carried: Callable[[Carried], None],
        call: Callable[[Workload], None],
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
        self._paces = {turn: Pace(rate, call) for turn in (Turn.EVICT, Turn.RESIZE)} if rate else {}

    def carry(self, planned: Planned) -> None:
        """Begin with a plan that has actions."""
        by_pod: dict[str, list[core.Action]] = {}
        for action in planned.plan.actions:
            by_pod.setdefault(action.pod.uid, []).append(action)
        trip = _Trip(planned, len(by_pod))
        for actions in by_pod.values():
            turn = min(map(_turn, actions))
            pace = self._paces.get(turn)
            if pace is None or pace.may_go(planned.gathered.workload):
                self._line.add(turn, partial(self._run, trip, actions))
            else:
                self._turn_away(trip, actions)

    def _turn_away(self, trip: _Trip, actions: Sequence[core.Action]) -> None:
        """The rate is used up: another plan will be made by what is known then."""
        for action in actions:
            self._memory.ended(action, self._now(), done=False)
        # Not before the caller is done with this plan.
        asyncio.get_running_loop().call_soon(self._close, trip)

    async def _run(self, trip: _Trip, actions: Sequence[core.Action]) -> None:
        try:
            for action in actions:
                await self._carry_out(trip, action)
        except Exception as error:  # noqa: BLE001 - an error of ours must not end the writes of others
            _log.error("an action failed", pod=actions[0].pod.name, error=error)
            trip.again.append(_FAILED_SECONDS)
        finally:
            self._close(trip)

    def _close(self, trip: _Trip) -> None:
        trip.open -= 1
        if not trip.open:
            self._telling.refused(trip.gathered.governor, trip.outcomes)
            again = min(trip.again) if trip.again else None
            self._on_carried(Carried(trip.gathered.workload, tuple(trip.outcomes), again))

    async def _carry_out(self, trip: _Trip, action: core.Action) -> None:
        governor = trip.gathered.governor
        # What ends a boost is right whatever has become of the pods beside it.
        spared = {each.metadata.uid for each in trip.gathered.pods} if _ends_boost(action) else trip.acted_on
        why = why_outdated(self._knowledge, trip.gathered, action.pod.uid, self._now(), unasked=spared)
        if why is not None:
            self._telling.outdated(governor, action, why)
            self._counting.outdated()
            self._memory.ended(action, self._now(), done=False)
            trip.again.append(0.0)
            return
        began = asyncio.get_running_loop().time()
        outcome = await self._writer.write(_translated(action))
        now = self._now()
        self._memory.ended(action, now, done=outcome.applied)
        self._remember(trip.gathered.workload, action, outcome, now)
        verdict: Verdict | None = trip.verdicts.get(action.pod.uid)
        self._telling.carried_out(governor, action, verdict, outcome)
        self._counting.carried_out(trip.gathered, action, outcome, asyncio.get_running_loop().time() - began)
        trip.outcomes.append(Outcome(action, outcome.result, outcome.retry_after, outcome.message))
        self._plan_again(trip, outcome)
        if outcome.applied and isinstance(action, core.ResizePod) and not action.unboosts:
            await self._mark(action)

    def _remember(self, workload: Workload, action: core.Action, outcome: kube.Outcome, now: float) -> None:
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

    def _plan_again(self, trip: _Trip, outcome: kube.Outcome) -> None:
        again = again_after(outcome.result)
        if again is not None:
            trip.again.append(again)

    async def _mark(self, action: core.ResizePod) -> None:
        """Upstream's mark on a pod that was resized; whoever cannot write it has resized the pod all the same."""
        pod = self._knowledge.pod(action.pod.namespace, action.pod.name)
        if pod is not None and IN_PLACE_UPDATED in pod.metadata.annotations:
            return
        patch = merge_patch({"metadata": {"annotations": {IN_PLACE_UPDATED: "true"}}})
        outcome = await self._writer.write(PatchObject(_target(action), patch))
        if outcome.applied:
            self._knowledge.gathering.echoes.written(action.pod.uid, outcome.resource_version)


def _turn(action: core.Action) -> Turn:
    if _ends_boost(action):
        return Turn.UNBOOST
    return Turn.EVICT if isinstance(action, core.EvictPod) else Turn.RESIZE


def _ends_boost(action: core.Action) -> bool:
    return isinstance(action, core.UnmarkPod) or (isinstance(action, core.ResizePod) and action.unboosts)


def _target(action: core.Action) -> Target:
    return Target(PODS, action.pod.name, action.pod.namespace, action.pod.uid)


def _translated(action: core.Action) -> Action:
    """The same for the writer. Patches carry their own tests of the uid."""
    match action:
        case core.EvictPod():
            return EvictPod(_target(action))
        case core.ResizePod(patch=patch):
            return ResizePod(Target(PODS, action.pod.name, action.pod.namespace), json_patch(map(_operation, patch)))
        case core.UnmarkPod(patch=patch):
            return PatchObject(Target(PODS, action.pod.name, action.pod.namespace), json_patch(map(_operation, patch)))


def _operation(op: PatchOp) -> dict[str, object]:
    found: dict[str, object] = msgspec.to_builtins(op)
    return found
