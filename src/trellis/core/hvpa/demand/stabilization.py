"""Stabilizes totals, so that neither a dip lowers nor a spike raises them.

Of the scale-down window the highest total counts, of the scale-up window the lowest, and between the two the total that
the last plan went by. The HPA's total in force is the highest of the scale-down window already; on the way up it counts
as it is at each pass, or a spike would outlast its window. An out-of-memory kill ends the waiting on the way up, of
memory.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trellis.api.buckets import RESOURCES
from trellis.api.resolve import EffectiveHvpa
from trellis.base.reasons import Reason
from trellis.core.hvpa.demand.hpa import HpaTotals
from trellis.core.hvpa.demand.recent_totals import (
    DemandWindow,
    add_sample,
    drop_expired,
    find_next_extreme_change,
    read_extreme,
)
from trellis.core.hvpa.remembered_state import HvpaMemory
from trellis.core.hvpa.steps import StepDirection
from trellis.core.hvpa.view import HvpaView
from trellis.core.recommend.amounts import ResourceAmounts

OOM_OVERRIDES = Reason(
    "OomOverridesWindow",
    "A pod was killed for memory, so the scale-up of memory does not wait for the scale-up window.",
)


class StabilizedDemand(msgspec.Struct, frozen=True):
    """The stabilized totals, the current ones, and the windows to remember."""

    totals: ResourceAmounts
    current: ResourceAmounts
    vpa_windows: Mapping[str, DemandWindow]
    scale_up_windows: Mapping[str, DemandWindow]
    notes: tuple[Reason, ...] = ()
    requeue_times: tuple[float, ...] = ()


def stabilize_demand(
    view: HvpaView, vpa_totals: ResourceAmounts, hpa_totals: HpaTotals, existing_totals: ResourceAmounts, now: float
) -> StabilizedDemand:
    """The higher of both sources, stabilized. Windows start with what all replicas have now."""
    initial = {name: view.limit_to_capacity(name, total) for name, total in existing_totals.items()}
    scale_down_seconds = view.meaning.hvpa.down.stabilization.total_seconds()
    scale_up_seconds = view.meaning.hvpa.up.stabilization.total_seconds()
    totals: dict[str, int] = {}
    current_totals: dict[str, int] = {}
    vpa_windows: dict[str, DemandWindow] = {}
    scale_up_windows: dict[str, DemandWindow] = {}
    notes: list[Reason] = []
    for name in RESOURCES:
        window = _update_vpa_window(
            view.memory.vpa_windows.get(name, ()), vpa_totals.get(name), initial.get(name), now, scale_down_seconds
        )
        if not window and name not in hpa_totals.totals:
            continue
        vpa, hpa = window[-1].amount if window else 0, hpa_totals.totals.get(name, 0)
        current = max(vpa, hpa_totals.current.get(name, 0))
        start = initial.get(name, current)
        scale_up_windows[name] = add_sample(
            view.memory.scale_up_windows.get(name) or add_sample((), start, now, scale_up_seconds),
            current,
            now,
            scale_up_seconds,
            lowest=True,
        )
        lowest, highest = read_extreme(scale_up_windows[name]), max(read_extreme(window) if window else 0, hpa)
        if (
            name == "memory"
            and view.last_oom_kill is not None
            and now - view.last_oom_kill < scale_up_seconds
            and lowest < current
        ):
            lowest = current
            notes.append(OOM_OVERRIDES)
        totals[name] = min(max(view.memory.last_totals.get(name, start), lowest), highest)
        current_totals[name] = current
        if window:
            vpa_windows[name] = window
    requeue_times = [find_next_extreme_change(window, scale_down_seconds, now) for window in vpa_windows.values()]
    requeue_times += [find_next_extreme_change(window, scale_up_seconds, now) for window in scale_up_windows.values()]
    return StabilizedDemand(
        totals,
        current_totals,
        vpa_windows,
        scale_up_windows,
        tuple(notes),
        tuple(time for time in requeue_times if time is not None),
    )


def _update_vpa_window(
    before: DemandWindow, total: int | None, initial: int | None, now: float, length: float
) -> DemandWindow:
    """Update the window of the VPA's totals. Without a new total the old ones expire."""
    if total is None:
        return drop_expired(before, now, length)
    if not before and initial is not None:
        before = add_sample((), initial, now, length)
    return add_sample(before, total, now, length)


def find_stabilization_end(
    hvpa: EffectiveHvpa, memory: HvpaMemory, direction: StepDirection, now: float
) -> float | None:
    """When the last of the windows that hold steps of a direction has another extreme; None if none will have one."""
    if direction is StepDirection.UP:
        windows, policy = list(memory.scale_up_windows.values()), hvpa.up
    else:
        windows, policy = [*memory.vpa_windows.values(), *memory.hpa_windows.values()], hvpa.down
    length = policy.stabilization.total_seconds()
    moments = (find_next_extreme_change(window, length, now) for window in windows)
    return max((moment for moment in moments if moment is not None), default=None)
