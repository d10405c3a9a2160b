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
from trellis.core.hvpa.demand.windows import DemandWindow, add_sample, drop_expired, next_extreme_change, window_extreme
from trellis.core.hvpa.memory import HvpaMemory
from trellis.core.hvpa.steps import StepDirection
from trellis.core.hvpa.view import HvpaView
from trellis.core.recommend.amounts import ResourceAmounts

OOM_OVERRIDES = Reason(
    "OomOverridesWindow",
    "A pod was killed for memory, so that more memory does not wait for the scale-up window.",
)


class StabilizedDemand(msgspec.Struct, frozen=True):
    """The totals to go by, those of this very moment, and the windows to remember."""

    totals: ResourceAmounts
    present: ResourceAmounts
    vpa: Mapping[str, DemandWindow]
    low: Mapping[str, DemandWindow]
    notes: tuple[Reason, ...] = ()
    looks: tuple[float, ...] = ()


def stabilize_demand(
    view: HvpaView, by_vpa: ResourceAmounts, by_hpa: HpaTotals, has: ResourceAmounts, now: float
) -> StabilizedDemand:
    """The higher of both sources, stabilized. Windows start with what all replicas have now."""
    begin = {name: view.at_most_held(name, total) for name, total in has.items()}
    down = view.meaning.hvpa.down.stabilization.total_seconds()
    up = view.meaning.hvpa.up.stabilization.total_seconds()
    totals: dict[str, int] = {}
    present: dict[str, int] = {}
    high: dict[str, DemandWindow] = {}
    low: dict[str, DemandWindow] = {}
    notes: list[Reason] = []
    for name in RESOURCES:
        window = _high(view.memory.vpa.get(name, ()), by_vpa.get(name), begin.get(name), now, down)
        if not window and name not in by_hpa.totals:
            continue
        vpa, hpa = window[-1].amount if window else 0, by_hpa.totals.get(name, 0)
        current = max(vpa, by_hpa.present.get(name, 0))
        start = begin.get(name, current)
        low[name] = add_sample(
            view.memory.low.get(name) or add_sample((), start, now, up), current, now, up, lowest=True
        )
        lowest, highest = window_extreme(low[name]), max(window_extreme(window) if window else 0, hpa)
        if name == "memory" and view.oom is not None and now - view.oom < up and lowest < current:
            lowest = current
            notes.append(OOM_OVERRIDES)
        totals[name] = min(max(view.memory.settled.get(name, start), lowest), highest)
        present[name] = current
        if window:
            high[name] = window
    looks = [next_extreme_change(window, down, now) for window in high.values()]
    looks += [next_extreme_change(window, up, now) for window in low.values()]
    return StabilizedDemand(totals, present, high, low, tuple(notes), tuple(at for at in looks if at is not None))


def _high(before: DemandWindow, total: int | None, begin: int | None, now: float, length: float) -> DemandWindow:
    """The window of the VPA's totals. One that says nothing any more counts for as long as the window is."""
    if total is None:
        return drop_expired(before, now, length)
    if not before and begin is not None:
        before = add_sample((), begin, now, length)
    return add_sample(before, total, now, length)


def stabilization_end(hvpa: EffectiveHvpa, memory: HvpaMemory, direction: StepDirection, now: float) -> float | None:
    """When the last of the windows that hold steps of a direction has another extreme; None if none will have one."""
    if direction is StepDirection.UP:
        windows, policy = list(memory.low.values()), hvpa.up
    else:
        windows, policy = [*memory.vpa.values(), *memory.hpa.values()], hvpa.down
    length = policy.stabilization.total_seconds()
    moments = (next_extreme_change(window, length, now) for window in windows)
    return max((moment for moment in moments if moment is not None), default=None)
