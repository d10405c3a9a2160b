"""Demand by counts that are written to an Hvpa's scale while no HPA drives it.

`kubectl scale`, or any scaler that writes scale subresources, writes a count once and publishes no measurement. Its
demand is therefore what a pod requests times that count, of every resource that pods request, and it counts for the
scale-down window. As with an HPA the window begins with what runs: a single write of a lower count lowers nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from trellis.api.buckets import RESOURCES
from trellis.base.reasons import Reason, Severity
from trellis.base.times import format_time
from trellis.base.wording import AMOUNTS_PER_UNIT, RESOURCE_WORDS, format_amount
from trellis.core.hvpa.demand.recent_totals import DemandWindow, add_sample, drop_expired
from trellis.core.hvpa.remembered_state import ScaleWrite
from trellis.core.hvpa.view import HvpaView, sum_containers

SCALE_REQUESTED = Reason(
    "ScaleRequested",
    "A replica count was written to the Hvpa's scale subresource, and no HPA targets it. It "
    "counts as demand for one scale-down window; after that the VPA decides again.",
)
SCALE_REQUEST_WITHOUT_REQUESTS = Reason(
    "ScaleRequestWithoutRequests",
    "A replica count written to the Hvpa's scale subresource is ignored: without requests of the pods it is no demand.",
    Severity.WARNING,
)


class ScaleDemand(msgspec.Struct, frozen=True):
    """The windows of written totals, the write in force, and details of notes by the code of a reason."""

    windows: Mapping[str, DemandWindow]
    scale_write: ScaleWrite | msgspec.UnsetType
    notes: tuple[Reason, ...] = ()
    note_details: Mapping[str, str] = {}
    requeue_times: tuple[float, ...] = ()


def read_scale_demand(view: HvpaView, now: float) -> ScaleDemand:
    """What was written to the scale, over the scale-down window."""
    length = view.meaning.hvpa.down.stabilization.total_seconds()
    windows = {
        name: remaining
        for name, window in view.memory.hpa_windows.items()
        if (remaining := drop_expired(window, now, length))
    }
    last_write, new_count = view.memory.scale_write, _new_scale_write(view)
    if new_count is not None:
        last_write = ScaleWrite(new_count, view.scale_writer, now)
        requests = sum_containers(view.containers, "requests")
        pod_requests = {name: requests[name] for name in RESOURCES if requests.get(name)}
        if not pod_requests:
            details = f"{_format_manager(view.scale_writer)} asks for {new_count} replicas"
            code = SCALE_REQUEST_WITHOUT_REQUESTS.code
            return ScaleDemand(windows, msgspec.UNSET, (SCALE_REQUEST_WITHOUT_REQUESTS,), {code: details})
        for name, request in pod_requests.items():
            before = windows.get(name) or add_sample(
                (), view.limit_to_capacity(name, request * view.replicas), now, length
            )
            windows[name] = add_sample(before, max(request * new_count, 1), now, length)
    if not windows:
        return ScaleDemand({}, msgspec.UNSET)
    ends = [window[0].until + length for window in windows.values()]
    details = _describe_write(view, last_write, windows, max(window[-1].until for window in windows.values()) + length)
    return ScaleDemand(windows, last_write, (SCALE_REQUESTED,), {SCALE_REQUESTED.code: details}, tuple(ends))


def _new_scale_write(view: HvpaView) -> int | None:
    """A count that was written since the last pass.

    Where it is not known what the last pass left there, at the first pass or after a write that failed, only who wrote
    it tells a wish from the controller's own count, and a wish that has been followed is not followed twice.
    """
    written, memory = view.spec_replicas, view.memory
    if written is None or written == memory.spec_replicas:
        return None
    if memory.spec_replicas is not None:
        return written
    last = memory.scale_write
    followed = last is not msgspec.UNSET and (last.replicas, last.field_manager) == (written, view.scale_writer)
    return written if view.scale_writer and written != view.replicas and not followed else None


def _describe_write(
    view: HvpaView, last_write: ScaleWrite | msgspec.UnsetType, windows: Mapping[str, DemandWindow], until: float
) -> str:
    totals = ", ".join(
        f"{RESOURCE_WORDS[name]} {format_amount(window[-1].amount, name, view.meaning.binary, AMOUNTS_PER_UNIT[name])}"
        for name, window in windows.items()
    )
    end = format_time(datetime.fromtimestamp(until, UTC))
    if last_write is msgspec.UNSET:
        return f"{totals} in total, until {end}"
    count = f"{last_write.replicas} replica{'' if last_write.replicas == 1 else 's'}"
    return f"{_format_manager(last_write.field_manager)} asks for {count} ({totals} in total), until {end}"


def _format_manager(manager: str) -> str:
    return manager or "an unknown client"
