"""Builds the status write of a Buffer by server-side apply, or none if nothing differs.

The status has two writers, this controller and the node autoscaler. Each owns its fields and its conditions, and
neither can overwrite the other's. Where `trellis nodes` runs, it publishes whether a Buffer is provisioned; otherwise
this controller does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from trellis.api.kinds.buffer import Buffer
from trellis.controllers.nodes.status import FIELD_MANAGER as NODES_FIELD_MANAGER
from trellis.core.buffers import Translation, build_status, is_status_current
from trellis.core.cluster.transforms import owned_status_fields
from trellis.core.nodes.buffers.status import ProvisioningReport, build_provisioned_fields
from trellis.kube.resources import BUFFERS
from trellis.kube.write.actions import Action, PatchObject, Target
from trellis.kube.write.patches import apply_patch

FIELD_MANAGER: Final = "trellis-buffers"


class BufferStatusWrite(NamedTuple):
    """An apply of the status. `takes_over`: afterwards what the node autoscaler owned is to be released."""

    action: Action
    takes_over: bool = False


def build_status_write(
    buffer: Buffer, translation: Translation, provision: ProvisioningReport, now: float
) -> BufferStatusWrite | None:
    """Write what a translation says, and whether it is provisioned; None if the status says so already."""
    status = build_status(translation, buffer.status, buffer.metadata.generation, now)
    ours, theirs = owned_status_fields(buffer, FIELD_MANAGER), owned_status_fields(buffer, NODES_FIELD_MANAGER)
    part = build_provisioned_fields(provision, buffer.status, ours, theirs, now)
    if part.is_written and is_status_current(status, buffer.status):
        return None
    fields = dict(part.fields)
    status["conditions"] = [*status["conditions"], *fields.pop("conditions", ())]
    # With the UID: a namesake that was made meanwhile would say for ever that it was provisioned before it was there.
    uid = buffer.metadata.uid if part.fields else ""
    return BufferStatusWrite(_apply(buffer, {**status, **fields}, uid), part.takes_over)


def build_release_action(buffer: Buffer, resource_version: str) -> Action:
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
