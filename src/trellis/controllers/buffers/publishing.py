"""What is written into a Buffer's status? Our own fields by server-side apply, and nothing if it says so already.

The status has two writers: this one, and the node autoscaler, who says whether the room is there. Each owns its fields
and its conditions, and neither can lose the other's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trellis.api.buffer import Buffer
from trellis.core.buffers import Translation, is_written, status_of
from trellis.kube.actions import Action, PatchObject, Target
from trellis.kube.patches import apply_patch
from trellis.kube.resources import BUFFERS

FIELD_MANAGER: Final = "trellis-buffers"


def status_action(buffer: Buffer, translation: Translation, now: float) -> Action | None:
    """Write what a translation says; None if the status says so already."""
    status = status_of(translation, buffer.status, buffer.metadata.generation, now)
    return None if is_written(status, buffer.status) else _apply(buffer, status)


def _apply(buffer: Buffer, status: Mapping[str, Any]) -> Action:
    metadata = buffer.metadata
    document = {
        "apiVersion": BUFFERS.api_version,
        "kind": BUFFERS.kind,
        "metadata": {"name": metadata.name, "namespace": metadata.namespace},
        # What an apply does not name any more is removed.
        "status": {name: value for name, value in status.items() if value is not None},
    }
    # Without the UID: server-side apply would create what is not there, but not through a subresource.
    target = Target(BUFFERS, metadata.name, metadata.namespace)
    return PatchObject(target, apply_patch(document, force=True), subresource="status", field_manager=FIELD_MANAGER)
