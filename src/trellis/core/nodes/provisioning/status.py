"""The conditions of a ProvisioningRequest, with the types and reasons that Cluster Autoscaler writes.

Queues read them: `Provisioned` says that the pods may start, `Failed` and `BookingExpired` that a new request is
needed. A condition that is true stays as it is, so that a process that takes over goes on with its time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from trellis.api.kube.meta import Condition
from trellis.base.reasons import DetailedReason, Reason
from trellis.base.times import format_time
from trellis.core.nodes.provisioning.decisions import ProvisioningDecision
from trellis.core.nodes.provisioning.lifecycle import RequestPhase
from trellis.core.nodes.provisioning.requests import ACCEPTED, BOOKING_EXPIRED, FAILED, PROVISIONED

REQUEST_ACCEPTED = Reason("Accepted", "The pods of the ProvisioningRequest can be read, and capacity is sought.")

_WRITTEN_TYPES: Final = (ACCEPTED, PROVISIONED, BOOKING_EXPIRED, FAILED)
_MAX_MESSAGE_LENGTH: Final = 1_024


def build_request_conditions(
    decision: ProvisioningDecision, before: Iterable[Condition], generation: int
) -> list[dict[str, Any]] | None:
    """All conditions that are ours; None if the object has them already."""
    present = {condition.type: condition for condition in before}
    wanted = dict(_list_wanted(decision))
    conditions: list[dict[str, Any]] = []
    has_changed = False
    for name in _WRITTEN_TYPES:
        current, (status, reason) = present.get(name), wanted.get(name, ("", None))
        if reason is None or (current is not None and current.status == "True" and status == "True"):
            conditions += [_copy(current)] if current is not None else []
            continue
        new = _build(name, status, reason, generation, decision.since)
        if current is not None and current.status == status and current.last_transition_time is not None:
            new["lastTransitionTime"] = format_time(current.last_transition_time)
        has_changed |= current is None or _copy(current) != new
        conditions.append(new)
    return conditions if has_changed else None


def _list_wanted(decision: ProvisioningDecision) -> Iterator[tuple[str, tuple[str, DetailedReason]]]:
    """The status and the reason of each condition that follows from a decision."""
    accepted = DetailedReason(REQUEST_ACCEPTED) if decision.is_accepted else decision.reason
    yield ACCEPTED, ("True" if decision.is_accepted else "False", accepted)
    match decision.phase:
        case RequestPhase.WAITING if decision.is_accepted:
            yield PROVISIONED, ("False", decision.reason)
        case RequestPhase.BOOKED:
            yield PROVISIONED, ("True", decision.reason)
        case RequestPhase.EXPIRED:
            yield BOOKING_EXPIRED, ("True", decision.reason)
        case RequestPhase.FAILED:
            yield FAILED, ("True", decision.reason)
        case _:
            return


def _build(name: str, status: str, reason: DetailedReason, generation: int, since: float) -> dict[str, Any]:
    message = str(reason)
    return {
        "type": name,
        "status": status,
        "observedGeneration": generation,
        "lastTransitionTime": format_time(datetime.fromtimestamp(since, UTC)),
        "reason": reason.reason.code,
        "message": message if len(message) <= _MAX_MESSAGE_LENGTH else message[: _MAX_MESSAGE_LENGTH - 3] + "...",
    }


def _copy(condition: Condition) -> dict[str, Any]:
    time = condition.last_transition_time
    return {
        "type": condition.type,
        "status": condition.status,
        "observedGeneration": condition.observed_generation,
        "lastTransitionTime": format_time(time) if time is not None else None,
        "reason": condition.reason,
        "message": condition.message,
    }
