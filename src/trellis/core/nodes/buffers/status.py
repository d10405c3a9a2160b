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

# How old a written time may get while it is true; a process that ends forgets no more than this.
_REFRESH_SECONDS: Final = 300.0
# Conditions are for people; the API takes 32 KiB of text.
_LONGEST: Final = 1_024


def build_provisioned_status(
    decision: BufferDecision, before: BufferStatus | None, generation: int, now: float
) -> dict[str, Any] | None:
    """Our fields of the status; None if the object has them already. `generation` is that of the pods."""
    was = _condition(before)
    current = {
        "type": PROVISIONED,
        "status": "True" if decision.is_provisioned else "False",
        "reason": decision.reason.reason.code,
        "message": _message(decision),
    }
    written = _time(before.last_fully_provisioned) if before is not None else None
    full_at = max((time for time in (written, decision.provisioned_at) if time is not None), default=None)
    is_published = was is not None and was.observed_generation == generation and _is_published(current, was)
    if is_published and not _is_stale(written, full_at, decision):
        return None
    stays = was is not None and was.status == current["status"]
    since = was.last_transition_time if was is not None and stays else None
    moment = format_time(datetime.fromtimestamp(now, UTC))
    condition = {**current, "observedGeneration": generation, "lastTransitionTime": since or moment}
    times = {"lastFullyProvisioned": format_time(datetime.fromtimestamp(full_at, UTC))} if full_at is not None else {}
    return {"conditions": [condition], **times}


class StatusOwnership(StrEnum):
    """Whether this process writes the two fields, leaves them to another, or waits until that is known."""

    WRITE = "Write"
    LEAVE = "Leave"
    WAIT = "Wait"


class ProvisioningReport(msgspec.Struct, frozen=True):
    """The report of this process about a Buffer. Without a `decision` no chunks of it are known.

    `generation` is the one that the chunks are of.
    """

    ownership: StatusOwnership
    decision: BufferDecision | None = None
    generation: int = 0


class ProvisionedFields(msgspec.Struct, frozen=True):
    """The two fields as this process is to apply them; none of them where it is not to own them.

    `is_written` says that nothing has to be written for their sake. `takes_over` says that what another field manager
    owns of them is to be released afterwards: it has ended, and no other writer could remove it.
    """

    fields: Mapping[str, Any]
    is_written: bool
    takes_over: bool = False


def build_provisioned_fields(
    provision: ProvisioningReport, before: BufferStatus | None, ours: frozenset[str], theirs: frozenset[str], now: float
) -> ProvisionedFields:
    """The part of the status that is about provisioning, for a process that applies it with all its other fields.

    `ours` and `theirs` are the leaves of the two fields that each field manager owns. What is ours is given up only
    once the other one owns all of it: an apply that leaves out a field removes it if it has no other owner.
    """
    stored = _stored(before)
    if provision.ownership is not StatusOwnership.WRITE:
        has_pods = before is not None and before.pod_based_buffer_spec is not None
        if provision.ownership is StatusOwnership.LEAVE and (ours <= theirs or not has_pods):
            return ProvisionedFields({}, is_written=not ours)
        return ProvisionedFields(stored if ours else {}, is_written=True)
    decision, owned = provision.decision, bool(ours) and not theirs
    if decision is None:
        stored_times = {name: value for name, value in stored.items() if name != "conditions"}
        is_written = owned or not theirs if stored_times == stored else False
        return ProvisionedFields(stored_times, is_written, takes_over=bool(theirs))
    fields = build_provisioned_status(decision, before, provision.generation, now)
    if fields is None:
        return ProvisionedFields(stored, is_written=owned, takes_over=bool(theirs))
    return ProvisionedFields(fields, is_written=False, takes_over=bool(theirs))


def _stored(before: BufferStatus | None) -> dict[str, Any]:
    """The two fields as the object has them."""
    was = _condition(before)
    conditions = {"conditions": [msgspec.to_builtins(was)]} if was is not None else {}
    full = before.last_fully_provisioned if before is not None else None
    return {**conditions, **({"lastFullyProvisioned": full} if full else {})}


def _condition(before: BufferStatus | None) -> StatusCondition | None:
    conditions = before.conditions or () if before is not None else ()
    return next((condition for condition in conditions if condition.type == PROVISIONED), None)


def _is_published(condition: Mapping[str, str], was: StatusCondition) -> bool:
    return (was.status, was.reason, was.message) == (condition["status"], condition["reason"], condition["message"])


def _is_stale(written: float | None, full_at: float | None, decision: BufferDecision) -> bool:
    """Whether the written time is too old: by the refresh interval while provisioned, by a second afterwards."""
    if full_at is None or written is None:
        return full_at is not None
    return full_at - written >= (_REFRESH_SECONDS if decision.is_provisioned else 1)


def describe_provisioned_chunks(decision: BufferDecision) -> str:
    """The number of chunks that fit on ready nodes, as text."""
    have = choose_form(decision.chunks, "has", "have")
    return f"{decision.on_ready} of {pluralize(decision.chunks, 'chunk')} {have} room on nodes that are ready"


def _message(decision: BufferDecision) -> str:
    """The number of chunks that fit, and why others do not. The text is the same while nothing changes."""
    parts = [describe_provisioned_chunks(decision)]
    if decision.on_upcoming:
        parts.append(
            f"{decision.on_upcoming} {choose_form(decision.on_upcoming, 'waits', 'wait')} for nodes on their way"
        )
    if decision.ordered:
        ordered = ", ".join(f"{count} on new nodes of {group}" for group, count in sorted(decision.ordered.items()))
        parts.append(f"{ordered} {choose_form(sum(decision.ordered.values()), 'is', 'are')} to have room")
    if decision.unplaced:
        refused = "; ".join(map(str, decision.refused)) or str(decision.reason)
        parts.append(f"{decision.unplaced} {choose_form(decision.unplaced, 'has', 'have')} none: {refused}")
    message = "; ".join(parts)
    return message if len(message) <= _LONGEST else message[: _LONGEST - 3] + "..."


def _time(text: str | None) -> float | None:
    try:
        return parse_time(text).timestamp() if text else None
    except InvalidTime:
        return None
