"""How does a Buffer say that a CapacityBuffer keeps its room, and what of it that cannot express?

One condition, applied under a name of its own: whoever translates Buffers into pods, and whoever provisions them, have
theirs, and none can lose those of the others.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from trellis.api.buffer import Buffer
from trellis.api.parts import Condition
from trellis.base.reason import Reason, Severity
from trellis.base.times import format_time
from trellis.core.buffers import Said
from trellis.kube.actions import Action, PatchObject, Target
from trellis.kube.patches import apply_patch
from trellis.kube.resources import BUFFERS

FIELD_MANAGER: Final = "trellis-buffers-translate"
KEPT_AS_CAPACITY_BUFFER: Final = "KeptAsCapacityBuffer"

KEPT_ELSEWHERE = Reason("KeptElsewhere", "A CapacityBuffer of the same name keeps the room of the Buffer.")
MINIMUM_KEPT_ELSEWHERE = Reason(
    "MinimumKeptElsewhere",
    "A CapacityBuffer of the same name keeps what pods leave of the minimum; its replicas follow as pods come and go.",
)
MINIMUM_NOT_OBSERVED = Reason(
    "MinimumNotObserved",
    "How much of the minimum pods use is not known: trellis buffers has to list and watch nodes and all pods.",
    Severity.WARNING,
)
NOTHING_ELSEWHERE = Reason(
    "NothingKeptElsewhere",
    "The Buffer stands for no pods at the moment, and so there is no CapacityBuffer, or it is empty.",
)
CAPACITY_BUFFERS_NOT_SERVED = Reason(
    "CapacityBuffersNotServed",
    "The cluster does not have the kind CapacityBuffer, or it may not be read.",
    Severity.WARNING,
)

KEPT: Final = (KEPT_ELSEWHERE, MINIMUM_KEPT_ELSEWHERE)


def condition_in(buffer: Buffer) -> Condition | None:
    """What a Buffer says of it, if anything."""
    known = buffer.status.conditions or () if buffer.status is not None else ()
    return next((each for each in known if each.type == KEPT_AS_CAPACITY_BUFFER), None)


def condition_action(buffer: Buffer, said: Said, now: float) -> Action | None:
    """Have it say so; None if it does."""
    status, before = "True" if said.reason in KEPT else "False", condition_in(buffer)
    told = (status, said.reason.code, str(said), buffer.metadata.generation)
    if before is not None and (before.status, before.reason, before.message, before.observed_generation) == told:
        return None
    since = before.last_transition_time if before is not None and before.status == status else None
    condition = {
        "type": KEPT_AS_CAPACITY_BUFFER,
        "status": status,
        "observedGeneration": buffer.metadata.generation,
        "lastTransitionTime": since or format_time(datetime.fromtimestamp(now, UTC)),
        "reason": said.reason.code,
        "message": str(said),
    }
    return _apply(buffer, {"conditions": [condition]})


def no_condition_action(buffer: Buffer) -> Action:
    """Have it say nothing of it any more: what an apply does not name is removed."""
    return _apply(buffer, {})


def _apply(buffer: Buffer, status: dict[str, Any]) -> Action:
    metadata = buffer.metadata
    document = {
        "apiVersion": BUFFERS.api_version,
        "kind": BUFFERS.kind,
        "metadata": {"name": metadata.name, "namespace": metadata.namespace},
        "status": status,
    }
    target = Target(BUFFERS, metadata.name, metadata.namespace)
    return PatchObject(target, apply_patch(document, force=True), subresource="status", field_manager=FIELD_MANAGER)
