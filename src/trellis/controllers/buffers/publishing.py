"""What is written into a Buffer's status? Our own fields by server-side apply, and nothing if it says so already.

The status has two writers: this one, and the node autoscaler. Each owns its fields and its conditions, and neither can
lose the other's. Whether a Buffer is provisioned is said by the node autoscaler where ours runs, otherwise here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from trellis.api.buffer import Buffer
from trellis.controllers.buffers.field_owners import owned_by
from trellis.controllers.nodes.publishing import FIELD_MANAGER as NODES_FIELD_MANAGER
from trellis.core.buffers import Translation, is_written, status_of
from trellis.core.nodes.buffer_status import Provision, provisioned_part
from trellis.kube.actions import Action, PatchObject, Target
from trellis.kube.patches import apply_patch
from trellis.kube.resources import BUFFERS

FIELD_MANAGER: Final = "trellis-buffers"


class StatusWrite(NamedTuple):
    """An apply of the status. `takes_over`: afterwards what the node autoscaler owned is to be released."""

    action: Action
    takes_over: bool = False


def status_write(buffer: Buffer, translation: Translation, provision: Provision, now: float) -> StatusWrite | None:
    """Write what a translation says, and whether it is provisioned; None if the status says so already."""
    status = status_of(translation, buffer.status, buffer.metadata.generation, now)
    ours, theirs = owned_by(buffer, FIELD_MANAGER), owned_by(buffer, NODES_FIELD_MANAGER)
    part = provisioned_part(provision, buffer.status, ours, theirs, now)
    if part.is_written and is_written(status, buffer.status):
        return None
    fields = dict(part.fields)
    status["conditions"] = [*status["conditions"], *fields.pop("conditions", ())]
    # With the UID: a namesake that was made meanwhile would say for ever that it was provisioned before it was there.
    uid = buffer.metadata.uid if part.fields else ""
    return StatusWrite(_apply(buffer, {**status, **fields}, uid), part.takes_over)


def release_action(buffer: Buffer, resource_version: str) -> Action:
    """Have the node autoscaler that has ended own nothing: an apply under its name that names no field.

    Only while the object is as our own write has left it: one that has just started may have written since, and what it
    alone owns would be removed.
    """
    metadata = buffer.metadata
    names = {"name": metadata.name, "namespace": metadata.namespace}
    document = {"apiVersion": BUFFERS.api_version, "kind": BUFFERS.kind, "metadata": names}
    target = Target(BUFFERS, metadata.name, metadata.namespace, metadata.uid, resource_version)
    patch = apply_patch(document, force=True)
    return PatchObject(target, patch, subresource="status", field_manager=NODES_FIELD_MANAGER)


def _apply(buffer: Buffer, status: Mapping[str, Any], uid: str) -> Action:
    metadata = buffer.metadata
    document = {
        "apiVersion": BUFFERS.api_version,
        "kind": BUFFERS.kind,
        "metadata": {"name": metadata.name, "namespace": metadata.namespace},
        # What an apply does not name any more is removed.
        "status": {name: value for name, value in status.items() if value is not None},
    }
    # Server-side apply would create what is not there, but not through a subresource.
    target = Target(BUFFERS, metadata.name, metadata.namespace, uid)
    return PatchObject(target, apply_patch(document, force=True), subresource="status", field_manager=FIELD_MANAGER)
