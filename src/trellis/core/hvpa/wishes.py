"""What does the HPA ask for in total? What a pod requests times its wish, for as long as it does not say less.

An HPA speaks by writing `spec.replicas`, and is silent when what runs is right. It cannot say less than one pod, than
its minimum or than a part of a pod, so a low ratio of its metrics is taken for it. What it asked for and did not get,
because a step was held back, it asks for again as long as it needs it; silence then means that it does not. What it
writes only because of its own bounds is no wish.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction

import msgspec

from trellis.base.reason import Reason, Severity
from trellis.core.hvpa.memory import Wish
from trellis.core.hvpa.scale_wishes import scale_wishes
from trellis.core.hvpa.settings import HvpaSettings
from trellis.core.hvpa.views import HpaView, View, summed
from trellis.core.hvpa.windows import Window, aged, changes_at, extreme, seen
from trellis.core.recommend.capping.limit_ranges import Counts

HPA_BOUNDS = Reason(
    "HPABounds",
    "The HPA's own minReplicas or maxReplicas keeps it from asking for what it needs.",
    Severity.WARNING,
)
HPA_STABILIZES = Reason(
    "HPAStabilizes",
    "The HPA waits before it scales down, and so does the Hvpa: set its scaleDown.stabilizationWindowSeconds to 0.",
    Severity.WARNING,
)
WISH_UNREAD = Reason(
    "WishUnread",
    "What the HPA wishes is not read while the pods of the last step are not Ready: it is measured on the others.",
)


class Asked(msgspec.Struct, frozen=True):
    """The HPA's totals in force and those of this look, with the windows they come from.

    Also what is said about it, and when it may change.
    """

    totals: Counts
    present: Counts
    windows: Mapping[str, Window]
    notes: tuple[Reason, ...] = ()
    looks: tuple[float, ...] = ()
    # Of a count written to the scale without an HPA: more on notes, by the code of a reason, and the wish in force.
    about: Mapping[str, str] = {}
    wish: Wish | msgspec.UnsetType = msgspec.UNSET


def asked(view: View, now: float, settings: HvpaSettings) -> Asked:
    """What the HPA asks for, over the window of the way down; without an HPA, what was written to the scale."""
    if view.hpa is None:
        return _without_hpa(view, now)
    hpa, known = view.hpa, view.memory.hpa
    length = view.meaning.hvpa.down.stabilization.total_seconds()
    unread, moved = _unread(view, now, settings), _has_moved(view, now, settings)
    windows = {name: left for name, window in known.items() if (left := aged(window, now, length))}
    if hpa is not None:
        wish = None if unread or is_bound(hpa, view.replicas, view.wish) else _wish(view, moved=moved)
        requests = summed(view.containers, "requests")
        for name in sorted(hpa.resources):
            if request := requests.get(name, 0):
                before = known.get(name) or seen((), view.at_most_held(name, request * view.replicas), now, length)
                held = extreme((*aged(before[:-1], now, length), before[-1]))
                ratio = hpa.ratio if view.all_ready and not moved else None
                windows[name] = seen(
                    before, _says(request, view.pods, wish, ratio, held=held, settings=settings), now, length
                )
    looks = [at for window in windows.values() if (at := changes_at(window, length, now)) is not None]
    totals = {name: extreme(window) for name, window in windows.items()}
    present = {name: window[-1].amount for name, window in windows.items()}
    notes = _notes(view, unread=unread)
    return Asked(totals, present, windows, notes, (*looks, *_believed_at(view, settings, unread=unread, moved=moved)))


def is_bound(hpa: HpaView | None, replicas: int, wish: int | None) -> bool:
    """Whether the HPA only keeps to its bounds: below its minimum it writes that, above its maximum that."""
    if hpa is None or wish is None:
        return False
    return wish == hpa.min_replicas > replicas or wish == hpa.max_replicas < replicas


def left_after(view: View, replicas: int) -> int:
    """What `spec.replicas` is to say after a plan: the target's count, or a bound that would only be written again."""
    return view.wish if view.wish is not None and is_bound(view.hpa, replicas, view.wish) else replicas


def settling(view: View, now: float, settings: HvpaSettings) -> bool:
    """Whether pods of the last step are still to become Ready, within the time they have."""
    decided = view.memory.decided
    return decided is not None and not view.all_ready and now < decided.since + settings.ready_patience


def _unread(view: View, now: float, settings: HvpaSettings) -> bool:
    """Also at the first look: nobody knows then what was there before the HPA wrote, nor whether it was acted on."""
    return view.memory.left is None or settling(view, now, settings)


def _has_moved(view: View, now: float, settings: HvpaSettings) -> bool:
    """Whether pods have come or gone so lately that an HPA's metrics may be about others than there are."""
    return any(now < at + settings.ready_patience for at in _moves(view))


def _moves(view: View) -> Iterator[float]:
    """When the count was last written, and when the target became another one."""
    return (at for at in (view.memory.scaled, view.memory.anew) if at is not None)


def _wish(view: View, *, moved: bool) -> int | None:
    """What the HPA wrote. For less it is not heard while sizes and count are on their way, and says it again."""
    if view.wish is None or view.wish == view.memory.left or (moved and view.wish < view.replicas):
        return None
    return view.wish


def _believed_at(view: View, settings: HvpaSettings, *, unread: bool, moved: bool) -> Iterator[float]:
    """When wishes are read again, and metrics believed, whatever happens until then."""
    memory = view.memory
    if view.hpa is not None and unread and memory.decided is not None:
        yield memory.decided.since + settings.ready_patience
    if view.hpa is not None and moved:
        yield max(_moves(view)) + settings.ready_patience


def _says(
    request: int, pods: int, wish: int | None, ratio: Fraction | None, *, held: int, settings: HvpaSettings
) -> int:
    """The total of this look; it is the one that is held if the HPA says nothing.

    It is never nothing at all, whatever is wished: without requests an HPA cannot measure, and stays silent for ever.
    """
    low = None
    if ratio is not None and ratio < settings.low_ratio:
        low = max(math.ceil(request * pods * ratio), 1)
    if wish is not None:
        wished = max(request * wish, 1)
        return wished if low is None else min(wished, low)
    if low is not None:
        return low
    content = ratio is not None and ratio <= settings.high_ratio
    return min(held, request * pods) if content else held


def _notes(view: View, *, unread: bool) -> tuple[Reason, ...]:
    notes: list[Reason] = []
    if view.hpa is None:
        return ()
    if is_bound(view.hpa, view.replicas, view.wish):
        notes.append(HPA_BOUNDS)
    elif unread and view.wish is not None and view.wish not in (view.replicas, view.memory.left):
        notes.append(WISH_UNREAD)
    if view.hpa.stabilizes:
        notes.append(HPA_STABILIZES)
    return tuple(notes)


def _without_hpa(view: View, now: float) -> Asked:
    """What was written to the scale by others than an HPA."""
    found = scale_wishes(view, now)
    return Asked(
        totals={name: extreme(window) for name, window in found.windows.items()},
        present={name: window[-1].amount for name, window in found.windows.items()},
        windows=found.windows,
        notes=found.notes,
        looks=found.looks,
        about=found.about,
        wish=found.wish,
    )
