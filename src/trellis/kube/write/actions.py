"""Actions on the cluster, as data: the object, as it was observed, and the change to make.

A decision returns actions and the writer executes them. Each names its object together with what must still be true
of it, so that a decision made on an old view fails instead of undoing the change of another client:

- `uid`: it is the same object, not one of the same name that was created after it was deleted.
- `resource_version`: it has not changed since. Leave it out where later changes do not matter to the decision.

`label` is the name of an action in metrics, which stays when a class is renamed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

import msgspec

from trellis.core.cluster.store import AnyObject
from trellis.kube.resources import PODS, Resource
from trellis.kube.transport.requests import (
    Preconditions,
    Request,
    build_create,
    build_delete,
    build_eviction,
    build_get,
    build_patch,
    build_replace,
)
from trellis.kube.write.patches import JSON_PATCH, Patch, merge_patch

# The owner of the fields that Trellis sets, as `managedFields` shows it.
FIELD_MANAGER = "trellis"


class Target(msgspec.Struct, frozen=True):
    """One object, with the UID and version it had when it was read. An empty one is not checked."""

    resource: Resource[Any]
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.resource.full_name} {place}"


class PatchObject(msgspec.Struct, frozen=True):
    """Change an object, or one of its subresources.

    `field_manager` is for writers that share a status by apply; the default is that of the client.
    """

    label: ClassVar[str] = "PatchObject"

    target: Target
    patch: Patch
    subresource: str = ""
    field_manager: str = ""


class PatchStatus(msgspec.Struct, frozen=True):
    """Set fields of an object's status; lists are replaced, null removes."""

    label: ClassVar[str] = "PatchStatus"

    target: Target
    status: Mapping[str, Any]


class PatchResize(msgspec.Struct, frozen=True):
    """Change the resources of a running pod, through `pods/resize` (Kubernetes 1.33)."""

    label: ClassVar[str] = "ResizePod"

    target: Target
    patch: Patch


class CreateEviction(msgspec.Struct, frozen=True):
    """Evict a pod, disruption budgets permitting. None leaves the pod its own grace period."""

    label: ClassVar[str] = "EvictPod"

    target: Target
    grace_period_seconds: int | None = None


class PatchScale(msgspec.Struct, frozen=True):
    """Set the replicas of anything that has a `scale`."""

    label: ClassVar[str] = "SetScale"

    target: Target
    replicas: int


class CreateObject(msgspec.Struct, frozen=True):
    """Make an object; the document needs `apiVersion`, `kind` and a name or `generateName`."""

    label: ClassVar[str] = "CreateObject"

    target: Target
    document: Mapping[str, Any]


class ReplaceObject(msgspec.Struct, frozen=True):
    """Replace a whole object, for roles that may not patch.

    The version in the document is the precondition.
    """

    label: ClassVar[str] = "ReplaceObject"

    target: Target
    document: Mapping[str, Any]


class DeleteObject(msgspec.Struct, frozen=True):
    """Delete an object. `propagation` is Background, Foreground or Orphan, and the kind's own if empty."""

    label: ClassVar[str] = "DeleteObject"

    target: Target
    grace_period_seconds: int | None = None
    propagation: str = ""


Action: TypeAlias = (
    PatchObject | PatchStatus | PatchResize | CreateEviction | PatchScale | CreateObject | ReplaceObject | DeleteObject
)


def build_target(resource: Resource[Any], obj: AnyObject, *, with_version: bool = True) -> Target:
    """An object as a target; without its version if the decision holds whatever else has changed."""
    metadata = obj.metadata
    version = metadata.resource_version if with_version else ""
    return Target(resource, metadata.name, metadata.namespace, metadata.uid, version)


def describe_action(action: Action) -> str:
    """One line for logs: what would be done to which object."""
    match action:
        case PatchObject(target=target, subresource=sub):
            return f"patch {target}{f' ({sub})' if sub else ''}"
        case PatchStatus(target=target):
            return f"patch the status of {target}"
        case PatchResize(target=target):
            return f"resize {target}"
        case CreateEviction(target=target):
            return f"evict {target}"
        case PatchScale(target=target, replicas=replicas):
            return f"scale {target} to {replicas}"
        case CreateObject(target=target):
            return f"create {target}"
        case ReplaceObject(target=target):
            return f"replace {target}"
        case DeleteObject(target=target):
            return f"delete {target}"


def build_request(action: Action, *, dry_run: bool = False, field_manager: str = FIELD_MANAGER) -> Request:
    """The request that executes an action, its preconditions included."""
    target = action.target
    options = _WriteOptions(field_manager, dry_run)
    match action:
        case PatchObject(patch=patch, subresource=subresource, field_manager=own):
            return _build_guarded_patch(target, patch, subresource, _WriteOptions(own or field_manager, dry_run))
        case PatchStatus(status=status):
            return _build_merge_patch(target, {"status": status}, "status", options)
        case PatchResize(patch=patch):
            return _build_guarded_patch(target, patch, "resize", options)
        case PatchScale(replicas=replicas):
            return _build_merge_patch(target, {"spec": {"replicas": replicas}}, "scale", options)
        case CreateEviction(grace_period_seconds=grace):
            return build_eviction(
                PODS,
                target.name,
                target.namespace,
                preconditions=_preconditions(target),
                grace_period_seconds=grace,
                dry_run=dry_run,
            )
        case CreateObject(document=document):
            return build_create(
                target.resource, document, target.namespace, field_manager=field_manager, dry_run=dry_run
            )
        case ReplaceObject(document=document):
            return build_replace(
                target.resource, target.name, document, target.namespace, field_manager=field_manager, dry_run=dry_run
            )
        case DeleteObject(grace_period_seconds=grace, propagation=propagation):
            return build_delete(
                target.resource,
                target.name,
                target.namespace,
                preconditions=_preconditions(target),
                grace_period_seconds=grace,
                propagation=propagation,
                dry_run=dry_run,
            )


class _WriteOptions(msgspec.Struct, frozen=True):
    """The field manager of a write, and whether it is a dry run."""

    field_manager: str
    dry_run: bool


def _build_merge_patch(
    target: Target, document: dict[str, object], subresource: str, options: _WriteOptions
) -> Request:
    """A merge patch with preconditions. They are added before encoding, because a pass builds thousands of patches."""
    preconditions = _preconditions(target)
    if preconditions != Preconditions():
        document = {**document, "metadata": preconditions}
    return _build_patch(target, merge_patch(document), subresource, options)


def _build_guarded_patch(target: Target, patch: Patch, subresource: str, options: _WriteOptions) -> Request:
    return _build_patch(target, add_preconditions(patch, _preconditions(target)), subresource, options)


def _build_patch(target: Target, patch: Patch, subresource: str, options: _WriteOptions) -> Request:
    return build_patch(
        target.resource,
        target.name,
        patch,
        target.namespace,
        subresource=subresource,
        field_manager=options.field_manager,
        dry_run=options.dry_run,
    )


def _preconditions(target: Target) -> Preconditions:
    return Preconditions(target.uid, target.resource_version)


def build_precondition_read(action: Action) -> Request | None:
    """What must be read before an action, because the server would not check the UID that the action names.

    The server keeps the metadata that is stored when a subresource such as `status` or `scale` is written, and so it
    overlooks another UID in a patch (seen with custom resources on 1.36). It does check versions, and what is read here
    gives one. With a version in the target nothing has to be read.
    """
    target = action.target
    if not target.uid or target.resource_version:
        return None
    match action:
        case PatchStatus() | PatchObject(subresource="status"):
            return build_get(target.resource, target.name, target.namespace)
        case PatchScale() | PatchObject(subresource="scale"):
            # Not the object: the role of a component that scales custom kinds may allow no more than this.
            return build_get(target.resource, target.name, target.namespace, "scale")
        case _:
            return None


def add_preconditions(patch: Patch, preconditions: Preconditions) -> Patch:
    """The patch with UID and version added: the server answers with a conflict if they differ.

    A JSON patch could `test` them, but the server answers a test that fails with 422 and a sentence that does not say
    which one, so that a lost race could not be distinguished from an invalid patch.
    """
    if preconditions == Preconditions():
        return patch
    metadata: dict[str, str] = msgspec.to_builtins(preconditions)
    if patch.content_type == JSON_PATCH:
        checks = [{"op": "replace", "path": f"/metadata/{name}", "value": value} for name, value in metadata.items()]
        operations = [*checks, *msgspec.json.decode(patch.body, type=list[Any])]
        return msgspec.structs.replace(patch, body=msgspec.json.encode(operations))
    document = msgspec.json.decode(patch.body, type=dict[str, Any])
    document["metadata"] = document.get("metadata", {}) | metadata
    return msgspec.structs.replace(patch, body=msgspec.json.encode(document))
