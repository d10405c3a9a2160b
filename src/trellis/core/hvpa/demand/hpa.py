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
    compute_demand_by_metrics,
    compute_mean,
    filter_hpa_count,
    find_next_mean_check,
    find_steady_total,
    update_mean,
)
from trellis.core.hvpa.demand.recent_totals import (
    DemandWindow,
    MeanDemand,
    WindowSample,
    add_sample,
    drop_expired,
    find_next_extreme_change,
    read_extreme,
)
from trellis.core.hvpa.demand.scale import read_scale_demand
from trellis.core.hvpa.remembered_state import ScaleWrite
from trellis.core.hvpa.view import HpaView, HvpaSettings, HvpaView, sum_containers
from trellis.core.recommend.amounts import ResourceAmounts

HPA_BOUNDS = Reason(
    "HPABounds",
    "The HPA's minReplicas or maxReplicas limits the demand it reports.",
    Severity.WARNING,
)
HPA_STABILIZATION_WINDOW = Reason(
    "HPAStabilizationWindow",
    "The HPA has a stabilization window for scale-down, and so has the Hvpa: set the HPA's "
    "scaleDown.stabilizationWindowSeconds to 0.",
    Severity.WARNING,
)
HPA_DEMAND_NOT_READ = Reason(
    "HpaDemandNotRead",
    "The HPA's demand is not read while pods of the last step are not Ready, because it is measured on the other pods.",
)


class HpaTotals(msgspec.Struct, frozen=True):
    """The HPA's totals in force and the current ones, with their windows, notes and the times to plan again.

    `means` is the mean demand by its metrics, and `awaiting_status_since` since when the count that it wrote waits for
    its status, if it does.
    """

    totals: ResourceAmounts
    current: ResourceAmounts
    windows: Mapping[str, DemandWindow]
    notes: tuple[Reason, ...] = ()
    requeue_times: tuple[float, ...] = ()
    # Of a count written to the scale without an HPA: details of notes, by the code of a reason, and the write in force.
    note_details: Mapping[str, str] = {}
    scale_write: ScaleWrite | msgspec.UnsetType = msgspec.UNSET
    means: Mapping[str, MeanDemand] = {}
    awaiting_status_since: float | None = None


class _HpaSignals(msgspec.Struct, frozen=True):
    """The signals of an HPA: the count that it wrote and its ratio, each None if it is not reliable now.

    `requests` are the average of the pods, and `demand` what each resource needs by its own metrics.
    """

    requests: ResourceAmounts
    written_replicas: int | None
    ratio: Fraction | None = None
    demand: ResourceAmounts = {}


class _ResourceTotal(msgspec.Struct, frozen=True):
    """One resource: its window, the current total, the mean demand, and when to check that again."""

    window: DemandWindow
    current: int
    mean: MeanDemand | None
    requeue_at: float | None = None


def read_hpa_totals(view: HvpaView, now: float, settings: HvpaSettings) -> HpaTotals:
    """What the HPA asks for, over the window of the way down; without an HPA, what was written to the scale."""
    if view.hpa is None:
        return _read_scale_totals(view, now)
    hpa, before = view.hpa, view.memory.hpa_windows
    length = view.meaning.hvpa.down.stabilization.total_seconds()
    is_ignored, has_changed = _is_count_ignored(view, now, settings), _has_changed_recently(view, now, settings)
    awaiting_since = _find_awaiting_since(view, now, settings, is_ignored=is_ignored)
    windows = {name: remaining for name, window in before.items() if (remaining := drop_expired(window, now, length))}
    current = {name: window[-1].amount for name, window in windows.items()}
    means: dict[str, MeanDemand] = {}
    requeue_times: list[float | None] = [
        awaiting_since + settings.status_patience if awaiting_since is not None else None
    ]
    signals = _read_signals(view, hpa, has_changed=has_changed, is_ignored=is_ignored or awaiting_since is not None)
    for name in sorted(hpa.resources):
        if signals.requests.get(name, 0):
            total = _compute_total(view, hpa, name, signals, now, settings=settings)
            windows[name], current[name] = total.window, total.current
            requeue_times.append(total.requeue_at)
            if total.mean is not None:
                means[name] = total.mean
    requeue_times += [find_next_extreme_change(window, length, now) for window in windows.values()]
    requeue_times += _list_requeue_times(view, settings, is_ignored=is_ignored, has_changed=has_changed)
    return HpaTotals(
        totals={name: read_extreme(window) for name, window in windows.items()},
        current=current,
        windows=windows,
        notes=_list_notes(view, is_ignored=is_ignored),
        requeue_times=tuple(time for time in requeue_times if time is not None),
        means=means,
        awaiting_status_since=awaiting_since,
    )


def _read_signals(view: HvpaView, hpa: HpaView, *, has_changed: bool, is_ignored: bool) -> _HpaSignals:
    is_bound, requests = (
        is_at_bound(hpa, view.replicas, view.spec_replicas),
        sum_containers(view.containers, "requests"),
    )
    written = None if is_ignored or is_bound else _find_written_replicas(view, has_changed=has_changed)
    if not view.all_ready or has_changed:
        return _HpaSignals(requests, written)
    # An HPA at its bound does not look at its metrics: what its status has of them may be of long ago.
    demand = {} if is_bound else compute_demand_by_metrics(hpa, requests, view.pods)
    return _HpaSignals(requests, written, hpa.ratio, demand)


def _compute_total(
    view: HvpaView, hpa: HpaView, name: str, signals: _HpaSignals, now: float, *, settings: HvpaSettings
) -> _ResourceTotal:
    """The total of one resource: by the written count, by a low ratio, or as before, with noise removed."""
    current, request, filtered = CurrentCount.from_view(view, name, settings), signals.requests[name], None
    length = current.length
    before = view.memory.hpa_windows.get(name) or add_sample(
        (), view.limit_to_capacity(name, request * view.replicas), now, length
    )
    held = read_extreme((*drop_expired(before[:-1], now, length), before[-1]))
    mean_state = update_mean(view.memory.means.get(name), signals.demand.get(name), now, length)
    if signals.written_replicas is not None:
        filtered = filter_hpa_count(
            current,
            view,
            request,
            signals.written_replicas,
            mean=compute_mean(mean_state, length, min_weight=SHORT_MEAN_WEIGHT),
        )
    requested = request * view.pods
    total = _compute_pass_total(
        requested, filtered.total if filtered is not None else None, signals.ratio, held=held, settings=settings
    )
    window = add_sample(before, total, now, length)
    if filtered is not None:
        # What metrics do not explain is no noise either.
        if mean_state is not None and total > read_extreme(mean_state.high):
            mean_state = msgspec.structs.replace(mean_state, high=add_sample(mean_state.high, total, now, length))
        return _ResourceTotal(window, filtered.explained if total == filtered.total else total, mean_state)
    mean = find_steady_total(current, hpa, read_extreme(window), mean_state)
    if mean is not None:
        return _ResourceTotal((WindowSample(mean, now),), mean, mean_state)
    return _ResourceTotal(
        window, total, mean_state, find_next_mean_check(current, read_extreme(window), mean_state, now)
    )


def _find_awaiting_since(view: HvpaView, now: float, settings: HvpaSettings, *, is_ignored: bool) -> float | None:
    """Since when a newly written count waits for the status that explains it; None if it does not wait."""
    hpa, written = view.hpa, view.spec_replicas
    if (
        hpa is None
        or is_ignored
        or written is None
        or written == view.memory.spec_replicas
        or is_at_bound(hpa, view.replicas, written)
    ):
        return None
    if hpa.desired_replicas is None or hpa.desired_replicas == written:
        return None
    since = view.memory.awaiting_status_since if view.memory.awaiting_status_since is not None else now
    return since if now < since + settings.status_patience else None


def is_at_bound(hpa: HpaView | None, replicas: int, written_replicas: int | None) -> bool:
    """Whether the HPA only keeps to its bounds: below its minimum it writes that, above its maximum that."""
    if hpa is None or written_replicas is None:
        return False
    return written_replicas == hpa.min_replicas > replicas or written_replicas == hpa.max_replicas < replicas


def find_replicas_to_write_back(view: HvpaView, replicas: int) -> int:
    """The value of `spec.replicas` after a plan: the target's count, or a bound that the HPA would only write again."""
    return (
        view.spec_replicas
        if view.spec_replicas is not None and is_at_bound(view.hpa, replicas, view.spec_replicas)
        else replicas
    )


def awaits_ready_pods(view: HvpaView, now: float, settings: HvpaSettings) -> bool:
    """Whether pods of the last step are still to become Ready, within the time they have."""
    decided = view.memory.decided
    return decided is not None and not view.all_ready and now < decided.changed_at + settings.ready_patience


def _is_count_ignored(view: HvpaView, now: float, settings: HvpaSettings) -> bool:
    """Whether the written count is ignored: at the first pass, and while pods of the last step are not Ready."""
    return view.memory.spec_replicas is None or awaits_ready_pods(view, now, settings)


def _has_changed_recently(view: HvpaView, now: float, settings: HvpaSettings) -> bool:
    """Whether pods have come or gone so lately that an HPA's metrics may be about others than there are."""
    return any(now < at + settings.ready_patience for at in _list_change_times(view))


def _list_change_times(view: HvpaView) -> Iterator[float]:
    """When the count was last written, and when the target became another one."""
    return (at for at in (view.memory.scaled_at, view.memory.target_changed_at) if at is not None)


def _find_written_replicas(view: HvpaView, *, has_changed: bool) -> int | None:
    """The count that the HPA wrote. A lower one is ignored while sizes and count change; the HPA writes it again."""
    if (
        view.spec_replicas is None
        or view.spec_replicas == view.memory.spec_replicas
        or (has_changed and view.spec_replicas < view.replicas)
    ):
        return None
    return view.spec_replicas


def _list_requeue_times(
    view: HvpaView, settings: HvpaSettings, *, is_ignored: bool, has_changed: bool
) -> Iterator[float]:
    """When written counts and metrics are used again, without an event before."""
    memory = view.memory
    if view.hpa is not None and is_ignored and memory.decided is not None:
        yield memory.decided.changed_at + settings.ready_patience
    if view.hpa is not None and has_changed:
        yield max(_list_change_times(view)) + settings.ready_patience


def _compute_pass_total(
    requested: int, written_total: int | None, ratio: Fraction | None, *, held: int, settings: HvpaSettings
) -> int:
    """The current total: by the written count, by a low ratio, or the one that is held.

    It is never zero: without requests an HPA cannot measure, and never writes a count again.
    """
    low_total = None
    if ratio is not None and ratio < settings.low_ratio:
        low_total = max(math.ceil(requested * ratio), 1)
    if written_total is not None:
        return written_total if low_total is None else min(written_total, low_total)
    if low_total is not None:
        return low_total
    is_within_tolerance = ratio is not None and ratio <= settings.high_ratio
    return min(held, requested) if is_within_tolerance else held


def _list_notes(view: HvpaView, *, is_ignored: bool) -> tuple[Reason, ...]:
    notes: list[Reason] = []
    if view.hpa is None:
        return ()
    if is_at_bound(view.hpa, view.replicas, view.spec_replicas):
        notes.append(HPA_BOUNDS)
    elif (
        is_ignored
        and view.spec_replicas is not None
        and view.spec_replicas not in (view.replicas, view.memory.spec_replicas)
    ):
        notes.append(HPA_DEMAND_NOT_READ)
    if view.hpa.stabilizes:
        notes.append(HPA_STABILIZATION_WINDOW)
    return tuple(notes)


def _read_scale_totals(view: HvpaView, now: float) -> HpaTotals:
    """The totals of counts that another client than an HPA wrote to the scale."""
    demand = read_scale_demand(view, now)
    return HpaTotals(
        totals={name: read_extreme(window) for name, window in demand.windows.items()},
        current={name: window[-1].amount for name, window in demand.windows.items()},
        windows=demand.windows,
        notes=demand.notes,
        requeue_times=demand.requeue_times,
        note_details=demand.note_details,
        scale_write=demand.scale_write,
    )
