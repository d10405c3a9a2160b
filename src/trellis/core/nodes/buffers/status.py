"""The `Provisioned` condition and `lastFullyProvisioned` of a Buffer's status.

`trellis nodes` writes them where it runs, otherwise `trellis buffers`; each under its own field manager. While all
chunks fit, `lastFullyProvisioned` would change in every pass. It is written when that begins and ends, and now and then
in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

import msgspec

from trellis.api.kinds.buffer import BufferStatus
from trellis.api.kinds.parts import StatusCondition
from trellis.base.errors import InvalidTime
from trellis.base.times import format_time, parse_time
from trellis.base.wording import choose_form, pluralize
from trellis.core.nodes.scale_up.decisions import BufferDecision

PROVISIONED: Final = "Provisioned"

# How old a published time may get while a Buffer is provisioned; a process that ends loses no more than this.
_REFRESH_SECONDS: Final = 300.0
# Shorter than the 32 KiB that the API accepts, because people read conditions.
_MAX_MESSAGE_LENGTH: Final = 1_024


def build_provisioned_status(
    decision: BufferDecision, before: BufferStatus | None, generation: int, now: float
) -> dict[str, Any] | None:
    """The two fields of the status; None if the object has them already. `generation` is that of the pods."""
    previous = _find_condition(before)
    current = {
        "type": PROVISIONED,
        "status": "True" if decision.is_provisioned else "False",
        "reason": decision.reason.reason.code,
        "message": _build_message(decision),
    }
    written = _parse_time(before.last_fully_provisioned) if before is not None else None
    full_at = max((time for time in (written, decision.provisioned_at) if time is not None), default=None)
    is_published = (
        previous is not None and previous.observed_generation == generation and _is_published(current, previous)
    )
    if is_published and not _is_stale(written, full_at, decision):
        return None
    is_unchanged = previous is not None and previous.status == current["status"]
    since = previous.last_transition_time if previous is not None and is_unchanged else None
    moment = format_time(datetime.fromtimestamp(now, UTC))
    condition = {**current, "observedGeneration": generation, "lastTransitionTime": since or moment}
    times = {"lastFullyProvisioned": format_time(datetime.fromtimestamp(full_at, UTC))} if full_at is not None else {}
    return {"conditions": [condition], **times}


class StatusOwnership(StrEnum):
    """Whether this process writes the two fields, leaves them to another one, or waits until that is known."""

    WRITE = "Write"
    LEAVE = "Leave"
    WAIT = "Wait"


class ProvisioningReport(msgspec.Struct, frozen=True):
    """The report of this process about a Buffer. Without a `decision` its chunks are unknown.

    `generation` is that of the chunks.
    """

    ownership: StatusOwnership
    decision: BufferDecision | None = None
    generation: int = 0


class ProvisionedFields(msgspec.Struct, frozen=True):
    """The two fields as this process applies them; none of them where it must not own them.

    `is_written` says that they need no write. `takes_over` says that the fields of the other field manager are to be
    released afterwards: its process has ended, and no other writer could remove them.
    """

    fields: Mapping[str, Any]
    is_written: bool
    takes_over: bool = False


def build_provisioned_fields(
    report: ProvisioningReport,
    before: BufferStatus | None,
    owned: frozenset[str],
    owned_by_other: frozenset[str],
    now: float,
) -> ProvisionedFields:
    """The part of the status that is about provisioning, for a process that applies it with all its other fields.

    `owned` and `owned_by_other` are the leaves of the two fields that this and the other field manager own. Fields are
    given up only once the other owns all of them: an apply without a field removes it if it has no other owner.
    """
    stored = read_stored_fields(before)
    if report.ownership is not StatusOwnership.WRITE:
        has_pods = before is not None and before.pod_based_buffer_spec is not None
        if report.ownership is StatusOwnership.LEAVE and (owned <= owned_by_other or not has_pods):
            return ProvisionedFields({}, is_written=not owned)
        return ProvisionedFields(stored if owned else {}, is_written=True)
    decision, is_sole_owner = report.decision, bool(owned) and not owned_by_other
    if decision is None:
        stored_times = {name: value for name, value in stored.items() if name != "conditions"}
        is_written = is_sole_owner or not owned_by_other if stored_times == stored else False
        return ProvisionedFields(stored_times, is_written, takes_over=bool(owned_by_other))
    fields = build_provisioned_status(decision, before, report.generation, now)
    if fields is None:
        return ProvisionedFields(stored, is_written=is_sole_owner, takes_over=bool(owned_by_other))
    return ProvisionedFields(fields, is_written=False, takes_over=bool(owned_by_other))


def read_stored_fields(before: BufferStatus | None) -> dict[str, Any]:
    """The two fields as the object has them."""
    condition = _find_condition(before)
    conditions = {"conditions": [msgspec.to_builtins(condition)]} if condition is not None else {}
    full = before.last_fully_provisioned if before is not None else None
    return {**conditions, **({"lastFullyProvisioned": full} if full else {})}


def _find_condition(before: BufferStatus | None) -> StatusCondition | None:
    conditions = before.conditions or () if before is not None else ()
    return next((condition for condition in conditions if condition.type == PROVISIONED), None)


def _is_published(condition: Mapping[str, str], previous: StatusCondition) -> bool:
    return (previous.status, previous.reason, previous.message) == (
        condition["status"],
        condition["reason"],
        condition["message"],
    )


def _is_stale(written: float | None, full_at: float | None, decision: BufferDecision) -> bool:
    """Whether the written time is too old: by the refresh interval while provisioned, by a second afterwards."""
    if full_at is None or written is None:
        return full_at is not None
    return full_at - written >= (_REFRESH_SECONDS if decision.is_provisioned else 1)


def describe_provisioned_chunks(decision: BufferDecision) -> str:
    """The number of chunks that fit on ready nodes, as text."""
    have = choose_form(decision.chunks, "has", "have")
    return f"{decision.on_ready} of {pluralize(decision.chunks, 'chunk')} {have} a place on ready nodes"


def _build_message(decision: BufferDecision) -> str:
    """The number of chunks that fit, and why others do not. The text is the same while nothing changes."""
    parts = [describe_provisioned_chunks(decision)]
    if decision.on_upcoming:
        parts.append(f"{decision.on_upcoming} {choose_form(decision.on_upcoming, 'waits', 'wait')} for upcoming nodes")
    if decision.ordered:
        ordered = ", ".join(f"{count} on new nodes of {group}" for group, count in sorted(decision.ordered.items()))
        parts.append(f"{ordered} {choose_form(sum(decision.ordered.values()), 'is', 'are')} planned")
    if decision.unplaced:
        refused = "; ".join(map(str, decision.refused)) or str(decision.reason)
        parts.append(f"{decision.unplaced} {choose_form(decision.unplaced, 'has', 'have')} none: {refused}")
    message = "; ".join(parts)
    return message if len(message) <= _MAX_MESSAGE_LENGTH else message[: _MAX_MESSAGE_LENGTH - 3] + "..."


def _parse_time(text: str | None) -> float | None:
    try:
        return parse_time(text).timestamp() if text else None
    except InvalidTime:
        return None
