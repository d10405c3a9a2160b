"""What does the HPA ask for in total? What a pod requests times its wish, for as long as it does not say less.

An HPA speaks by writing `spec.replicas`, and is silent when what runs is right. It cannot say less than one pod, than
its minimum or than a part of a pod, so a low ratio of its metrics is taken for it. What it writes only because of its
own bounds is no wish.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from trellis.base.reason import Reason, Severity
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
    """The HPA's totals in force, with the window they come from; what is said about it, and when it may change."""

    totals: Counts
    windows: Mapping[str, Window]
    notes: tuple[Reason, ...] = ()
    looks: tuple[float, ...] = ()


def asked(view: View, now: float, settings: HvpaSettings) -> Asked:
    """What the HPA asks for, over the window of the way down."""
    hpa, known = view.hpa, view.memory.hpa
    length = view.meaning.hvpa.down.stabilization.total_seconds()
    unread = _unread(view, now, settings)
    windows = {name: left for name, window in known.items() if (left := aged(window, now, length))}
    if hpa is not None:
        wish = None if unread or is_bound(hpa, view.replicas, view.wish) else _wish(view)
        requests = summed(view.containers, "requests")
        for name in sorted(hpa.resources):
            if request := requests.get(name, 0):
                before = known.get(name) or seen((), view.at_most_held(name, request * view.replicas), now, length)
                says = _says(view, hpa, request, wish, settings)
                held = extreme((*aged(before[:-1], now, length), before[-1]))
                windows[name] = seen(before, held if says is None else says, now, length)
    looks = [at for window in windows.values() if (at := changes_at(window, length)) is not None]
    if unread and view.memory.decided is not None and hpa is not None:
        looks.append(view.memory.decided.since + settings.ready_patience)
    totals = {name: extreme(window) for name, window in windows.items()}
    return Asked(totals, windows, _notes(view, unread=unread), tuple(looks))


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


def _wish(view: View) -> int | None:
    return view.wish if view.wish != view.memory.left else None


def _says(view: View, hpa: HpaView, request: int, wish: int | None, settings: HvpaSettings) -> int | None:
    """The total of this look; None if it is the one in force."""
    low = None
    if hpa.ratio is not None and hpa.ratio < settings.low_ratio and view.all_ready:
        low = math.ceil(request * view.pods * hpa.ratio)
    if wish is None:
        return low
    return request * wish if low is None else min(request * wish, low)


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
