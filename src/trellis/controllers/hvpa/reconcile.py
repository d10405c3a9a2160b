"""Reconciles one Hvpa: keeps its own HPA and VPA, makes a plan, executes it, and publishes the status.

The target's scale is written first, then the Hvpa's `spec.replicas`, then its status. A process that is killed in
between does no harm: the next reconcile reads no value of `spec.replicas` that may have been acted on, and finds the
replicas that are there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from trellis.api.kinds.hvpa import Hvpa, HvpaStatus
from trellis.base.reasons import Reason, Severity
from trellis.controllers.hvpa import metrics as named
from trellis.controllers.hvpa.executor import HvpaExecutor, OwnedAutoscalers
from trellis.controllers.hvpa.informers import HvpaInformers
from trellis.controllers.hvpa.recording import HvpaPlanner
from trellis.controllers.hvpa.state import RETRIABLE, HvpaState, HvpaStates, pending_write
from trellis.controllers.hvpa.status import HvpaNote, build_status, build_status_action, build_status_without_plan
from trellis.controllers.hvpa.target_scales import TargetScale, TargetScales
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.hvpa import HvpaPlan, HvpaView, ResolvedHvpa
from trellis.core.hvpa.autoscalers import RelatedAutoscalers
from trellis.core.hvpa.demand.scale import SCALE_WISH
from trellis.core.hvpa.demand.vpa import NO_TOTALS
from trellis.core.hvpa.plan import AS_DECIDED, SCALED_TO_ZERO, STEP_BLOCKED
from trellis.core.hvpa.steps import NO_RECOMMENDATION
from trellis.core.hvpa.view import HVPA_REFUSED
from trellis.core.hvpa.view_builder import build_view
from trellis.kube.events import reference_to
from trellis.kube.resources import HVPAS
from trellis.kube.write.outcomes import Result
from trellis.kube.write.writer import Writer
from trellis.runtime.telemetry.event_queue import EventSink
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics

SCALE_REFUSED = Reason("ScaleRefused", "The target's count could not be written.", Severity.WARNING)

# A write that failed is tried again after so long, and one that somebody else was faster than at once.
_RETRY_SECONDS: Final = 5.0
_CONFLICT_SECONDS: Final = 0.2
# Nobody tells when a target's status comes to know of pods that have been seen: it is asked, less and less often.
_BEHIND_SECONDS: Final = (0.5, 30.0)

# The group of the kinds whose selector is fixed for good.
_FIXED: Final = "apps"

_log: Final = Logger("trellis.hvpa")


class HvpaReconciler:
    """Looks at Hvpas, one at a time each."""

    def __init__(
        self,
        watching: HvpaInformers,
        targets: TargetScales,
        writer: Writer,
        keeping: HvpaStates,
        planner: HvpaPlanner,
        *,
        metrics: Metrics,
        record: EventSink,
        now: Callable[[], float],
    ) -> None:
        self._watching = watching
        self._targets = targets
        self._writer = writer
        self._keeping = keeping
        self._sources = OwnedAutoscalers(writer, now)
        self._carrying = HvpaExecutor(writer, metrics)
        self._planner = planner
        self._metrics = metrics
        self._record = record
        self._now = now

    async def look(self, key: ObjectKey) -> float | None:
        """Look at one; the answer is in how many seconds to look again, None if only a change is a reason to."""
        hvpa = self._watching.hvpas.get(*key)
        if hvpa is None or hvpa.metadata.deletion_timestamp is not None:
            self._keeping.forget(key)
            return None
        known = self._keeping.of(hvpa, self._now())
        known.unwritten = False
        if known.meaning is None:
            return await self._not_decided(hvpa, known, HvpaNote(HVPA_REFUSED, known.refused), [])
        around = self._watching.around(hvpa)
        notes = await self._sources.keep(hvpa, known, known.meaning.hvpa, around)
        found = await self._targets.find(hvpa)
        if isinstance(found, HvpaNote):
            return await self._not_decided(hvpa, known, found, notes)
        return await self._decide(hvpa, known, known.meaning, found, around, notes=notes)

    async def _decide(
        self,
        hvpa: Hvpa,
        known: HvpaState,
        meaning: ResolvedHvpa,
        found: TargetScale,
        around: RelatedAutoscalers,
        *,
        notes: list[HvpaNote],
    ) -> float | None:
        uid = found.scale.metadata.uid
        now = self._now()
        if known.target and known.target != uid:
            known.memory = msgspec.structs.replace(
                known.memory, decided=None, count=None, left=None, repaired=None, anew=now
            )
        elif not known.target and _is_of_another_target(hvpa, found):
            known.turn(hvpa, now)
        known.target = uid
        self._keeping.selecting.put(key_of(hvpa), found.selector)
        seen = hvpa
        if known.before is not None:
            seen, around = known.before.without_it(hvpa, around)
        view = build_view(
            seen,
            meaning,
            found.scale,
            self._watching.pods_of(hvpa.metadata.namespace, found.selector),
            around,
            wish=known.wish(hvpa),
            wisher=known.wisher(hvpa),
            published=known.published(hvpa),
            memory=known.memory,
            edits=(edits := known.edits),
        )
        made = self._planner.plan(key_of(hvpa), view, now)
        self._metrics.add(named.PLANS, 1)
        failed = await self._carrying.out(hvpa, known, found, view, made)
        if failed is not None and failed.result is Result.CONFLICT:
            return _CONFLICT_SECONDS
        if failed is not None:
            return await self._not_decided(hvpa, known, HvpaNote(SCALE_REFUSED, failed.message), notes)
        known.edits = known.edits[len(edits) :]
        notes += _conditions_of(made)
        active = view.yields is None and made.verdict.reason is not SCALED_TO_ZERO
        if not active or made.verdict.reason is NO_RECOMMENDATION:
            notes.append(HvpaNote(made.verdict.reason, made.verdict.details))
        status = build_status(hvpa, found.scale, made, notes, active=active, now=now)
        if await self._publish(hvpa, known, status):
            known.strange = False
        known.blocked = tuple((each.direction.value, each.reason.code) for each in made.verdict.blocked)
        self._tell(hvpa, known, HvpaNote(made.verdict.reason, made.verdict.details), notes)
        return _requeue_after(known, found, view, made, now)

    async def _not_decided(self, hvpa: Hvpa, known: HvpaState, why: HvpaNote, notes: list[HvpaNote]) -> float | None:
        status = build_status_without_plan(hvpa, why, [*notes, why], self._now(), strange=known.strange)
        await self._publish(hvpa, known, status)
        known.blocked = ()
        self._tell(hvpa, known, why, notes)
        return _RETRY_SECONDS

    async def _publish(self, hvpa: Hvpa, known: HvpaState, status: HvpaStatus) -> bool:
        """Have the status say this; whether it does."""
        action = build_status_action(hvpa, status)
        if action is None:
            return True
        outcome = await self._writer.write(action)
        known.size = pending_write(outcome, size=status.recommendation) or known.size
        known.unwritten |= outcome.result in RETRIABLE
        return outcome.applied

    def _tell(self, hvpa: Hvpa, known: HvpaState, verdict: HvpaNote, notes: list[HvpaNote]) -> None:
        """One Event, and one line of the log, for each verdict that is new, and for each condition that is."""
        # What is held back differs a little with each recommendation, and is in the status.
        said = (verdict.reason.code, "" if verdict.reason in (STEP_BLOCKED, NO_TOTALS) else verdict.details)
        # A total that is held is one of the notes.
        new = [verdict] if said != known.verdict and verdict.reason not in (AS_DECIDED, NO_TOTALS) else []
        told = [each.reason for each in new]
        new += [each for each in notes if _event_key(each) not in known.noted and each.reason not in told]
        for each in new:
            self._record(reference_to(HVPAS, hvpa), each.reason, each.message)
            log = _log.info if each.reason.severity is Severity.INFO else _log.warning
            log("told", hvpa="/".join(key_of(hvpa)), reason=each.reason.code, details=each.details)
        known.verdict, known.notes = said, frozenset(each.reason.code for each in notes)
        known.noted = frozenset(map(_event_key, notes))


def _conditions_of(made: HvpaPlan) -> list[HvpaNote]:
    """The notes of a plan that are conditions: what is wrong, and what has more to say than its reason."""
    about = made.verdict.about
    notes = [each for each in made.verdict.notes if each.severity is not Severity.INFO or each.code in about]
    return [HvpaNote(each, about.get(each.code, "")) for each in notes]


def _event_key(note: HvpaNote) -> tuple[str, str]:
    """What makes a note another one: figures of what is wrong differ from pass to pass, but each wish is news."""
    return note.reason.code, note.details if note.reason is SCALE_WISH else ""


def _requeue_after(known: HvpaState, found: TargetScale, view: HvpaView, made: HvpaPlan, now: float) -> float | None:
    """In how many seconds to look again, whatever happens until then."""
    waits = [_RETRY_SECONDS] if known.unwritten else []
    waits += [max(made.next_look - now, _CONFLICT_SECONDS)] if made.next_look is not None else []
    told, there = found.scale.status.replicas, view.pods
    if told == there:
        known.behind = None
        return min(waits, default=None)
    if known.behind is None or known.behind[:2] != (told, there):
        known.behind = (told, there, now)
    soonest, longest = _BEHIND_SECONDS
    return min(*waits, max(now - known.behind[2], soonest), longest)


def _is_of_another_target(hvpa: Hvpa, found: TargetScale) -> bool:
    """Whether the status tells of other pods: another target was named while nobody looked.

    Of Kubernetes' own kinds it does if the selector is another one: that never changes. Others change theirs at times.
    """
    told = hvpa.status.selector if hvpa.status is not None else None
    return found.resource.group == _FIXED and bool(told) and told != found.scale.status.selector
