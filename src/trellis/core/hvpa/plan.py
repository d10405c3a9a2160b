"""How many replicas is a workload to have, and how big is each?

The one decision of an Hvpa: a frozen view in, actions and a size out, with one verdict, what holds the rest back, what
to remember and when to look again. Totals come from both recommenders, are stabilized, and pick the count; the count
picks the size. What its directions allow of that is done in a safe order.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trellis.base.reason import Reason, Severity
from trellis.core.hvpa.actions import HvpaAction, SetScale, WriteBack
from trellis.core.hvpa.choosing import Choice, choose, standing, wanted_for
from trellis.core.hvpa.counts import limited
from trellis.core.hvpa.drifting import Drift, drift_of, size_drift_of
from trellis.core.hvpa.memory import Decision, Memory
from trellis.core.hvpa.noise import tolerated
from trellis.core.hvpa.ordering import Turn, turn
from trellis.core.hvpa.settings import HvpaSettings
from trellis.core.hvpa.splitting import containers_of
from trellis.core.hvpa.stabilizing import Settled, settled
from trellis.core.hvpa.steps import (
    MAINTENANCE_WINDOW,
    NO_RECOMMENDATION,
    STABILIZATION_WINDOW,
    Blocked,
    Direction,
    Shape,
    opens_at,
    shown,
    ways,
)
from trellis.core.hvpa.views import View
from trellis.core.hvpa.vpa_totals import NO_TOTALS, held_text, vpa_totals
from trellis.core.hvpa.wishes import Asked, asked, left_after, settling
from trellis.core.recommend.capping.limit_ranges import Counts

SCALES_UP = Reason("ScalesUp", "The workload gets more, in replicas, in size or in both.")
SCALES_DOWN = Reason("ScalesDown", "The workload gets less, in replicas, in size or in both.")
AS_DECIDED = Reason("AsDecided", "Count and size are what the demand asks for.")
STEP_BLOCKED = Reason("StepBlocked", "Count or size would be others, but something holds the step back.")
SCALED_TO_ZERO = Reason(
    "ScaledToZero", "Somebody scaled the target to zero; it stays there until it is scaled up again."
)
LIMITED = Reason("Limited", "More is needed than the last bucket allows.", Severity.WARNING)


class Verdict(msgspec.Struct, frozen=True):
    """What is said about one plan: why it is what it is, what is held back, and what else a person should know.

    `about` has more on some of the notes, by the code of a reason.
    """

    reason: Reason
    details: str = ""
    blocked: tuple[Blocked, ...] = ()
    notes: tuple[Reason, ...] = ()
    about: Mapping[str, str] = {}


class Plan(msgspec.Struct, frozen=True):
    """What is done, and all that follows from it.

    `shape` is what was decided; `containers` is what the status publishes now, which may be more while replicas come or
    go. `totals` are what it was decided by, `hpa` the HPA's total in force and `vpa` what the VPA says.
    """

    actions: tuple[HvpaAction, ...]
    shape: Shape
    containers: Mapping[str, Counts]
    verdict: Verdict
    memory: Memory
    totals: Counts = {}
    hpa: Counts = {}
    vpa: Counts = {}
    next_look: float | None = None


def plan(view: View, now: float, settings: HvpaSettings) -> Plan:
    """The plan for a workload."""
    if view.yields is not None:
        return _left_alone(view, Verdict(view.yields, ", ".join(view.rivals)))
    if view.replicas == 0:
        return _left_alone(view, Verdict(SCALED_TO_ZERO))
    stands, drift, sizes = standing(view), drift_of(view, now), size_drift_of(view, now)
    by_hpa, by_vpa = asked(view, now, settings), vpa_totals(view)
    follows = tolerated(view, by_vpa.totals, by_hpa.measured, now, settings)
    found = settled(view, follows.totals, by_hpa, stands.totals, now)
    choice = _choice(view, found, stands, drift, now)
    decided = _decided(view, stands, choice.shape, now, settings)
    if drift is not None and drift.until is not None and view.memory.decided is not None:
        decided, taken = view.memory.decided, Turn(stands.count, stands.size, None, drift.until)
    else:
        taken = turn(view, decided, found.totals, now, settings)
    # A wish that waits for the HPA's status is left standing, and read then.
    waits = by_hpa.awaited is not None
    left = view.wish if waits and view.wish is not None else left_after(view, taken.count)
    notes = [*by_hpa.notes, *found.notes, drift.reason if drift is not None else None, sizes.reason, taken.reason]
    if limited(view.meaning.ladders, found.totals):
        notes.append(LIMITED)
    about = dict(by_hpa.about)
    if by_vpa.held:
        notes.append(NO_TOTALS)
        about[NO_TOTALS.code] = held_text(view, by_vpa.held)
    return Plan(
        actions=_actions(view, taken.count, left),
        shape=choice.shape,
        containers={} if _untouched(view, stands, choice) else containers_of(taken.size, found.totals, view.containers),
        verdict=_verdict(view, stands, choice, tuple(note for note in notes if note is not None), about),
        memory=Memory(
            hpa=by_hpa.windows,
            wish=by_hpa.wish,
            vpa=found.vpa,
            low=found.low,
            settled=found.totals,
            held=by_vpa.held,
            decided=decided,
            # A count of somebody else's that is left alone is none of ours.
            count=view.memory.count if drift is not None and drift.until is not None else taken.count,
            left=view.memory.left if waits else left,
            told=_told(view, by_hpa, now),
            scaled=now if taken.count != view.replicas else view.memory.scaled,
            repaired=now if drift is not None and drift.until is None else view.memory.repaired,
            edited=sizes.at,
            anew=view.memory.anew,
            measured=by_hpa.measured,
            awaited=by_hpa.awaited,
            excess=follows.since,
        ),
        totals=found.totals,
        hpa=by_hpa.totals,
        vpa=by_vpa.totals,
        next_look=_next_look(view, choice, (*by_hpa.looks, *follows.looks, *found.looks, taken.look, sizes.until), now),
    )


def _choice(view: View, found: Settled, stands: Shape, drift: Drift | None, now: float) -> Choice:
    if not found.totals:
        return Choice(stands, (Blocked(Direction.UP, NO_RECOMMENDATION),))
    if drift is None or drift.until is None:
        return choose(view, found, stands, now)
    back = wanted_for(view, found.totals, stands)
    step = shown(stands, back, binary=view.meaning.binary)
    return Choice(stands, tuple(Blocked(way, STABILIZATION_WINDOW, step) for way in ways(stands, back)))


def _decided(view: View, stands: Shape, wanted: Shape, now: float, settings: HvpaSettings) -> Decision:
    """What to remember of it. A change while pods of the last one come up has no new patience.

    Whoever knows of no decision may have died after one: pods that are not Ready may be those that it brought.
    """
    before = view.memory.decided
    if before is None:
        grows = wanted.count > stands.count or not view.all_ready
        return Decision(wanted, stands, now if wanted != stands else 0.0, now if grows else None)
    changed = wanted != before.shape
    since = now if changed and not settling(view, now, settings) else before.since
    if wanted.count == before.shape.count:
        return Decision(wanted, stands, since, before.grew)
    return Decision(wanted, stands, since, now if wanted.count > stands.count else None)


def _untouched(view: View, stands: Shape, choice: Choice) -> bool:
    """Whether no size was ever decided: what was only held back leaves pods as their template has them."""
    published = any(each.published for each in view.containers)
    return not published and bool(choice.blocked) and choice.shape == stands


def _actions(view: View, count: int, left: int) -> tuple[HvpaAction, ...]:
    """The target first: if nothing follows, the wish is not read a second time for what has been done."""
    scale = (SetScale(count),) if count != view.replicas else ()
    back = (WriteBack(left),) if left != view.wish else ()
    return (*scale, *back)


def _verdict(view: View, stands: Shape, choice: Choice, notes: tuple[Reason, ...], about: Mapping[str, str]) -> Verdict:
    """A total that is held may be far from what the VPA recommends by now, so that nothing is as decided."""
    shape, blocked, binary = choice.shape, choice.blocked, view.meaning.binary
    if shape != stands:
        reason = SCALES_UP if Direction.UP in ways(stands, shape) else SCALES_DOWN
        return Verdict(reason, shown(stands, shape, binary=binary), blocked, notes, about)
    if not blocked and NO_TOTALS in notes:
        return Verdict(NO_TOTALS, about[NO_TOTALS.code], (), notes, about)
    if not blocked:
        return Verdict(AS_DECIDED, shape.told(binary=binary), (), notes, about)
    nothing = blocked[0].reason is NO_RECOMMENDATION
    return Verdict(NO_RECOMMENDATION if nothing else STEP_BLOCKED, blocked[0].details, blocked, notes, about)


def _next_look(view: View, choice: Choice, looks: tuple[float | None, ...], now: float) -> float | None:
    later = [at for at in looks if at is not None and at > now]
    waits = any(each.reason is MAINTENANCE_WINDOW for each in choice.blocked)
    if waits and (opens := opens_at(view.meaning.hvpa, now)) is not None:
        later.append(opens)
    return min(later, default=None)


def _told(view: View, by_hpa: Asked, now: float) -> float | None:
    """Since when the HPA's total is what it is."""
    if not by_hpa.totals:
        return None
    before = {name: window[0].amount for name, window in view.memory.hpa.items()}
    return view.memory.told if before == by_hpa.totals and view.memory.told is not None else now


def _left_alone(view: View, verdict: Verdict) -> Plan:
    """Nothing is done, and what was published stays.

    When the target is its own again, that is a beginning: the count is that of somebody else, and what was asked for
    before may be of long ago.
    """
    memory, published = view.memory, {each.name: each.published for each in view.containers if each.published}
    beginning = Memory(held=memory.held, scaled=memory.scaled, anew=memory.anew)
    return Plan((), standing(view), published, verdict, beginning)
