"""What does a count ask for that is written to an Hvpa's scale while no HPA drives it?

`kubectl scale`, or any scaler that writes scale subresources, wishes a count once and measures nothing of its own that
could be read here. So its wish is what a pod requests times that count, of every resource that pods request, and counts
for the scale-down window. As with an HPA the window begins with what runs: a single wish for less lowers nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from trellis.api.buckets import RESOURCES
from trellis.base.readable import RESOURCE_WORDS, readable
from trellis.base.reason import Reason, Severity
from trellis.base.times import format_time
from trellis.core.hvpa.memory import Wish
from trellis.core.hvpa.views import View, summed
from trellis.core.hvpa.windows import Window, aged, seen

SCALE_WISH = Reason(
    "ScaleWish",
    "A count was written to the Hvpa's scale, and no HPA drives it. "
    "It counts as demand for the scale-down window; then the VPA decides again.",
)
WISH_WITHOUT_REQUESTS = Reason(
    "WishWithoutRequests",
    "A count that was written to the Hvpa's scale is not followed: its pods request nothing that it could multiply.",
    Severity.WARNING,
)

_UNITS = {"cpu": 1000, "memory": 1}


class ScaleWishes(msgspec.Struct, frozen=True):
    """The windows of what was wished, the wish that is in force, and what is said of it by the code of a reason."""

    windows: Mapping[str, Window]
    wish: Wish | msgspec.UnsetType
    notes: tuple[Reason, ...] = ()
    about: Mapping[str, str] = {}
    looks: tuple[float, ...] = ()


def scale_wishes(view: View, now: float) -> ScaleWishes:
    """What was written to the scale, over the scale-down window."""
    length = view.meaning.hvpa.down.stabilization.total_seconds()
    windows = {name: left for name, window in view.memory.hpa.items() if (left := aged(window, now, length))}
    wish, new = view.memory.wish, _new_wish(view)
    if new is not None:
        wish = Wish(new, view.wisher, now)
        requests = summed(view.containers, "requests")
        asked = {name: requests[name] for name in RESOURCES if requests.get(name)}
        if not asked:
            details = f"{_named(view.wisher)} wishes {new} replicas"
            code = WISH_WITHOUT_REQUESTS.code
            return ScaleWishes(windows, msgspec.UNSET, (WISH_WITHOUT_REQUESTS,), {code: details})
        for name, request in asked.items():
            before = windows.get(name) or seen((), view.at_most_held(name, request * view.replicas), now, length)
            windows[name] = seen(before, max(request * new, 1), now, length)
    if not windows:
        return ScaleWishes({}, msgspec.UNSET)
    ends = [window[0].until + length for window in windows.values()]
    details = _said(view, wish, windows, max(window[-1].until for window in windows.values()) + length)
    return ScaleWishes(windows, wish, (SCALE_WISH,), {SCALE_WISH.code: details}, tuple(ends))


def _new_wish(view: View) -> int | None:
    """A count that was written since the last pass.

    Where it is not known what the last pass left there, at the first pass or after a write that failed, only who wrote
    it tells a wish from the controller's own count, and a wish that has been followed is not followed twice.
    """
    wish, memory = view.wish, view.memory
    if wish is None or wish == memory.left:
        return None
    if memory.left is not None:
        return wish
    known = memory.wish
    followed = known is not msgspec.UNSET and (known.replicas, known.by) == (wish, view.wisher)
    return wish if view.wisher and wish != view.replicas and not followed else None


def _said(view: View, wish: Wish | msgspec.UnsetType, windows: Mapping[str, Window], until: float) -> str:
    totals = ", ".join(
        f"{RESOURCE_WORDS[name]} {readable(window[-1].amount, name, view.meaning.binary, _UNITS[name])}"
        for name, window in windows.items()
    )
    end = format_time(datetime.fromtimestamp(until, UTC))
    if wish is msgspec.UNSET:
        return f"{totals} in total, until {end}"
    count = f"{wish.replicas} replica{'' if wish.replicas == 1 else 's'}"
    return f"{_named(wish.by)} wishes {count} ({totals} in total), until {end}"


def _named(manager: str) -> str:
    return manager or "an unknown writer"
