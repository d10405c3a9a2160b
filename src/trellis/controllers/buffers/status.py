"""Builds the status write of a Buffer by server-side apply, or none if nothing differs.

The status has two writers, this controller and the node autoscaler. Each owns its fields and its conditions, and
neither can overwrite the other's. Where `trellis nodes` runs, it publishes whether a Buffer is provisioned; otherwise
this controller does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from trellis.api.kinds.buffer import Buffer
from trellis.controllers.buffer_provisioning.buffer_reports import NODES_FIELD_MANAGER
from trellis.core.buffers import Translation, build_status, is_status_current
from trellis.core.cluster.transforms import owned_status_fields
from trellis.core.nodes.buffers.status import ProvisioningReport, build_provisioned_fields
from trellis.kube.resources import BUFFERS
from trellis.kube.write.actions import Action, PatchObject, Target
from trellis.kube.write.patches import apply_patch

FIELD_MANAGER: Final = "trellis-buffers"


class BufferStatusWrite(NamedTuple):
    """An apply of the status. With `takes_over`, the fields of the node autoscaler are released afterwards."""

    action: Action
    takes_over: bool = False


def build_status_write(
    buffer: Buffer, translation: Translation, provision: ProvisioningReport, now: float
) -> BufferStatusWrite | None:
    """Write a translation, and whether it is provisioned; None if the status is up to date."""
    status = build_status(translation, buffer.status, buffer.metadata.generation, now)
    owned, owned_by_nodes = owned_status_fields(buffer, FIELD_MANAGER), owned_status_fields(buffer, NODES_FIELD_MANAGER)
    part = build_provisioned_fields(provision, buffer.status, owned, owned_by_nodes, now)
    if part.is_written and is_status_current(status, buffer.status):
        return None
    fields = dict(part.fields)
    status["conditions"] = [*status["conditions"], *fields.pop("conditions", ())]
    # With the UID: a new Buffer of the same name would otherwise keep a time from before its creation.
    uid = buffer.metadata.uid if part.fields else ""
    return BufferStatusWrite(_apply(buffer, {**status, **fields}, uid), part.takes_over)


def build_release_action(buffer: Buffer, resource_version: str) -> Action:
    """Release the fields of the node autoscaler that has ended: an apply under its field manager without fields.

    It holds for the resource version of the last write: a node autoscaler that has just started may have written since,
    and fields that it alone owns would be removed.
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
        # An apply removes fields that it does not name any more.
        "status": {name: value for name, value in status.items() if value is not None},
    }
    # Server-side apply creates missing objects, but not through a subresource.
    target = Target(BUFFERS, metadata.name, metadata.namespace, uid)
    return PatchObject(target, apply_patch(document, force=True), subresource="status", field_manager=FIELD_MANAGER)
