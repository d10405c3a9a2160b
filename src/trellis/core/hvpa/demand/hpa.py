"""Demand by the HPA of an Hvpa: what a pod requests times the count that the HPA writes, until it writes less.

An HPA speaks by writing `spec.replicas`, and is silent when what runs is right. It cannot ask for less than one pod,
than its minimum or than a part of a pod, so a low ratio of its metrics counts as such. What it asked for and did not
get, because a step was held back, it asks for again as long as it needs it; silence then means that it does not. A
count that it writes only because of its own bounds is no demand.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction

import msgspec

from trellis.base.reasons import Reason, Severity
from trellis.core.hvpa.demand.noise import (
    SHORT_MEAN_WEIGHT,
    CurrentCount,
    demand_by_metrics,
    filter_hpa_count,
    mean_demand,
    next_mean_check,
    steady_total,
    update_mean,
)
from trellis.core.hvpa.demand.scale import read_scale_demand
from trellis.core.hvpa.demand.windows import (
    DemandWindow,
    MeanDemand,
    WindowSample,
    add_sample,
    drop_expired,
    next_extreme_change,
    window_extreme,
)
from trellis.core.hvpa.memory import ScaleWrite
from trellis.core.hvpa.view import HpaView, HvpaSettings, HvpaView, sum_containers
from trellis.core.recommend.amounts import ResourceAmounts

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


class HpaTotals(msgspec.Struct, frozen=True):
    """The HPA's totals in force and those of this look, with the windows they come from.

    Also what is said about it, and when it may change. `measured` is the mean demand by its metrics, and `awaited`
    since when its wish waits for its status, if it does.
    """

    totals: ResourceAmounts
    present: ResourceAmounts
    windows: Mapping[str, DemandWindow]
    notes: tuple[Reason, ...] = ()
    looks: tuple[float, ...] = ()
    # Of a count written to the scale without an HPA: more on notes, by the code of a reason, and the wish in force.
    about: Mapping[str, str] = {}
    wish: ScaleWrite | msgspec.UnsetType = msgspec.UNSET
    measured: Mapping[str, MeanDemand] = {}
    awaited: float | None = None


class _HpaSignals(msgspec.Struct, frozen=True):
    """What counts of an HPA at this look: its wish and its ratio, each None if it is not to be believed.

    `requests` is what a pod has on average, and `demand` what each resource needs by its own metrics.
    """

    requests: ResourceAmounts
    wish: int | None
    ratio: Fraction | None = None
    demand: ResourceAmounts = {}


class _ResourceTotal(msgspec.Struct, frozen=True):
    """One resource: its window, what is asked for at this moment, the mean demand, and when that may matter."""

    window: DemandWindow
    present: int
    measured: MeanDemand | None
    look: float | None = None


def read_hpa_totals(view: HvpaView, now: float, settings: HvpaSettings) -> HpaTotals:
    """What the HPA asks for, over the window of the way down; without an HPA, what was written to the scale."""
    if view.hpa is None:
        return _without_hpa(view, now)
    hpa, before = view.hpa, view.memory.hpa
    length = view.meaning.hvpa.down.stabilization.total_seconds()
    unread, moved = _is_count_ignored(view, now, settings), _has_moved(view, now, settings)
    awaited = _awaited_since(view, now, settings, unread=unread)
    windows = {name: left for name, window in before.items() if (left := drop_expired(window, now, length))}
    present = {name: window[-1].amount for name, window in windows.items()}
    means: dict[str, MeanDemand] = {}
    looks: list[float | None] = [awaited + settings.status_patience if awaited is not None else None]
    signals = _read_signals(view, hpa, moved=moved, unread=unread or awaited is not None)
    for name in sorted(hpa.resources):
        if signals.requests.get(name, 0):
            total = _total(view, hpa, name, signals, now, settings=settings)
            windows[name], present[name] = total.window, total.present
            looks.append(total.look)
            if total.measured is not None:
                means[name] = total.measured
    looks += [next_extreme_change(window, length, now) for window in windows.values()]
    looks += _believed_at(view, settings, unread=unread, moved=moved)
    return HpaTotals(
        totals={name: window_extreme(window) for name, window in windows.items()},
        present=present,
        windows=windows,
        notes=_notes(view, unread=unread),
        looks=tuple(at for at in looks if at is not None),
        measured=means,
        awaited=awaited,
    )


def _read_signals(view: HvpaView, hpa: HpaView, *, moved: bool, unread: bool) -> _HpaSignals:
    bound, requests = is_at_bound(hpa, view.replicas, view.wish), sum_containers(view.containers, "requests")
    written = None if unread or bound else _count_written(view, moved=moved)
    if not view.all_ready or moved:
        return _HpaSignals(requests, written)
    # An HPA at its bound does not look at its metrics: what its status has of them may be of long ago.
    demand = {} if bound else demand_by_metrics(hpa, requests, view.pods)
    return _HpaSignals(requests, written, hpa.ratio, demand)


def _total(
    view: HvpaView, hpa: HpaView, name: str, signals: _HpaSignals, now: float, *, settings: HvpaSettings
) -> _ResourceTotal:
    """The total of one resource: by a wish, by a low ratio, or as before, with noise taken out of it."""
    current, request, filtered = CurrentCount.of(view, name, settings), signals.requests[name], None
    length = current.length
    before = view.memory.hpa.get(name) or add_sample((), view.at_most_held(name, request * view.replicas), now, length)
    held = window_extreme((*drop_expired(before[:-1], now, length), before[-1]))
    measured = update_mean(view.memory.measured.get(name), signals.demand.get(name), now, length)
    if signals.wish is not None:
        filtered = filter_hpa_count(
            current, view, request, signals.wish, mean=mean_demand(measured, length, least=SHORT_MEAN_WEIGHT)
        )
    has = request * view.pods
    total = _total_of_pass(
        has, filtered.total if filtered is not None else None, signals.ratio, held=held, settings=settings
    )
    window = add_sample(before, total, now, length)
    if filtered is not None:
        # What metrics do not explain is no noise either.
        if measured is not None and total > window_extreme(measured.high):
            measured = msgspec.structs.replace(measured, high=add_sample(measured.high, total, now, length))
        return _ResourceTotal(window, filtered.asked if total == filtered.total else total, measured)
    mean = steady_total(current, hpa, window_extreme(window), measured)
    if mean is not None:
        return _ResourceTotal((WindowSample(mean, now),), mean, measured)
    return _ResourceTotal(window, total, measured, next_mean_check(current, window_extreme(window), measured, now))


def _awaited_since(view: HvpaView, now: float, settings: HvpaSettings, *, unread: bool) -> float | None:
    """Since when a new wish waits for the status that explains it; None if there is none, or it waited long enough."""
    hpa, written = view.hpa, view.wish
    if (
        hpa is None
        or unread
        or written is None
        or written == view.memory.left
        or is_at_bound(hpa, view.replicas, written)
    ):
        return None
    if hpa.desired is None or hpa.desired == written:
        return None
    since = view.memory.awaited if view.memory.awaited is not None else now
    return since if now < since + settings.status_patience else None


def is_at_bound(hpa: HpaView | None, replicas: int, wish: int | None) -> bool:
    """Whether the HPA only keeps to its bounds: below its minimum it writes that, above its maximum that."""
    if hpa is None or wish is None:
        return False
    return wish == hpa.min_replicas > replicas or wish == hpa.max_replicas < replicas


def replicas_to_write_back(view: HvpaView, replicas: int) -> int:
    """What `spec.replicas` is to say after a plan: the target's count, or a bound that would only be written again."""
    return view.wish if view.wish is not None and is_at_bound(view.hpa, replicas, view.wish) else replicas


def awaits_ready_pods(view: HvpaView, now: float, settings: HvpaSettings) -> bool:
    """Whether pods of the last step are still to become Ready, within the time they have."""
    decided = view.memory.decided
    return decided is not None and not view.all_ready and now < decided.since + settings.ready_patience


def _is_count_ignored(view: HvpaView, now: float, settings: HvpaSettings) -> bool:
    """Also at the first pass: what stood there before the HPA wrote is unknown, and whether it was acted on."""
    return view.memory.left is None or awaits_ready_pods(view, now, settings)


def _has_moved(view: HvpaView, now: float, settings: HvpaSettings) -> bool:
    """Whether pods have come or gone so lately that an HPA's metrics may be about others than there are."""
    return any(now < at + settings.ready_patience for at in _moves(view))


def _moves(view: HvpaView) -> Iterator[float]:
    """When the count was last written, and when the target became another one."""
    return (at for at in (view.memory.scaled, view.memory.anew) if at is not None)


def _count_written(view: HvpaView, *, moved: bool) -> int | None:
    """What the HPA wrote. For less it is not heard while sizes and count are on their way, and says it again."""
    if view.wish is None or view.wish == view.memory.left or (moved and view.wish < view.replicas):
        return None
    return view.wish


def _believed_at(view: HvpaView, settings: HvpaSettings, *, unread: bool, moved: bool) -> Iterator[float]:
    """When wishes are read again, and metrics believed, whatever happens until then."""
    memory = view.memory
    if view.hpa is not None and unread and memory.decided is not None:
        yield memory.decided.since + settings.ready_patience
    if view.hpa is not None and moved:
        yield max(_moves(view)) + settings.ready_patience


def _total_of_pass(has: int, wished: int | None, ratio: Fraction | None, *, held: int, settings: HvpaSettings) -> int:
    """The total of this look, where pods have so much; it is the one that is held if the HPA says nothing.

    It is never nothing at all, whatever is wished: without requests an HPA cannot measure, and stays silent for ever.
    """
    low = None
    if ratio is not None and ratio < settings.low_ratio:
        low = max(math.ceil(has * ratio), 1)
    if wished is not None:
        return wished if low is None else min(wished, low)
    if low is not None:
        return low
    content = ratio is not None and ratio <= settings.high_ratio
    return min(held, has) if content else held


def _notes(view: HvpaView, *, unread: bool) -> tuple[Reason, ...]:
    notes: list[Reason] = []
    if view.hpa is None:
        return ()
    if is_at_bound(view.hpa, view.replicas, view.wish):
        notes.append(HPA_BOUNDS)
    elif unread and view.wish is not None and view.wish not in (view.replicas, view.memory.left):
        notes.append(WISH_UNREAD)
    if view.hpa.stabilizes:
        notes.append(HPA_STABILIZES)
    return tuple(notes)


def _without_hpa(view: HvpaView, now: float) -> HpaTotals:
    """What was written to the scale by others than an HPA."""
    demand = read_scale_demand(view, now)
    return HpaTotals(
        totals={name: window_extreme(window) for name, window in demand.windows.items()},
        present={name: window[-1].amount for name, window in demand.windows.items()},
        windows=demand.windows,
        notes=demand.notes,
        looks=demand.looks,
        about=demand.about,
        wish=demand.wish,
    )
